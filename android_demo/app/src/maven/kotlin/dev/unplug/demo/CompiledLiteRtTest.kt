package dev.unplug.demo

import ai.unplug.core.DataError
import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.IntTensor
import ai.unplug.core.LiteRtEngine
import dev.unplug.demo.engine.CompiledLiteRt
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Test
import java.io.File

/** Against stand-ins: what is handed over, and what comes back. Of LiteRT itself nothing is shown. */
class CompiledLiteRtTest {
    private val names = EngineNames(listOf("image", "ids"), listOf("age"))

    private fun opened(
        file: String,
        gpu: Boolean = false,
        names: EngineNames = this.names,
    ) = LiteRtEngine(file, if (gpu) "GPU" else "CPU") { CompiledLiteRt(File(file), names, 2, gpu) }

    @Test
    fun `inputs go by their names and outputs have the file's shape`() {
        val inputs = mapOf("image" to FloatTensor(listOf(2), floatArrayOf(1f, 2f)), "ids" to IntTensor(listOf(1), intArrayOf(4)))
        for ((gpu, accelerators) in listOf(false to 1f, true to 2f)) {
            opened("age.tflite", gpu).use { engine ->
                assertEquals(names, engine.names)
                val age = engine.run(inputs).getValue("age")
                assertEquals(listOf(1, 2), age.shape)
                assertArrayEquals(floatArrayOf(7f, accelerators), age.values, 0f)
            }
        }
    }

    @Test
    fun `what it throws is one line`() {
        val line = "broken.tflite: LiteRT does not run it on the GPU (Failed to load broken.tflite). Try another delegate."
        assertEquals(line, assertThrows(DataError::class.java) { opened("broken.tflite", gpu = true) }.message)
        val missing = assertThrows(DataError::class.java) { opened("age.tflite").run(emptyMap()) }
        assertEquals("age.tflite: LiteRT does not run it on the CPU (ErrorMissingInputTensor). Try another delegate.", missing.message)
        val shapeless = EngineNames(listOf("image"), listOf("shapeless"))
        assertThrows(DataError::class.java) { opened("age.tflite", names = shapeless) }
    }
}
