package dev.unplug.demo

import ai.unplug.core.picture.Box
import android.app.Activity
import android.content.Intent
import android.graphics.Bitmap
import android.graphics.Color
import android.net.Uri
import android.os.Looper
import android.provider.MediaStore
import dev.unplug.demo.age.AgeActivity
import dev.unplug.demo.age.AgeState
import dev.unplug.demo.age.FaceFinder
import dev.unplug.demo.age.FrameworkFaces
import dev.unplug.demo.age.decode
import dev.unplug.demo.age.decodeBefore28
import dev.unplug.demo.bundle.CertificateActivity
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotSame
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import java.io.ByteArrayOutputStream
import java.io.File
import java.nio.ByteBuffer
import java.util.zip.CRC32
import java.util.zip.DeflaterOutputStream

class AgeTest : OnPhone() {
    private fun looked(uri: Uri): AgeState = AgeState(app, uri).also { settle() }

    @Test
    fun `the age of a photograph is Python's`() {
        settleIn()
        app.faces =
            FaceFinder { picture ->
                assertNotSame("not on the main thread", Looper.getMainLooper().thread, Thread.currentThread())
                MIDDLE.find(picture)
            }
        val answered = checkNotNull(looked(photoUri()).answered)
        assertEquals(AGE_BUNDLE["face"]["expected_age"].number, answered.answer.age, 1e-4)
        assertEquals("ONNX Runtime, CPU", answered.runtime)
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
        app.faces = FaceFinder { Box(82.0, 56.0, 430.0, 404.0) }
        settle()
        screen.shot("age-answer")
        assertTrue(screen.words().toString(), screen.words().any { it.endsWith(" years") })
        assertTrue(screen.words().any { it.startsWith("This model forgot 2 training pictures by retrain. 1 of 1 gates hold.") })
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
    fun `what is no photograph of a face is told in one line, and nothing is lost`() {
        settleIn()
        val controller = open(AgeActivity::class.java)
        val screen = controller.get()
        val state = AgeState(app, photoUri()).also { settle() }
        val kind = "Choose a JPEG, PNG, WebP or HEIC photograph."
        val bad =
            mapOf(
                fileOf("text.jpg", "no picture at all".toByteArray()) to "Photograph: it is no picture that this phone can read. $kind",
                fileOf("cut.png", encoded(portrait()).copyOf(40)) to "Photograph: it is no picture that this phone can read. $kind",
                fileOf("new.heic", "\u0000\u0000\u0000\u0018ftypheic\u0000\u0000\u0000\u0000mif1heic".toByteArray()) to "Photograph: it is no picture that this phone can read. $kind",
                Uri.fromFile(File(app.cacheDir, "gone.png")) to "Photograph: it is not there any more. Choose it again.",
                fileOf("600mp.png", png(30_000, 20_000)) to "Photograph: it has 30000 × 20000 pixels. Choose a smaller one.",
            )
        for ((uri, line) in bad) {
            state.look(uri)
            settle()
            assertEquals(line, state.line)
        }
        app.faces = FrameworkFaces
        state.look(photoUri())
        settle()
        assertEquals("Photograph: no face was found in it. Choose one with a face from the front.", state.line)
        assertNull(screen.alert())
        app.faces = MIDDLE
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
        assertTrue(checkNotNull(controller.get().alert()).startsWith("Photograph: it is no picture"))
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
