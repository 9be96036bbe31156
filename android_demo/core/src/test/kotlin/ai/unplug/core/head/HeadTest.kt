package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Vectors
import ai.unplug.core.double
import ai.unplug.core.doubles
import ai.unplug.core.get
import ai.unplug.core.items
import ai.unplug.core.near
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

class HeadTest {
    private val run = Vectors.json("head/steps.json")
    private val start = Vectors.file("head/start.safetensors").readBytes()

    private fun worked(head: DeviceHead): DeviceHead =
        run["steps"].items.fold(head) { now, step ->
            val (name, features, age) = Triple(step["name"].string, step["features"].doubles, step["truth"].double)
            assertEquals(step["commitment"].string, now.commitment(name, features, age))
            if (step["do"].string == "add") now.add(name, features, age) else now.remove(name, features, age)
        }

    @Test
    fun `seven steps leave, byte for byte, the head that Python has`() {
        val wanted = Safetensors.of(Vectors.file("head/end.safetensors").readBytes(), "end").tensors
        val found = worked(DeviceHead.of(start)).tensors()
        assertEquals(wanted.keys, found.keys)
        for ((name, tensor) in wanted) assertArrayEquals(tensor.bytes, found.getValue(name).bytes, name)
    }

    @Test
    fun `weights and answers`() {
        val tolerance = run["tolerance"].double
        val head = DeviceHead.of(Vectors.file("head/end.safetensors").readBytes())

        fun close(
            what: String,
            wanted: DoubleArray,
            found: DoubleArray,
        ) = near(what, wanted, found, 0.0, tolerance * wanted.maxOf { Math.abs(it) })
        val (weights, bias) = head.weights
        close("weights", run["weights"].items.flatMap { it.doubles.toList() }.toDoubleArray(), weights.flatMap { it.toList() }.toDoubleArray())
        close("bias", run["bias"].doubles, bias)
        val said = run["asked"].items.map { head.answer(it.doubles) }
        close("logits", run["age_logits"].items.flatMap { it.doubles.toList() }.toDoubleArray(), said.flatMap { it.ageLogits.toList() }.toDoubleArray())
        close("ages", run["expected_age"].items.map { it.doubles[0] }.toDoubleArray(), said.map { it.expectedAge }.toDoubleArray())
    }

    @Test
    fun `what was added and removed was never there, and the file is read again`() {
        val head = DeviceHead.of(start)
        val features = DoubleArray(6) { 0.1 * it }
        val back = DeviceHead.of(head.add("me-1", features, 31.0).bytes()).remove("me-1", features, 31.0)
        assertArrayEquals(head.bytes(), back.bytes())
        assertEquals(head.count, back.count)
    }

    @Test
    fun `who is in already, or is not, or is not a picture, is refused`() {
        val head = DeviceHead.of(start)
        val features = DoubleArray(6) { 0.1 * it }
        val more = head.add("me-1", features, 31.0)
        assertThrows(InputError::class.java) { more.add("me-1", features, 31.0) }
        assertThrows(InputError::class.java) { more.remove("me-1", features, 30.0) }
        assertThrows(InputError::class.java) { head.remove("me-1", features, 31.0) }
        assertThrows(InputError::class.java) { head.add("me-1", DoubleArray(5), 31.0) }
        assertThrows(InputError::class.java) { head.add("me-1", DoubleArray(6) { Double.NaN }, 31.0) }
        assertThrows(InputError::class.java) { head.add("me-1", features, 128.0) }
    }

    @Test
    fun `a head with any byte of its numbers turned over is refused`() {
        val numbers = 8 + start[0].toInt().and(0xff) + (start[1].toInt().and(0xff) shl 8)
        for (at in (0 until 8) + (numbers until start.size step 5)) {
            val turned = start.copyOf().also { it[at] = (it[at].toInt() xor 0x41).toByte() }
            assertThrows(DataError::class.java, { DeviceHead.of(turned) }, "byte $at")
        }
        for (size in listOf(0, 7, 8, 100, start.size - 1)) assertThrows(DataError::class.java) { DeviceHead.of(start.copyOf(size)) }
    }
}
