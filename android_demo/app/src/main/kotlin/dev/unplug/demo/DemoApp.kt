package dev.unplug.demo

import android.app.Application
import dev.unplug.demo.age.EyeFinder
import dev.unplug.demo.age.FrameworkEyes
import dev.unplug.demo.bundle.Shelf
import dev.unplug.demo.draw.GeneratorShelf
import dev.unplug.demo.engine.Engines
import dev.unplug.demo.forget.HeadShelf
import java.io.File
import java.io.FileNotFoundException
import java.io.InputStream
import java.time.Instant

/** What all screens share. */
class DemoApp : Application() {
    val work = Work()
    var engines = Engines()
    val shelf by lazy { Shelf(File(filesDir, "bundles"), ::asset) { now() } }
    val heads by lazy { HeadShelf(File(filesDir, "head")) }
    val generators by lazy { GeneratorShelf(File(filesDir, "generator"), shelf) }

    /** The time, by which bundles expire. */
    var now: () -> Instant = Instant::now

    /** Where adb puts what is to be taken in. */
    val inbox: File? get() = getExternalFilesDir(null)?.let { File(it, "inbox") }

    /** Finds faces by their eyes; another one may be set, MediaPipe's say. */
    var eyes: EyeFinder = FrameworkEyes

    private fun asset(name: String): InputStream? =
        try {
            assets.open(name)
        } catch (none: FileNotFoundException) {
            null
        }
}
