package ai.unplug.core.bundle

import ai.unplug.core.hex
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.nio.file.Files
import java.nio.file.LinkOption
import java.nio.file.NoSuchFileException
import java.nio.file.attribute.BasicFileAttributes
import java.security.MessageDigest

/**
 * A bundle as it came: names and sizes first, bytes on request, nothing unpacked.
 *
 * @property sizes bytes of every plain file by its path with forward slashes.
 * @property odd paths that are not plain files: links, pipes, devices.
 */
public abstract class Source(
    public val sizes: Map<String, Long>,
    internal val odd: List<String> = emptyList(),
) : AutoCloseable {
    /** The file's bytes; more or fewer than [sizes] says are found when it is read. */
    internal abstract fun open(name: String): InputStream

    /** What it means that a file holds another number of bytes than was said. */
    internal abstract val damage: Verdict

    override fun close() {}

    /** Hands a file's bytes on in pieces: as many as its size says, or an error. */
    internal fun blocks(
        name: String,
        take: (ByteArray, Int) -> Unit,
    ) {
        var left = sizes.getValue(name)
        val buffer = ByteArray(BLOCK)
        try {
            open(name).use { stream ->
                while (true) {
                    val count = stream.read(buffer)
                    if (count < 0) break
                    left -= count
                    if (left < 0) break
                    take(buffer, count)
                }
            }
        } catch (error: IOException) {
            throw Refused(damage, "${shown(name)} cannot be read (${error.message})")
        }
        need(left == 0L, damage, "${shown(name)} holds another number of bytes than was said")
    }

    internal fun whole(
        name: String,
        maxBytes: Long,
    ): ByteArray {
        need(sizes.getValue(name) <= maxBytes, Verdict.TOO_LARGE, "$name is larger than $maxBytes bytes")
        val found = ByteArrayOutputStream(sizes.getValue(name).toInt())
        blocks(name) { bytes, count -> found.write(bytes, 0, count) }
        return found.toByteArray()
    }

    internal fun digest(name: String): String {
        val found = MessageDigest.getInstance("SHA-256")
        blocks(name) { bytes, count -> found.update(bytes, 0, count) }
        return hex(found.digest())
    }

    public companion object {
        private const val BLOCK = 1 shl 16

        /**
         * The bundle at a path, a folder or a zip file of one.
         *
         * @throws Refused `no-bundle`, `archive` or `too-many`.
         */
        public fun at(path: File): Source =
            when {
                path.isDirectory -> FolderSource.of(path)
                path.isFile -> ZipSource.of(path)
                else -> throw Refused(Verdict.NO_BUNDLE, "there is no bundle here", "Put one there with unplug bundle push")
            }

        /** A bundle in memory: of an asset, or of files that somebody dropped. */
        public fun of(files: Map<String, ByteArray>): Source = MemorySource(files)
    }
}

private class MemorySource(
    private val files: Map<String, ByteArray>,
) : Source(files.mapValues { it.value.size.toLong() }) {
    override val damage = Verdict.WRONG_SIZE

    override fun open(name: String): InputStream = files.getValue(name).inputStream()
}

/** Files of a folder; a link in it is refused, and one that a file became since is not followed. */
private class FolderSource(
    private val folder: File,
    sizes: Map<String, Long>,
    odd: List<String>,
) : Source(sizes, odd) {
    override val damage = Verdict.WRONG_SIZE

    override fun open(name: String): InputStream = Files.newInputStream(folder.toPath().resolve(name), LinkOption.NOFOLLOW_LINKS)

    companion object {
        fun of(folder: File): FolderSource {
            val sizes = HashMap<String, Long>()
            val odd = ArrayList<String>()
            val waiting = ArrayDeque(listOf(""))
            var seen = 0
            while (waiting.isNotEmpty()) {
                val inside = waiting.removeLast()
                for (name in File(folder, inside).list().orEmpty()) {
                    need(++seen <= 2 * MAX_FILES, Verdict.TOO_MANY, "more than ${2 * MAX_FILES} files are in it")
                    val facts = facts(File(folder, "$inside$name")) ?: continue
                    when {
                        facts.isDirectory -> waiting += "$inside$name/"
                        facts.isRegularFile -> sizes["$inside$name"] = facts.size()
                        else -> odd += "$inside$name"
                    }
                }
            }
            return FolderSource(folder, sizes, odd.sorted())
        }

        private fun facts(file: File): BasicFileAttributes? =
            try {
                Files.readAttributes(file.toPath(), BasicFileAttributes::class.java, LinkOption.NOFOLLOW_LINKS)
            } catch (error: NoSuchFileException) {
                null
            }
    }
}
