package dev.unplug.demo.age

import ai.unplug.core.DataError
import ai.unplug.core.age.AgeAnswer
import ai.unplug.core.age.AgeModel
import ai.unplug.core.bundle.Bundle
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Paint
import android.graphics.RectF
import android.net.Uri
import dev.unplug.demo.DemoApp
import dev.unplug.demo.Running
import dev.unplug.demo.Watched
import dev.unplug.demo.line

/** What the age screen shows. */
class Answered(
    val photo: Bitmap,
    val answer: AgeAnswer,
    val millis: Double,
    val runtime: String,
    val bundle: Bundle,
)

/**
 * The state of the age screen.
 *
 * @param app whose models and threads are used.
 * @property photo that was chosen, or null.
 */
class AgeState(
    private val app: DemoApp,
    var photo: Uri?,
) : Watched() {
    var answered: Answered? = null
        private set
    var line: String? = null
        private set
    val busy: Boolean get() = running != null
    private var running: Running? = null

    /** The file that a camera was asked to write. */
    var taking: Uri? = null

    init {
        photo?.let(::look)
    }

    /** Answers for another photograph; an answer that is still under way counts no more. */
    fun look(uri: Uri) {
        photo = uri
        line = null
        running?.stop()
        running =
            app.work.run({ answer(uri) }) { result ->
                if (photo != uri) return@run
                running = null
                answered = result.getOrNull()
                line = result.exceptionOrNull()?.let { app.line(it) }
                changed()
            }
        changed()
    }

    /** Says why no photograph comes. */
    fun say(text: String) {
        line = text
        changed()
    }

    private fun answer(uri: Uri): Answered {
        val bundle = app.shelf.need("age")
        val photo = decode(app.contentResolver, uri)
        val face = app.faces.find(photo) ?: throw DataError("photograph", "no face was found in it", "Choose one with a face from the front")
        val (artifact, way) = app.engines.choose(bundle.artifacts)
        app.engines.open(way, artifact.path, bundle.read(artifact.path)).use { engine ->
            val begun = System.nanoTime()
            val answer = AgeModel(engine, artifact.iospec, bundle.manifest.postprocessing).answer(photo.part(face))
            return Answered(framed(photo, face), answer, (System.nanoTime() - begun) / 1e6, way.shown, bundle)
        }
    }

    private fun framed(
        photo: Bitmap,
        face: ai.unplug.core.picture.Box,
    ): Bitmap {
        val copy = photo.copy(Bitmap.Config.ARGB_8888, true)
        val width = maxOf(copy.width, copy.height) / 160f
        val box = RectF(face.left.toFloat(), face.top.toFloat(), face.right.toFloat(), face.bottom.toFloat())
        val paint = Paint(Paint.ANTI_ALIAS_FLAG).apply { style = Paint.Style.STROKE }
        for ((color, stroke) in listOf(0x99000000.toInt() to 2 * width, 0xffffffff.toInt() to width)) {
            paint.color = color
            paint.strokeWidth = stroke
            Canvas(copy).drawRoundRect(box, 6 * width, 6 * width, paint)
        }
        return copy
    }
}
