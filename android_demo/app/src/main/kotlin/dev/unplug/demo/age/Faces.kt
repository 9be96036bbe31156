package dev.unplug.demo.age

import ai.unplug.core.picture.Box
import android.graphics.Bitmap
import android.graphics.PointF
import android.media.FaceDetector

/** Finds the largest face of a picture. */
fun interface FaceFinder {
    /** Its square, as the age models are trained on: hair to chin; or null where there is none. */
    fun find(picture: Bitmap): Box?
}

/** The platform's own detector, which every phone has: it finds upright faces by their eyes. */
object FrameworkFaces : FaceFinder {
    private const val SIDE = 480
    private const val MOST = 8

    /** Of UTKFace's aligned pictures, in distances between the eyes: side of the square, and the eyes' share of it from above. */
    private const val SIDE_BY_EYES = 3.0
    private const val EYES_FROM_TOP = 0.44

    override fun find(picture: Bitmap): Box? {
        val scale = minOf(1.0, SIDE.toDouble() / maxOf(picture.width, picture.height))
        // The detector takes pictures of an even width, in 565 only.
        val width = (picture.width * scale).toInt().coerceAtLeast(2) and 1.inv()
        val height = (picture.height * scale).toInt().coerceAtLeast(2)
        val small = Bitmap.createScaledBitmap(picture, width, height, true).copy(Bitmap.Config.RGB_565, false)
        val found = arrayOfNulls<FaceDetector.Face>(MOST)
        FaceDetector(width, height, MOST).findFaces(small, found)
        val face = found.filterNotNull().maxByOrNull { it.eyesDistance() } ?: return null
        val middle = PointF().also(face::getMidPoint)
        return around(middle.x * picture.width / width.toDouble(), middle.y * picture.height / height.toDouble(), face.eyesDistance() / scale)
    }

    private fun around(
        x: Double,
        y: Double,
        eyes: Double,
    ): Box {
        val side = SIDE_BY_EYES * eyes
        val top = y - EYES_FROM_TOP * side
        return Box(x - side / 2, top, x + side / 2, top + side)
    }
}
