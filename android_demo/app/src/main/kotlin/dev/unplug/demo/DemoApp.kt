package dev.unplug.demo

import android.app.Application
import dev.unplug.demo.age.FaceFinder
import dev.unplug.demo.age.FrameworkFaces
import dev.unplug.demo.bundle.Shelf
import dev.unplug.demo.draw.GeneratorShelf
import dev.unplug.demo.engine.Engines
import java.io.File

/** What all screens share. */
class DemoApp : Application() {
    val work = Work()
    val engines = Engines()
    val shelf by lazy { Shelf(File(filesDir, "bundles"), assets) }
    val generators by lazy { GeneratorShelf(File(filesDir, "generator")) }

    /** Where adb puts what is to be taken in. */
    val inbox: File? get() = getExternalFilesDir(null)?.let { File(it, "inbox") }

    /** Finds faces; another one may be set, MediaPipe's say. */
    var faces: FaceFinder = FrameworkFaces
}
