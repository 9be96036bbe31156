package ai.unplug.core.picture

/** Binary places of a weight: 8 bits of pixel, 2 for sums beyond 255 and below 0, the rest of 32. */
private const val PRECISION = 32 - 8 - 2
private const val HALF = 1 shl (PRECISION - 1)

/** For each pixel of a line: where its sources begin, and their weights as whole numbers. */
private class Weights(
    val first: IntArray,
    val weights: Array<IntArray>,
)

/**
 * A part of a picture at another size, by a triangle over the source pixels that a target pixel covers.
 *
 * Bit for bit what Pillow 13's `resize(size, BILINEAR, box)` gives, which is what `unplug` shows networks: weights in float64, rounded
 * to 22 binary places; lines first, rounded to bytes, then columns. Pillow 13 takes columns first where a picture loses more than
 * twice as many lines as columns; earlier versions never did, and differ there by one in a byte here and there.
 */
public fun resize(
    picture: Picture,
    width: Int,
    height: Int,
    box: Box = Box(0.0, 0.0, picture.width.toDouble(), picture.height.toDouble()),
): Picture {
    require(width > 0 && height > 0) { "$width x $height pixels" }
    require(box.left >= 0 && box.top >= 0 && box.right <= picture.width && box.bottom <= picture.height && box.left < box.right && box.top < box.bottom) {
        "$box does not lie inside"
    }
    val across = if (width != picture.width || box.left != 0.0 || box.right != width.toDouble()) weights(picture.width, box.left, box.right, width) else null
    val down = if (height != picture.height || box.top != 0.0 || box.bottom != height.toDouble()) weights(picture.height, box.top, box.bottom, height) else null
    val lost = picture.height - height
    val columnsFirst = lost > 0 && lost > 2 * (picture.width - width)
    var found = picture
    if (down != null && columnsFirst) found = columns(found, down)
    if (across != null) found = lines(found, across)
    if (down != null && !columnsFirst) found = columns(found, down)
    return found
}

private fun weights(
    size: Int,
    from: Double,
    to: Double,
    count: Int,
): Weights {
    val scale = (to - from) / count
    val support = maxOf(scale, 1.0)
    val first = IntArray(count)
    val found =
        Array(count) { place ->
            val centre = from + (place + 0.5) * scale
            val start = maxOf((centre - support + 0.5).toInt(), 0)
            val end = minOf((centre + support + 0.5).toInt(), size)
            first[place] = start
            val reciprocal = 1.0 / support
            val raw = DoubleArray(end - start) { triangle((it + start - centre + 0.5) * reciprocal) }
            var sum = 0.0
            for (weight in raw) sum += weight
            IntArray(raw.size) {
                val weight = if (sum != 0.0) raw[it] * (1.0 / sum) else raw[it]
                (weight * (1 shl PRECISION) + if (weight < 0) -0.5 else 0.5).toInt()
            }
        }
    return Weights(first, found)
}

private fun triangle(x: Double): Double = maxOf(0.0, 1.0 - Math.abs(x))

private fun lines(
    picture: Picture,
    across: Weights,
): Picture {
    val width = across.first.size
    val found = ByteArray(3 * width * picture.height)
    for (y in 0 until picture.height) {
        for (x in 0 until width) {
            val (start, weights) = across.first[x] to across.weights[x]
            for (channel in 0..2) {
                var sum = HALF
                for (k in weights.indices) sum += picture.at(start + k, y, channel) * weights[k]
                found[3 * (y * width + x) + channel] = clip(sum)
            }
        }
    }
    return Picture(width, picture.height, found)
}

private fun columns(
    picture: Picture,
    down: Weights,
): Picture {
    val height = down.first.size
    val found = ByteArray(3 * picture.width * height)
    for (y in 0 until height) {
        val (start, weights) = down.first[y] to down.weights[y]
        for (x in 0 until picture.width) {
            for (channel in 0..2) {
                var sum = HALF
                for (k in weights.indices) sum += picture.at(x, start + k, channel) * weights[k]
                found[3 * (y * picture.width + x) + channel] = clip(sum)
            }
        }
    }
    return Picture(picture.width, height, found)
}

private fun clip(sum: Int): Byte = (sum shr PRECISION).coerceIn(0, 255).toByte()
