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

    private fun frame(place: Json) = Frame(point(place["left"]), point(place["right"]), place["least_eyes"].double, place["least_light"].double)

    @Test
    fun facesArePutInTheirFrame() {
        val cases = vectors["align"].items
        for (case in cases) {
            val frame = frame(case["frame"])
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

    @Test
    fun framesOfManifests() {
        val cases = vectors["manifests"].items
        for (case in cases) {
            val (what, said) = case["what"].string to case["preprocessing"] as Json.Obj
            if (case["refused"] == Json.Bool(true)) {
                assertThrows(DataError::class.java, { Frame.of(said) }, what)
            } else {
                val wanted = case["frame"].takeIf { it != Json.Null }?.let(::frame)
                assertEquals(wanted, Frame.of(said), what)
            }
        }
        assertEquals(18, cases.size)
    }

    @Test
    fun theOneFaceOfAPhotograph() {
        val case = vectors["align"].items[0]
        val shown = picture(case, "rgb", case["width"].int, case["height"].int)
        val eyes = Eyes(point(case["left"]), point(case["right"]))
        val size = case["size"].int
        assertArrayEquals(picture(case, "aligned", size, size).pixels, onlyFace(shown, listOf(eyes), size, Frame()).pixels)
        val told = { faces: List<Eyes>, frame: Frame -> assertThrows(DataError::class.java) { onlyFace(shown, faces, size, frame) }.why }
        assertEquals("no face found", told(emptyList(), Frame()))
        assertEquals("2 faces found", told(listOf(eyes, eyes), Frame()))
        assertEquals("the face is too small: 16 pixels between the eyes, and 20 are needed", told(listOf(eyes), Frame(leastEyes = 20.0)))
        assertEquals("the face is too dark", told(listOf(eyes), Frame(leastLight = 255.0)))
    }

    @Test
    fun cornersOfWhatAModelSees() {
        val frame = Frame(Point(0.25, 0.5), Point(0.75, 0.5))
        val upright = frame.corners(Eyes(Point(30.0, 40.0), Point(50.0, 40.0)))
        assertEquals(listOf(Point(20.0, 20.0), Point(60.0, 20.0), Point(60.0, 60.0), Point(20.0, 60.0)), upright)
        val turned = frame.corners(Eyes(Point(40.0, 30.0), Point(40.0, 50.0)))
        assertEquals(listOf(Point(60.0, 20.0), Point(60.0, 60.0), Point(20.0, 60.0), Point(20.0, 20.0)), turned)
    }
}
