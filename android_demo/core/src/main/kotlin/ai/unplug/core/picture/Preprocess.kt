package ai.unplug.core.picture

import ai.unplug.core.FloatTensor
import ai.unplug.core.TensorSpec

/** The centre square of a picture, resized: what `unplug run` shows a model. */
public fun centreSquare(
    picture: Picture,
    size: Int,
): Picture {
    val side = minOf(picture.width, picture.height).toDouble()
    val (left, top) = (picture.width - side) * 0.5 to (picture.height - side) * 0.5
    return resize(picture, size, size, Box(left, top, left + side, top + side))
}

/**
 * A picture of the tensor's size as a model takes it: low + (high - low) byte / 255 in float32, in its order of axes and colours.
 */
public fun toTensor(
    picture: Picture,
    spec: TensorSpec,
): FloatTensor {
    require(spec.isImage) { "${spec.name} is not a picture" }
    val (height, width) = spec.axis('H') to spec.axis('W')
    require(picture.width == width && picture.height == height) { "${picture.width} x ${picture.height} pixels for $width x $height" }
    val low = (spec.range?.start ?: 0.0).toFloat()
    val span = ((spec.range?.endInclusive ?: 1.0) - (spec.range?.start ?: 0.0)).toFloat()
    val last = spec.layout.endsWith("C")
    val found = FloatArray(3 * width * height)
    for (place in 0 until width * height) {
        for (channel in 0..2) {
            val source = if (spec.colour == "BGR") 2 - channel else channel
            val value = (picture.pixels[3 * place + source].toInt() and 0xff) / 255f * span + low
            found[if (last) 3 * place + channel else channel * width * height + place] = value
        }
    }
    return FloatTensor(spec.shape, found)
}

/** Numbers from 0 to 1, (1, 3, H, W), as a picture: round(255 x), halves to the even neighbour, cut off at both ends. */
public fun toPicture(decoded: FloatTensor): Picture {
    val (height, width) = decoded.shape[2] to decoded.shape[3]
    val pixels = ByteArray(3 * width * height)
    for (place in decoded.values.indices) {
        val byte = Math.rint((decoded.values[place] * 255f).toDouble()).coerceIn(0.0, 255.0)
        pixels[3 * (place % (width * height)) + place / (width * height)] = byte.toInt().toByte()
    }
    return Picture(width, height, pixels)
}
