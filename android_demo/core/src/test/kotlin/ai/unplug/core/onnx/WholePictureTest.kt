package ai.unplug.core.onnx

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.base64
import ai.unplug.core.decibels
import ai.unplug.core.double
import ai.unplug.core.draw.Drawn
import ai.unplug.core.draw.Generator
import ai.unplug.core.draw.GeneratorFolder
import ai.unplug.core.draw.Order
import ai.unplug.core.draw.Pipeline
import ai.unplug.core.draw.Solver
import ai.unplug.core.draw.Steer
import ai.unplug.core.get
import ai.unplug.core.has
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.packedFloats
import ai.unplug.core.picture.Picture
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.condition.EnabledIfSystemProperty
import org.junit.jupiter.api.io.TempDir
import java.io.File
import java.nio.file.Files
import java.nio.file.Path

/** Whole pictures by ONNX Runtime's JVM build from exported files, compared with those that Python drew with the same files. */
class WholePictureTest {
    private fun generator(folder: File) = GeneratorFolder(folder).let { files -> Generator(files.pipeline, files::variant) { OnnxEngine(files.file(it, "onnx", "fp32")) } }

    private fun order(
        case: Json,
        condition: Picture,
    ) = Order(
        prompt = case["prompt"].string,
        negative = if (case.has("negative")) case["negative"].string else "",
        seed = case["seed"].string.toULong(),
        steps = if (case.has("steps")) case["steps"].int else null,
        guidance = if (case.has("guidance")) case["guidance"].double else null,
        solver = if (case.has("solver")) Solver.of(case["solver"].string) else null,
        steers =
            if (case.has("strength")) {
                listOf(Steer(if (case.has("plugin")) case["plugin"].string else "canny", condition, case["strength"].double))
            } else {
                emptyList()
            },
        variant = if (case.has("variant")) case["variant"].string else null,
    )

    private fun compared(
        name: String,
        folder: File,
        vectors: Json,
    ) {
        generator(folder).use { generator ->
            val side = generator.pipeline.imageSize
            val condition = Picture(side, side, vectors["condition"].base64)
            for (case in vectors["orders"].items) {
                var steps = 0
                val begun = System.nanoTime()
                val drawn: Drawn = generator.draw(order(case, condition)) { steps = it.done }
                val seconds = (System.nanoTime() - begun) / 1e9
                val (picture, latent) = listOf("decoded" to drawn.decoded, "latent" to drawn.latent).map { decibels(case[it.first].packedFloats, it.second.values) }
                println("%s, '%.30s', %d steps, %.2f s: picture %s, latent %s to Python's".format(name, case["prompt"].string, steps, seconds, told(picture), told(latent)))
                assertTrue(minOf(picture, latent) >= vectors["min_db"].double) { case["prompt"].string }
                assertEquals(case["tokens"].int, drawn.prompt.tokens)
            }
        }
    }

    private fun told(decibels: Double) = if (decibels.isInfinite()) "equal" else "%.1f dB".format(decibels)

    @Test
    fun `a tiny generator draws Python's pictures`() {
        compared("tiny", Vectors.file("app/generator"), Vectors.json("app/generator/pictures.json"))
    }

    @Test
    fun `a generator with variants draws Python's pictures, the bare base first`() {
        compared("variants", Vectors.file("app/variants"), Vectors.json("app/variants/pictures.json"))
        generator(Vectors.file("app/variants")).use { generator ->
            assertThrows(InputError::class.java) { generator.draw(Order("a", variant = "other")) }
            val named = assertThrows(InputError::class.java) { generator.draw(Order("a", variant = "eye-patch")) }
            assertTrue("by saying 'eye patch'" in named.message!!)
            val many = assertThrows(InputError::class.java) { generator.draw(Order("a clown nose, an eye patch", variant = "style")) }
            assertTrue("style and clown-nose and eye-patch: they have 4 ranks together" in many.message!!, many.message)
            assertEquals(listOf("clown nose", "eye patch"), generator.draw(Order("eye patches and clown noses")).packs)
            assertEquals(emptyList<String>(), generator.draw(Order("a child", negative = "an eye patch")).packs)
        }
        generator(Vectors.file("app/generator")).use { generator ->
            assertThrows(InputError::class.java) { generator.draw(Order("a", variant = "style")) }
        }
    }

    @Test
    fun `words of packs that do not hold`() {
        val text = Vectors.file("app/variants/pipeline.json").readText()
        assertEquals(mapOf("clown-nose" to "clown nose", "eye-patch" to "eye patch"), Pipeline.of(text.toByteArray()).packs)
        for (word in listOf("\"Clown Noses\"", "\"eye  patch\"", "\"?\"", "7")) {
            val changed = text.replace("\"eye patch\"", word).also { check(it != text) }
            assertThrows(DataError::class.java, { Pipeline.of(changed.toByteArray()) }, word)
        }
    }

    @Test
    fun `a generator without guidance draws Python's pictures, and takes no other`() {
        val source = Vectors.file("app/unguided")
        compared("unguided", source, Vectors.json("app/unguided/pictures.json"))
        generator(source).use { generator ->
            assertFalse(generator.pipeline.guided)
            assertThrows(InputError::class.java) { generator.draw(Order("a", guidance = 2.0)) }
            assertThrows(InputError::class.java) { generator.draw(Order("a", negative = "b")) }
        }
        val text = source.resolve("pipeline.json").readText()
        val harmed =
            listOf(
                "\"guidance\": 1.0" to "\"guidance\": 3.0",
                "\"name\": \"timestep\"" to "\"name\": \"time\"",
                "\"name\": \"encoder_hidden_states\"" to "\"name\": \"negative_hidden_states\"",
            )
        for ((from, to) in harmed) {
            val other = text.replace(from, to)
            assertNotEquals(text, other)
            assertThrows(DataError::class.java, { Pipeline.of(other.toByteArray()) }, to)
        }
    }

    @Test
    fun `variants that do not hold are refused`() {
        val source = Vectors.file("app/variants")
        source.copyRecursively(folder.toFile(), overwrite = true)
        val files = GeneratorFolder(folder.toFile())
        assertEquals(listOf(4, 4, 4, 8), files.pipeline.variants.keys.map { files.variant(it).size })
        assertEquals(2, files.pipeline.defaultsOf("few-steps").steps)
        assertEquals(files.pipeline.defaults, files.pipeline.defaultsOf("style"))
        assertThrows(InputError::class.java) { files.variant("other") }
        val file = folder.resolve("variants/few-steps.lora").toFile()
        val bytes = file.readBytes()
        for (body in listOf(bytes.copyOf(12), bytes + bytes, ByteArray(16))) {
            file.writeBytes(body)
            assertThrows(DataError::class.java) { files.variant("few-steps") }
        }
        file.delete()
        assertThrows(DataError::class.java) { files.variant("few-steps") }
        Files.createSymbolicLink(file.toPath(), File(source, "variants/few-steps.lora").toPath())
        assertThrows(DataError::class.java) { files.variant("few-steps") }
        val text = Vectors.file("app/variants/pipeline.json").readText()
        val digest = checkNotNull(Regex("\"sha256\": \"[0-9a-f]{64}\"").find(text, text.indexOf("few-steps.lora"))).value
        val harmed =
            listOf(
                "\"rank\": 3" to "\"rank\": 4",
                "\"rank\": 3" to "\"rank\": 2000000000",
                "\"fan_in\": 2" to "\"fan_in\": 0",
                "\"fan_in\": 2" to "\"fan_in\": 3",
                "\"name\": \"lora\"" to "\"name\": \"other\"",
                "\"lora\": {" to "\"lores\": {",
                "\"few-steps\": {" to "\"../x\": {",
                "variants/few-steps.lora" to "../few-steps.lora",
                "\"bytes\": 16" to "\"bytes\": 20",
                "\"bytes\": 16" to "\"bytes\": 64",
                "\"bytes\": 16" to "\"bytes\": 0",
                "\"guidance\": 1.0" to "\"guidance\": 0.5",
                "\"solver\": \"dpm++\"" to "\"solver\": \"euler\"",
                digest to "\"sha256\": \"x\"",
            )
        for ((from, to) in harmed) {
            val changed = text.replace(from, to).also { check(it != text) { from } }
            assertThrows(DataError::class.java, { Pipeline.of(changed.toByteArray()) }, "$from to $to")
        }
    }

    @Test
    fun `a little of anything else is another picture`() {
        val vectors = Vectors.json("app/generator/pictures.json")
        generator(Vectors.file("app/generator")).use { generator ->
            val condition = Picture(16, 16, vectors["condition"].base64)
            val case = vectors["orders"].items.last()
            val right = order(case, condition)
            val steer = right.steers.single()
            val others =
                listOf(
                    right.copy(seed = right.seed + 1u),
                    right.copy(prompt = right.prompt + "."),
                    right.copy(guidance = 3.01),
                    right.copy(solver = Solver.of("ddim")),
                    right.copy(steers = listOf(Steer(steer.plugin, condition, steer.strength + 0.01))),
                    right.copy(steers = emptyList()),
                )
            for (other in others) {
                val found = decibels(case["decoded"].packedFloats, generator.draw(other).decoded.values)
                assertTrue(found < vectors["min_db"].double) { "$found dB: $other" }
            }
        }
    }

    /** `-Dunplug.generator=FOLDER`, with a pictures.json that `python -m tests.vectors.app.generator FOLDER` wrote next to it. */
    @Test
    @EnabledIfSystemProperty(named = "unplug.generator", matches = ".+")
    fun `a folder that is given draws Python's pictures`() {
        val folder = File(System.getProperty("unplug.generator"))
        compared("given", folder, Json.parse(File(System.getProperty("unplug.generator.pictures")).readBytes()))
    }

    @Test
    fun `drawing stops where the watch throws, and bad orders are refused before anything runs`() {
        generator(Vectors.file("app/generator")).use { generator ->
            assertThrows(InterruptedException::class.java) { generator.draw(Order("a child")) { if (it.done == 2) throw InterruptedException() } }
            val plain = Picture(16, 16, ByteArray(768) { 7 })
            val lines = Picture(16, 16, ByteArray(768) { (it % 5).toByte() })
            val bad =
                listOf(
                    Order("a", steps = 0),
                    Order("a", steps = 1001),
                    Order("a", guidance = 0.5),
                    Order("a", guidance = Double.NaN),
                    Order("a", negative = "b", guidance = 1.0),
                    Order("a", steers = listOf(Steer("canny", plain))),
                    Order("a", steers = listOf(Steer("depth", lines))),
                    Order("a", steers = listOf(Steer("canny", lines, 11.0))),
                    Order("a", steers = listOf(Steer("canny", Picture(1, 1, ByteArray(3))))),
                    Order("a".repeat(70_000)),
                )
            for (order in bad) assertThrows(InputError::class.java, { generator.draw(order) }, order.toString().take(80))
        }
    }

    @TempDir
    lateinit var folder: Path

    @Test
    fun `files that were edited, left out or linked are refused`() {
        val source = Vectors.file("app/generator")
        source.copyRecursively(folder.toFile(), overwrite = true)
        val files = GeneratorFolder(folder.toFile())
        assertEquals(listOf("onnx" to "fp32"), files.kinds())
        assertThrows(InputError::class.java) { files.file("unet", "litert", "fp32") }
        val unet = files.file("unet", "onnx", "fp32")
        val bytes = unet.readBytes()
        unet.writeBytes(bytes.copyOf().also { it[50] = (it[50] + 1).toByte() })
        assertThrows(DataError::class.java) { files.file("unet", "onnx", "fp32") }
        unet.delete()
        assertThrows(DataError::class.java) { files.file("unet", "onnx", "fp32") }
        Files.createSymbolicLink(unet.toPath(), File(source, "unet/guided_unet.fp32.onnx").toPath())
        assertThrows(DataError::class.java) { files.file("unet", "onnx", "fp32") }
    }

    @Test
    fun `a pipeline whose parts do not fit, or that is not strict, is refused`() {
        val text = Vectors.file("app/generator/pipeline.json").readText()
        Pipeline.of(text.toByteArray())
        val harmed =
            listOf(
                "" to "",
                "unplug-pipeline/1" to "unplug-pipeline/2",
                "philox4x32-10/box-muller" to "mersenne",
                "decoder/decoder.fp32.onnx" to "../decoder.fp32.onnx",
                "decoder/decoder.fp32.onnx" to "/decoder.fp32.onnx",
                "\"noise_pred_negative\"" to "\"noise_pred\"",
                "\"residuals\": [" to "\"residuals\": [\"more\", ",
                "\"solver\": \"ddim\"" to "\"solver\": \"euler\"",
                "\"image_size\": 16" to "\"image_size\": 32",
                "\"name\": \"tiny\"" to "\"name\": \"tiny\", \"name\": \"tiny\"",
                "\"name\": \"tiny\"" to "\"name\": \"tiny\", \"more\": 1",
                "\"dtype\": \"int32\"" to "\"dtype\": \"int64\"",
                "\"guidance\": 3.0" to "\"guidance\": 300.0",
            )
        for ((from, to) in harmed) {
            val changed = if (from.isEmpty()) text.dropLast(3) else text.replace(from, to).also { check(it != text) { from } }
            assertThrows(DataError::class.java, { Pipeline.of(changed.toByteArray()) }, "$from to $to")
        }
    }
}
