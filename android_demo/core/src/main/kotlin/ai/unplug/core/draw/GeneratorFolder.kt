package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.bundle.Artifact
import ai.unplug.core.bundle.Source
import ai.unplug.core.bundle.Verified
import ai.unplug.core.bundle.artifactsIn
import ai.unplug.core.hex
import java.io.File
import java.nio.file.Files
import java.security.MessageDigest

/**
 * A folder that `unplug export` wrote: `pipeline.json` and its files.
 *
 * @property signed its bundle, where somebody signed it: then what it holds is what was signed.
 * @throws DataError the record is missing or broken.
 */
public class GeneratorFolder(
    private val folder: File,
    public val signed: Verified? = null,
) {
    /** What the record says. */
    public val pipeline: Pipeline =
        try {
            Pipeline.of(signed?.read(Pipeline.FILE) ?: File(folder, Pipeline.FILE).readBytes())
        } catch (error: java.io.IOException) {
            throw DataError(Pipeline.FILE, "it cannot be read", "Give a folder that unplug export wrote")
        }

    /** Targets and precisions that every part has. */
    public fun kinds(): List<Pair<String, String>> {
        val own = pipeline.parts.values.map { part -> part.files.map { it.target to it.precision } }
        return own.first().filter { kind -> own.all { kind in it } }
    }

    /**
     * The file of a part, checked against its SHA-256.
     *
     * @throws InputError there is none of this kind.
     * @throws DataError it is missing, was swapped or edited, or lies below a link.
     */
    public fun file(
        part: String,
        target: String,
        precision: String,
    ): File {
        val item =
            pipeline.parts.getValue(part).files.firstOrNull { it.target == target && it.precision == precision }
                ?: throw InputError("$target $precision", "its $part has no such file", "Export it, or choose another")
        return checked(item.file, item.bytes, item.sha256)
    }

    /**
     * The rows of a variant, checked against its SHA-256, for the UNet's low-rank input.
     *
     * @throws InputError there is none of this name.
     * @throws DataError it is missing, was swapped or edited, lies below a link, or holds something other than numbers.
     */
    public fun variant(name: String): FloatArray {
        val item = pipeline.variants[name] ?: throw InputError("variant $name", "this generator has none of this name", "Use ${pipeline.variants.keys}")
        return item.rows(checked(item.file, item.bytes, item.sha256).readBytes())
    }

    /** Readers of marks that `unplug export mark-reader` wrote into its folder [MARK_READER], as their cards say; null without that folder. */
    public fun markReaders(): List<Artifact>? {
        val place = File(folder, MARK_READER)
        if (!place.isDirectory) return null
        val found = artifactsIn(Source.at(place), "Export mark-reader again").map { it.copy(path = "$MARK_READER/${it.path}") }
        return found.filter { it.modelType == "mark_reader" && it.bytes <= MAX_READER && (signed == null || signed.files[it.path] == it.sha256) }
    }

    /** The file of one of [markReaders]. @throws DataError as [file]. */
    public fun file(reader: Artifact): File = checked(reader.path, reader.bytes, reader.sha256, "its card")

    private fun checked(
        file: String,
        bytes: Long,
        sha256: String,
        record: String = Pipeline.FILE,
    ): File {
        val steps = file.split('/').runningFold(folder) { place, name -> File(place, name) }.drop(1)
        val path = steps.last()

        fun wrong(why: String): Nothing = throw DataError(file, why, "Export it again")
        if (steps.any { Files.isSymbolicLink(it.toPath()) }) wrong("it is a link, or lies below one")
        if (!path.isFile) wrong("it is missing")
        if (path.length() != bytes || digest(path) != sha256) wrong("it is another file than $record says")
        return path
    }

    private fun digest(path: File): String {
        val found = MessageDigest.getInstance("SHA-256")
        val buffer = ByteArray(1 shl 16)
        path.inputStream().use { stream ->
            while (true) {
                val count = stream.read(buffer)
                if (count < 0) return hex(found.digest())
                found.update(buffer, 0, count)
            }
        }
    }

    public companion object {
        /** The folder of the readers of marks. */
        public const val MARK_READER: String = "mark-reader"
        private const val MAX_READER = 1L shl 24
    }
}
