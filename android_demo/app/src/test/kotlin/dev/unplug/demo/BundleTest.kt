package dev.unplug.demo

import ai.unplug.core.bundle.PublicKey
import ai.unplug.core.bundle.Refused
import ai.unplug.core.bundle.Trust
import ai.unplug.core.bundle.Verdict
import ai.unplug.core.sha256
import ai.unplug.core.text
import android.app.Activity
import android.app.AlertDialog
import android.content.Intent
import android.net.Uri
import dev.unplug.demo.bundle.BundleActivity
import dev.unplug.demo.bundle.BundleState
import dev.unplug.demo.draw.DrawState
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowAlertDialog
import java.io.File
import java.nio.file.Files
import java.time.Instant

class BundleTest : OnPhone() {
    private val zip get() = zipOf(AGE_BUNDLE.files)
    private val key get() = Trust.of((AGE_BUNDLE["trust"] as ai.unplug.core.Json.Obj).text()).keys.single()

    private fun state() = BundleState(app).also { settle() }

    private fun taken(
        bytes: ByteArray,
        state: BundleState = state(),
    ): BundleState {
        state.take(fileOf("in.zip", bytes))
        settle()
        return state
    }

    private fun clock(text: String) {
        app.now = { Instant.parse(text) }
    }

    /** The lines of the issue, one a bundle that must not be used; the one that is here stays. */
    @Test
    fun `a bundle that must not be used is refused in one line, and the one that is here stays`() {
        settleIn(generator = false)
        val others = mapOf("signature-stripped" to "it is not signed", "another-key" to "it is signed by an unknown key", "version-3" to "is not of the schema unplug-bundle/2", "no-manifest" to "no manifest.json in it", "changed-file" to "was changed", "first-version" to "it is not signed")
        for ((name, why) in others) {
            val case = Vectors.json("bundles/$name.json")
            if (name != "another-key") Trust.of((case["trust"] as ai.unplug.core.Json.Obj).text()).keys.forEach(app.shelf::trust)
            clock(case["now"].string)
            val state = taken(zipOf(case.files))
            assertTrue("$name: ${state.line}", state.line.orEmpty().startsWith("Bundle: ") && why in state.line.orEmpty() && '\n' !in state.line.orEmpty())
            assertEquals(name, listOf(7L), state.kept.map { it.bundle?.manifest?.publication?.release })
        }
        assertEquals("Bundle: it is not a plain zip file (it has 9 bytes). Do not use it; get it again from its publisher.", taken(ByteArray(9)).line)
    }

    /** The knowledge that a newer release would have left. */
    private fun seen(trust: Trust) = File(app.filesDir, "bundles/seen/face-age.json").apply { checkNotNull(parentFile).mkdirs() }.writeText(trust.json().text())

    @Test
    fun `what an earlier release took back, and what is older than one that was seen, is refused`() {
        clock(AGE_BUNDLE["now"].string)
        app.shelf.trust(key)
        val id = sha256(AGE_BUNDLE.files.getValue("manifest.json"))
        val told =
            mapOf(
                Trust(listOf(key), "face-age", revoked = setOf(id)) to "Bundle: it was revoked. Get the newest release.",
                Trust(listOf(key), "face-age", superseded = setOf(id)) to "Bundle: a newer release took its place. Get the newest release.",
                Trust(listOf(key), "face-age", minimumRelease = 8) to "Bundle: it is release 7, older than 8. Get the newest release.",
            )
        for ((trust, line) in told) {
            seen(trust)
            assertEquals(line, taken(zip).line)
        }
        clock("2027-05-01T00:00:00Z")
        assertEquals("Bundle: it expired at 2027-05-01T00:00:00Z. Get the newest release.", taken(zip).line)
    }

    @Test
    fun `a bundle that expires here is not opened any more, and stays to be looked at`() {
        settleIn(generator = false)
        assertNotNull(state().kept.single().bundle)
        clock("2028-01-01T00:00:00Z")
        val kept = state().kept.single()
        assertNull(kept.bundle)
        assertTrue(kept.error?.message.orEmpty().startsWith("bundle: it expired"))
    }

    @Test
    fun `unplug bundle push ends with a question about the key, and the bundle opens after a yes`() {
        clock(AGE_BUNDLE["now"].string)
        val inbox = checkNotNull(app.inbox).apply { mkdirs() }
        File(inbox, "0123456789abcdef.zip").writeBytes(zip)
        File(inbox, "key.pub").writeText(key.pem())
        val screen = open(BundleActivity::class.java).get()
        val dialog = ShadowAlertDialog.getLatestDialog() as AlertDialog
        assertTrue(shadowOf(dialog).message.toString(), key.hint.take(8) in shadowOf(dialog).message.toString())
        dialog.getButton(AlertDialog.BUTTON_POSITIVE).performClick()
        settle()
        screen.shot("bundle-pushed")
        assertTrue(screen.words().toString(), "Release 7 of face-age" in screen.words())
        assertEquals(0, inbox.list().orEmpty().size)
    }

    @Test
    fun `a key that nobody says yes to opens nothing`() {
        clock(AGE_BUNDLE["now"].string)
        checkNotNull(app.inbox).mkdirs()
        File(app.inbox, "key.pub").writeText(key.pem())
        val screen = open(BundleActivity::class.java).get()
        (ShadowAlertDialog.getLatestDialog() as AlertDialog).getButton(AlertDialog.BUTTON_NEGATIVE).performClick()
        settle()
        assertEquals(emptyList<PublicKey>(), app.shelf.keys())
        assertTrue(taken(zip).line.orEmpty().startsWith("Bundle: it is signed by an unknown key"))
        assertNull(screen.alert())
    }

    @Test
    fun `what was pushed is not lost while its key, the disk or the push itself is not there yet`() {
        clock(AGE_BUNDLE["now"].string)
        val inbox = checkNotNull(app.inbox).apply { mkdirs() }
        val pushed = File(inbox, "a.zip").apply { writeBytes(zip) }
        File(inbox, "b.zip.part").writeBytes(ByteArray(5))
        assertTrue(state().line.orEmpty().startsWith("Bundle: it is signed by an unknown key"))
        assertTrue(pushed.exists())
        app.shelf.trust(key)
        val full = File(app.filesDir, "bundles/incoming").toPath()
        Files.createSymbolicLink(full, File("/dev/full").toPath())
        assertEquals("Storage is full. Nothing was lost; free some space and try again.", state().line)
        assertTrue(pushed.exists())
        assertEquals(1, state().also { assertNull(it.line) }.kept.size)
        assertEquals(listOf("b.zip.part"), inbox.list().orEmpty().toList())
    }

    @Test
    fun `a question about a key outlives the process`() {
        val inbox = checkNotNull(app.inbox).apply { mkdirs() }
        File(inbox, "key.pub").writeText(key.pem())
        val controller = open(BundleActivity::class.java)
        assertTrue(ShadowAlertDialog.getLatestDialog().isShowing)
        reborn(controller)
        (ShadowAlertDialog.getLatestDialog() as AlertDialog).getButton(AlertDialog.BUTTON_POSITIVE).performClick()
        settle()
        assertEquals(listOf(key.hint), app.shelf.keys().map { it.key.hint })
        File(inbox, "broken.pub").writeText("no key")
        assertTrue(state().line.orEmpty().startsWith("Public key: it is not PEM text."))
        assertNull(state().line)
    }

    @Test
    fun `a file that is picked is taken`() {
        settleIn()
        val screen = open(BundleActivity::class.java).get()
        screen.press("Import bundle")
        val asked = screen.started()
        assertEquals(Intent.ACTION_OPEN_DOCUMENT, asked.action)
        shadowOf(screen).receiveResult(asked, Activity.RESULT_OK, Intent().setData(fileOf("tiny.zip", generatorZip().readBytes())))
        settle()
        assertNull(screen.alert())
        assertTrue("Parts text_encoder, unet, decoder, plugins.canny. Its files match pipeline.json; nobody signed it." in screen.words())
        screen.press("Trust a key")
        shadowOf(screen).receiveResult(screen.started(), Activity.RESULT_OK, Intent().setData(fileOf("k.pub", "no key".toByteArray())))
        settle()
        assertTrue(screen.alert().orEmpty(), screen.alert().orEmpty().startsWith("Public key: it is not PEM text."))
    }

    @Test
    fun `a generator that is signed opens by its signature alone, and says whose it is`() {
        settleIn()
        val files = signedGenerator()
        val unet = files.keys.single { "unet.fp32.onnx" in it && !it.endsWith(".json") }
        val wrong =
            mapOf(
                files + (unet to files.getValue(unet).reversedArray()) to "$unet was changed",
                files - unet to "$unet is missing",
                files + ("unet/more.onnx" to ByteArray(1)) to "unet/more.onnx is not in manifest.json",
                files + ("manifest.json" to zip) to "manifest.json is not the one that was signed",
                files.mapKeys { "tiny/${it.key}" } to "no manifest.json in it",
            )
        for ((bad, why) in wrong) {
            assertEquals("Bundle: $why. Do not use it; get it again from its publisher.", taken(zipOf(bad)).line)
            assertNull("what is here stays", app.generators.open().signed)
        }
        assertNull(taken(zipOf(files)).line)
        val words = open(BundleActivity::class.java).get().words()
        val told = "Release 7 of small\nSigned by ${key.hint.take(16)}\nValid until 2027-05-01\n"
        assertTrue(words.toString(), words.any { told in it })
        app.generators.open().file("unet", "onnx", "fp32")
    }

    @Test
    fun `a signed generator closes when it expires, when its key goes, and when a newer one took its place`() {
        settleIn(generator = false)
        taken(zipOf(signedGenerator()))
        assertNull(app.generators.look()?.error)
        clock("2027-05-01T00:00:00Z")
        assertEquals(Verdict.EXPIRED, (app.generators.look()?.error as Refused).verdict)
        clock(AGE_BUNDLE["now"].string)
        val id = sha256(signedGenerator().getValue("manifest.json"))
        File(app.filesDir, "bundles/seen/small.json").writeText(Trust(listOf(key), "small", superseded = setOf(id)).json().text())
        assertEquals("Bundle: a newer release took its place. Get the newest release.", DrawState(app).also { settle() }.line)
        state().distrust(key)
        settle()
        assertEquals(Verdict.UNKNOWN_KEY, (app.generators.look()?.error as Refused).verdict)
        assertTrue(open(BundleActivity::class.java).get().words().any { "signed by an unknown key" in it })
    }

    @Test
    fun `a key that is taken back closes what it signed`() {
        settleIn(generator = false)
        val state = state()
        state.distrust(key)
        settle()
        assertTrue(state.kept.single().error?.message.orEmpty(), "unknown key" in state.kept.single().error?.message.orEmpty())
        state.remove(state.kept.single())
        settle()
        assertEquals(0, state.kept.size)
    }

    @Test
    fun `a full disk leaves the bundle that is here`() {
        settleIn(generator = false)
        Files.createSymbolicLink(File(app.filesDir, "bundles/incoming").toPath(), File("/dev/full").toPath())
        val state = taken(zip)
        assertEquals("Storage is full. Nothing was lost; free some space and try again.", state.line)
        assertEquals(1, state.kept.count { it.bundle != null })
    }

    @Test
    fun `a file that is gone is told`() {
        val state = state()
        state.take(Uri.fromFile(File(app.cacheDir, "gone.zip")))
        settle()
        assertEquals("The file is not there any more, or this app may not read it. Choose it again.", state.line)
    }
}
