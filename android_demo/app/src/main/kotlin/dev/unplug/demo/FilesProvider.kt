package dev.unplug.demo

import android.content.ContentProvider
import android.content.ContentValues
import android.content.Context
import android.database.Cursor
import android.database.MatrixCursor
import android.net.Uri
import android.os.ParcelFileDescriptor
import android.provider.OpenableColumns
import java.io.File
import java.io.FileNotFoundException

/** Files of the cache folder `shared/`, for the app that the user hands a file's address to: a camera that writes, or an app that reads. */
class FilesProvider : ContentProvider() {
    override fun onCreate() = true

    override fun openFile(
        uri: Uri,
        mode: String,
    ): ParcelFileDescriptor = ParcelFileDescriptor.open(file(uri), ParcelFileDescriptor.parseMode(mode))

    override fun getType(uri: Uri): String =
        when (file(uri).extension) {
            "png" -> "image/png"
            "jpg" -> "image/jpeg"
            "json" -> "application/json"
            else -> "application/octet-stream"
        }

    override fun query(
        uri: Uri,
        projection: Array<out String>?,
        selection: String?,
        arguments: Array<out String>?,
        order: String?,
    ): Cursor {
        val file = file(uri)
        val known = mapOf<String, Any>(OpenableColumns.DISPLAY_NAME to file.name, OpenableColumns.SIZE to file.length())
        val columns = (projection ?: known.keys.toTypedArray()).filter { it in known }.toTypedArray()
        return MatrixCursor(columns).apply { addRow(columns.map { known[it] }) }
    }

    private fun file(uri: Uri): File {
        val name = uri.pathSegments.singleOrNull()?.takeIf(NAME::matches) ?: throw FileNotFoundException("$uri is not a file of this app")
        return File(folder(checkNotNull(context)), name)
    }

    override fun insert(
        uri: Uri,
        values: ContentValues?,
    ): Uri? = throw UnsupportedOperationException("files are not added here")

    override fun update(
        uri: Uri,
        values: ContentValues?,
        selection: String?,
        arguments: Array<out String>?,
    ): Int = throw UnsupportedOperationException("files are not changed here")

    override fun delete(
        uri: Uri,
        selection: String?,
        arguments: Array<out String>?,
    ): Int = throw UnsupportedOperationException("files are not deleted here")

    companion object {
        private const val AUTHORITY = "dev.unplug.demo.files"
        private val NAME = Regex("[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

        private fun folder(context: Context) = File(context.cacheDir, "shared").apply { mkdirs() }

        /** A file to share, and its address. */
        fun of(
            context: Context,
            name: String,
        ): Pair<File, Uri> = File(folder(context), name) to Uri.Builder().scheme("content").authority(AUTHORITY).path(name).build()
    }
}
