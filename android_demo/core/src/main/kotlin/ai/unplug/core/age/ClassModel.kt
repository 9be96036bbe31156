package ai.unplug.core.age

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.Fields
import ai.unplug.core.FloatTensor
import ai.unplug.core.IOSpec
import ai.unplug.core.Json
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.centreSquare
import ai.unplug.core.picture.toTensor

/** How probable a label is. */
public data class Label(
    val name: String,
    val probability: Double,
)

/** The [ClassModel.LIKELIEST] labels, the likeliest first. */
internal fun likeliest(
    logits: DoubleArray,
    names: List<String>,
): List<Label> {
    val weights = logits.map { Math.exp(it - logits.max()) }
    val sum = weights.sum()
    return names.indices.sortedByDescending { weights[it] }.take(ClassModel.LIKELIEST).map { Label(names[it], weights[it] / sum) }
}

/**
 * A classifier: a photograph in, labels out.
 *
 * @param engine the engine of an artifact with `logits`.
 * @param iospec the named tensors of that artifact.
 * @param postprocessing the bundle's manifest's field of this name.
 * @throws DataError the manifest says something else than a classifier's.
 */
public class ClassModel(
    private val engine: Engine,
    private val iospec: IOSpec,
    postprocessing: Json.Obj,
) {
    private val names: List<String>

    init {
        val fields = Fields(postprocessing, "postprocessing", setOf("classes", "unit", "family"))
        names = fields.texts("classes")
        if (names.size < 2) fields.wrong("it names fewer than two classes")
        if (iospec.inputs.size != 1 || !iospec.inputs[0].isImage) fields.wrong("its model takes something else than one picture")
    }

    /** What the model is shown of a photograph. */
    public fun shown(picture: Picture): Picture = centreSquare(picture, iospec.inputs[0].axis('H'))

    /**
     * The likeliest labels of a picture of its size, see [shown].
     *
     * @throws DataError the model gives something else than scores of its classes.
     */
    public fun answer(shown: Picture): List<Label> {
        val spec = iospec.inputs[0]
        return read(engine.run(mapOf(spec.name to toTensor(shown, spec))))
    }

    /** What the outputs say: the [LIKELIEST] labels, the likeliest first. */
    public fun read(outputs: Map<String, FloatTensor>): List<Label> {
        fun wrong(why: String): Nothing = throw DataError("classifier", why, "Get another bundle")
        val logits = outputs["logits"]?.values ?: wrong("it gives no logits")
        if (logits.size != names.size) wrong("it gives ${logits.size} scores where its manifest has ${names.size} classes")
        if (!logits.all { it.isFinite() }) wrong("it gives something that is not a number")
        return likeliest(DoubleArray(logits.size) { logits[it].toDouble() }, names)
    }

    public companion object {
        /** How many labels are told. */
        public const val LIKELIEST: Int = 5
    }
}
