package ai.unplug.core.condition

import ai.unplug.core.InputError
import ai.unplug.core.picture.Box
import ai.unplug.core.picture.Picture

/** Which colours a plugin was trained on; `nearest` rounds a point where the other style takes the pixel that it lies in. */
public enum class Style(
    internal val colours: List<Int>,
    internal val nearest: Boolean,
) {
    /** Each part has a colour of its own. */
    UNPLUG(listOf(0xffffff, 0xff4040, 0x00ff00, 0xffff00, 0xff8000, 0x0080ff, 0xff00ff, 0x00ffff), false),

    /** As MediaPipe's Image Generator draws: oval and lips white, the left eye, brow and iris green, the right ones blue. */
    MEDIAPIPE(listOf(0xffffff, 0xffffff, 0x00ff00, 0x00ff00, 0x00ff00, 0x0000ff, 0x0000ff, 0x0000ff), true),
}

/**
 * Chains of MediaPipe's 478 face points, in drawing order: oval, lips, left eye, brow and iris, right eye, brow and iris. Left and
 * right are the person's own.
 */
private val CHAINS: List<List<List<Int>>> =
    listOf(
        listOf(
            "10 338 297 332 284 251 389 356 454 323 361 288 397 365 379 378 400 377 152 148 176 149 150 136 172 58 132 93 234 127 162 21 " +
                "54 103 67 109 10",
        ),
        listOf(
            "61 146 91 181 84 17 314 405 321 375 291",
            "61 185 40 39 37 0 267 269 270 409 291",
            "78 95 88 178 87 14 317 402 318 324 308",
            "78 191 80 81 82 13 312 311 310 415 308",
        ),
        listOf("263 249 390 373 374 380 381 382 362", "263 466 388 387 386 385 384 398 362"),
        listOf("276 283 282 295 285", "300 293 334 296 336"),
        listOf("474 475 476 477 474"),
        listOf("33 7 163 144 145 153 154 155 133", "33 246 161 160 159 158 157 173 133"),
        listOf("46 53 52 65 55", "70 63 105 66 107"),
        listOf("469 470 471 472 469"),
    ).map { chains -> chains.map { chain -> chain.split(' ').map(String::toInt) } }

/** Points of a face. */
public const val FACE_POINTS: Int = 478

/** Sides of a canvas on which a line of one pixel says enough; smaller pictures are drawn larger and shrunk by area. */
private const val CANVAS = 512

/** Pixels of the canvas; a line with an end farther outside is left out, a nearer one is cut at the edge. */
private const val REACH = 512

/**
 * A face's landmarks as coloured lines on black, in the centre square of its photograph; bit for bit as `unplug condition` draws.
 *
 * @param points x and y of each of [FACE_POINTS] in pixels of the photograph.
 * @param width the width of the photograph.
 * @param height the height of the photograph.
 * @param size side of the result.
 * @throws InputError nothing of the face lies inside.
 */
public fun drawFace(
    points: FloatArray,
    width: Int,
    height: Int,
    size: Int,
    style: Style = Style.UNPLUG,
): Picture {
    require(points.size == 2 * FACE_POINTS) { "${points.size / 2} points are not a face" }
    val side = minOf(width, height).toDouble()
    val factor = maxOf(1, (CANVAS + size - 1) / size)
    val scale = size * factor / side
    val start = doubleArrayOf((width - side) / 2, (height - side) / 2)
    val placed =
        IntArray(points.size) {
            val moved = (points[it].toDouble() - start[it % 2]) * scale
            (if (style.nearest) Math.rint(moved) else Math.floor(moved)).coerceIn(-1e8, 1e8).toInt()
        }
    val drawn = shrunk(drawn(placed, size * factor, factor, style), factor)
    if (drawn.isPlain()) throw InputError("face", "nothing of it lies inside the picture's centre square", "Take one with it in the middle")
    return drawn
}

/** On a canvas with a margin, which is cut off: a line whose end lies outside is cut and not left out. */
private fun drawn(
    placed: IntArray,
    side: Int,
    thickness: Int,
    style: Style,
): Picture {
    val margin = placed.maxOf { maxOf(-it, it - (side - 1)) }.coerceIn(0, REACH)
    val larger = side + 2 * margin
    val canvas = ByteArray(3 * larger * larger)
    val pen = Pen(larger, larger, canvas)

    fun at(place: Int) = placed[place] + margin

    fun inside(point: Int) = at(2 * point) in 0 until larger && at(2 * point + 1) in 0 until larger
    for ((group, chains) in CHAINS.withIndex()) {
        pen.take(style.colours[group])
        for ((start, end) in chains.flatMap { it.zipWithNext() }) {
            if (inside(start) && inside(end)) pen.line(at(2 * start), at(2 * start + 1), at(2 * end), at(2 * end + 1), thickness)
        }
    }
    val found = ByteArray(3 * side * side)
    for (y in 0 until side) canvas.copyInto(found, 3 * y * side, 3 * ((y + margin) * larger + margin), 3 * ((y + margin) * larger + margin + side))
    return Picture(side, side, found)
}

/** The mean over squares of pixels, rounded as OpenCV rounds it. */
private fun shrunk(
    picture: Picture,
    factor: Int,
): Picture {
    if (factor == 1) return picture
    val side = picture.width / factor
    val found = ByteArray(3 * side * side)
    val share = 1f / (factor * factor)
    for (place in found.indices) {
        val (x, y) = place / 3 % side * factor to place / 3 / side * factor
        var sum = 0
        for (row in y until y + factor) for (column in x until x + factor) sum += picture.at(column, row, place % 3)
        // Four pixels are rounded half up there, more of them half to the even neighbour.
        found[place] = (if (factor == 2) (sum + 2) shr 2 else Math.rint((sum * share).toDouble()).toInt()).toByte()
    }
    return Picture(side, side, found)
}

/** The margin around the box of all landmarks in the age model's faces, as a fraction of the box. */
public const val FACE_MARGIN: Double = 0.01

/**
 * The part of a photograph that an age model looks at: the square around its face, cut at the edges, in whole pixels.
 *
 * @param points x and y of each landmark in pixels.
 */
public fun faceBox(
    points: FloatArray,
    width: Int,
    height: Int,
    margin: Double = FACE_MARGIN,
): Box {
    val (xs, ys) = points.filterIndexed { place, _ -> place % 2 == 0 } to points.filterIndexed { place, _ -> place % 2 == 1 }
    val (left, right) = xs.min().toDouble() to xs.max().toDouble()
    val (top, bottom) = ys.min().toDouble() to ys.max().toDouble()
    val half = maxOf(right - left, bottom - top) * (1 + 2 * margin) / 2
    val (x, y) = (left + right) / 2 to (top + bottom) / 2
    return Box(
        maxOf(0.0, Math.rint(x - half)),
        maxOf(0.0, Math.rint(y - half)),
        minOf(width.toDouble(), Math.rint(x + half)),
        minOf(height.toDouble(), Math.rint(y + half)),
    )
}
