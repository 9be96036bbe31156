package dev.unplug.demo.age

import ai.unplug.core.DataError
import ai.unplug.core.age.AgeAnswer
import ai.unplug.core.age.AgeGroup
import ai.unplug.core.age.AgeModel
import ai.unplug.core.age.ClassModel
import ai.unplug.core.age.Label
import ai.unplug.core.bundle.Bundle
import ai.unplug.core.bundle.Member
import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Point
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Paint
import android.graphics.Path
import android.net.Uri
import dev.unplug.demo.DemoApp
import dev.unplug.demo.R
import dev.unplug.demo.Running
import dev.unplug.demo.Watched
import dev.unplug.demo.bench.measured
import dev.unplug.demo.line
import kotlin.math.roundToInt

/**
 * The model's answer about a photograph.
 *
 * @property labels the age groups, or the likeliest labels, with their probabilities.
 * @property answer null where the model says labels.
 * @property member the member of a family that answered; null where the bundle has one model alone.
 * @property model the age model, with its engine closed: the screen reads its rule and its frame.
 */
class Answered(
    val labels: List<Label>,
    val answer: AgeAnswer?,
    val model: AgeModel?,
    val millis: Double,
    val runtime: String,
    val bundle: Bundle,
    val member: Member?,
)

/**
 * A photograph that was looked at.
 *
 * @property photo the photograph with what the model saw marked, or as it is where there is no answer.
 * @property answered null where its face cannot be judged: the user may then show where the eyes are.
 */
private class Looked(
    val photo: Bitmap,
    val answered: Answered?,
    val unjudged: DataError? = null,
)

/**
 * The state of the age screen.
 *
 * @param app the app with the models and threads.
 * @property photo the chosen photograph, or null.
 */
class AgeState(
    private val app: DemoApp,
    var photo: Uri?,
) : Watched() {
    var answered: Answered? = null
        private set

    /** The photograph as it is shown, or null. */
    var shown: Bitmap? = null
        private set
    var line: String? = null
        private set
    val busy: Boolean get() = running != null
    private var running: Running? = null
    private var plain: Bitmap? = null

    /** The first of the two eyes that the user shows. */
    private var firstEye: Point? = null

    /** How many eyes the user has still to show before there is an answer. */
    val eyesAsked: Int get() = if (plain == null) 0 else if (firstEye == null) 2 else 1

    /** The file that a camera was asked to write. */
    var taking: Uri? = null

    init {
        photo?.let { look(it) }
    }

    /**
     * Answers for another photograph; an answer that is still under way no longer counts.
     *
     * @param eyes the eyes of its one face, where the user has shown them.
     */
    fun look(
        uri: Uri,
        eyes: Eyes? = null,
    ) {
        photo = uri
        line = null
        firstEye = null
        running?.stop()
        running =
            app.work.run({ answer(uri, eyes) }) { result ->
                if (photo != uri) return@run
                running = null
                val looked = result.getOrNull()
                answered = looked?.answered
                shown = looked?.photo
                plain = looked?.unjudged?.let { looked.photo }
                line = (looked?.unjudged ?: result.exceptionOrNull())?.let { app.line(it) }
                changed()
            }
        changed()
    }

    /** The user shows an eye, in pixels of [shown]; after the second one the photograph is looked at again. */
    fun show(eye: Point) {
        val (picture, uri) = (plain ?: return) to (photo ?: return)
        val first = firstEye
        if (first != null) {
            val (left, right) = listOf(first, eye).sortedBy { it.x }
            plain = null
            return look(uri, Eyes(left, right))
        }
        firstEye = eye
        shown = marked(picture, emptyList(), listOf(eye))
        changed()
    }

    /** Says why no photograph comes. */
    fun say(text: String) {
        line = text
        changed()
    }

    private fun answer(
        uri: Uri,
        eyes: Eyes?,
    ): Looked {
        val bundle = app.shelf.need("age", "classes")
        val photo = decode(app.contentResolver, uri)
        val member = bundle.member(measured(app))
        val (artifact, way) = app.engines.choose(bundle.artifactsOf(member))
        app.engines.open(way, artifact.path, bundle.read(artifact.path)).use { engine ->
            if (bundle.manifest.modelType == "classes") {
                val model = ClassModel(engine, artifact.iospec, bundle.manifest.postprocessing)
                val shown = model.shown(photo.whole())
                val begun = System.nanoTime()
                val answered = Answered(model.answer(shown), null, null, (System.nanoTime() - begun) / 1e6, way.shown, bundle, member)
                return Looked(squared(photo), answered)
            }
            val model = AgeModel(engine, artifact, bundle.manifest)
            val faces = if (model.frame == null) emptyList() else eyes?.let(::listOf) ?: app.eyes.find(photo)
            val shown =
                try {
                    model.shown(photo.whole(), faces)
                } catch (unjudged: DataError) {
                    return Looked(photo, null, unjudged)
                }
            val begun = System.nanoTime()
            val answer = model.answer(shown)
            val answered = Answered(named(answer.groups), answer, model, (System.nanoTime() - begun) / 1e6, way.shown, bundle, member)
            return Looked(seen(photo, model, faces), answered)
        }
    }

    private fun named(groups: List<AgeGroup>) =
        groups.mapIndexed { at, group ->
            val (from, to) = group.from.roundToInt() to group.to.roundToInt()
            val isLast = at == groups.lastIndex
            Label(if (isLast) app.getString(R.string.age_group_last, from) else app.getString(R.string.age_group_between, from, to - 1), group.probability)
        }

    /** The photograph with what the model saw of it: the frame around the eyes, or the centre square. */
    private fun seen(
        photo: Bitmap,
        model: AgeModel,
        faces: List<Eyes>,
    ): Bitmap {
        model.frame?.let { frame -> return marked(photo, frame.corners(faces.single()), faces.flatMap { listOf(it.left, it.right) }) }
        return squared(photo)
    }

    private fun squared(photo: Bitmap): Bitmap {
        val side = minOf(photo.width, photo.height).toDouble()
        val (left, top) = (photo.width - side) / 2 to (photo.height - side) / 2
        return marked(photo, listOf(Point(left, top), Point(left + side, top), Point(left + side, top + side), Point(left, top + side)), emptyList())
    }

    private fun marked(
        photo: Bitmap,
        corners: List<Point>,
        eyes: List<Point>,
    ): Bitmap {
        val copy = photo.copy(Bitmap.Config.ARGB_8888, true)
        val canvas = Canvas(copy)
        val width = maxOf(copy.width, copy.height) / 160f
        val path = Path()
        corners.forEachIndexed { at, (x, y) -> if (at == 0) path.moveTo(x.toFloat(), y.toFloat()) else path.lineTo(x.toFloat(), y.toFloat()) }
        if (corners.isNotEmpty()) path.close()
        for ((x, y) in eyes) path.addCircle(x.toFloat(), y.toFloat(), 2.5f * width, Path.Direction.CW)
        val paint = Paint(Paint.ANTI_ALIAS_FLAG).apply { style = Paint.Style.STROKE }
        for ((color, stroke) in listOf(0x99000000.toInt() to 2 * width, 0xffffffff.toInt() to width)) {
            paint.color = color
            paint.strokeWidth = stroke
            paint.strokeJoin = Paint.Join.ROUND
            canvas.drawPath(path, paint)
        }
        return copy
    }
}
