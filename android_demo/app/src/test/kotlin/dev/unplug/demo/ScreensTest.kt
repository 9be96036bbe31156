package dev.unplug.demo

import android.app.Activity
import android.graphics.Bitmap
import android.view.View
import android.widget.EditText
import android.widget.TextView
import dev.unplug.demo.age.AgeActivity
import dev.unplug.demo.bench.BenchActivity
import dev.unplug.demo.bundle.BundleActivity
import dev.unplug.demo.bundle.CertificateActivity
import dev.unplug.demo.draw.DrawActivity
import dev.unplug.demo.forget.ForgetActivity
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

/** Every screen: empty and full, light and dark, turned, in large text, and after its process was ended. */
class ScreensTest : OnPhone() {
    private val screens: Map<String, Class<out Activity>> =
        mapOf(
            "main" to MainActivity::class.java,
            "age" to AgeActivity::class.java,
            "draw" to DrawActivity::class.java,
            "forget" to ForgetActivity::class.java,
            "bench" to BenchActivity::class.java,
            "bundle" to BundleActivity::class.java,
            "certificate" to CertificateActivity::class.java,
        )

    private fun all(suffix: String) {
        for ((name, screen) in screens) checked(open(screen).get(), "$name-$suffix")
    }

    /** What holds for every screen, however it is shown. */
    private fun checked(
        screen: Activity,
        name: String,
    ) {
        val pixels = screen.shot(name)
        assertTrue("$name is drawn", colours(pixels) > 20)
        assertNull("$name: ${screen.alert()}", screen.alert())
        for (view in screen.window.decorView.all().filter { it.isShown && it.isClickable && it.isEnabled && !it.isPlainText() }) {
            val what = "$name, ${view.javaClass.simpleName} ${runCatching { screen.resources.getResourceEntryName(view.id) }.getOrDefault("")}"
            assertTrue("$what says to TalkBack what it is", view.spoken().isNotBlank())
            val least = 48 * screen.resources.displayMetrics.density - 1
            assertTrue("$what is ${view.width} x ${view.height}", view.height >= least && view.width >= least)
        }
        for (text in screen.window.decorView.all().filterIsInstance<TextView>().filter { it.isShown && it.layout != null && it !is EditText }) {
            assertTrue("$name, '${text.text}' is cut", text.layout.height + text.compoundPaddingTop + text.compoundPaddingBottom <= text.height + 1)
        }
    }

    /** Text that can be selected counts as clickable. */
    private fun View.isPlainText() = this is TextView && this !is EditText && isTextSelectable

    private fun colours(pixels: Bitmap) = (0 until pixels.height step 3).flatMap { y -> (0 until pixels.width step 3).map { pixels.getPixel(it, y) } }.toSet().size

    private fun View.spoken(): String = all().joinToString(" ") { listOfNotNull(it.contentDescription, (it as? TextView)?.text, (it as? TextView)?.hint).joinToString(" ") }

    @Test
    fun `with nothing on the phone each screen says what to do`() {
        val said =
            mapOf(
                "main" to "No bundle yet",
                "age" to "Choose or take a photograph; for an age, of one face. It stays on this phone.",
                "draw" to "No generator yet: on the bundle screen, import the zip file of a folder that unplug export wrote.",
                "forget" to "There is no head yet. Import the zip file of the folder that “unplug head make” wrote, with its trunk’s exported files in it.",
                "bench" to "Bundle: no bundle for this screen is on the phone. Open Bundles on the first screen to import one.",
                "bundle" to "There is no bundle yet. Send one with “unplug bundle push --android”, or import its zip file. It opens if it was signed with a key that you trust.",
                "certificate" to "Bundle: no bundle for this screen is on the phone. Open Bundles on the first screen to import one.",
            )
        for ((name, line) in said) {
            val screen = open(screens.getValue(name)).get()
            screen.shot("$name-empty")
            assertTrue("$name: ${screen.words()}", line in screen.words())
        }
    }

    @Test
    fun `in the light`() {
        settleIn()
        all("light")
    }

    @Test
    @Config(qualifiers = "+night")
    fun `in the dark`() {
        settleIn()
        all("dark")
    }

    @Test
    @Config(qualifiers = "w891dp-h411dp-land-xhdpi")
    fun `lying on its side`() {
        settleIn()
        all("land")
    }

    @Test
    fun `in text twice as large`() {
        RuntimeEnvironment.setFontScale(2f)
        settleIn()
        all("large")
    }

    @Test
    @Config(qualifiers = "ar-ldrtl-w411dp-h891dp-xhdpi")
    fun `from right to left`() {
        settleIn()
        all("rtl")
    }

    @Test
    fun `a screen is the same after a turn, and after the end of its process`() {
        settleIn()
        for ((name, screen) in screens) {
            val controller = open(screen)
            val before = controller.get().words()
            controller.recreate()
            settle()
            assertEquals("$name, turned", before, controller.get().words())
            assertEquals("$name, born again", before, reborn(controller).get().words())
        }
    }

    @Test
    fun `the first screen leads to the others, and says what is on the phone`() {
        settleIn()
        val screen = open(MainActivity::class.java).get()
        assertTrue(screen.words().toString(), "Release 7 of face-age" in screen.words())
        assertTrue("Signed by a key that this phone trusts. Forgot 2 training pictures." in screen.words())
        for (title in listOf("Predict", "Draw", "Forget me", "Benchmark", "Bundles")) {
            screen.press(title)
            val next = screen.started()
            assertEquals(title, screen.packageManager.getActivityInfo(checkNotNull(next.component), 0).loadLabel(screen.packageManager))
        }
    }
}
