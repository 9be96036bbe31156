package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.IOSpec
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.TensorSpec
import ai.unplug.core.isDigest

/** One exported file of a part; `file` is relative to `pipeline.json`. */
public data class PartFile(
    val target: String,
    val precision: String,
    val file: String,
    val sha256: String,
    val bytes: Long,
)

/** One network of a generator: its tensors, and a file a target and precision. */
public data class Part(
    val modelType: String,
    val iospec: IOSpec,
    val files: List<PartFile>,
)

/** A conditioning plugin: the kind of picture that it follows, and its part. */
public data class PluginPart(
    val condition: String,
    val part: Part,
)

/** The values that a loop uses where none are given. */
public data class Defaults(
    val steps: Int,
    val guidance: Double,
    val solver: Solver,
)

/**
 * `pipeline.json`: all that the loop must know. Nothing in it is trusted: names, paths, shapes and numbers were checked.
 *
 * @property imageSize side of the pictures in pixels.
 * @property latentShape C, H, W of the latent.
 * @property residuals inputs of the UNet that plugins fill, in order; zeros steer nothing.
 * @property lora the UNet's last input where it has one: low-rank updates, which variants fill.
 */
public class Pipeline private constructor(
    public val name: String,
    public val imageSize: Int,
    public val latentShape: List<Int>,
    public val tokenizer: Tokenizer,
    public val schedule: Schedule,
    public val parts: Map<String, Part>,
    public val plugins: Map<String, PluginPart>,
    public val residuals: List<String>,
    public val defaults: Defaults,
    public val lora: LoraSlots?,
    public val variants: Map<String, Variant>,
) {
    /** What suits a variant; null is the bare base. */
    public fun defaultsOf(variant: String?): Defaults = variants[variant]?.defaults ?: defaults

    /** Names of the variants that a prompt's words switch on, in their order, with the words. */
    public val packs: Map<String, String> = variants.toSortedMap().mapNotNull { (name, item) -> item.word?.let { name to it } }.toMap()

    private val packWords = packs.mapValues { PackWords.of(it.value) }

    /** Words of the packs that a prompt asks for. */
    public fun packsIn(prompt: String): List<String> = asked(prompt).map(packs::getValue)

    private fun asked(prompt: String) = PackWords.of(prompt).let { read -> packWords.filterValues { PackWords.standIn(it, read) }.keys }

    /**
     * What fills the UNet's slots: the variant that was chosen, then the packs that the prompt asks for.
     *
     * @throws InputError no such variant, a pack whose word the prompt does not say, or more rows than slots.
     */
    internal fun variantsFor(
        prompt: String,
        variant: String?,
    ): List<String> {
        if (variant != null && variant !in variants) throw InputError("variant $variant", "the pipeline has none of this name", "Use ${variants.keys}")
        val asked = asked(prompt)
        val word = packs[variant]
        if (word != null && variant !in asked) throw InputError("variant $variant", "it is a pack, which the prompt switches on by saying '$word'", "Say it, or leave the variant out")
        val names = (listOfNotNull(variant) + asked).distinct()
        val (rank, width) = lora ?: return names
        val rows = names.sumOf { variants.getValue(it).bytes } / (4L * width)
        if (rows > rank) throw InputError(names.joinToString(" and "), "they have $rows ranks together, and the base has slots for $rank", "Ask for fewer of them in one prompt")
        return names
    }

    /** Whether the UNet answers for the negative prompt too; without that, a guidance of 1 is the only one. */
    public val guided: Boolean get() = parts.getValue("unet").iospec.inputs.any { it.name == NEGATIVE }

    /** The tensors of a part, pictures channels first. */
    internal fun plain(part: String): IOSpec = parts.getValue(part).iospec.imagesIn("NCHW")

    public companion object {
        /** Its name in a folder. */
        public const val FILE: String = "pipeline.json"

        /** The UNet's input of the negative prompt's states, which one that draws without guidance lacks. */
        internal const val NEGATIVE: String = "negative_hidden_states"
        private val ASKED = listOf("sample", "timestep", "encoder_hidden_states", NEGATIVE)
        private const val SCHEMA = "unplug-pipeline/1"
        private const val NOISE = "philox4x32-10/box-muller"
        private const val MAX_BYTES = 64 shl 20
        private const val MAX_GUIDANCE = 50.0
        private val BASE = listOf("text_encoder", "unet", "decoder")
        internal val NAME = Regex("[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
        internal val PATH = Regex("[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}){0,3}")
        private val KEYS =
            setOf(
                "schema", "name", "image_size", "latent_shape", "tokenizer", "schedule", "text_encoder", "unet", "decoder", "plugins",
                "residuals", "scaling_factor", "shift_factor", "defaults", "noise", "versions", "git_revision",
                "lora", "variants",
            )

        /** Reads and checks a record. @throws DataError it is broken, or its parts do not fit together. */
        public fun of(bytes: ByteArray): Pipeline {
            if (bytes.size > MAX_BYTES) throw DataError(FILE, "it has ${bytes.size} bytes", "Export the base again")
            val value =
                try {
                    Json.parse(bytes)
                } catch (error: JsonError) {
                    throw DataError(FILE, "it is not strict JSON (${error.message})", "Export the base again")
                }
            return read(Fields(value, FILE, KEYS))
        }

        private fun read(fields: Fields): Pipeline {
            if (fields.text("schema") != SCHEMA) fields.wrong("its schema is not $SCHEMA")
            if (fields.text("noise") != NOISE) fields.wrong("its noise is not $NOISE")
            listOf("scaling_factor", "shift_factor").forEach(fields::number)
            val plugins = fields.obj("plugins").mapValues { (name, value) -> plugin(name, value) }
            val base = BASE.associateWith { part(fields.any(it), it) }
            val lora = if (fields.has("lora")) LoraSlots.of(fields.any("lora")) else null
            val named = if (fields.has("variants")) fields.obj("variants") else emptyMap()
            if (lora == null && named.isNotEmpty()) fields.wrong("it has variants, and its unet has no slots")
            val pipeline =
                Pipeline(
                    name = fields.text("name"),
                    imageSize = fields.small("image_size"),
                    latentShape = fields.numbers("latent_shape").map { it.toInt() },
                    tokenizer = Tokenizer.of(fields.any("tokenizer"), FILE),
                    schedule = Schedule.of(fields.any("schedule"), FILE),
                    parts = base + plugins.map { (name, item) -> "plugins.$name" to item.part },
                    plugins = plugins,
                    residuals = fields.texts("residuals"),
                    defaults = defaults(fields.any("defaults")),
                    lora = lora,
                    variants = lora?.let { slots -> named.mapValues { (name, value) -> Variant.of(name, value, slots, ::defaults) } }.orEmpty(),
                )
            for (problem in problems(pipeline)) fields.wrong(problem)
            return pipeline
        }

        private fun plugin(
            name: String,
            value: Json,
        ): PluginPart {
            val fields = Fields(value, FILE, setOf("condition", "part"))
            if (!NAME.matches(name)) fields.wrong("it has a plugin with an impossible name")
            return PluginPart(fields.text("condition"), part(fields.any("part"), "plugin $name"))
        }

        private fun part(
            value: Json,
            name: String,
        ): Part {
            val fields = Fields(value, FILE, setOf("model_type", "iospec", "files"))
            val files = fields.list("files").map(::file)
            if (files.isEmpty() || files.map { it.target to it.precision }.toSet().size < files.size) {
                fields.wrong("its $name has no files, or two of one target and precision")
            }
            return Part(fields.text("model_type"), IOSpec.of(fields.any("iospec"), FILE), files)
        }

        private fun file(value: Json): PartFile {
            val fields = Fields(value, FILE, setOf("target", "precision", "file", "sha256", "bytes"))
            val found =
                PartFile(fields.text("target"), fields.text("precision"), fields.text("file"), fields.text("sha256"), fields.whole("bytes"))
            if (!PATH.matches(found.file)) fields.wrong("a part does not lie at a plain path inside the folder")
            if (!isDigest(found.sha256) || found.bytes < 0) fields.wrong("${found.file} has no SHA-256 and size")
            return found
        }

        private fun defaults(value: Json): Defaults {
            val fields = Fields(value, FILE, setOf("steps", "guidance", "solver"))
            val solver = Solver.of(fields.text("solver")) ?: fields.wrong("its solver is not known")
            return Defaults(fields.small("steps"), fields.number("guidance"), solver)
        }

        private fun problems(pipeline: Pipeline): Sequence<String> = shapes(pipeline) + types(pipeline) + fits(pipeline) + numbers(pipeline)

        /** Whether every part takes what the one before gives, by name and shape. */
        private fun shapes(pipeline: Pipeline) =
            sequence {
                fun shape(
                    part: String,
                    tensor: String,
                ) = all(pipeline.plain(part)).firstOrNull { it.name == tensor }?.shape
                val tokens = pipeline.tokenizer.length
                val width = shape("text_encoder", "hidden_states")?.lastOrNull() ?: 0
                val side = pipeline.imageSize
                val latent = listOf(1) + pipeline.latentShape
                val states = listOf(1, tokens, width)
                val wanted =
                    listOf(
                        Triple("text_encoder", "input_ids", listOf(1, tokens)),
                        Triple("text_encoder", "hidden_states", states),
                        Triple("unet", "sample", latent),
                        Triple("unet", "timestep", listOf(1)),
                        Triple("unet", "encoder_hidden_states", states),
                        Triple("unet", "noise_pred", latent),
                        Triple("decoder", "latents", latent),
                        Triple("decoder", "image", listOf(1, 3, side, side)),
                    ) + if (pipeline.guided) listOf(Triple("unet", NEGATIVE, states), Triple("unet", "noise_pred_negative", latent)) else emptyList()
                if (!pipeline.guided && shape("unet", "noise_pred_negative") != null) yield("its unet has an output for a negative prompt, and no input for one")
                for ((part, tensor, expected) in wanted) {
                    val found = shape(part, tensor)
                    if (found != expected) yield("its $part has $tensor of shape $found where $expected is needed")
                }
            }

        private fun types(pipeline: Pipeline) =
            sequence {
                for ((name, part) in pipeline.parts) {
                    for (spec in all(part.iospec)) {
                        val expected = if (spec.name == "input_ids") "int32" else "float32"
                        if (spec.dtype != expected) yield("its $name has ${spec.name.take(60)} of another type than $expected")
                    }
                }
            }

        private fun fits(pipeline: Pipeline) =
            sequence {
                val inputs = pipeline.plain("unet").inputs
                val asked = if (pipeline.guided) ASKED else ASKED.dropLast(1)
                val behind = inputs.drop(asked.size)
                val taken = behind.take(pipeline.residuals.size).associate { it.name to it.shape }
                val wanted = pipeline.residuals.map { it to taken[it] } + listOfNotNull(pipeline.lora?.let { LoraSlots.INPUT to listOf(1, it.rank, it.width) })
                if (inputs.map { it.name }.take(asked.size) != asked || behind.map { it.name to it.shape } != wanted) yield("its residuals are not the inputs of its unet that follow the words")
                for (name in pipeline.plugins.keys) {
                    val own = pipeline.plain("plugins.$name")
                    val side = pipeline.imageSize
                    if (own.inputs.map { it.shape } != listOf(listOf(1, 3, side, side))) yield("its plugin $name takes no condition of $side pixels")
                    if (own.outputs.associate { it.name to it.shape } != taken) yield("its plugin $name was made for another base")
                }
            }

        private fun numbers(pipeline: Pipeline) =
            sequence {
                val same = pipeline.packWords.entries.groupBy({ it.value }, { it.key }).values.firstOrNull { it.size > 1 }
                if (same != null) yield("its packs ${same.joinToString(" and ")} have one word")
                for ((steps, guidance, solver) in listOf(pipeline.defaults) + pipeline.variants.values.mapNotNull { it.defaults }) {
                    if (steps !in 1..pipeline.schedule.mostSteps(solver) || !(guidance >= 1.0 && guidance <= if (pipeline.guided) MAX_GUIDANCE else 1.0)) {
                        yield("its defaults, or those of a variant, are $steps steps and a guidance of $guidance")
                    }
                }
                val most = pipeline.parts.getValue("text_encoder").iospec.inputs.first().range?.endInclusive ?: -1.0
                if (most < pipeline.tokenizer.vocabulary.size - 1) yield("its tokenizer has more tokens than its text encoder takes")
            }

        private fun all(spec: IOSpec): List<TensorSpec> = spec.inputs + spec.outputs
    }
}
