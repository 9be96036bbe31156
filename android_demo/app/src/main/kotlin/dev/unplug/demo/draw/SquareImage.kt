package dev.unplug.demo.draw

import android.content.Context
import android.graphics.drawable.BitmapDrawable
import android.util.AttributeSet
import android.widget.ImageView

/** A picture as wide as there is room, and as high; its pixels stay pixels. */
class SquareImage(
    context: Context,
    attributes: AttributeSet?,
) : ImageView(context, attributes) {
    override fun onMeasure(
        width: Int,
        height: Int,
    ) = super.onMeasure(width, width)

    override fun setImageBitmap(bitmap: android.graphics.Bitmap?) {
        super.setImageBitmap(bitmap)
        (drawable as? BitmapDrawable)?.isFilterBitmap = true
    }
}
