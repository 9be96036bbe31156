package ai.unplug.core.bundle

import java.io.EOFException
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.io.RandomAccessFile
import java.util.zip.CRC32
import java.util.zip.CheckedInputStream
import java.util.zip.Inflater
import java.util.zip.InflaterInputStream

private const val MAX_BYTES = 512L shl 20
private const val MAX_DIRECTORY = 4 shl 20
private const val STORED = 0
private const val DEFLATED = 8

private class Entry(
    val name: String,
    val method: Int,
    val crc: Long,
    val packed: Long,
    val size: Long,
    val offset: Long,
)

/**
 * A zip file as step 0 of docs/formats.md allows it: no comment, no zip64, no encryption, stored or deflated, safe names, none
 * twice. The platform's own reader takes more than that, and not the same on every version.
 */
internal class ZipSource private constructor(
    private val file: RandomAccessFile,
    private val entries: Map<String, Entry>,
) : Source(entries.mapValues { it.value.size }) {
    override val damage = Verdict.ARCHIVE

    override fun close() = file.close()

    override fun open(name: String): InputStream {
        val entry = entries.getValue(name)
        val start = dataOf(entry)
        val packed = Part(file, start, start + entry.packed)
        val plain = if (entry.method == STORED) packed else Inflated(packed, Inflater(true))
        return Checked(CheckedInputStream(plain, CRC32()), entry.crc)
    }

    /** Where an entry's bytes begin; its own head must say the same as the directory. */
    private fun dataOf(entry: Entry): Long {
        val head = bytes(file, entry.offset, 30)
        val name = bytes(file, entry.offset + 30, u16(head, 26)).toString(Charsets.ISO_8859_1)
        if (u32(head, 0) != 0x04034b50L || name != entry.name) throw IOException("the directory and an entry differ")
        val start = entry.offset + 30 + u16(head, 26) + u16(head, 28)
        if (start + entry.packed > file.length()) throw EOFException("an entry is cut off")
        return start
    }

    companion object {
        fun of(path: File): ZipSource {
            val file = RandomAccessFile(path, "r")
            return try {
                ZipSource(file, directory(file))
            } catch (error: IOException) {
                file.close()
                throw Refused(Verdict.ARCHIVE, "it is not a plain zip file (${error.message})")
            } catch (error: Refused) {
                file.close()
                throw error
            }
        }
    }
}

private fun bad(why: String): Nothing = throw IOException(why)

private fun directory(file: RandomAccessFile): Map<String, Entry> {
    val size = file.length()
    if (size !in 22..MAX_BYTES) bad("it has $size bytes")
    val end = bytes(file, size - 22, 22)
    if (u32(end, 0) != 0x06054b50L || u16(end, 20) != 0) bad("it does not end with its directory")
    val (count, length, start) = Triple(u16(end, 10), u32(end, 12), u32(end, 16))
    if (u16(end, 4) != 0 || u16(end, 6) != 0 || u16(end, 8) != count) bad("it is one of several parts")
    if (count > MAX_FILES || length > MAX_DIRECTORY || start + length != size - 22) bad("its directory is too large, or not at its end")
    val raw = bytes(file, start, length.toInt())
    val found = LinkedHashMap<String, Entry>()
    var at = 0
    var total = 0L
    repeat(count) {
        if (at + 46 > raw.size || u32(raw, at) != 0x02014b50L) bad("its directory is damaged")
        val next = at + 46 + u16(raw, at + 28) + u16(raw, at + 30) + u16(raw, at + 32)
        if (next > raw.size) bad("its directory is cut off")
        val name = String(raw, at + 46, u16(raw, at + 28), Charsets.ISO_8859_1)
        if (!name.endsWith("/")) {
            val entry = entryOf(raw, at, name)
            total += entry.size
            if (total > MAX_BYTES) bad("it unpacks to more than ${MAX_BYTES shr 20} MiB")
            if (found.put(name, entry) != null) bad("it holds a file twice")
        }
        at = next
    }
    if (at != raw.size) bad("its directory holds more than its entries")
    return found
}

private fun entryOf(
    raw: ByteArray,
    at: Int,
    name: String,
): Entry {
    if (!isSafe(name)) bad("it names an unsafe file ${shown(name)}")
    val method = u16(raw, at + 10)
    if (u16(raw, at + 8) and 1 != 0) bad("it is encrypted")
    if (method != STORED && method != DEFLATED) bad("it is packed in an unknown way")
    val entry = Entry(name, method, u32(raw, at + 16), u32(raw, at + 20), u32(raw, at + 24), u32(raw, at + 42))
    if (method == STORED && entry.packed != entry.size) bad("its directory is damaged")
    return entry
}

private fun bytes(
    file: RandomAccessFile,
    at: Long,
    count: Int,
): ByteArray {
    file.seek(at)
    return ByteArray(count).also(file::readFully)
}

private fun u16(
    raw: ByteArray,
    at: Int,
): Int = (raw[at].toInt() and 0xff) or (raw[at + 1].toInt() and 0xff shl 8)

private fun u32(
    raw: ByteArray,
    at: Int,
): Long = u16(raw, at).toLong() or (u16(raw, at + 2).toLong() shl 16)

/** The bytes of a file from one place to another. */
private class Part(
    private val file: RandomAccessFile,
    private var at: Long,
    private val end: Long,
) : InputStream() {
    override fun read(): Int = ByteArray(1).let { if (read(it, 0, 1) < 0) -1 else it[0].toInt() and 0xff }

    override fun read(
        buffer: ByteArray,
        offset: Int,
        length: Int,
    ): Int {
        if (at >= end) return -1
        file.seek(at)
        val count = file.read(buffer, offset, minOf(length.toLong(), end - at).toInt())
        if (count > 0) at += count
        return count
    }
}

/** Says at the end of an entry whether its bytes are those that were packed. */
private class Checked(
    private val stream: CheckedInputStream,
    private val crc: Long,
) : InputStream() {
    override fun read(): Int = ByteArray(1).let { if (read(it, 0, 1) < 0) -1 else it[0].toInt() and 0xff }

    override fun read(
        buffer: ByteArray,
        offset: Int,
        length: Int,
    ): Int {
        val count = stream.read(buffer, offset, length)
        if (count < 0 && stream.checksum.value != crc) throw IOException("its checksum differs")
        return count
    }

    override fun close() = stream.close()
}

/** Deflated bytes; their unpacker holds memory that no collector sees. */
private class Inflated(
    packed: InputStream,
    private val inflater: Inflater,
) : InflaterInputStream(packed, inflater, 1 shl 16) {
    override fun close() {
        super.close()
        inflater.end()
    }
}
