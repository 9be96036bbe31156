package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.IOSpec
import ai.unplug.core.InputError
import ai.unplug.core.elements
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.resize
import ai.unplug.core.picture.toTensor

/** The mark that a decoder leaves in its pictures, as unplug.sdk.drawing.device.mark has it. */
public object Mark {
    public const val BITS: Int = 48
    private const val SIDE = 128
    private const val LEAST_SIDE = 64

    /** Shares of the reader's side that a picture is laid on: as a whole, and as a crop of a whole. */
    internal val READINGS = listOf(1.0, 0.8)
    internal const val CHANCE = 1e-6

    /** The public demonstration key. */
    internal const val PUBLIC_KEY = "db7b91574e94"
    private val KEY = Regex("[0-9a-f]{${BITS / 4}}")

    /** The bits of a key, the first digit's highest first. */
    internal fun keyBits(key: String): List<Boolean> {
        if (!KEY.matches(key)) throw InputError("key", "it is not ${BITS / 4} hexadecimal digits", "Give a key of unplug train decoder --mark")
        return List(BITS) { key.toLong(16) shr (BITS - 1 - it) and 1 == 1L }
    }

    /** P(so many of the bits agree in one of the readings), at most, for bits that are tossed. */
    internal fun chance(
        agree: Int,
        readings: Int = READINGS.size,
    ): Double {
        var (ways, tail) = 1L to 0L
        for (count in BITS downTo agree) {
            tail += ways
            ways = ways * count / (BITS - count + 1)
        }
        return minOf(1.0, (readings * tail).toDouble() / (1L shl BITS))
    }

    /** Whether a picture is marked of which so many bits are the key's: one without a mark seldom has them. */
    public fun isMarked(agree: Int): Boolean = chance(agree) <= CHANCE

    /** A picture as the reader sees it, once a share of [READINGS]; what is missing is mirrored. */
    internal fun readings(picture: Picture): List<Picture> {
        val (width, height) = picture.width to picture.height
        if (minOf(width, height) < LEAST_SIDE) throw DataError("picture", "it has ${width}x$height pixels", "A mark is read from $LEAST_SIDE pixels a side on")
        return READINGS.map { laid(picture, Math.rint(it * SIDE) / maxOf(width, height)) }
    }

    private fun laid(
        picture: Picture,
        scale: Double,
    ): Picture {
        val (width, height) = listOf(picture.width, picture.height).map { maxOf(1, Math.rint(scale * it).toInt()) }
        val small = resize(picture, width, height)
        val (left, top) = (SIDE - width) / 2 to (SIDE - height) / 2
        val pixels = ByteArray(3 * SIDE * SIDE) { small.at(mirrored(it / 3 % SIDE - left, width), mirrored(it / 3 / SIDE - top, height), it % 3).toByte() }
        return Picture(SIDE, SIDE, pixels)
    }

    /** Where a place before or after so many pixels falls back into them: the edge is seen twice. */
    private fun mirrored(
        place: Int,
        size: Int,
    ) = Math.floorMod(place, 2 * size).let { minOf(it, 2 * size - 1 - it) }

    /** Bits of the best reading that are those of a key; a bit is 1 where its logit is above 0. */
    internal fun agree(
        logits: List<FloatArray>,
        key: String,
    ): Int = keyBits(key).let { wanted -> logits.maxOf { reading -> wanted.indices.count { wanted[it] == reading[it] > 0 } } }

    /**
     * Bits of a picture that are those of the public demonstration key, see [isMarked].
     *
     * @param reader a file of `unplug export mark-reader`, opened.
     * @param iospec the named tensors of that file.
     * @throws DataError the picture has a side below 64 pixels, or the file reads no such marks.
     */
    public fun read(
        picture: Picture,
        reader: Engine,
        iospec: IOSpec,
    ): Int {
        fun wrong(): Nothing = throw DataError("mark reader", "it reads no marks of $BITS bits", "Export mark-reader again")
        val (input, output) = iospec.inputs.first() to iospec.outputs.first()
        if (iospec.inputs.size > 1 || !input.isImage || input.axis('H') != SIDE || input.axis('W') != SIDE || elements(output.shape) != BITS) wrong()
        val logits = readings(picture).map { reader.run(mapOf(input.name to toTensor(it, input)))[output.name]?.values ?: wrong() }
        if (logits.any { it.size != BITS }) wrong()
        return agree(logits, PUBLIC_KEY)
    }
}
