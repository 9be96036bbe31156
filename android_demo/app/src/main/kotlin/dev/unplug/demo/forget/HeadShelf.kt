package dev.unplug.demo.forget

import ai.unplug.core.DataError
import ai.unplug.core.head.HeadFolder
import ai.unplug.core.head.OwnHead
import dev.unplug.demo.bundle.Shelf
import java.io.File
import java.io.IOException
import java.io.InputStream

/**
 * The one head that the app holds, as the zip file that came, and what is kept of its owner's pictures.
 *
 * @param folder the app's own folder.
 */
class HeadShelf(
    private val folder: File,
) {
    private val zip = File(folder, "head.zip")
    private val own = File(folder, "own.json")

    /** Null where there is none. */
    @Synchronized
    fun look(): OwnHead? =
        if (!zip.isFile) {
            null
        } else {
            HeadFolder.at(zip).use { if (own.isFile) OwnHead.of(it.head, own.readText()) else OwnHead(it.head) }
        }

    /** The head's folder, to be closed. @throws DataError there is none. */
    fun open(): HeadFolder = if (zip.isFile) HeadFolder.at(zip) else throw DataError("head", "none is on the phone", "Import one")

    /** Takes a zip file in, whole or not at all. @throws DataError it does not open. */
    @Synchronized
    fun take(bytes: InputStream) =
        replace(zip) { new ->
            new.outputStream().use { Shelf.copy(bytes, it, MAX_BYTES) }
            HeadFolder.at(new).close()
        }

    /** Keeps the owner's pictures for the next start: those that were removed are in no file any more. */
    @Synchronized
    fun keep(now: OwnHead) = replace(own) { it.writeText(now.text()) }

    private fun replace(
        file: File,
        fill: (File) -> Unit,
    ) {
        if (!folder.isDirectory && !folder.mkdirs()) throw IOException("$folder cannot be made")
        val new = File(folder, "${file.name}.new")
        try {
            fill(new)
            if (!new.renameTo(file)) throw IOException("$file cannot be written")
        } finally {
            new.delete()
        }
    }

    private companion object {
        const val MAX_BYTES = 512L shl 20
    }
}
