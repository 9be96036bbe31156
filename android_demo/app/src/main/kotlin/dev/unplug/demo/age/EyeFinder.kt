package dev.unplug.demo.age

import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Point
import android.graphics.Bitmap
import android.graphics.PointF
import android.media.FaceDetector

/** Finds faces by their eyes. */
fun interface EyeFinder {
    /** The eyes of every face, in pixels of the picture; empty where there is none. */
    fun find(picture: Bitmap): List<Eyes>
}

/**
 * The platform's own detector, which every phone has.
 *
 * It says where the middle between two eyes is and how far they are apart, of faces that are upright: both are taken to be level.
 */
object FrameworkEyes : EyeFinder {
    private const val SIDE = 480
    private const val MOST = 8

    override fun find(picture: Bitmap): List<Eyes> {
        val scale = minOf(1.0, SIDE.toDouble() / maxOf(picture.width, picture.height))
        // The detector takes pictures of an even width, in 565 only.
        val width = (picture.width * scale).toInt().coerceAtLeast(2) and 1.inv()
        val height = (picture.height * scale).toInt().coerceAtLeast(2)
        val small = Bitmap.createScaledBitmap(picture, width, height, true).copy(Bitmap.Config.RGB_565, false)
        val found = arrayOfNulls<FaceDetector.Face>(MOST)
        FaceDetector(width, height, MOST).findFaces(small, found)
        val (across, down) = picture.width / width.toDouble() to picture.height / height.toDouble()
        return found.filterNotNull().filter { it.confidence() >= FaceDetector.Face.CONFIDENCE_THRESHOLD }.map { face ->
            val middle = PointF().also(face::getMidPoint)
            val half = face.eyesDistance() / 2.0
            Eyes(Point(across * (middle.x - half), down * middle.y), Point(across * (middle.x + half), down * middle.y))
        }
    }
}
