package dev.unplug.demo

import android.app.Activity
import android.content.Intent
import android.graphics.Bitmap
import android.graphics.Canvas
import android.os.Bundle
import android.os.Looper
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import java.io.File

/** The app that the test runs in. */
val app: DemoApp get() = RuntimeEnvironment.getApplication() as DemoApp

/** Lets everything that was begun come to its end, as far as it can without a user. */
fun settle(seconds: Int = 60) {
    val until = System.nanoTime() + seconds * 1_000_000_000L
    do {
        shadowOf(Looper.getMainLooper()).idle()
        if (System.nanoTime() > until) throw AssertionError("${app.work.pending} tasks did not end")
        Thread.sleep(5)
    } while (app.work.pending > 0)
    shadowOf(Looper.getMainLooper()).idle()
}

/** A screen in front. */
fun <T : Activity> open(
    screen: Class<T>,
    saved: Bundle? = null,
): ActivityController<T> {
    val controller = Robolectric.buildActivity(screen)
    controller.create(saved).start()
    if (saved != null) controller.restoreInstanceState(saved)
    controller.postCreate(saved).resume().visible()
    settle()
    return controller
}

/** What happens to a screen whose process was ended: only the saved state is left. */
fun <T : Activity> reborn(controller: ActivityController<T>): ActivityController<T> {
    val saved = Bundle()
    val screen = controller.get().javaClass
    controller.pause().saveInstanceState(saved).stop()
    return open(screen, saved)
}

/** All that somebody reads on a screen. */
fun Activity.words(): List<String> = window.decorView.all().filterIsInstance<TextView>().filter { it.isShown }.map { it.text.toString() }.filter { it.isNotBlank() }

fun View.all(): List<View> = listOf(this) + ((this as? ViewGroup)?.let { group -> (0 until group.childCount).flatMap { group.getChildAt(it).all() } }.orEmpty())

/** The line of an alert, or null where none is shown. */
fun Activity.alert(): String? = findViewById<TextView?>(R.id.alert)?.takeIf { it.isShown }?.text?.toString()

/** The screen as pixels, kept as `NAME.png` to look at. */
fun Activity.shot(name: String): Bitmap {
    shadowOf(Looper.getMainLooper()).idle()
    val view = window.decorView
    val bitmap = Bitmap.createBitmap(view.width, view.height, Bitmap.Config.ARGB_8888)
    view.draw(Canvas(bitmap))
    val folder = File(System.getProperty("unplug.screenshots") ?: "build/screenshots").apply { mkdirs() }
    File(folder, "$name.png").outputStream().use { bitmap.compress(Bitmap.CompressFormat.PNG, 100, it) }
    return bitmap
}

/** Presses what these words stand on, or the nearest around it that can be pressed. */
fun Activity.press(words: String) {
    val found = window.decorView.all().filterIsInstance<TextView>().first { it.isShown && it.text.toString() == words }
    generateSequence<View>(found) { it.parent as? View }.first { it.isClickable }.let {
        check(it.isEnabled) { "$words cannot be pressed now" }
        it.performClick()
    }
}

/** What the screen has started last. */
fun Activity.started(): Intent = checkNotNull(shadowOf(this).nextStartedActivity) { "nothing was started" }
