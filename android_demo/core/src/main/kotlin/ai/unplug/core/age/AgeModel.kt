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

/** Whether somebody is over an age, as far as a limit of errors allows to say. */
public enum class Decision(
    public val word: String,
) {
    OVER("over"),
    UNDER("under"),
    UNSURE("unsure"),
}

/**
 * An age that is asked for, and what must be answered for it: over from [high] years on, under below [low], unsure between.
 *
 * In a manifest: `postprocessing.threshold`, `{"over": 18, "low": 15.5, "high": 22.1, "max_fpr": 0.01}`.
 *
 * @property maxFpr share of people under that age who are taken for over, at most.
 */
public data class Threshold(
    val over: Double,
    val low: Double,
    val high: Double,
    val maxFpr: Double,
) {
    /** The decision of an expected age; what is no number is unsure. */
    public fun decide(age: Double): Decision = if (age >= high) Decision.OVER else if (age < low) Decision.UNDER else Decision.UNSURE

    internal companion object {
        fun of(value: Json): Threshold {
            val fields = Fields(value, "threshold", setOf("over", "low", "high", "max_fpr"))
            val found = Threshold(fields.number("over"), fields.number("low"), fields.number("high"), fields.number("max_fpr"))
            if (found.low > found.high || found.maxFpr !in 0.0..1.0) fields.wrong("its ends are out of order")
            return found
        }
    }
}

/** How probable an age group is. */
public data class AgeGroup(
    val from: Double,
    val to: Double,
    val probability: Double,
)

/**
 * What a model says of a face.
 *
 * @property age expected, in years.
 * @property groups in rising order of age.
 * @property decision null where the manifest carries no threshold.
 */
public data class AgeAnswer(
    val age: Double,
    val groups: List<AgeGroup>,
    val decision: Decision?,
)

/**
 * An age predictor: a photograph in, years out.
 *
 * @param engine of an artifact with `age_logits` and `expected_age`.
 * @param iospec of that artifact.
 * @param postprocessing of the bundle's manifest.
 * @throws DataError the manifest says something else than an age model's.
 */
public class AgeModel(
    private val engine: Engine,
    private val iospec: IOSpec,
    postprocessing: Json.Obj,
) : AutoCloseable {
    private val edges: List<Double>

    /** What must be answered where somebody asks whether a person is over an age. */
    public val threshold: Threshold?

    init {
        val fields = Fields(postprocessing, "postprocessing", setOf("age_edges", "unit", "threshold"))
        edges = fields.numbers("age_edges")
        if (edges.size < 2 || edges.zipWithNext().any { (low, high) -> low >= high }) fields.wrong("its age_edges do not rise")
        threshold = if (fields.has("threshold")) Threshold.of(fields.any("threshold")) else null
        if (iospec.inputs.size != 1 || !iospec.inputs[0].isImage) fields.wrong("its model takes something else than one picture")
    }

    /** Side of the pictures that it looks at. */
    public val size: Int get() = iospec.inputs[0].axis('H')

    /**
     * Of the picture's centre square: cut it to the face before, with `faceBox` or by hand.
     *
     * @throws DataError the model gives something else than an age.
     */
    public fun answer(picture: Picture): AgeAnswer {
        val spec = iospec.inputs[0]
        return read(engine.run(mapOf(spec.name to toTensor(centreSquare(picture, size), spec))))
    }

    /** What the outputs say. */
    public fun read(outputs: Map<String, FloatTensor>): AgeAnswer {
        fun wrong(why: String): Nothing = throw DataError("age model", why, "Get another bundle")
        val logits = outputs["age_logits"]?.values ?: wrong("it gives no age_logits")
        val age = outputs["expected_age"]?.values?.singleOrNull()?.toDouble() ?: wrong("it gives no expected_age")
        if (logits.size != edges.size - 1) wrong("it gives ${logits.size} groups where its manifest has ${edges.size - 1}")
        if (!age.isFinite() || !logits.all { it.isFinite() }) wrong("it gives something that is no number")
        val weights = logits.map { Math.exp(it.toDouble() - logits.max()) }
        val groups = weights.indices.map { AgeGroup(edges[it], edges[it + 1], weights[it] / weights.sum()) }
        return AgeAnswer(age, groups, threshold?.decide(age))
    }

    override fun close(): Unit = engine.close()
}
