package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.double
import ai.unplug.core.doubles
import ai.unplug.core.get
import ai.unplug.core.has
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.jsonOf
import ai.unplug.core.near
import ai.unplug.core.sha256
import ai.unplug.core.string
import ai.unplug.core.text
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource
import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder

class HeadTest {
    private val start = Vectors.file("head/start.safetensors").readBytes()

    private fun worked(
        run: Json,
        head: DeviceHead,
    ): DeviceHead =
        run["steps"].items.fold(head) { now, step ->
            val (name, features, truth) = Triple(step["name"].string, step["features"].doubles, step["truth"].double)
            assertEquals(step["commitment"].string, now.commitment(name, features, truth))
            if (step["do"].string == "add") now.add(name, features, truth) else now.remove(name, features, truth)
        }

    @ParameterizedTest
    @ValueSource(strings = ["head", "head/classes"])
    fun `seven steps leave, byte for byte, the head that Python has`(kind: String) {
        val wanted = Safetensors.of(Vectors.file("$kind/end.safetensors").readBytes(), "end").tensors
        val found = worked(Vectors.json("$kind/steps.json"), DeviceHead.of(Vectors.file("$kind/start.safetensors").readBytes()))
        assertEquals(wanted.keys, found.tensors().keys)
        for ((name, tensor) in wanted) assertArrayEquals(tensor.bytes, found.tensors().getValue(name).bytes, name)
        assertEquals(found.facts, DeviceHead.of(found.bytes()).facts)
    }

    @ParameterizedTest
    @ValueSource(strings = ["head", "head/classes"])
    fun `weights and answers`(kind: String) {
        val run = Vectors.json("$kind/steps.json")
        val tolerance = run["tolerance"].double
        val head = DeviceHead.of(Vectors.file("$kind/end.safetensors").readBytes())

        fun close(
            what: String,
            wanted: DoubleArray,
            found: DoubleArray,
        ) = near(what, wanted, found, 0.0, tolerance * wanted.maxOf { Math.abs(it) })
        val (weights, bias) = head.weights
        close("weights", run["weights"].items.flatMap { it.doubles.toList() }.toDoubleArray(), weights.flatMap { it.toList() }.toDoubleArray())
        close("bias", run["bias"].doubles, bias)
        val said = run["asked"].items.map { head.answer(it.doubles) }
        val logits = run[if (run.has("logits")) "logits" else "age_logits"].items
        close("logits", logits.flatMap { it.doubles.toList() }.toDoubleArray(), said.flatMap { it.logits.toList() }.toDoubleArray())
        if (run.has("expected_age")) close("ages", run["expected_age"].items.map { it.doubles[0] }.toDoubleArray(), said.mapNotNull { it.said.years }.toDoubleArray())
    }

    @Test
    fun `what a head may not say of itself`() {
        for ((kind, changes) in (Vectors.json("head/limits.json")["refused"] as Json.Obj).fields) {
            val file = Safetensors.of(Vectors.file("head/$kind/start.safetensors").readBytes(), "start")
            val said = Json.parse(file.metadata.getValue("unplug")) as Json.Obj
            for (change in changes.items) {
                val kept = (said.fields + (change as Json.Obj).fields).filterValues { it != Json.Null }
                val edited = Safetensors(mapOf("unplug" to Json.Obj(kept).text()), file.tensors).bytes()
                assertThrows(DataError::class.java, { DeviceHead.of(edited) }, change.text())
            }
        }
    }

    @Test
    fun `as many groups as a head may have`() {
        val most = Vectors.json("head/limits.json")["groups"].int
        assertEquals(most - 1, DeviceHead.of(wide(most)).answer(doubleArrayOf(1.0)).run { logits.indices.maxByOrNull { logits[it] } })
        assertThrows(DataError::class.java) { DeviceHead.of(wide(most + 1)) }
    }

    /** A head of one feature and so many classes, with a picture of the last in it. */
    private fun wide(groups: Int): ByteArray {
        val z = longArrayOf(2L shl 14, 1L shl 19) + LongArray(groups) { if (it == groups - 1) 1L shl 19 else 0L }
        val sums = z.indices.flatMap { j -> (j until z.size).map { z[j] * z[it] } }

        fun raw(
            dtype: String,
            shape: List<Int>,
            size: Int,
            fill: ByteBuffer.() -> Unit = {},
        ) = RawTensor(dtype, shape, ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN).apply(fill).array())
        val tensors =
            linkedMapOf(
                "lift" to raw("F32", listOf(1, 1), 4) { putFloat(1f) },
                "offset" to raw("F32", listOf(1), 4) { putFloat(1f) },
                "centers" to raw("F64", listOf(groups), 8 * groups),
                "sums" to raw("I64", listOf(sums.size), 8 * sums.size) { sums.forEach(::putLong) },
                "committed" to raw("U8", listOf(1, 32), 32),
            )
        val bytes = ByteArrayOutputStream()
        for ((name, tensor) in tensors) bytes.write(name.toByteArray() + 0 + tensor.bytes)
        val names = List(groups) { "class $it" }
        val facts = jsonOf("trunk_sha256" to "0", "grid" to 1, "ridge" to 1, "scale" to 1, "classes" to names, "digest" to sha256(bytes.toByteArray()), "schema" to "unplug-head/1")
        return Safetensors(mapOf("unplug" to facts.text()), tensors).bytes()
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
        assertThrows(InputError::class.java) { head.add("me-1", DoubleArray(6) { 1e30 }, 31.0) }
        assertThrows(InputError::class.java) { head.add("me-1", features, 128.0) }
        val labels = DeviceHead.of(Vectors.file("head/classes/start.safetensors").readBytes())
        for (number in listOf(-1.0, 4.0, 0.5, Double.NaN)) assertThrows(InputError::class.java) { labels.add("me-1", features, number) }
        assertThrows(InputError::class.java) { labels.add("me-1", features, 1.0).remove("me-1", features, 2.0) }
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
