package dev.unplug.demo.age

import ai.unplug.core.picture.Point
import android.graphics.Matrix
import android.graphics.drawable.BitmapDrawable
import android.view.MotionEvent
import android.view.View
import android.widget.ImageView

/** Taps on a photograph, in its pixels; a touch next to it is not a tap. */
class EyeTaps(
    private val tapped: (Point) -> Unit,
) : View.OnTouchListener {
    override fun onTouch(
        view: View,
        event: MotionEvent,
    ): Boolean {
        if (event.actionMasked != MotionEvent.ACTION_UP) return true
        view.performClick()
        val picture = (view as ImageView).drawable as? BitmapDrawable ?: return true
        val at = floatArrayOf(event.x - view.paddingLeft, event.y - view.paddingTop)
        Matrix().also(view.imageMatrix::invert).mapPoints(at)
        val x = at[0].toDouble() / picture.intrinsicWidth
        val y = at[1].toDouble() / picture.intrinsicHeight
        if (x in 0.0..1.0 && y in 0.0..1.0) tapped(Point(x * picture.bitmap.width, y * picture.bitmap.height))
        return true
    }
}
