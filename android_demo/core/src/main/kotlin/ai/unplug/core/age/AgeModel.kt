package ai.unplug.core.age

import ai.unplug.core.Engine
import ai.unplug.core.IOSpec
import ai.unplug.core.Json
import ai.unplug.core.picture.Picture

/** Whether somebody is over an age, as far as the limit of errors allows to say. */
public enum class Decision { OVER, UNDER, UNSURE }

/** How probable an age group is; `to` is null of the last one, which has no end. */
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
 * @property engine of an artifact with `age_logits` and `expected_age`.
 * @property iospec of that artifact.
 * @property postprocessing of the bundle's manifest.
 */
public class AgeModel(
    private val engine: Engine,
    private val iospec: IOSpec,
    private val postprocessing: Json.Obj,
) {
    /** Side of the pictures that it looks at. */
    public val size: Int get() = iospec.inputs.first().axis('H')

    /** Of the picture's centre square: crop it to the face before. */
    public fun answer(picture: Picture): AgeAnswer = TODO("$picture $engine $postprocessing")
}
