package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.base64
import ai.unplug.core.double
import ai.unplug.core.doubles
import ai.unplug.core.floats
import ai.unplug.core.get
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.near
import ai.unplug.core.picture.Picture
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

class MarkTest {
    private val known = Vectors.json("mark.json")

    private fun picture(
        width: Int,
        height: Int,
        divided: Int = 1,
    ) = Picture(
        width,
        height,
        ByteArray(3 * width * height) {
            val (c, x, y) = Triple(it % 3, it / 3 % width, it / 3 / width)
            ((x * x * (c + 3) + 5 * x * y + 7 * y * y * (c + 1)) / divided).toByte()
        },
    )

    @Test
    fun `pictures before the reader are Python's`() {
        assertEquals(known["shares"].doubles.toList(), Mark.READINGS)
        val (every, side) = known["every"].int to known["side"].int
        val area = side * side
        for (case in known["readings"].items) {
            val found = Mark.readings(picture(case["width"].int, case["height"].int, case["divided"].int))
            for ((seen, bytes) in found.zip(case["bytes"].items)) {
                val own = (0 until 3 * area step every).map { seen.at(it % area % side, it % area / side, it / area).toDouble() }
                val wanted = bytes.base64.map { (it.toInt() and 255).toDouble() }
                near("${case["width"].int} pixels", wanted.toDoubleArray(), own.toDoubleArray(), 0.0, 255 * known["tolerance"].double)
            }
        }
        val (width, height) = known["refused"].doubles.map { it.toInt() }
        assertThrows(DataError::class.java) { Mark.readings(picture(width, height)) }
    }

    @Test
    fun `keys, chances and verdicts are Python's`() {
        assertEquals(known["threshold"].double, Mark.CHANCE)
        assertEquals(known["public_key"].string, Mark.PUBLIC_KEY)
        for ((key, bits) in (known["keys"] as Json.Obj).fields) assertEquals(bits.items.map { it.int == 1 }, Mark.keyBits(key))
        for (key in known["bad_keys"].items) assertThrows(InputError::class.java) { Mark.keyBits(key.string) }
        for ((at, chances) in known["chances"].items.withIndex()) assertEquals(chances.doubles.toList(), List(49) { Mark.chance(it, at + 1) })
        for (case in known["verdicts"].items) {
            val agree = Mark.agree(case["logits"].items.map { it.floats }, case["key"].string)
            assertEquals(case["agree"].int to case["chance"].double, agree to Mark.chance(agree))
            assertEquals(case["marked"], Json.Bool(Mark.isMarked(agree)))
        }
    }
}
