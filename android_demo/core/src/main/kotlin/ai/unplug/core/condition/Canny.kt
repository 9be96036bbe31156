package ai.unplug.core.condition

import ai.unplug.core.picture.Picture

/** tan 22.5 degrees with 15 binary places. */
private const val TAN = 13573

/**
 * Edges as OpenCV's Canny detector draws them (aperture 3, |gx| + |gy|), white on black, bit for bit: ridges above [high], and those
 * above [low] that are connected to one.
 *
 * Canny, "A Computational Approach to Edge Detection", IEEE TPAMI 8(6), 1986.
 */
public fun canny(
    picture: Picture,
    low: Int = 100,
    high: Int = 200,
): Picture {
    require(low in 0..high) { "thresholds $low and $high" }
    val edges = Edges(grey(picture), picture.width, picture.height).found(low, high)
    return Picture(picture.width, picture.height, ByteArray(3 * edges.size) { if (edges[it / 3]) -1 else 0 })
}

/** Luminance with OpenCV's weights, of 15 binary places. */
internal fun grey(picture: Picture): IntArray =
    IntArray(picture.width * picture.height) {
        val (x, y) = it % picture.width to it / picture.width
        (9798 * picture.at(x, y, 0) + 19235 * picture.at(x, y, 1) + 3735 * picture.at(x, y, 2) + 16384) shr 15
    }

private class Edges(
    private val image: IntArray,
    private val width: Int,
    private val height: Int,
) {
    private val stride = width + 2
    private val dx = IntArray(width * height)
    private val dy = IntArray(width * height)

    /** |dx| + |dy|, with a border of one zero on every side. */
    private val size = IntArray(stride * (height + 2))

    init {
        for (y in 0 until height) for (x in 0 until width) sobel(x, y)
    }

    /** Sobel's 3x3 gradients; the border repeats. */
    private fun sobel(
        x: Int,
        y: Int,
    ) {
        val (up, own, down) = Triple(maxOf(y - 1, 0) * width, y * width, minOf(y + 1, height - 1) * width)
        val (left, right) = maxOf(x - 1, 0) to minOf(x + 1, width - 1)
        val slant = image[down + right] - image[up + left]
        val other = image[up + right] - image[down + left]
        dx[own + x] = slant + other + 2 * (image[own + right] - image[own + left])
        dy[own + x] = slant - other + 2 * (image[down + x] - image[up + x])
        size[(y + 1) * stride + x + 1] = Math.abs(dx[own + x]) + Math.abs(dy[own + x])
    }

    /** Whether a gradient is the largest across its edge; ties go to one side, as in OpenCV. */
    private fun ridge(
        at: Int,
        dx: Int,
        dy: Int,
    ): Boolean {
        val own = size[at]
        val (x, y) = Math.abs(dx) to (Math.abs(dy) shl 15)
        val flat = x * TAN
        if (y < flat) return own > size[at - 1] && own >= size[at + 1]
        if (y > flat + (x shl 16)) return own > size[at - stride] && own >= size[at + stride]
        val slant = if ((dx xor dy) < 0) -1 else 1
        return own > size[at - stride - slant] && own > size[at + stride + slant]
    }

    fun found(
        low: Int,
        high: Int,
    ): BooleanArray {
        val weak = BooleanArray(size.size)
        val strong = ArrayDeque<Int>()
        for (y in 0 until height) {
            for (x in 0 until width) {
                val at = (y + 1) * stride + x + 1
                if (size[at] <= low || !ridge(at, dx[y * width + x], dy[y * width + x])) continue
                if (size[at] > high) strong += at else weak[at] = true
            }
        }
        val edges = BooleanArray(width * height)
        val around = intArrayOf(-stride - 1, -stride, -stride + 1, -1, 1, stride - 1, stride, stride + 1)
        while (strong.isNotEmpty()) {
            val at = strong.removeLast()
            edges[(at / stride - 1) * width + at % stride - 1] = true
            for (near in around) {
                if (!weak[at + near]) continue
                weak[at + near] = false
                strong += at + near
            }
        }
        return edges
    }
}
