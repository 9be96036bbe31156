package dev.unplug.demo

import ai.unplug.core.Json
import ai.unplug.core.age.AgeModel
import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Point
import android.app.Activity
import android.content.Intent
import android.graphics.Bitmap
import android.graphics.Color
import android.media.FaceDetector
import android.net.Uri
import android.os.Bundle
import android.os.Looper
import android.provider.MediaStore
import android.view.MotionEvent
import android.widget.ImageView
import dev.unplug.demo.age.AgeActivity
import dev.unplug.demo.age.AgeState
import dev.unplug.demo.age.EyeFinder
import dev.unplug.demo.age.FrameworkEyes
import dev.unplug.demo.age.decode
import dev.unplug.demo.age.decodeBefore28
import dev.unplug.demo.bench.BenchState
import dev.unplug.demo.bundle.CertificateActivity
import dev.unplug.demo.engine.Runs
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNotSame
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements
import org.robolectric.util.ReflectionHelpers
import java.io.ByteArrayOutputStream
import java.io.File
import java.nio.ByteBuffer
import java.util.zip.CRC32
import java.util.zip.DeflaterOutputStream

/** The eyes of the drawn face. */
private val DRAWN = Eyes(Point(200.0, 256.0), Point(312.0, 256.0))

/** Stands for the detector's own library: a face in the middle, and one that it is not sure of. */
@Implements(FaceDetector::class)
class Detector {
    @Implementation
    fun findFaces(
        picture: Bitmap,
        faces: Array<FaceDetector.Face?>,
    ): Int {
        assertEquals(Triple(480, 299, Bitmap.Config.RGB_565), Triple(picture.width, picture.height, picture.config))
        for ((at, confidence) in listOf(0.5f, 0.3f).withIndex()) {
            faces[at] =
                ReflectionHelpers.callConstructor(FaceDetector.Face::class.java).also { face ->
                    for ((name, value) in listOf("mConfidence" to confidence, "mMidPointX" to 200f, "mMidPointY" to 90f, "mEyesDist" to 40f)) {
                        ReflectionHelpers.setField(face, name, value)
                    }
                }
        }
        return 2
    }
}

class AgeTest : OnPhone() {
    private fun looked(uri: Uri): AgeState = AgeState(app, uri).also { settle() }

    @Test
    fun `where the manifest says nothing of eyes, nobody looks for them and the centre square is told`() {
        settleIn()
        app.eyes = EyeFinder { throw AssertionError("nobody asked for eyes") }
        val answered = checkNotNull(looked(photoUri()).answered)
        assertEquals(AGE_BUNDLE["expected_age"].number, checkNotNull(answered.answer).age, 1e-4)
        assertEquals("ONNX Runtime, CPU", answered.runtime)
        assertEquals("the other takes longer than a frame where it was released", "nano", answered.member?.name)
        val words = open(AgeActivity::class.java, photographed()).get().words()
        assertTrue(words.toString(), "This bundle does not say where the eyes belong, so the model saw the centre square." in words)
        assertTrue(words.toString(), words.any { it.endsWith("The member nano answers: the best of its family that takes at most 33 ms.") })
        assertFalse(words.toString(), words.any { it.startsWith("Over") || it.startsWith("Under") || it.startsWith("Unsure") })
    }

    @Test
    fun `of a family what this phone has measured counts more than what the manifest says`() {
        settleIn()
        val bench = BenchState(app).also { settle() }
        assertEquals(listOf("artifacts/age.fp32.onnx", "members/nano/age.fp32.onnx"), bench.files.map { it.path })
        for ((file, member) in bench.files.reversed() zip listOf("nano", "small")) {
            bench.start(file, Runs.ONNX_CPU, false)
            settle()
            assertNull(bench.line)
            assertEquals(emptyList<String>(), bench.row?.reasons)
            assertEquals(member, looked(photoUri()).answered?.member?.name)
        }
    }

    @Test
    fun `a classifier says a label with its probability, and nothing of ages`() {
        settleIn(LABELLED)
        app.eyes = EyeFinder { throw AssertionError("nobody asked for eyes") }
        val found = checkNotNull(looked(photoUri()).answered).labels
        assertEquals(LABELLED["labels"].items.map { it.items[0].string }, found.map { it.name })
        for ((wanted, label) in LABELLED["labels"].items.zip(found)) assertEquals(wanted.items[1].number, label.probability, 1e-5)
        val screen = open(AgeActivity::class.java, photographed(fileOf("portrait.png", encoded(portrait())))).get()
        screen.shot("age-label")
        val words = screen.words()
        assertTrue(words.toString(), words.any { it.matches(Regex("(cat|dog|golden eagle|猫), \\d+\u00a0%")) })
        assertFalse(words.toString(), words.any { "years" in it || "eyes" in it })
    }

    /** What a screen keeps of a photograph that was chosen. */
    private fun photographed(uri: Uri = photoUri()) = Bundle().apply { putParcelable("photo", uri) }

    @Test
    fun `from a photograph and its eyes to over, under or unsure, as in Python`() {
        settleIn(ALIGNED)
        app.eyes =
            EyeFinder {
                assertNotSame("not on the main thread", Looper.getMainLooper().thread, Thread.currentThread())
                listOf(EYES)
            }
        val answered = checkNotNull(looked(photoUri()).answered)
        assertEquals(ALIGNED["expected_age"].number, checkNotNull(answered.answer).age, 1e-4)
        assertEquals(ALIGNED["decision"]["answer"].string, answered.answer.decision?.word)
        app.eyes = EyeFinder { listOf(DRAWN) }
        val screen = open(AgeActivity::class.java, photographed(fileOf("portrait.png", encoded(portrait())))).get()
        assertNull(screen.alert())
        screen.shot("age-decision")
        assertTrue(screen.words().toString(), screen.words().any { it in setOf("Over 18", "Under 18", "Unsure whether over 18") })
        val limit = "For people like those it was fitted on: at most 1 % of minors are called over 18, and at most 5 % of adults under 18 (95 % confidence)."
        assertTrue(screen.words().toString(), limit in screen.words().map { it.replace('\u00a0', ' ') })
    }

    @Test
    fun `a face that cannot be judged gets no answer but a reason`() {
        settleIn(ALIGNED)
        val dark = Bitmap.createBitmap(64, 64, Bitmap.Config.ARGB_8888).apply { eraseColor(Color.BLACK) }
        val near = Eyes(Point(15.0, 14.0), Point(25.0, 14.0))
        val fix = "Choose one of a single face, near and well lit."
        for ((case, why) in mapOf(
            (photoUri() to emptyList<Eyes>()) to "no face found",
            (photoUri() to listOf(EYES, near)) to "2 faces found",
            (photoUri() to listOf(near)) to "the face is too small: 10 pixels between the eyes, and 16 are needed",
            (fileOf("dark.png", encoded(dark)) to listOf(EYES)) to "the face is too dark",
        )) {
            app.eyes = EyeFinder { case.second }
            val state = looked(case.first)
            assertNull(why, state.answered)
            assertEquals("Photograph: $why. $fix", state.line)
        }
    }

    @Test
    fun `where no face was found somebody taps both eyes`() {
        settleIn(ALIGNED)
        app.eyes = EyeFinder { emptyList() }
        val screen = open(AgeActivity::class.java, photographed(fileOf("portrait.png", encoded(portrait())))).get()
        assertEquals("Photograph: no face found. Choose one of a single face, near and well lit.", screen.alert())
        assertTrue("If it shows one face, tap the middle of each eye." in screen.words())
        screen.shot("age-eyes-asked")
        val photo = screen.findViewById<ImageView>(R.id.photo)
        photo.tap(2f, 2f)
        assertTrue("a tap next to the photograph is not an eye", "If it shows one face, tap the middle of each eye." in screen.words())
        val side = photo.height - 2f * photo.paddingTop
        for (x in listOf(0.61f, 0.39f)) {
            photo.tap(photo.width / 2f + (x - 0.5f) * side, photo.paddingTop + 0.5f * side)
            if (x > 0.5f) assertTrue("Now tap the other eye." in screen.words())
        }
        settle()
        assertNull(screen.alert())
        assertTrue(screen.words().toString(), screen.words().any { it.endsWith(" years") })
    }

    private fun ImageView.tap(
        x: Float,
        y: Float,
    ) {
        for (action in listOf(MotionEvent.ACTION_DOWN, MotionEvent.ACTION_UP)) dispatchTouchEvent(MotionEvent.obtain(0, 0, action, x, y, 0))
    }

    @Test
    fun `a decision that was fitted on other files is none`() {
        settleIn(ALIGNED)
        val bundle = app.shelf.need("age")
        val decided = (bundle.manifest.postprocessing["decision"] as Json.Obj).fields
        val others = Json.Obj(bundle.manifest.postprocessing.fields + ("decision" to Json.Obj(decided + ("models" to Json.Arr(emptyList())))))
        val artifact = bundle.artifacts[0]
        app.engines.open(Runs.ONNX_CPU, artifact.path, bundle.read(artifact.path)).use { engine ->
            val model = AgeModel(engine, artifact.iospec, artifact.sha256, bundle.manifest.preprocessing, others)
            val answer = model.answer(model.shown(PHOTO, listOf(EYES)))
            assertEquals(ALIGNED["expected_age"].number, answer.age, 1e-4)
            assertNull(answer.decision)
            assertTrue(model.isOfOthers)
        }
    }

    @Test
    @Config(shadows = [Detector::class])
    fun `the platform's detector gives eyes in pixels of the photograph`() {
        val found = FrameworkEyes.find(Bitmap.createBitmap(1601, 1000, Bitmap.Config.ARGB_8888))
        val (left, right) = found.single()
        val (across, down) = 1601 / 480.0 to 1000 / 299.0
        near(Point(across * 180, down * 90), left)
        near(Point(across * 220, down * 90), right)
    }

    private fun near(
        wanted: Point,
        found: Point,
    ) {
        assertEquals(wanted.x, found.x, 1e-3)
        assertEquals(wanted.y, found.y, 1e-3)
    }

    @Test
    fun `a photograph that is chosen is answered, and the certificate is one tap away`() {
        settleIn()
        val controller = open(AgeActivity::class.java)
        val screen = controller.get()
        screen.press("Choose photo")
        val asked = screen.started()
        assertEquals(Intent.ACTION_OPEN_DOCUMENT to "image/*", asked.action to asked.type)
        shadowOf(screen).receiveResult(asked, Activity.RESULT_OK, Intent().setData(fileOf("portrait.png", encoded(portrait()))))
        settle()
        screen.shot("age-answer")
        assertTrue(screen.words().toString(), screen.words().any { it.endsWith(" years") })
        assertTrue(screen.words().any { it.startsWith("This model forgot 2 training pictures with the method retrain. 1 of 1 gates hold.") })
        assertEquals(screen.words(), reborn(controller).get().words().map { now -> if (now.contains(" ms ")) screen.words().first { it.contains(" ms ") } else now })
        screen.press("Certificate")
        assertEquals(CertificateActivity::class.java.name, screen.started().component?.className)
    }

    @Test
    fun `a photograph that is taken is written to a file of the app, and read from it`() {
        settleIn()
        val screen = open(AgeActivity::class.java).get()
        screen.press("Take photo")
        val asked = screen.started()
        assertEquals(MediaStore.ACTION_IMAGE_CAPTURE, asked.action)
        @Suppress("DEPRECATION")
        val place: Uri = checkNotNull(asked.getParcelableExtra(MediaStore.EXTRA_OUTPUT))
        checkNotNull(app.contentResolver.openOutputStream(place)).use { it.write(encoded(portrait(), Bitmap.CompressFormat.JPEG)) }
        shadowOf(screen).receiveResult(asked, Activity.RESULT_OK, null)
        settle()
        assertNull(screen.alert())
        assertTrue(screen.words().any { it.endsWith(" years") })
    }

    @Test
    fun `a file that is not a photograph of a face is told in one line, and nothing is lost`() {
        settleIn()
        val controller = open(AgeActivity::class.java)
        val screen = controller.get()
        val state = AgeState(app, photoUri()).also { settle() }
        val kind = "Choose a JPEG, PNG, WebP or HEIC photograph."
        val bad =
            mapOf(
                fileOf("text.jpg", "no picture at all".toByteArray()) to "Photograph: it is not a picture that this phone can read. $kind",
                fileOf("cut.png", encoded(portrait()).copyOf(40)) to "Photograph: it is not a picture that this phone can read. $kind",
                fileOf("new.heic", "\u0000\u0000\u0000\u0018ftypheic\u0000\u0000\u0000\u0000mif1heic".toByteArray()) to "Photograph: it is not a picture that this phone can read. $kind",
                Uri.fromFile(File(app.cacheDir, "gone.png")) to "Photograph: it is not there any more. Choose it again.",
                fileOf("600mp.png", png(30_000, 20_000)) to "Photograph: it has 30000 × 20000 pixels. Choose a smaller one.",
            )
        for ((uri, line) in bad) {
            state.look(uri)
            settle()
            assertEquals(line, state.line)
        }
        state.look(photoUri())
        settle()
        assertNull(state.line)
    }

    @Test
    fun `a line stands on the screen itself`() {
        settleIn()
        val controller = open(AgeActivity::class.java)
        controller.get().press("Choose photo")
        shadowOf(controller.get()).receiveResult(controller.get().started(), Activity.RESULT_OK, Intent().setData(fileOf("text.jpg", ByteArray(9))))
        settle()
        assertTrue(checkNotNull(controller.get().alert()).startsWith("Photograph: it is not a picture"))
        controller.get().shot("age-no-picture")
    }

    @Test
    fun `100 megapixels are read smaller`() {
        val found = decode(app.contentResolver, fileOf("100mp.png", png(10_000, 10_000)))
        assertEquals(1250 to 1250, found.width to found.height)
    }

    @Test
    fun `pictures stand upright whatever their EXIF says`() {
        val corner = Bitmap.createBitmap(48, 32, Bitmap.Config.ARGB_8888)
        for (y in 0 until 32) for (x in 0 until 48) corner.setPixel(x, y, if (x < 24 && y < 16) Color.RED else Color.WHITE)
        val jpeg = encoded(corner, Bitmap.CompressFormat.JPEG)
        // Where the red corner is once the picture stands upright.
        val places = mapOf(1 to (4 to 4), 3 to (43 to 27), 6 to (27 to 4), 8 to (4 to 43), 2 to (43 to 4), 5 to (4 to 4))
        for ((orientation, place) in places) {
            val bytes = turned(jpeg, orientation)
            for (found in listOf(decode(app.contentResolver, fileOf("exif-$orientation.jpg", bytes)), decodeBefore28(bytes))) {
                val size = if (orientation >= 5) 32 to 48 else 48 to 32
                assertEquals("orientation $orientation", size, found.width to found.height)
                val colour = found.getPixel(place.first, place.second)
                assertTrue("orientation $orientation: ${Integer.toHexString(colour)}", Color.red(colour) > 200 && Color.green(colour) < 90)
            }
        }
    }

    /** A JPEG file with an EXIF block that says how the camera was held. */
    private fun turned(
        jpeg: ByteArray,
        orientation: Int,
    ): ByteArray {
        val exif = "Exif\u0000\u0000MM\u0000*".toByteArray(Charsets.ISO_8859_1) + byteArrayOf(0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation.toByte(), 0, 0, 0, 0, 0, 0)
        val block = byteArrayOf(-1, 0xe1.toByte(), 0, (exif.size + 2).toByte()) + exif
        return jpeg.copyOf(2) + block + jpeg.copyOfRange(2, jpeg.size)
    }

    /** A black and white PNG file of any size. */
    private fun png(
        width: Int,
        height: Int,
    ): ByteArray {
        fun chunk(
            name: String,
            content: ByteArray,
        ): ByteArray {
            val body = name.toByteArray() + content
            val sum = CRC32().apply { update(body) }.value.toInt()
            return ByteBuffer.allocate(8 + body.size).putInt(content.size).put(body).putInt(sum).array()
        }
        val head = ByteBuffer.allocate(13).putInt(width).putInt(height).put(byteArrayOf(1, 0, 0, 0, 0)).array()
        val packed = ByteArrayOutputStream()
        DeflaterOutputStream(packed).use { out -> repeat(height) { out.write(ByteArray(1 + (width + 7) / 8)) } }
        val magic = byteArrayOf(0x89.toByte(), 0x50, 0x4e, 0x47, 13, 10, 26, 10)
        return magic + chunk("IHDR", head) + chunk("IDAT", packed.toByteArray()) + chunk("IEND", ByteArray(0))
    }
}
