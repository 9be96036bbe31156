package dev.unplug.demo.age

import ai.unplug.core.DataError
import ai.unplug.core.picture.Picture
import android.content.ContentResolver
import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.ImageDecoder
import android.graphics.Matrix
import android.media.ExifInterface
import android.net.Uri
import android.os.Build
import java.io.ByteArrayOutputStream
import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.nio.ByteBuffer
import kotlin.math.max

private const val MAX_SIDE = 1600
private const val MAX_PIXELS = 400L * 1000 * 1000
private const val MAX_BYTES = 128 shl 20

/**
 * A photograph as it is looked at: upright, and at most [MAX_SIDE] pixels long, whatever the file holds.
 *
 * @throws DataError the file is gone or too large, is not a picture that this phone reads, or has more than 400 million pixels.
 */
fun decode(
    resolver: ContentResolver,
    uri: Uri,
): Bitmap {
    val bytes =
        try {
            (resolver.openInputStream(uri) ?: throw FileNotFoundException()).use(::bounded)
        } catch (gone: FileNotFoundException) {
            throw DataError("photograph", "it is not there any more", "Choose it again")
        } catch (closed: SecurityException) {
            throw DataError("photograph", "the app may not read it any more", "Choose it again")
        }
    return if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.P) decodeNow(bytes) else decodeBefore28(bytes)
}

private fun bounded(from: InputStream): ByteArray {
    val found = ByteArrayOutputStream()
    val buffer = ByteArray(1 shl 16)
    while (true) {
        val count = from.read(buffer)
        if (count < 0) return found.toByteArray()
        found.write(buffer, 0, count)
        if (found.size() > MAX_BYTES) throw DataError("photograph", "it has more than ${MAX_BYTES shr 20} MiB", "Choose a smaller one")
    }
}

/** The platform's decoder turns pictures by their EXIF data itself, and knows HEIC. */
@Suppress("NewApi")
private fun decodeNow(bytes: ByteArray): Bitmap =
    try {
        ImageDecoder.decodeBitmap(ImageDecoder.createSource(ByteBuffer.wrap(bytes))) { decoder, info, _ ->
            checkSize(info.size.width, info.size.height)
            decoder.setTargetSampleSize(sampling(info.size.width, info.size.height))
            decoder.allocator = ImageDecoder.ALLOCATOR_SOFTWARE
        }
    } catch (broken: IOException) {
        throw unreadable()
    }

/** Android 8: size, pixels and rotation are read one after the other, and HEIC is not known. */
internal fun decodeBefore28(bytes: ByteArray): Bitmap {
    val size = BitmapFactory.Options().apply { inJustDecodeBounds = true }
    BitmapFactory.decodeByteArray(bytes, 0, bytes.size, size)
    if (size.outWidth <= 0) throw unreadable()
    checkSize(size.outWidth, size.outHeight)
    val options = BitmapFactory.Options().apply { inSampleSize = sampling(size.outWidth, size.outHeight) }
    val bitmap = BitmapFactory.decodeByteArray(bytes, 0, bytes.size, options) ?: throw unreadable()
    val turn = upright(ExifInterface(bytes.inputStream()).getAttributeInt(ExifInterface.TAG_ORIENTATION, 1))
    return if (turn.isIdentity) bitmap else Bitmap.createBitmap(bitmap, 0, 0, bitmap.width, bitmap.height, turn, true)
}

/** What turns a picture upright: EXIF's orientations 1 to 8. */
private fun upright(orientation: Int) =
    Matrix().apply {
        if (orientation in setOf(2, 4, 5, 7)) setScale(-1f, 1f)
        postRotate(mapOf(3 to 180f, 4 to 180f, 5 to 270f, 6 to 90f, 7 to 90f, 8 to 270f)[orientation] ?: 0f)
    }

private fun checkSize(
    width: Int,
    height: Int,
) {
    if (width.toLong() * height > MAX_PIXELS) throw DataError("photograph", "it has $width × $height pixels", "Choose a smaller one")
}

/** The power of two by which the longer side comes closest under [MAX_SIDE]. */
private fun sampling(
    width: Int,
    height: Int,
): Int = generateSequence(1) { 2 * it }.first { max(width, height) / it <= MAX_SIDE }

private fun unreadable(): DataError {
    val heic = if (Build.VERSION.SDK_INT < Build.VERSION_CODES.P) "; Android reads HEIC from 9 on" else ""
    return DataError("photograph", "it is not a picture that this phone can read$heic", "Choose a JPEG, PNG, WebP or HEIC photograph")
}

/** All of a bitmap. */
fun Bitmap.whole(): Picture = Picture.ofArgb(width, height, IntArray(width * height).also { getPixels(it, 0, width, 0, 0, width, height) })

/** A picture to show. */
fun Picture.bitmap(): Bitmap = Bitmap.createBitmap(argb(), width, height, Bitmap.Config.ARGB_8888)
