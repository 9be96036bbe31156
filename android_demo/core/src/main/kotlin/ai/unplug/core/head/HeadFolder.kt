package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.IOSpec
import ai.unplug.core.UnplugError
import ai.unplug.core.bundle.Artifact
import ai.unplug.core.bundle.Refused
import ai.unplug.core.bundle.Source
import ai.unplug.core.bundle.artifactsIn
import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Frame
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.centreSquare
import ai.unplug.core.picture.onlyFace
import ai.unplug.core.picture.toTensor
import ai.unplug.core.sha256
import java.io.File

/**
 * What `unplug head make` wrote with what `unplug export` wrote of its trunk: a folder, or the zip file of one.
 *
 * @property trunks the exported files of the trunk that the head is computed over.
 */
public class HeadFolder private constructor(
    private val source: Source,
    public val head: DeviceHead,
    public val trunks: List<Artifact>,
) : AutoCloseable {
    /** A trunk's bytes, which are those that its card names. */
    public fun read(trunk: Artifact): ByteArray =
        source.whole(trunk.path, MOST).also {
            if (sha256(it) != trunk.sha256) throw DataError(trunk.path, "it is another file than its card says", FIX)
        }

    override fun close(): Unit = source.close()

    public companion object {
        private const val FILE = "head.safetensors"
        private const val FIX = "Zip the folder that unplug head make wrote, with what unplug export wrote of its trunk in it"
        private const val MOST = 256L shl 20

        /** @throws DataError no head is in it, or no exported file of its trunk; or why the head does not open. */
        public fun at(file: File): HeadFolder =
            try {
                val source = Source.at(file)
                try {
                    of(source)
                } catch (error: UnplugError) {
                    source.close()
                    throw error
                }
            } catch (refused: Refused) {
                throw DataError("head", refused.why, FIX)
            }

        /** As [at], of files in memory say. */
        public fun of(source: Source): HeadFolder {
            val name = source.sizes.keys.singleOrNull { it == FILE || it.endsWith("/$FILE") } ?: throw DataError("head", "there is not one $FILE in it", FIX)
            val head = DeviceHead.of(source.whole(name, MOST))
            val own = artifactsIn(source, FIX).filter { it.modelType == "age-trunk" && it.checkpointSha256 == head.facts.trunkSha256 }
            if (own.isEmpty()) throw DataError("head", "no exported file of its trunk is in it", FIX)
            return HeadFolder(source, head, own)
        }
    }
}

/**
 * A trunk: a photograph in, the features out that a head is computed over.
 *
 * @param frame the places of a face's eyes; null: the centre square is taken.
 * @throws DataError the file takes or gives something else.
 */
public class Trunk(
    private val engine: Engine,
    private val iospec: IOSpec,
    private val frame: Frame?,
) {
    init {
        if (iospec.inputs.size != 1 || !iospec.inputs[0].isImage || iospec.outputs.none { it.name == OUTPUT }) {
            throw DataError("trunk", "it is not from one picture to features", "Export it again")
        }
    }

    /**
     * Features of a photograph.
     *
     * @param faces the eyes of every face that was found; without a frame nobody asks.
     * @throws DataError the face cannot be judged.
     */
    public fun pooled(
        picture: Picture,
        faces: List<Eyes>,
    ): DoubleArray {
        val spec = iospec.inputs[0]
        val shown = frame?.let { onlyFace(picture, faces, spec.axis('H'), it) } ?: centreSquare(picture, spec.axis('H'))
        val found = engine.run(mapOf(spec.name to toTensor(shown, spec)))[OUTPUT] ?: throw DataError("trunk", "it gives no features", "Export it again")
        return DoubleArray(found.values.size) { found.values[it].toDouble() }
    }

    private companion object {
        const val OUTPUT = "features"
    }
}
