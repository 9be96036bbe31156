package ai.unplug.core.picture

import ai.unplug.core.FloatTensor
import ai.unplug.core.TensorSpec

/** The centre square of a picture, resized: what `unplug run` shows a model. */
public fun centreSquare(
    picture: Picture,
    size: Int,
): Picture = TODO("$picture $size")

/** A picture of the tensor's size as the model takes it: low + (high - low) byte / 255, in its order of axes and colours. */
public fun toTensor(
    picture: Picture,
    spec: TensorSpec,
): FloatTensor = TODO("$picture $spec")
