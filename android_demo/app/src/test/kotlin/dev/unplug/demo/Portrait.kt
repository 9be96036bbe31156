package dev.unplug.demo

import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Paint

/** A drawn face, for screenshots. */
object Portrait {
    fun drawn(side: Int = 512): Bitmap {
        val bitmap = Bitmap.createBitmap(side, side, Bitmap.Config.ARGB_8888)
        val canvas = Canvas(bitmap).apply { scale(side / 100f, side / 100f) }
        val paint = Paint(Paint.ANTI_ALIAS_FLAG)

        fun oval(
            color: Long,
            x: Float,
            y: Float,
            width: Float,
            height: Float,
        ) {
            paint.color = color.toInt()
            canvas.drawOval(x - width, y - height, x + width, y + height, paint)
        }
        canvas.drawColor(0xff9fc7bd.toInt())
        oval(0xff4a3a8c, 50f, 108f, 38f, 26f)
        oval(0xff3a2418, 50f, 44f, 33f, 36f)
        oval(0xffc98f6b, 50f, 76f, 10f, 14f)
        oval(0xffe0a884, 50f, 52f, 26f, 31f)
        for (x in listOf(39f, 61f)) {
            oval(0xffffffff, x, 50f, 5f, 3.2f)
            oval(0xff3b5a3a, x, 50f, 2.6f, 2.6f)
            oval(0xff3a2418, x, 43f, 6f, 1.2f)
        }
        oval(0xffc98f6b, 50f, 60f, 3f, 2f)
        oval(0xffa8473f, 50f, 70f, 8f, 2.6f)
        return bitmap
    }
}
