package ai.unplug.core

import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.MethodSource

/** The engine over any LiteRT API: a model of the test's own stands for both. */
class LiteRtTest {
    private class Doubling(
        private val shape: List<Int> = listOf(1, 2),
        private val fault: Throwable? = null,
    ) : LiteRtModel {
        var closed = false
        override val inputs = listOf("image")
        override val outputs = mapOf("age" to shape)

        override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> {
            fault?.let { throw it }
            return mapOf("age" to (inputs.getValue("image") as FloatTensor).values.map { 2 * it }.toFloatArray())
        }

        override fun close() {
            closed = true
        }
    }

    private val image = mapOf<String, Tensor>("image" to FloatTensor(listOf(2), floatArrayOf(1f, 3f)))

    @Test
    fun `names and shapes are the model's`() {
        val model = Doubling()
        LiteRtEngine("a.tflite", "CPU") { model }.use { engine ->
            assertEquals(EngineNames(listOf("image"), listOf("age")), engine.names)
            val age = engine.run(image).getValue("age")
            assertEquals(listOf(1, 2), age.shape)
            assertArrayEquals(floatArrayOf(2f, 6f), age.values)
        }
        assertTrue(model.closed)
    }

    @ParameterizedTest
    @MethodSource("faults")
    fun `whatever LiteRT throws is one line`(
        fault: Throwable,
        why: String,
    ) {
        val line = "a.tflite: LiteRT does not run it on the GPU ($why). Try another delegate."
        val opening = assertThrows(DataError::class.java) { LiteRtEngine("a.tflite", "GPU") { throw fault } }
        val running = assertThrows(DataError::class.java) { LiteRtEngine("a.tflite", "GPU") { Doubling(fault = fault) }.run(image) }
        assertEquals(listOf(line, line), listOf(opening.message, running.message))
    }

    @Test
    fun `numbers that do not fill the shape are no answer`() {
        val engine = LiteRtEngine("a.tflite", "CPU") { Doubling(listOf(1, 3)) }
        assertTrue(assertThrows(DataError::class.java) { engine.run(image) }.message.orEmpty().contains("2 values do not fill [1, 3]"))
    }

    companion object {
        @JvmStatic
        fun faults() =
            listOf(
                arrayOf(LiteRtFault("ErrorCompilation"), "ErrorCompilation"),
                arrayOf(IllegalArgumentException("no flatbuffer"), "no flatbuffer"),
                arrayOf(IllegalStateException("closed"), "closed"),
                arrayOf(UnsatisfiedLinkError("no tensorflowlite_jni"), "its library does not load here"),
            )
    }
}
