package ai.unplug.core.condition

/** Binary places of a coordinate. */
private const val PLACES = 16
private const val ONE = 1L shl PLACES
private const val HALF = ONE shr 1

/** A point with [PLACES] binary places. */
private data class Fixed(
    val x: Long,
    val y: Long,
)

/**
 * Draws lines of one colour as OpenCV's `line` does, pixel for pixel: a thick one is a filled quadrangle with a disc at each end.
 *
 * @property pixels the pixels of a canvas of 8-bit RGB.
 */
internal class Pen(
    private val width: Int,
    private val height: Int,
    private val pixels: ByteArray,
) {
    private var red: Byte = 0
    private var green: Byte = 0
    private var blue: Byte = 0

    /** Takes another colour, 0xRRGGBB. */
    fun take(colour: Int) {
        red = (colour shr 16).toByte()
        green = (colour shr 8).toByte()
        blue = colour.toByte()
    }

    /** A line between two pixels of the canvas. */
    fun line(
        x0: Int,
        y0: Int,
        x1: Int,
        y1: Int,
        thickness: Int,
    ) {
        if (thickness <= 1) return thin(x0, y0, x1, y1)
        val (from, to) = Fixed(x0 * ONE, y0 * ONE) to Fixed(x1 * ONE, y1 * ONE)
        val (dx, dy) = (x0 - x1).toDouble() to (y1 - y0).toDouble()
        if (dx != 0.0 || dy != 0.0) {
            // Half the thickness across the line; an odd one is half a pixel more, as OpenCV has it.
            val reach = (thickness * HALF + (thickness and 1) * ONE * 0.5) / Math.sqrt(dx * dx + dy * dy)
            val (sideX, sideY) = Math.rint(dy * reach).toLong() to Math.rint(dx * reach).toLong()
            fill(
                listOf(
                    Fixed(from.x + sideX, from.y + sideY),
                    Fixed(from.x - sideX, from.y - sideY),
                    Fixed(to.x - sideX, to.y - sideY),
                    Fixed(to.x + sideX, to.y + sideY),
                ),
            )
        }
        val radius = ((thickness * HALF + HALF) shr PLACES).toInt()
        disc(x0, y0, radius)
        disc(x1, y1, radius)
    }

    /** Bresenham's line of one pixel, from left to right. */
    private fun thin(
        x0: Int,
        y0: Int,
        x1: Int,
        y1: Int,
    ) {
        if (x1 < x0) return thin(x1, y1, x0, y0)
        val (dx, dy) = x1 - x0 to Math.abs(y1 - y0)
        val down = if (y1 < y0) -1 else 1
        val (major, minor) = maxOf(dx, dy) to minOf(dx, dy)
        var (x, y) = x0 to y0
        var error = major - 2 * minor
        repeat(major + 1) {
            dot(x, y)
            val both = error < 0
            error += (if (both) 2 * major else 0) - 2 * minor
            if (both || dx >= dy) x++
            if (both || dx < dy) y += down
        }
    }

    private fun dot(
        x: Int,
        y: Int,
    ) {
        if (x !in 0 until width || y !in 0 until height) return
        val place = 3 * (y * width + x)
        pixels[place] = red
        pixels[place + 1] = green
        pixels[place + 2] = blue
    }

    private fun row(
        from: Int,
        to: Int,
        y: Int,
    ) {
        for (x in maxOf(from, 0)..minOf(to, width - 1)) dot(x, y)
    }

    /** A filled circle by the midpoint algorithm. */
    private fun disc(
        x: Int,
        y: Int,
        radius: Int,
    ) {
        var (dx, dy) = radius to 0
        var (error, plus, minus) = Triple(0, 1, 2 * radius - 1)
        while (dx >= dy) {
            row(x - dx, x + dx, y - dy)
            row(x - dx, x + dx, y + dy)
            row(x - dy, x + dy, y - dx)
            row(x - dy, x + dy, y + dx)
            dy++
            error += plus
            plus += 2
            if (error > 0) {
                error -= minus
                dx--
                minus -= 2
            }
        }
    }

    /** A convex polygon: its outline, then every line of pixels between its two sides. */
    private fun fill(corners: List<Fixed>) {
        corners.indices.forEach { outline(corners[(it + corners.size - 1) % corners.size], corners[it]) }

        fun line(at: Fixed) = ((at.y + HALF) shr PLACES).toInt()
        val top = corners.indices.minBy { corners[it].y }
        val last = minOf(corners.maxOf(::line), height - 1)
        val sides = listOf(Side(corners, top, 1, ::line), Side(corners, top, corners.size - 1, ::line))
        var left = corners.size
        for (y in line(corners[top])..last) {
            for (side in sides) if (y >= side.until) left -= side.turn(y, left)
            if (left < 0) return
            val (low, high) = minOf(sides[0].x, sides[1].x) to maxOf(sides[0].x, sides[1].x)
            if (y >= 0) row(((low + HALF) shr PLACES).toInt(), ((high + HALF) shr PLACES).toInt(), y)
            for (side in sides) side.x += side.slope
        }
    }

    /** One side of a polygon, followed downwards. */
    private class Side(
        private val corners: List<Fixed>,
        private var at: Int,
        private val way: Int,
        private val line: (Fixed) -> Int,
    ) {
        var x = -ONE
        var slope = 0L
        var until = line(corners[at])

        /** Goes on to the corner below a line of pixels; says how many edges of the [left] ones that took. */
        fun turn(
            y: Int,
            left: Int,
        ): Int {
            var next = (at + way) % corners.size
            var used = 0
            while (used < left) {
                used++
                val below = line(corners[next])
                if (below > y) {
                    until = below
                    slope = ((corners[next].x - corners[at].x) * 2 + (below - y)) / (2 * (below - y))
                    x = corners[at].x
                    at = next
                    return used
                }
                at = next
                next = (next + way) % corners.size
            }
            return used + 1
        }
    }

    /** An edge of a polygon, one pixel a step along its longer side. */
    private fun outline(
        one: Fixed,
        other: Fixed,
    ) {
        val (first, second) = clipped(one, other) ?: return
        val steep = Math.abs(second.x - first.x) <= Math.abs(second.y - first.y)
        val backwards = if (steep) second.y < first.y else second.x < first.x
        val (from, to) = if (backwards) second to first else first to second
        dot(((to.x + HALF) shr PLACES).toInt(), ((to.y + HALF) shr PLACES).toInt())
        val (long, short) = if (steep) to.y - from.y to to.x - from.x else to.x - from.x to to.y - from.y
        val slope = (short shl PLACES) / (long or 1)
        var (along, across) = ((if (steep) from.y else from.x) + HALF shr PLACES) to ((if (steep) from.x else from.y) + HALF)
        repeat((long shr PLACES).toInt() + 1) {
            val (x, y) = if (steep) (across shr PLACES) to along else along to (across shr PLACES)
            dot(x.toInt(), y.toInt())
            along++
            across += slope
        }
    }

    /** The part of an edge that lies on the canvas, ends rounded towards zero as Cohen and Sutherland's method in integers has them. */
    private fun clipped(
        one: Fixed,
        other: Fixed,
    ): Pair<Fixed, Fixed>? {
        val (right, bottom) = width * ONE - 1 to height * ONE - 1

        fun side(
            value: Long,
            most: Long,
        ) = if (value < 0) -1 else if (value > most) 1 else 0
        var (a, b) = one to other

        fun outside(): Boolean {
            val beside = side(a.x, right) * side(b.x, right) > 0
            return beside || side(a.y, bottom) * side(b.y, bottom) > 0
        }

        fun atLine(
            moved: Fixed,
            from: Fixed,
            to: Fixed,
        ): Fixed {
            val y = if (moved.y < 0) 0 else bottom
            return Fixed(moved.x + (y - moved.y) * (to.x - from.x) / (to.y - from.y), y)
        }

        fun atColumn(
            moved: Fixed,
            from: Fixed,
            to: Fixed,
        ): Fixed {
            val x = if (moved.x < 0) 0 else right
            return Fixed(x, moved.y + (x - moved.x) * (to.y - from.y) / (to.x - from.x))
        }
        if (outside()) return null
        if (side(a.y, bottom) != 0) a = atLine(a, a, b)
        if (side(b.y, bottom) != 0) b = atLine(b, a, b)
        if (outside()) return null
        if (side(a.x, right) != 0) a = atColumn(a, a, b)
        if (side(b.x, right) != 0) b = atColumn(b, a, b)
        return if (outside()) null else a to b
    }
}
