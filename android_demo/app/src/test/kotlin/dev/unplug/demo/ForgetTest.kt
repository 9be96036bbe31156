package dev.unplug.demo

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.view.View
import android.widget.EditText
import android.widget.Spinner
import dev.unplug.demo.forget.ForgetActivity
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf

/** The forgetting screen, with the tiny trunk and the small head of the vectors. */
class ForgetTest : OnPhone() {
    private val equal = "Equal, bit for bit"

    private fun Activity.give(
        button: String,
        uri: Uri,
    ) {
        press(button)
        shadowOf(this).receiveResult(started(), Activity.RESULT_OK, Intent().setData(uri))
        settle()
    }

    private fun Activity.add(age: String) {
        findViewById<EditText>(R.id.age).setText(age)
        press("Add")
        settle()
    }

    private fun Activity.proof() = words().first { "never held" in it }

    @Test
    fun `pictures go in, change the answer, and come out without a trace`() {
        val controller = open(ForgetActivity::class.java)
        val screen = controller.get()
        screen.give("Import head", fileOf("phone.zip", zipOf(headFiles())))
        assertNull(screen.alert())
        assertTrue(screen.words().toString(), "Pictures in this head: 10. Yours: 0." in screen.words())
        val untouched = screen.proof()
        screen.give("Choose photo", photoUri())
        assertTrue(screen.words().toString(), "The head that came says 45.0 years, with your pictures 45.0 years." in screen.words())
        screen.add("31")
        assertNull(screen.alert())
        val filled = screen.words()
        assertEquals(filled.toString(), 2, filled.count { it == "The head that came says 45.0 years, with your pictures 37.2 years." })
        assertTrue(filled.toString(), filled.containsAll(listOf("Pictures in this head: 11. Yours: 1.", "Picture 1, 31 years", equal)))
        screen.give("Choose photo", fileOf("portrait.png", encoded(portrait())))
        screen.add("33")
        screen.shot("forget-two")
        val two = screen.words()
        val again = reborn(controller).get()
        assertEquals("it is the same after the end of its process", two, again.words())
        again.press("Remove")
        settle()
        assertTrue(again.words().toString(), again.words().containsAll(listOf("Pictures in this head: 11. Yours: 1.", "Picture 2, 33 years", equal)))
        again.press("Remove")
        settle()
        assertEquals(untouched, again.proof())
        assertTrue(equal in again.words())
        again.shot("forget-removed")
    }

    @Test
    fun `a head of labels takes one that is chosen, and no picture of an age`() {
        app.heads.take(zipOf(headFiles()).inputStream())
        val controller = open(ForgetActivity::class.java)
        val screen = controller.get()
        screen.give("Choose photo", photoUri())
        screen.add("2")
        screen.give("Import head", fileOf("labels.zip", zipOf(headFiles("classes/start"))))
        assertNull(screen.alert())
        assertTrue(screen.words().toString(), "Pictures in this head: 10. Yours: 0." in screen.words())
        val untouched = screen.proof()
        screen.give("Choose photo", photoUri())
        assertEquals(View.GONE, screen.findViewById<EditText>(R.id.age).visibility)
        val labels = screen.findViewById<Spinner>(R.id.label)
        assertEquals(listOf("cat", "dog", "golden eagle", "猫"), (0 until labels.count).map { labels.getItemAtPosition(it) })
        labels.setSelection(2)
        screen.press("Add")
        settle()
        assertNull(screen.alert())
        val filled = screen.words()
        assertEquals(filled.toString(), 2, filled.count { it == "The head that came says dog, 69.6\u00A0%, with your pictures golden eagle, 60.8\u00A0%." })
        assertTrue(filled.toString(), filled.containsAll(listOf("Pictures in this head: 11. Yours: 1.", "Picture 1, golden eagle", equal)))
        screen.shot("forget-labels")
        val again = reborn(controller).get()
        assertTrue("it is the same after the end of its process", again.words().containsAll(filled.filter { "icture" in it }))
        again.press("Remove")
        settle()
        assertEquals(untouched, again.proof())
        assertTrue(equal in again.words())
    }

    @Test
    fun `all of them are removed at once, and a new head of the same trunk keeps them`() {
        app.heads.take(zipOf(headFiles()).inputStream())
        val screen = open(ForgetActivity::class.java).get()
        val untouched = screen.proof()
        for ((uri, age) in listOf(photoUri() to "31", fileOf("portrait.png", encoded(portrait())) to "33,5")) {
            screen.give("Choose photo", uri)
            screen.add(age)
        }
        screen.give("Import head", fileOf("phone.zip", zipOf(headFiles("end"))))
        assertTrue(screen.words().toString(), screen.words().containsAll(listOf("Picture 1, 31 years", "Picture 2, 33.5 years", equal)))
        screen.give("Import head", fileOf("phone.zip", zipOf(headFiles())))
        screen.press("Remove all")
        settle()
        assertEquals(untouched, screen.proof())
    }

    @Test
    fun `anything but a head, a photograph or an age is told in one line, and nothing is lost`() {
        val screen = open(ForgetActivity::class.java).get()
        val fix = "Zip the folder that unplug head make wrote, with what unplug export wrote of its trunk in it."
        val files = headFiles()
        screen.give("Import head", fileOf("none.zip", zipOf(files.filterKeys { "trunk" in it })))
        assertEquals("Head: there is not one head.safetensors in it. $fix", screen.alert())
        screen.give("Import head", fileOf("alone.zip", zipOf(files.filterKeys { "trunk" !in it })))
        assertEquals("Head: no exported file of its trunk is in it. $fix", screen.alert())
        screen.give("Import head", fileOf("text.zip", ByteArray(9)))
        assertTrue(screen.alert().orEmpty().startsWith("Head: "))
        screen.give("Import head", fileOf("phone.zip", zipOf(files)))
        screen.give("Choose photo", fileOf("text.jpg", ByteArray(9)))
        assertTrue(screen.alert().orEmpty().startsWith("Photograph: it is not a picture"))
        screen.give("Choose photo", photoUri())
        for ((age, line) in mapOf("" to "Age: it is not a number. Give years.", "200" to "Age 200.0: it is not an age. Give years from 0 up to 127.")) {
            screen.add(age)
            assertEquals(line, screen.alert())
        }
        screen.add("31")
        screen.add("31")
        assertEquals("Photograph: it is in this head already, as picture 1. Choose another one.", screen.alert())
        screen.give("Import head", fileOf("text.zip", ByteArray(9)))
        assertTrue("Picture 1, 31 years" in screen.words())
    }
}
