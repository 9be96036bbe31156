package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Vectors
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class OwnHeadTest {
    private val start = DeviceHead.of(Vectors.file("head/start.safetensors").readBytes())
    private val pictures = (1..3).map { number -> DoubleArray(6) { 0.1 * it * number } }

    private fun filled() = pictures.foldIndexed(OwnHead(start)) { at, now, pooled -> now.add(pooled, 20.0 + at) }

    @Test
    fun `the owner's pictures change the answer towards the owner's age, and leave no trace`() {
        val full = filled()
        val (before, now) = full.change(pictures[2])
        assertEquals(start.answer(pictures[2]).said, before)
        val (was, becomes) = listOf(before, now).map { checkNotNull(it.years) }
        assertTrue(Math.abs(becomes - 22.0) < Math.abs(was - 22.0), "$before, then $now")
        val empty = full.removeAll()
        assertTrue(empty.proof().isEqual)
        assertEquals(start.digest, empty.head.digest)
        assertArrayEquals(start.bytes(), empty.head.bytes())
        assertEquals(Change(before, before), empty.change(pictures[2]))
    }

    @Test
    fun `one of several leaves what never held it, in whatever order the others came`() {
        val full = filled()
        assertNotEquals(start.digest, full.head.digest)
        assertTrue(full.proof().isEqual)
        val left = full.remove(2)
        assertEquals(listOf(1, 3), left.pictures.map { it.number })
        assertTrue(left.proof().isEqual)
        val never = OwnHead(start).add(pictures[0], 20.0).add(pictures[2], 22.0)
        assertFalse(never.head.digest == left.head.digest, "the name of a picture is in its commitment")
        assertEquals(4, left.add(pictures[1], 21.0).pictures.last().number)
    }

    @Test
    fun `what a phone keeps gives the same head again, over the same trunk alone`() {
        val full = filled().remove(1)
        val again = OwnHead.of(start, full.text())
        assertEquals(full.head.digest, again.head.digest)
        assertEquals(listOf(2, 3), again.pictures.map { it.number })
        assertTrue(again.removeAll().proof().isEqual)
        assertEquals(0, OwnHead.of(start, full.text().replace(start.facts.trunkSha256, "1".repeat(64))).pictures.size)
        for (edited in listOf("{", "[]", full.text().replace("unplug-own/1", "unplug-own/2"))) assertThrows(DataError::class.java) { OwnHead.of(start, edited) }
    }

    @Test
    fun `labels are kept by name, and no age is taken for one`() {
        val labels = DeviceHead.of(Vectors.file("head/classes/start.safetensors").readBytes())
        val full = pictures.foldIndexed(OwnHead(labels)) { at, now, pooled -> now.add(pooled, at.toDouble()) }
        assertTrue(full.proof().isEqual)
        val again = OwnHead.of(labels, full.text())
        assertEquals(full.head.digest, again.head.digest)
        assertTrue(again.remove(2).proof().isEqual)
        assertEquals(labels.digest, again.removeAll().head.digest)
        val renamed = full.text().replace("\"dog\"", "\"wolf\"").replace("\"cat\"", "\"golden eagle\"")
        assertEquals(listOf(1 to 2.0, 3 to 2.0), OwnHead.of(labels, renamed).pictures.map { it.number to it.truth })
        assertEquals(0, OwnHead.of(start, full.text()).pictures.size)
        assertEquals(0, OwnHead.of(labels, filled().text()).pictures.size)
        val both = full.text().replace("\"label\"", "\"age\":3,\"label\"")
        assertThrows(DataError::class.java) { OwnHead.of(labels, both) }
    }

    @Test
    fun `a picture twice, an age that is none and features of another trunk are refused`() {
        val full = filled()
        val error = assertThrows(InputError::class.java) { full.add(pictures[1].copyOf(), 30.0) }
        assertTrue("as picture 2" in error.message.orEmpty(), error.message)
        for (age in listOf(-1.0, 128.0, Double.NaN)) assertThrows(InputError::class.java) { OwnHead(start).add(pictures[0], age) }
        assertThrows(InputError::class.java) { OwnHead(start).add(DoubleArray(5), 30.0) }
    }
}
