package ai.unplug.core.age

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.Fields
import ai.unplug.core.FloatTensor
import ai.unplug.core.IOSpec
import ai.unplug.core.Json
import ai.unplug.core.bundle.Artifact
import ai.unplug.core.bundle.Manifest
import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Frame
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.centreSquare
import ai.unplug.core.picture.onlyFace
import ai.unplug.core.picture.toTensor

/** Whether somebody is over an age, as far as a limit of errors allows to say. */
public enum class Decision(
    public val word: String,
) {
    OVER("over"),
    UNDER("under"),
    UNSURE("unsure"),
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
 * @property groups the age groups, in rising order.
 * @property decision null where the manifest carries no rule, or none that was fitted on this file.
 */
public data class AgeAnswer(
    val age: Double,
    val groups: List<AgeGroup>,
    val decision: Decision?,
)

/**
 * An age predictor: a photograph in, years out.
 *
 * @param engine the engine of an artifact with `age_logits` and `expected_age`.
 * @param iospec the named tensors of that artifact.
 * @param sha256 the SHA-256 of that artifact, which a decision must name.
 * @param preprocessing the bundle's manifest's field of this name.
 * @param postprocessing the manifest's field of this name.
 * @throws DataError the manifest says something else than an age model's.
 */
public class AgeModel(
    private val engine: Engine,
    private val iospec: IOSpec,
    sha256: String,
    preprocessing: Json.Obj,
    postprocessing: Json.Obj,
) : AutoCloseable {
    private val edges: List<Double>

    /** Where the eyes of a face go; null where the manifest has the centre square taken. */
    public val frame: Frame? = Frame.of(preprocessing)

    /** The rule that answers whether a person is over an age; null where there is none. */
    public val rule: DecisionRule?

    /** Whether the manifest carries a rule that was fitted on other models than this one, so that it decides nothing here. */
    public val isOfOthers: Boolean

    init {
        val fields = Fields(postprocessing, "postprocessing", setOf("age_edges", "unit", "decision", "family"))
        edges = fields.numbers("age_edges")
        if (edges.size < 2 || edges.zipWithNext().any { (low, high) -> low >= high }) fields.wrong("its age_edges do not rise")
        val carried = if (fields.has("decision")) DecisionRule.of(fields.any("decision"), edges) else null
        rule = carried?.takeIf { sha256 in it.models }
        isOfOthers = carried != null && rule == null
        if (iospec.inputs.size != 1 || !iospec.inputs[0].isImage) fields.wrong("its model takes something else than one picture")
    }

    /** The model of a bundle's file. */
    public constructor(engine: Engine, artifact: Artifact, manifest: Manifest) :
        this(engine, artifact.iospec, artifact.sha256, manifest.preprocessing, manifest.postprocessing)

    /** Side of the pictures that it looks at. */
    public val size: Int get() = iospec.inputs[0].axis('H')

    /**
     * What the model is shown of a photograph: its one face, with the eyes where the manifest says; without a word of it the centre square.
     *
     * @param faces the eyes of every face that was found; without a frame nobody asks.
     * @throws DataError no face, several, one that is too small or too dark.
     */
    public fun shown(
        picture: Picture,
        faces: List<Eyes>,
    ): Picture = frame?.let { onlyFace(picture, faces, size, it) } ?: centreSquare(picture, size)

    /**
     * The answer about a picture of its size, see [shown].
     *
     * @throws DataError the model gives something else than an age.
     */
    public fun answer(shown: Picture): AgeAnswer {
        val spec = iospec.inputs[0]
        return read(engine.run(mapOf(spec.name to toTensor(shown, spec))))
    }

    /** What the outputs say. */
    public fun read(outputs: Map<String, FloatTensor>): AgeAnswer {
        fun wrong(why: String): Nothing = throw DataError("age model", why, "Get another bundle")
        val logits = outputs["age_logits"]?.values ?: wrong("it gives no age_logits")
        val age = outputs["expected_age"]?.values?.singleOrNull()?.toDouble() ?: wrong("it gives no expected_age")
        if (logits.size != edges.size - 1) wrong("it gives ${logits.size} groups where its manifest has ${edges.size - 1}")
        if (!age.isFinite() || !logits.all { it.isFinite() }) wrong("it gives something that is not a number")
        val weights = logits.map { Math.exp(it.toDouble() - logits.max()) }
        val groups = weights.indices.map { AgeGroup(edges[it], edges[it + 1], weights[it] / weights.sum()) }
        return AgeAnswer(age, groups, rule?.run { decide(overProbability(logits, edges, this.age)) })
    }

    override fun close(): Unit = engine.close()
}
