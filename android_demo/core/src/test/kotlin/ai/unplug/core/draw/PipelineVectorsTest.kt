package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.FloatTensor
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.TensorSpec
import ai.unplug.core.Vectors
import ai.unplug.core.doubles
import ai.unplug.core.floats
import ai.unplug.core.get
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.near
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.toPicture
import ai.unplug.core.picture.toTensor
import ai.unplug.core.string
import ai.unplug.core.wide
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class PipelineVectorsTest {
    @Test
    fun `token ids of the golden prompts`() {
        assertEquals(15, PipelineVectors.tokens(PipelineVectors.tokenizer()))
    }

    @Test
    fun `learned words are cut out as transformers does`() {
        assertEquals(15, PipelineVectors.learned())
        val alike = Vectors.json("pipeline/tokens.json")["learned"]["added"].items.take(1)
        for (added in listOf(alike + alike, listOf(Json.Obj(mapOf("id" to Json.Num(0.0)))))) {
            assertThrows(DataError::class.java) { PipelineVectors.tokenizer { Json.Obj(it.fields + ("added" to Json.Arr(added))) } }
        }
    }

    @Test
    fun `words that are spelled are told, and endless prompts refused`() {
        val tokenizer = PipelineVectors.tokenizer()
        assertEquals(listOf("xylophone"), tokenizer.encode("a xylophone").spelled)
        assertTrue(tokenizer.encode("child ".repeat(60)).cut)
        assertThrows(InputError::class.java) { tokenizer.encode("a".repeat(65_537)) }
        tokenizer.encode("\ud800 half a character")
    }

    @Test
    fun `prompts ask for packs by their words`() {
        val known = Vectors.json("pipeline/packs.json")
        val prompts = known["prompts"].items.map { PackWords.of(it.string) }
        for ((word, wanted) in (known["words"] as Json.Obj).fields) {
            assertTrue(PackWords.hold(word), word)
            assertEquals(wanted.items.map { it.int }, prompts.indices.filter { PackWords.standIn(PackWords.of(word), prompts[it]) }, word)
        }
        for (none in known["none"].items) assertFalse(PackWords.hold(none.string), none.string)
        assertTrue(PackWords.hold("\ud835\udd52".repeat(64)))
    }

    @Test
    fun `the noise stream`() {
        assertEquals(3, PipelineVectors.philox())
        assertEquals(5, PipelineVectors.noise(Noise::words))
        assertEquals(Noise.normals(7u, 0u, 5).toList(), Noise.normals(7u, 0u, 4096).take(5))
    }

    @Test
    fun `timesteps, coefficients and latents`() {
        assertEquals(20, PipelineVectors.tables())
        assertEquals(4, PipelineVectors.sampling())
        assertThrows(InputError::class.java) { samplingTable(PipelineVectors.schedules().getValue("epsilon"), 1000, Solver.DPM) }
    }

    @Test
    fun `edges are OpenCV's`() {
        assertEquals(5, PipelineVectors.edges())
    }

    @Test
    fun `pixels at both ends`() {
        val known = Vectors.json("pipeline/pixels.json")
        val decoded = known["decoded"].floats
        val picture = toPicture(FloatTensor(listOf(1, 3, 1, decoded.size), decoded + decoded + decoded))
        for (channel in 0..2) assertEquals(known["bytes"].doubles.toList(), decoded.indices.map { picture.at(it, 0, channel).toDouble() })
        val given = known["condition"].doubles
        val pixels = Picture(given.size, 1, ByteArray(3 * given.size) { given[it / 3].toInt().toByte() })
        for ((name, range) in mapOf("range_0_1" to 0.0..1.0, "range_-1_1" to -1.0..1.0)) {
            val spec = TensorSpec("condition", listOf(1, 3, 1, given.size), "NCHW", range = range)
            val wanted = known[name].doubles
            near(name, wanted + wanted + wanted, toTensor(pixels, spec).values.wide(), 0.0, 1e-7)
        }
    }
}
