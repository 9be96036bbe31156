package ai.unplug.core.picture

/**
 * A picture of 8-bit RGB.
 *
 * @property pixels height x width x 3 bytes, row by row.
 */
public class Picture(
    public val width: Int,
    public val height: Int,
    public val pixels: ByteArray,
) {
    init {
        require(width > 0 && height > 0 && pixels.size.toLong() == 3L * width * height) { "${pixels.size} bytes are not a $width x $height picture" }
    }

    /** One channel of one pixel, 0 to 255. */
    public fun at(
        x: Int,
        y: Int,
        channel: Int,
    ): Int = pixels[3 * (y * width + x) + channel].toInt() and 0xff

    /** As Android's bitmaps have it: one ARGB number a pixel. */
    public fun argb(): IntArray = IntArray(width * height) { (0xff shl 24) or (channel(it, 0) shl 16) or (channel(it, 1) shl 8) or channel(it, 2) }

    /** Whether all its pixels are of one colour. */
    public fun isPlain(): Boolean = pixels.indices.all { pixels[it] == pixels[it % 3] }

    private fun channel(
        place: Int,
        channel: Int,
    ) = pixels[3 * place + channel].toInt() and 0xff

    public companion object {
        /** Out of ARGB numbers, row by row; alpha is dropped. */
        public fun ofArgb(
            width: Int,
            height: Int,
            argb: IntArray,
        ): Picture {
            val pixels = ByteArray(3 * argb.size)
            argb.forEachIndexed { place, value ->
                for (channel in 0..2) pixels[3 * place + channel] = (value shr (16 - 8 * channel)).toByte()
            }
            return Picture(width, height, pixels)
        }
    }
}

/** A part of a picture in pixels; pixel i covers i to i + 1. */
public data class Box(
    val left: Double,
    val top: Double,
    val right: Double,
    val bottom: Double,
)
