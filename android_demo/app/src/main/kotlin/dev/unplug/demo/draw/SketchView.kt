package dev.unplug.demo.draw

import ai.unplug.core.picture.Picture
import android.annotation.SuppressLint
import android.content.Context
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.graphics.RectF
import android.util.AttributeSet
import android.view.MotionEvent
import android.view.View
import dev.unplug.demo.age.bitmap
import dev.unplug.demo.age.whole

/** White lines on black, drawn with a finger, in the pixels that a plugin sees. */
class SketchView(
    context: Context,
    attributes: AttributeSet?,
) : View(context, attributes) {
    private val brush =
        Paint().apply {
            color = Color.WHITE
            style = Paint.Style.STROKE
            strokeCap = Paint.Cap.ROUND
        }
    private val smooth = Paint(Paint.FILTER_BITMAP_FLAG)
    private var pad: Bitmap = empty(DEFAULT_SIDE)
    private var from: Pair<Float, Float>? = null

    /** Whether a finger draws, or the picture only is shown. */
    var pen = true

    /** Told when a line was drawn. */
    var changed: () -> Unit = {}

    /** What the plugin would see. */
    val picture: Picture get() = pad.whole()

    fun show(picture: Picture) {
        pad = picture.bitmap().copy(Bitmap.Config.ARGB_8888, true)
        invalidate()
    }

    /** Black, of so many pixels a side. */
    fun clear(side: Int) {
        pad = empty(side)
        invalidate()
    }

    private fun empty(side: Int) = Bitmap.createBitmap(side, side, Bitmap.Config.ARGB_8888).apply { eraseColor(Color.BLACK) }

    override fun onDraw(canvas: Canvas) = canvas.drawBitmap(pad, null, RectF(0f, 0f, width.toFloat(), height.toFloat()), smooth)

    @SuppressLint("ClickableViewAccessibility")
    override fun onTouchEvent(event: MotionEvent): Boolean {
        if (!pen) return super.onTouchEvent(event)
        val at = event.x * pad.width / width to event.y * pad.height / height
        when (event.actionMasked) {
            MotionEvent.ACTION_DOWN -> {
                parent.requestDisallowInterceptTouchEvent(true)
                line(at, at)
            }
            MotionEvent.ACTION_MOVE -> line(from ?: at, at)
            MotionEvent.ACTION_UP -> changed()
        }
        from = at.takeIf { event.actionMasked != MotionEvent.ACTION_UP }
        return true
    }

    private fun line(
        start: Pair<Float, Float>,
        end: Pair<Float, Float>,
    ) {
        brush.strokeWidth = maxOf(1f, pad.width / 128f)
        Canvas(pad).drawLine(start.first, start.second, end.first + 0.01f, end.second, brush)
        invalidate()
    }

    private companion object {
        const val DEFAULT_SIDE = 128
    }
}
