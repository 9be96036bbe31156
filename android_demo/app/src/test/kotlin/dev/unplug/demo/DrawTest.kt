package dev.unplug.demo

import ai.unplug.core.Engine
import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.Json
import ai.unplug.core.Tensor
import ai.unplug.core.draw.Order
import ai.unplug.core.draw.Solver
import ai.unplug.core.draw.Steer
import ai.unplug.core.picture.Picture
import ai.unplug.core.sha256
import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.Canvas
import android.view.MotionEvent
import android.view.View
import android.widget.EditText
import android.widget.SeekBar
import android.widget.Spinner
import dev.unplug.demo.age.bitmap
import dev.unplug.demo.age.whole
import dev.unplug.demo.draw.DrawActivity
import dev.unplug.demo.draw.DrawState
import dev.unplug.demo.draw.SketchView
import dev.unplug.demo.engine.Engines
import dev.unplug.demo.engine.Runs
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.file.Files
import kotlin.math.abs

class DrawTest : OnPhone() {
    private fun state(): DrawState = DrawState(app).also { settle() }

    @Test
    fun `pictures are Python's`() {
        settleIn()
        compared(Vectors.json("app/generator/pictures.json"))
    }

    @Test
    fun `pictures of variants are Python's, and a chosen one brings its own steps`() {
        settleIn(generator = false)
        app.generators.take(generatorZip(Vectors.file("app/variants")))
        compared(Vectors.json("app/variants/pictures.json"))
        val controller = open(DrawActivity::class.java)
        val screen = controller.get()
        val steps = screen.findViewById<SeekBar>(R.id.steps)
        assertEquals(View.VISIBLE, screen.findViewById<View>(R.id.variant_box).visibility)
        assertEquals(3, steps.progress)
        assertEquals("no pack is among them", 3, screen.findViewById<Spinner>(R.id.variant).count)
        assertTrue(screen.words().toString(), "Packs, used when your words name them: clown nose, eye patch" in screen.words())
        screen.findViewById<EditText>(R.id.prompt).setText("an Eye-Patch")
        screen.findViewById<Spinner>(R.id.variant).setSelection(1)
        settle()
        assertEquals(1, steps.progress)
        steps.progress = 2
        val again = reborn(controller).get()
        settle()
        assertEquals("what was set by hand stays", 2, again.findViewById<SeekBar>(R.id.steps).progress)
        screen.shot("draw-variant")
        again.press("Draw")
        settle()
        assertNull(again.alert())
        assertTrue(again.words().toString(), again.words().any { it.startsWith("Seed 0, 3 steps, ") && it.endsWith(", packs: eye patch") })
    }

    /** `-Dunplug.generator=FOLDER -Dunplug.generator.pictures=FILE`, as for core's test of the same name. */
    @Test
    fun `pictures of a generator that is given are Python's`() {
        val folder = System.getProperty("unplug.generator")
        assumeTrue(folder != null)
        settleIn(generator = false)
        app.generators.take(generatorZip(File(folder.orEmpty())))
        val (wanted, found) = compared(Json.parse(File(System.getProperty("unplug.generator.pictures").orEmpty()).readBytes())).last()
        val both = Bitmap.createBitmap(2 * found.width, found.height, Bitmap.Config.ARGB_8888)
        Canvas(both).run {
            drawBitmap(found.bitmap(), 0f, 0f, null)
            drawBitmap(wanted.bitmap(), found.width.toFloat(), 0f, null)
        }
        File(System.getProperty("unplug.screenshots").orEmpty()).apply { mkdirs() }.resolve("beside.png").writeBytes(encoded(both))
        val screen = open(DrawActivity::class.java).get()
        screen.findViewById<EditText>(R.id.prompt).setText("a portrait of a child, smiling, red bob, mint dots background")
        screen.press("Draw")
        settle(300)
        screen.shot("draw-given")
        assertNull(screen.alert())
    }

    /** What Python drew and what the app draws, order by order. */
    private fun compared(vectors: Json): List<Pair<Picture, Picture>> {
        val state = state()
        val side = checkNotNull(state.pipeline).imageSize
        val condition = Picture(side, side, vectors["condition"].bytes)
        return vectors["orders"].items.map { case ->
            state.draw(
                Order(
                    prompt = case["prompt"].string,
                    negative = if (case.has("negative")) case["negative"].string else "",
                    seed = case["seed"].string.toULong(),
                    steps = if (case.has("steps")) case["steps"].number.toInt() else null,
                    guidance = if (case.has("guidance")) case["guidance"].number else null,
                    solver = if (case.has("solver")) Solver.of(case["solver"].string) else null,
                    steers = if (case.has("strength")) listOf(Steer("canny", condition, case["strength"].number)) else emptyList(),
                    variant = if (case.has("variant")) case["variant"].string else null,
                ),
            )
            settle(300)
            assertNull(state.line)
            val wanted = Picture(side, side, wanted(case["decoded"].bytes))
            assertTrue("the file says what made it", "trainedAlgorithmicMedia" in state.finished.readText(Charsets.ISO_8859_1))
            val found = BitmapFactory.decodeFile(state.finished.path).whole()
            val apart = wanted.pixels.indices.maxOf { abs((wanted.pixels[it].toInt() and 255) - (found.pixels[it].toInt() and 255)) }
            println("the app's picture of '%.20s', %d pixels wide: at most %d of 255 from Python's".format(case["prompt"].string, side, apart))
            assertTrue("$apart", apart <= 1)
            wanted to found
        }
    }

    /** Python's numbers, channels first, as bytes of pixels. */
    private fun wanted(raw: ByteArray): ByteArray {
        val numbers = FloatArray(raw.size / 4).also { ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(it) }
        return ByteArray(numbers.size) { Math.rint(255.0 * numbers[it % 3 * numbers.size / 3 + it / 3]).coerceIn(0.0, 255.0).toInt().toByte() }
    }

    @Test
    fun `words, a sketch and a press make a picture`() {
        settleIn()
        val controller = open(DrawActivity::class.java)
        val screen = controller.get()
        screen.findViewById<EditText>(R.id.prompt).setText("a child")
        screen.findViewById<Spinner>(R.id.guide).setSelection(1)
        settle()
        val sketch = screen.findViewById<SketchView>(R.id.sketch)
        touch(sketch, 0.2f to 0.2f, 0.8f to 0.7f, 0.3f to 0.9f)
        assertFalse(sketch.picture.isPlain())
        screen.press("Draw")
        assertTrue("it can be stopped", "Cancel" in screen.words())
        settle()
        screen.shot("draw-done")
        assertNull(screen.alert())
        assertTrue(screen.words().toString(), screen.words().any { it.startsWith("Seed 0, 4 steps, ") })
        assertEquals("Drawn: a child", screen.findViewById<View>(R.id.picture).contentDescription.toString())
        val lines = sketch.picture.pixels
        val again = reborn(controller).get()
        assertEquals("a child", again.findViewById<EditText>(R.id.prompt).text.toString())
        assertArrayEquals("the sketch is there", lines, again.findViewById<SketchView>(R.id.sketch).picture.pixels)
        assertEquals(3, again.findViewById<SeekBar>(R.id.steps).progress)
        again.press("Share")
        settle()
        assertEquals(android.content.Intent.ACTION_CHOOSER, again.started().action)
    }

    @Test
    fun `a reader of marks with the generator says what a picture carries`() {
        settleIn(generator = false)
        app.engines = Marked
        val (name, own) = "mark-reader/mark_reader.fp32.onnx" to ByteArray(9)
        val card =
            """{"target": "onnx", "precision": "fp32", "file": "mark_reader.fp32.onnx", "sha256": "${sha256(own)}", "bytes": 9,
            "model_type": "mark_reader", "config": {}, "checkpoint_sha256": "", "iospec": {
            "inputs": [{"name": "image", "shape": [1, 3, 128, 128], "layout": "NCHW"}], "outputs": [{"name": "bits", "shape": [1, 48], "layout": "NC"}]}}"""
        app.generators.take(generatorZip(more = mapOf(name to own, "$name.json" to card.toByteArray())))
        val state = state()
        state.draw(Order("a child"))
        settle()
        assertTrue(state.said, state.said.endsWith(" s\nThe mark was not read: Picture: it has 16x16 pixels. A mark is read from 64 pixels a side on."))

        fun told(light: Int) = state.markIn(Picture(64, 64, ByteArray(3 * 64 * 64) { light.toByte() }), app.generators.open())
        assertEquals("This picture carries our public mark: 48 of 48 bits.", told(255))
        assertEquals("No public mark was found, which proves nothing.", told(0))
        File(app.filesDir, "generator/$name").writeBytes(ByteArray(8))
        assertEquals("The mark was not read: Mark-reader/mark_reader.fp32.onnx: it is another file than its card says. Export it again.", told(255))
        app.generators.take(generatorZip())
        assertNull(told(255))
    }

    /** Its reader sees the public key in a light picture, and zeros in a black one. */
    private object Marked : Engines() {
        override fun open(
            way: Runs,
            what: String,
            bytes: ByteArray,
            threads: Int,
        ) = if ("mark" in what) reader else super.open(way, what, bytes, threads)

        private val reader =
            object : Engine {
                override val names = EngineNames(listOf("image"), listOf("bits"))

                override fun run(inputs: Map<String, Tensor>) =
                    (inputs.getValue("image") as FloatTensor).values[0].let { light ->
                        mapOf("bits" to FloatTensor(listOf(1, 48), FloatArray(48) { light * (0xdb7b91574e94 shr (47 - it) and 1) }))
                    }
            }
    }

    private fun touch(
        view: View,
        vararg places: Pair<Float, Float>,
    ) {
        for ((number, place) in places.withIndex()) {
            val action = if (number == 0) MotionEvent.ACTION_DOWN else MotionEvent.ACTION_MOVE
            view.dispatchTouchEvent(MotionEvent.obtain(0, 10L * number, action, place.first * view.width, place.second * view.height, 0))
        }
        view.dispatchTouchEvent(MotionEvent.obtain(0, 100, MotionEvent.ACTION_UP, 1f, 1f, 0))
    }

    @Test
    fun `drawing stops when it is told to, and the picture before stays`() {
        settleIn()
        val state = state()
        state.draw(Order("a child", steps = 2))
        settle()
        val before = state.finished.readBytes()
        state.draw(Order("a child", seed = 1u, steps = 1000))
        state.stop()
        settle()
        assertEquals("Stopped. Nothing was kept.", state.said)
        assertNull(state.line)
        assertArrayEquals(before, state.finished.readBytes())
    }

    @Test
    fun `what cannot be drawn is told in one line`() {
        settleIn()
        val state = state()
        val plain = Picture(16, 16, ByteArray(768))
        val bad =
            mapOf(
                Order("a", steers = listOf(Steer("canny", plain))) to "Condition of canny: all its pixels are of one colour. Draw something, or switch it off.",
                Order("a", guidance = 99.0) to "Guidance 99.0: out of range. Use 1 (none) to 50.0.",
            )
        for ((order, line) in bad) {
            state.draw(order)
            settle()
            assertEquals(line, state.line)
        }
        val screen = open(DrawActivity::class.java).get()
        screen.findViewById<EditText>(R.id.seed).setText("")
        screen.press("Draw")
        assertEquals("The seed must be a whole number, 0 or more.", screen.alert())
        state.draw(Order("child ".repeat(100)))
        settle()
        assertTrue(state.said, state.said.startsWith("The text is longer than the model reads: only its beginning was used."))
    }

    @Test
    fun `a photograph becomes edges`() {
        settleIn()
        val state = state()
        state.guideFrom(fileOf("portrait.png", encoded(portrait())), "canny")
        settle()
        val found = checkNotNull(state.guide)
        assertEquals(16, found.width)
        assertTrue(found.pixels.all { it == 0.toByte() || it == (-1).toByte() } && !found.isPlain())
        state.guideFrom(fileOf("portrait.png", encoded(portrait())), "face_landmark")
        settle()
        assertEquals("Picture: it is not a drawing of lines on black. Make one with unplug condition --kind face_landmark.", state.line)
        state.guideFrom(fileOf("lines.png", encoded(found.bitmap())), "face_landmark")
        settle()
        assertNull(state.line)
        assertArrayEquals(found.pixels, checkNotNull(state.guide).pixels)
        state.guideFrom(fileOf("text.png", ByteArray(7)), "canny")
        settle()
        assertTrue(checkNotNull(state.line).startsWith("Photograph: it is not a picture"))
    }

    @Test
    fun `a generator whose file was swapped draws nothing`() {
        settleIn()
        val file = File(app.filesDir, "generator").walk().first { it.name.startsWith("decoder") && it.extension == "onnx" }
        file.writeBytes(file.readBytes().also { it[30] = (it[30] + 1).toByte() })
        val state = state()
        state.draw(Order("a child"))
        settle()
        assertEquals("Decoder/decoder.fp32.onnx: it is another file than pipeline.json says. Export it again.", state.line)
    }

    @Test
    fun `a full disk loses no picture`() {
        settleIn()
        val state = state()
        state.draw(Order("a child", steps = 2))
        settle()
        val before = state.finished.readBytes()
        Files.createSymbolicLink(File(app.filesDir, "drawn.new").toPath(), File("/dev/full").toPath())
        state.draw(Order("a child", seed = 1u, steps = 2))
        settle()
        assertEquals("Storage is full. Nothing was lost; free some space and try again.", state.line)
        assertArrayEquals(before, state.finished.readBytes())
    }

    @Test
    fun `zip files that are no generator leave the one that is here`() {
        settleIn()
        val good = generatorZip().readBytes()
        val bad =
            mapOf(
                zipOf(mapOf("tiny/pipeline.json" to "{}".toByteArray())) to "pipeline.json: it has no schema",
                zipOf(mapOf("pipeline.json" to ByteArray(3), "../../out.onnx" to ByteArray(3))) to "generator: it holds a file with an unsafe name",
                good.copyOf(good.size - 30) to "generator: its zip file is broken",
            )
        for ((bytes, words) in bad) {
            val error = runCatching { app.generators.take(File(app.cacheDir, "bad.zip").apply { writeBytes(bytes) }) }.exceptionOrNull()
            assertTrue("$error", error?.message.orEmpty().startsWith(words))
            assertEquals(4, app.generators.look()?.folder?.pipeline?.parts?.size)
        }
        assertFalse(File(app.filesDir.parentFile, "out.onnx").exists())
    }
}
