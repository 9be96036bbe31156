package dev.unplug.demo.draw

import ai.unplug.core.DataError
import ai.unplug.core.UnplugError
import ai.unplug.core.bundle.MANIFEST
import ai.unplug.core.bundle.SIGNATURE
import ai.unplug.core.bundle.Schema
import ai.unplug.core.bundle.Source
import ai.unplug.core.bundle.Verified
import ai.unplug.core.bundle.verify
import ai.unplug.core.draw.GeneratorFolder
import ai.unplug.core.draw.Pipeline
import dev.unplug.demo.bundle.Shelf
import java.io.File
import java.io.IOException
import java.util.zip.ZipEntry
import java.util.zip.ZipException
import java.util.zip.ZipFile

private const val FIX = "Zip a folder that unplug export wrote"
private val PART = Regex("[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")

/** Whether a zip file holds a generator, signed or not, and no models: a `pipeline.json`, at its top or in its one folder. */
fun isGenerator(zip: File): Boolean =
    try {
        ZipFile(zip).use { rootOf(it) == "" || (rootOf(it) != null && it.getEntry(MANIFEST) == null) }
    } catch (broken: ZipException) {
        false
    }

private fun rootOf(zip: ZipFile): String? =
    zip
        .entries()
        .asSequence()
        .map { it.name }
        .filter { it == Pipeline.FILE || it.endsWith("/${Pipeline.FILE}") }
        .map { it.removeSuffix(Pipeline.FILE) }
        .singleOrNull { it.count { at -> at == '/' } <= 1 }

/** A generator that lies on the phone: it opens, or why it does not. */
class KeptGenerator(
    val folder: GeneratorFolder?,
    val error: UnplugError?,
)

/**
 * The one generator that the app holds, unpacked. Its files are held to `pipeline.json` by SHA-256 each time one is opened, and that
 * to its signature where it has one.
 *
 * @param folder the app's own folder.
 * @param shelf knows whom the phone trusts, and which releases it saw.
 */
class GeneratorShelf(
    private val folder: File,
    private val shelf: Shelf,
) {
    /**
     * @throws DataError there is none.
     * @throws UnplugError its signature does not count any more.
     */
    fun open(): GeneratorFolder {
        if (!folder.isDirectory) throw DataError("generator", "none is on the phone", "Import one on the screen Bundles")
        return at(folder)
    }

    /** Null where there is none. */
    fun look(): KeptGenerator? =
        try {
            if (folder.isDirectory) KeptGenerator(open(), null) else null
        } catch (error: UnplugError) {
            KeptGenerator(null, error)
        }

    /** Files that were left out when it came in are not missed. */
    private fun at(place: File) = GeneratorFolder(place, if (File(place, SIGNATURE).exists()) signed(Source.at(place), whole = false) else null)

    private fun signed(
        source: Source,
        whole: Boolean,
    ): Verified = shelf.trusted({ it.publication }) { trust, now -> verify(source, trust, now, Schema.GENERATOR, whole) }

    /**
     * Takes a generator's zip file in, whole or not at all; files that no runtime here reads stay out.
     *
     * @throws DataError it is not a generator, is broken, or holds more than a phone has room for.
     * @throws UnplugError it is signed, and must not be used.
     */
    @Synchronized
    fun take(zip: File) {
        val new = File(folder.parentFile, "${folder.name}.new")
        val old = File(folder.parentFile, "${folder.name}.old")
        new.deleteRecursively()
        try {
            unpack(zip, new)
            val taken = at(new)
            taken.kinds().ifEmpty { throw DataError("generator", "its parts have no target in common", FIX) }
            taken.signed?.let { shelf.remember(it.publication) }
            old.deleteRecursively()
            folder.renameTo(old)
            if (!new.renameTo(folder)) throw IOException("${folder.name} cannot be written")
        } catch (broken: ZipException) {
            throw DataError("generator", "its zip file is broken", FIX)
        } finally {
            new.deleteRecursively()
            old.deleteRecursively()
        }
    }

    @Synchronized
    fun remove() {
        folder.deleteRecursively()
    }

    private fun unpack(
        zip: File,
        target: File,
    ) = ZipFile(zip).use { archive ->
        val root = rootOf(archive) ?: throw DataError("generator", "it holds no ${Pipeline.FILE}", FIX)
        val papers = if (archive.getEntry(root + SIGNATURE) == null) emptyList() else listOf(MANIFEST, SIGNATURE)
        if (papers.isNotEmpty()) Source.at(zip).use { signed(it, whole = true) }
        var left = MAX_BYTES
        for (entry in archive.entries()) {
            if (entry.isDirectory || !entry.name.startsWith(root)) continue
            val name = entry.name.removePrefix(root)
            val card = name.startsWith("${GeneratorFolder.MARK_READER}/") && name.endsWith(".json")
            if (name != Pipeline.FILE && name !in papers && !card && SUFFIXES.none(name::endsWith)) continue
            left = copy(archive, entry, inside(target, name), left)
        }
    }

    private fun inside(
        target: File,
        name: String,
    ): File {
        val parts = name.split('/')
        if (parts.size > 4 || !parts.all(PART::matches)) throw DataError("generator", "it holds a file with an unsafe name", FIX)
        return parts.fold(target, ::File).also { it.parentFile?.mkdirs() }
    }

    private fun copy(
        archive: ZipFile,
        entry: ZipEntry,
        file: File,
        room: Long,
    ): Long {
        var left = room
        val buffer = ByteArray(1 shl 16)
        archive.getInputStream(entry).use { from ->
            file.outputStream().use { to ->
                while (true) {
                    val count = from.read(buffer)
                    if (count < 0) return left
                    left -= count
                    if (left < 0) throw DataError("generator", "it unpacks to more than ${MAX_BYTES shr 20} MiB", FIX)
                    to.write(buffer, 0, count)
                }
            }
        }
    }

    private companion object {
        const val MAX_BYTES = 4L shl 30
        val SUFFIXES = listOf(".onnx", ".tflite", ".lora")
    }
}
