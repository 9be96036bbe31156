package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.FloatTensor
import ai.unplug.core.InputError
import ai.unplug.core.IntTensor
import ai.unplug.core.Tensor
import ai.unplug.core.elements
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.toPicture
import ai.unplug.core.picture.toTensor
import ai.unplug.core.relaid

/** One plugin with the picture that it follows; a strength of 0 is off, 1 is as trained. */
public class Steer(
    public val plugin: String,
    public val condition: Picture,
    public val strength: Double = 1.0,
)

/**
 * What to draw; what is null is the variant's or the pipeline's own. A variant is one of the generator's, by name; null is the bare base,
 * with either the packs act whose words the prompt says.
 */
public data class Order(
    val prompt: String,
    val negative: String = "",
    val seed: ULong = 0u,
    val steps: Int? = null,
    val guidance: Double? = null,
    val solver: Solver? = null,
    val steers: List<Steer> = emptyList(),
    val variant: String? = null,
)

/** After a step: the latent, and that of the picture that the step points at, which [Generator.decode] shows. */
public class Step(
    public val done: Int,
    public val steps: Int,
    public val latent: FloatArray,
    public val data: FloatArray,
)

/** Told of every step; throwing stops the drawing. */
public fun interface Watch {
    public fun step(step: Step)
}

/**
 * A picture that was drawn.
 *
 * @property decoded the decoder's output: (1, 3, H, W) from 0 to 1.
 * @property latent the latent after the last step, (1, C, h, w).
 * @property prompt the prompt as it was read; `cut` says whether the base read only its beginning.
 * @property packs words in it that switched on a pack.
 */
public class Drawn(
    public val picture: Picture,
    public val decoded: FloatTensor,
    public val latent: FloatTensor,
    public val prompt: Encoded,
    public val packs: List<String> = emptyList(),
)

/** Opens a part of a generator: text_encoder, unet, decoder, or plugins.NAME. */
public fun interface EngineSource {
    public fun open(part: String): Engine
}

/** Reads the rows of a variant. */
public fun interface VariantSource {
    public fun read(name: String): FloatArray
}

/**
 * The loop: tokens, text states, noise, steps, picture. One (prompt, seed, condition) is one picture in every language, but for
 * rounding.
 *
 * @param engines opens the parts, each when it is first needed; they are kept until [close].
 * @param variants reads the rows of a variant, see [GeneratorFolder.variant].
 */
public class Generator(
    public val pipeline: Pipeline,
    private val variants: VariantSource = VariantSource { throw InputError("variant $it", "nothing reads variants here", "Open a folder") },
    private val engines: EngineSource,
) : AutoCloseable {
    private val opened = HashMap<String, Engine>()

    /**
     * Draws one picture.
     *
     * @param watch hears of every step, and may throw to stop.
     * @throws InputError a number out of range, a plugin that there is not, an empty condition, a negative without guidance.
     */
    public fun draw(
        order: Order,
        watch: Watch? = null,
    ): Drawn {
        val usual = pipeline.defaultsOf(order.variant)
        val guidance = order.guidance ?: usual.guidance
        check(order, guidance)
        val table = samplingTable(pipeline.schedule, order.steps ?: usual.steps, order.solver ?: usual.solver)
        val more = updates(pipeline.variantsFor(order.prompt, order.variant)) + residuals(order.steers)
        val prompt = pipeline.tokenizer.encode(order.prompt)
        val negative = if (pipeline.guided) mapOf(Pipeline.NEGATIVE to states(pipeline.tokenizer.encode(order.negative))) else emptyMap()
        val states = mapOf("encoder_hidden_states" to states(prompt)) + negative
        val shape = listOf(1) + pipeline.latentShape
        var latent = Noise.normals(order.seed, Noise.INITIAL, elements(shape))
        var before = FloatArray(latent.size)
        for ((step, time) in table.timestep.withIndex()) {
            val moment = mapOf("sample" to FloatTensor(shape, latent), "timestep" to FloatTensor(listOf(1), floatArrayOf(time.toFloat())))
            val found = run("unet", moment + states + more)
            val own = found.getValue("noise_pred").values
            val prediction = if (pipeline.guided) guided(own, found.getValue("noise_pred_negative").values, table.scale(step, guidance)) else own
            val (next, data) = advance(table, step, latent, prediction, before)
            latent = next
            before = data
            watch?.step(Step(step + 1, table.timestep.size, latent, data))
        }
        val decoded = decode(latent)
        return Drawn(toPicture(decoded), decoded, FloatTensor(shape, latent), prompt, pipeline.packsIn(order.prompt))
    }

    /** A latent as the decoder shows it: (1, 3, H, W) from 0 to 1; [toPicture] makes it a picture. */
    public fun decode(latent: FloatArray): FloatTensor = run("decoder", mapOf("latents" to FloatTensor(listOf(1) + pipeline.latentShape, latent))).getValue("image")

    override fun close() {
        opened.values.forEach(Engine::close)
        opened.clear()
    }

    private fun check(
        order: Order,
        guidance: Double,
    ) {
        if (!(guidance >= 1.0 && guidance <= MAX_GUIDANCE)) throw InputError("guidance $guidance", "out of range", "Use 1 (none) to $MAX_GUIDANCE")
        if (guidance != 1.0 && !pipeline.guided) throw InputError("guidance $guidance", "${pipeline.name} draws without: its unet answers for the prompt alone", "Leave it out")
        if (order.negative.isNotEmpty() && guidance == 1.0) {
            throw InputError("negative prompt", "without guidance it has no effect", if (pipeline.guided) "Leave it out, or raise the guidance above 1" else "Leave it out")
        }
        for (steer in order.steers) {
            val side = pipeline.imageSize
            val (what, condition) = "condition of ${steer.plugin}" to steer.condition
            if (steer.plugin !in pipeline.plugins) throw InputError("plugin ${steer.plugin}", "the pipeline has none of this name", "Use ${pipeline.plugins.keys}")
            if (!(steer.strength >= 0.0 && steer.strength <= MAX_STRENGTH)) throw InputError("strength ${steer.strength}", "out of range", "Use 0 (off) to $MAX_STRENGTH")
            if (condition.width != side || condition.height != side) throw InputError(what, "it has another size", "Give $side by $side pixels")
            if (condition.isPlain()) throw InputError(what, "all its pixels are of one colour", "Draw something, or switch it off")
        }
    }

    /** The UNet's input of low-rank updates, where it has one: the rows of some variants below each other, and zeros below them. */
    private fun updates(names: List<String>): Map<String, FloatTensor> {
        val (rank, width) = pipeline.lora ?: return emptyMap()
        val filled = FloatArray(rank * width)
        var end = 0
        for (rows in names.map(variants::read)) end += rows.size.also { rows.copyInto(filled, end) }
        return mapOf(LoraSlots.INPUT to FloatTensor(listOf(1, rank, width), filled))
    }

    /** Each residual input of the UNet: the plugins' outputs times their strengths, added up; zeros without plugins. */
    private fun residuals(steers: List<Steer>): Map<String, FloatTensor> {
        val specs = pipeline.plain("unet").inputs.associateBy { it.name }
        val total = pipeline.residuals.associateWith { FloatTensor(specs.getValue(it).shape, FloatArray(elements(specs.getValue(it).shape))) }
        for (steer in steers) {
            val part = "plugins.${steer.plugin}"
            val spec = pipeline.plain(part).inputs.single()
            val made = run(part, mapOf(spec.name to toTensor(steer.condition, spec.copy(colour = null))))
            val strength = steer.strength.toFloat()
            for ((name, sum) in total) {
                val own = made.getValue(name).values
                for (place in own.indices) sum.values[place] += strength * own[place]
            }
        }
        return total
    }

    private fun states(prompt: Encoded): FloatTensor = run("text_encoder", mapOf("input_ids" to IntTensor(listOf(1, prompt.ids.size), prompt.ids))).getValue("hidden_states")

    /** A part on pictures channels first, whatever order of axes its file has. */
    private fun run(
        part: String,
        inputs: Map<String, Tensor>,
    ): Map<String, FloatTensor> {
        val spec = pipeline.parts.getValue(part).iospec
        val fed =
            spec.inputs.associate { own ->
                val given = inputs.getValue(own.name)
                val plain = if (own.layout.length == 4) own.inLayout("NCHW") else own
                own.name to if (given is FloatTensor) FloatTensor(own.shape, relaid(given.values, plain.shape, plain.layout, own.layout)) else given
            }
        val found = opened.getOrPut(part) { engines.open(part) }.run(fed)
        return spec.outputs.associate { own ->
            val given = found[own.name] ?: throw DataError(part, "it gives no ${own.name}", "Export it again")
            val plain = if (own.layout.length == 4) own.inLayout("NCHW") else own
            if (given.values.size != elements(own.shape)) throw DataError(part, "it gives ${own.name} in another size", "Export it again")
            own.name to FloatTensor(plain.shape, relaid(given.values, own.shape, own.layout, plain.layout))
        }
    }

    private companion object {
        const val MAX_GUIDANCE = 50.0
        const val MAX_STRENGTH = 10.0
    }
}
