package ai.unplug.core

import java.nio.ByteBuffer
import java.nio.ByteOrder

/** Named inputs, and the outputs that they should give, axes as an artifact has them. */
public class Sample(
    public val inputs: Map<String, Tensor>,
    public val outputs: Map<String, FloatTensor>,
)

/** Test vectors: with them a device checks a model before it uses it. */
public object TestVectors {
    private const val SCHEMA = "unplug-vectors/1"
    private const val DTYPE = "float32-le"
    private const val MAX_SAMPLES = 10_000
    private val FILE = Regex("[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")

    /** The index's name in its folder. */
    public const val INDEX: String = "vectors.json"

    /** Decibels that a precision's outputs must reach, as `unplug.export` has them. */
    public fun minPsnrDb(precision: String): Double =
        when (precision) {
            "fp32" -> 100.0
            "fp16" -> 60.0
            else -> 30.0
        }

    /**
     * Reads vectors.
     *
     * @param index bytes of [INDEX].
     * @param own tensors as the vectors have them.
     * @param wanted tensors as the artifact has them: the same names, perhaps another order of axes.
     * @param read gives the bytes of a file next to the index.
     * @throws DataError they are broken, or not of this model.
     */
    public fun read(
        index: ByteArray,
        own: IOSpec,
        wanted: IOSpec,
        read: (String) -> ByteArray,
    ): List<Sample> {
        val value =
            try {
                Json.parse(index)
            } catch (error: JsonError) {
                throw DataError(INDEX, "it is not strict JSON (${error.message})", "Get it again")
            }
        val fields = Fields(value, INDEX, setOf("schema", "samples"))
        if (fields.text("schema") != SCHEMA) fields.wrong("its schema is not $SCHEMA")
        val samples = fields.list("samples")
        if (samples.size !in 1..MAX_SAMPLES) fields.wrong("it has ${samples.size} samples")
        return samples.map { sample ->
            val sides = Fields(sample, INDEX, setOf("inputs", "outputs"))
            Sample(
                inputs = wanted.inputs.associate { it.name to tensor(sides.obj("inputs"), own.inputs, it, read) },
                outputs = wanted.outputs.associate { it.name to tensor(sides.obj("outputs"), own.outputs, it, read) as FloatTensor },
            )
        }
    }

    private fun tensor(
        side: Map<String, Json>,
        own: List<TensorSpec>,
        wanted: TensorSpec,
        read: (String) -> ByteArray,
    ): Tensor {
        val fields = Fields(side[wanted.name] ?: Json.Null, "$INDEX, ${wanted.name}", setOf("file", "shape", "dtype"))
        val spec = own.firstOrNull { it.name == wanted.name } ?: fields.wrong("the model has no such tensor")
        val file = fields.text("file")
        if (!FILE.matches(file) || fields.text("dtype") != DTYPE) fields.wrong("it does not lie at a plain file name, or has another type")
        val bytes = read(file)
        if (fields.numbers("shape") != spec.shape.map { it.toDouble() } || bytes.size.toLong() != 4L * elements(spec.shape)) {
            fields.wrong("its shape is another than the model's")
        }
        val values = FloatArray(bytes.size / 4).also { ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(it) }
        if (wanted.dtype == "int32") return IntTensor(wanted.shape, IntArray(values.size) { values[it].toInt() })
        return FloatTensor(wanted.shape, relaid(values, spec.shape, spec.layout, wanted.layout))
    }

    /** Runs all samples; the worst output of all, and why it is too far off. */
    public fun check(
        engine: Engine,
        samples: List<Sample>,
        minPsnrDb: Double,
    ): Parity =
        Parity.of(
            samples.flatMap { sample ->
                val found = engine.run(sample.inputs)
                sample.outputs.map { (name, wanted) -> name to compare(wanted.values, found[name]?.values ?: FloatArray(0)) }
            },
            minPsnrDb,
        )
}
