package dev.unplug.demo.draw

import ai.unplug.core.DataError
import ai.unplug.core.draw.Drawn
import ai.unplug.core.draw.Generator
import ai.unplug.core.draw.GeneratorFolder
import ai.unplug.core.draw.Mark
import ai.unplug.core.draw.Order
import ai.unplug.core.draw.Pipeline
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.centreSquare
import ai.unplug.core.picture.madeByModel
import ai.unplug.core.picture.toPicture
import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.net.Uri
import dev.unplug.demo.DemoApp
import dev.unplug.demo.R
import dev.unplug.demo.Running
import dev.unplug.demo.Watched
import dev.unplug.demo.age.bitmap
import dev.unplug.demo.age.decode
import dev.unplug.demo.age.whole
import dev.unplug.demo.digits
import dev.unplug.demo.engine.Runs
import dev.unplug.demo.line
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.IOException
import java.util.concurrent.CancellationException

/** The state of the drawing screen. */
class DrawState(
    private val app: DemoApp,
) : Watched() {
    var pipeline: Pipeline? = null
        private set
    var picture: Bitmap? = null
        private set
    var line: String? = null
        private set
    var said: String = ""
        private set

    /** Steps that are done of all, while it draws. */
    var progress: Pair<Int, Int>? = null
        private set
    val drawing: Boolean get() = running != null

    /** What the plugin follows, as it came in from a photograph; the pad shows it once. */
    var guide: Picture? = null

    /** The last picture that was finished: it outlives the process. */
    val finished = File(app.filesDir, "drawn.png")
    private var running: Running? = null
    private var before: Bitmap? = null

    init {
        app.work.run({ app.generators.open().pipeline to finished.takeIf { it.isFile }?.let { BitmapFactory.decodeFile(it.path) } }) { result ->
            pipeline = result.getOrNull()?.first
            picture = picture ?: result.getOrNull()?.second
            line = if (result.exceptionOrNull() is DataError && pipeline == null) app.getString(R.string.draw_none) else result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }
    }

    /** Draws; [stop] ends it before it is done. */
    fun draw(order: Order) {
        line = null
        before = picture
        said = app.getString(R.string.draw_opening)
        progress = 0 to (order.steps ?: 1)
        running =
            app.work.run({ running -> draw(order, running) }) { result ->
                running = null
                progress = null
                result.fold({ shown(order, it) }, ::failed)
                changed()
            }
        changed()
    }

    fun stop() = running?.stop() ?: Unit

    fun say(text: String) {
        line = text
        changed()
    }

    /** A picture that was chosen as a guide. */
    fun guideFrom(
        uri: Uri,
        condition: String,
    ) {
        val side = pipeline?.imageSize ?: return
        line = null
        app.work.run({ guideOf(centreSquare(decode(app.contentResolver, uri).whole(), side), condition) }) { result ->
            guide = result.getOrNull()
            line = result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }
    }

    private fun draw(
        order: Order,
        running: Running,
    ): Finished {
        val begun = System.nanoTime()
        val folder = app.generators.open()
        Generator(folder.pipeline, folder::variant) { part -> open(folder, part) }.use { generator ->
            val every = ((order.steps ?: folder.pipeline.defaultsOf(order.variant).steps) + PREVIEWS - 1) / PREVIEWS
            val drawn =
                generator.draw(order) { step ->
                    if (running.stopped) throw CancellationException()
                    val preview = if (step.done % every == 0 && step.done < step.steps) toPicture(generator.decode(step.data)).bitmap() else null
                    app.work.tell { stepped(step.done, step.steps, preview) }
                }
            keep(drawn.picture.bitmap())
            // The seconds of the picture, without those of reading its mark.
            val seconds = (System.nanoTime() - begun) / 1e9
            return Finished(drawn, seconds, markIn(drawn.picture, folder))
        }
    }

    /** What a reader of marks among the generator's files says of a picture; null where there is none. */
    fun markIn(
        picture: Picture,
        folder: GeneratorFolder,
    ): String? =
        runCatching {
            folder.markReaders()?.let(app.engines::choose)?.let { (file, way) ->
                val agree = app.engines.open(way, file.path, folder.file(file).readBytes()).use { Mark.read(picture, it, file.iospec) }
                if (Mark.isMarked(agree)) app.getString(R.string.draw_marked, agree, Mark.BITS) else app.getString(R.string.draw_unmarked)
            }
        }.getOrElse { app.getString(R.string.draw_mark_unread, app.line(it)) }

    private fun open(
        folder: GeneratorFolder,
        part: String,
    ) = wayOf(folder).let { (way, precision) -> app.engines.open(way, part, folder.file(part, way.target, precision).readBytes()) }

    private fun wayOf(folder: GeneratorFolder): Pair<Runs, String> =
        app.engines.ways
            .filter { it != Runs.LITERT_GPU }
            .firstNotNullOfOrNull { way -> folder.kinds().firstOrNull { it.first == way.target }?.let { way to it.second } }
            ?: throw DataError("generator", "it holds no files for this phone", "Export it to litert or onnx")

    /** Written under another name first: a full disk leaves the last picture as it was. */
    private fun keep(bitmap: Bitmap) {
        val new = File(finished.parentFile, "drawn.new")
        try {
            // In memory first: where a stream fails, compress returns false and says nothing of why.
            new.writeBytes(madeByModel(ByteArrayOutputStream().also { bitmap.compress(Bitmap.CompressFormat.PNG, 100, it) }.toByteArray()))
            if (!new.renameTo(finished)) throw IOException("the picture cannot be kept")
        } finally {
            new.delete()
        }
    }

    private fun stepped(
        done: Int,
        steps: Int,
        preview: Bitmap?,
    ) {
        if (running == null) return
        progress = done to steps
        said = app.getString(R.string.draw_step, done, steps)
        picture = preview ?: picture
        changed()
    }

    private fun shown(
        order: Order,
        made: Finished,
    ) {
        val drawn = made.drawn
        picture = drawn.picture.bitmap()
        val plain = app.getString(R.string.draw_done, order.seed.toString(), order.steps ?: 0, made.seconds.digits(1))
        val done = if (drawn.packs.isEmpty()) plain else app.getString(R.string.draw_with_packs, plain, drawn.packs.joinToString())
        said = listOfNotNull(if (drawn.prompt.cut) app.getString(R.string.draw_cut, done) else done, made.mark).joinToString("\n")
    }

    private fun failed(error: Throwable) {
        said = if (error is CancellationException) app.getString(R.string.draw_cancelled) else ""
        line = if (error is CancellationException) null else app.line(error)
        picture = before
    }

    private companion object {
        /** Pictures on the way that are shown at most: each costs a run of the decoder. */
        const val PREVIEWS = 8
    }

    private class Finished(
        val drawn: Drawn,
        val seconds: Double,
        val mark: String?,
    )
}
