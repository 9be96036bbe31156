package ai.unplug.core.picture

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.base64
import ai.unplug.core.double
import ai.unplug.core.doubles
import ai.unplug.core.get
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import java.util.zip.Inflater

/** Faces put in their frame as in Python: tests/vectors/faces. */
class AlignmentTest {
    private val vectors = Vectors.json("faces/faces.json")

    private fun picture(
        case: Json,
        pixels: String,
        width: Int,
        height: Int,
    ): Picture {
        val made = ByteArray(3 * width * height)
        val inflater = Inflater(true).apply { setInput(case[pixels].base64) }
        check(inflater.inflate(made) == made.size)
        return Picture(width, height, made)
    }

    private fun point(place: Json) = place.doubles.let { Point(it[0], it[1]) }

    @Test
    fun facesArePutInTheirFrame() {
        val cases = vectors["align"].items
        for (case in cases) {
            val frame = case["frame"].let { Frame(point(it["left"]), point(it["right"]), it["least_eyes"].double, it["least_light"].double) }
            val size = case["size"].int
            val found = align(picture(case, "rgb", case["width"].int, case["height"].int), point(case["left"]), point(case["right"]), size, frame)
            assertArrayEquals(picture(case, "aligned", size, size).pixels, found.pixels, "${case["width"].int} x ${case["height"].int} to $size")
            assertEquals(case["light"].double, light(found))
        }
        assertEquals(8, cases.size)
    }

    @Test
    fun whatIsTooLittleToJudgeIsTold() {
        val cases = vectors["problems"].items
        for (case in cases) {
            val shown = Picture(4, 4, ByteArray(48) { case["colour"].int.toByte() })
            val told = faceProblem(case["faces"].int, Point(10.0, 10.0), Point(10.0 + case["apart"].double, 10.0), shown)
            assertEquals(case["problem"].let { if (it == Json.Null) null else it.string }, told)
        }
        assertEquals(9, cases.size)
    }

    @Test
    fun eyesThatAreNone() {
        val shown = Picture(2, 2, ByteArray(12))
        assertThrows(DataError::class.java) { align(shown, Point(1.0, 1.0), Point(1.0, 1.0), 4) }
        assertThrows(DataError::class.java) { align(shown, Point(1.0, 1.0), Point(Double.NaN, 1.0), 4) }
        assertThrows(InputError::class.java) { Frame(left = Point(-0.1, 0.3)) }
        assertThrows(InputError::class.java) { Frame(left = Point(0.6831, 0.3037)) }
    }
}
