package ai.unplug.core.picture

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.ecmaNumber
import kotlin.math.ceil
import kotlin.math.floor
import kotlin.math.sqrt

private const val MAX_STEPS = 16.0

/** A place in a picture in pixels; pixel i covers i to i + 1. */
public data class Point(
    val x: Double,
    val y: Double,
)

/** Middles of a face's eyes in pixels of a picture, left and right as it shows them. */
public data class Eyes(
    val left: Point,
    val right: Point,
)

/**
 * Where the eyes of a face lie in what a model sees.
 *
 * @property left the middle of the eye on the left of the picture, as a share of the side, 0 to 1.
 * @property leastEyes pixels between the eyes of a photograph below which a face is too small to be judged.
 * @property leastLight mean luma of the aligned face, 0 to 255, below which it is too dark.
 */
public data class Frame(
    val left: Point = Point(0.3045, 0.3037),
    val right: Point = Point(0.6831, 0.3037),
    val leastEyes: Double = 16.0,
    val leastLight: Double = 24.0,
) {
    init {
        val inside = listOf(left.x, left.y, right.x, right.y).all { it in 0.0..1.0 }
        val apart = Point(right.x - left.x, right.y - left.y).let { sqrt(it.x * it.x + it.y * it.y) }
        if (!inside || apart < 0.05) throw InputError("frame", "eyes at $left and $right do not frame a face", "Give both in 0 to 1, apart")
    }

    /** What the model sees of a photograph, as the four corners in its pixels, going round. */
    public fun corners(eyes: Eyes): List<Point> {
        val (across, down) = right.x - left.x to right.y - left.y
        val (wide, high) = eyes.right.x - eyes.left.x to eyes.right.y - eyes.left.y
        val whole = across * across + down * down
        val (real, imaginary) = (wide * across + high * down) / whole to (high * across - wide * down) / whole
        return listOf(0.0 to 0.0, 1.0 to 0.0, 1.0 to 1.0, 0.0 to 1.0).map { (x, y) ->
            val (fromX, fromY) = x - left.x to y - left.y
            Point(eyes.left.x + real * fromX - imaginary * fromY, eyes.left.y + imaginary * fromX + real * fromY)
        }
    }

    public companion object {
        /**
         * The frame in a manifest's `preprocessing`, or null where it says nothing of eyes.
         *
         * @throws DataError what it says does not frame a face.
         */
        public fun of(preprocessing: Json.Obj): Frame? {
            if ("eyes" !in preprocessing.fields) return null
            val fields = Fields(preprocessing, "preprocessing", preprocessing.fields.keys)
            val eyes = fields.list("eyes").map { eye -> (eye as? Json.Arr)?.items?.map { (it as? Json.Num)?.value ?: Double.NaN }.orEmpty() }
            if (eyes.size != 2 || eyes.any { it.size != 2 }) fields.wrong("its eyes are not two places")
            val (left, right) = eyes.map { (x, y) -> Point(x, y) }
            val none = Frame()

            fun least(
                name: String,
                usual: Double,
            ) = if (name in preprocessing.fields) fields.number(name) else usual
            return try {
                Frame(left, right, least("least_eyes", none.leastEyes), least("least_light", none.leastLight))
            } catch (wrong: InputError) {
                fields.wrong(wrong.why)
            }
        }
    }
}

/** A face turned, scaled and moved until its eyes lie in their places, byte for byte as unplug.sdk.drawing.inference does. */
public fun align(
    picture: Picture,
    left: Point,
    right: Point,
    size: Int,
    frame: Frame = Frame(),
): Picture {
    val (leftX, leftY) = frame.left.x * size to frame.left.y * size
    val (across, down) = frame.right.x * size - leftX to frame.right.y * size - leftY
    val (wide, high) = right.x - left.x to right.y - left.y
    val whole = across * across + down * down
    val (real, imaginary) = (wide * across + high * down) / whole to (high * across - wide * down) / whole
    val scale = sqrt(real * real + imaginary * imaginary)
    if (!(scale > 0.0 && scale < 1e6)) throw DataError("face", "its eyes are in the same place", "Give a picture of one face from the front")
    val steps = minOf(MAX_STEPS, ceil(scale)).toInt()
    val shiftX = left.x - (real * leftX - imaginary * leftY)
    val shiftY = left.y - (imaginary * leftX + real * leftY)
    val made = ByteArray(3 * size * size)
    val total = DoubleArray(3)
    for (at in 0 until size * size) {
        total.fill(0.0)
        for (row in 0 until steps) {
            val y = at / size + (row + 0.5) / steps
            for (column in 0 until steps) {
                val x = at % size + (column + 0.5) / steps
                addBilinear(picture, real * x - imaginary * y + shiftX - 0.5, imaginary * x + real * y + shiftY - 0.5, total)
            }
        }
        for (channel in 0..2) made[3 * at + channel] = floor(total[channel] / (steps * steps) + 0.5).toInt().toByte()
    }
    return Picture(size, size, made)
}

private fun addBilinear(
    picture: Picture,
    atX: Double,
    atY: Double,
    total: DoubleArray,
) {
    val x = atX.coerceIn(0.0, picture.width - 1.0)
    val y = atY.coerceIn(0.0, picture.height - 1.0)
    val (left, top) = floor(x).toInt() to floor(y).toInt()
    val (right, below) = minOf(left + 1, picture.width - 1) to minOf(top + 1, picture.height - 1)
    val (across, down) = x - left to y - top
    for (channel in 0..2) {
        val upper = picture.at(left, top, channel) * (1.0 - across) + picture.at(right, top, channel) * across
        val lower = picture.at(left, below, channel) * (1.0 - across) + picture.at(right, below, channel) * across
        total[channel] += upper * (1.0 - down) + lower * down
    }
}

/** Mean luma, 0 to 255. */
public fun light(picture: Picture): Double {
    val weights = longArrayOf(299, 587, 114)
    val sum = picture.pixels.indices.sumOf { weights[it % 3] * (picture.pixels[it].toInt() and 0xff) }
    return sum.toDouble() / (1000L * picture.width * picture.height)
}

/** Why a photograph cannot be judged, or null: no face, several, too small, or too dark, in this order. */
public fun faceProblem(
    faces: Int,
    left: Point,
    right: Point,
    aligned: Picture,
    frame: Frame = Frame(),
): String? {
    if (faces != 1) return if (faces < 1) "no face found" else "$faces faces found"
    val (wide, high) = right.x - left.x to right.y - left.y
    val apart = sqrt(wide * wide + high * high)
    val needed = ecmaNumber(frame.leastEyes)
    return when {
        apart < frame.leastEyes -> "the face is too small: ${floor(apart).toInt()} pixels between the eyes, and $needed are needed"
        light(aligned) < frame.leastLight -> "the face is too dark"
        else -> null
    }
}

/**
 * The one face of a photograph in its frame.
 *
 * @param faces the eyes of every face that was found.
 * @throws DataError it cannot be judged: no face, several, one that is too small or too dark.
 */
public fun onlyFace(
    picture: Picture,
    faces: List<Eyes>,
    size: Int,
    frame: Frame,
): Picture {
    val (left, right) = faces.singleOrNull() ?: Eyes(Point(0.0, 0.0), Point(1.0, 0.0))
    val made = align(picture, left, right, size, frame)
    val problem = faceProblem(faces.size, left, right, made, frame) ?: return made
    throw DataError("photograph", problem, "Choose one of a single face, near and well lit")
}
