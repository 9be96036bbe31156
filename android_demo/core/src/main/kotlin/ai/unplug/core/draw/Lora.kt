package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.Json
import ai.unplug.core.isDigest
import java.nio.ByteBuffer
import java.nio.ByteOrder

/**
 * The UNet's input of low-rank updates: `rank` rows, each with the factors of all slots one after the other; zeros are the bare base.
 *
 * @property width numbers of one row.
 */
public data class LoraSlots(
    val rank: Int,
    val width: Int,
) {
    internal companion object {
        private const val MAX_NUMBERS = 1L shl 26

        fun of(value: Json): LoraSlots {
            val fields = Fields(value, Pipeline.FILE, setOf("rank", "slots"))
            val rank = fields.small("rank")
            val sizes =
                fields.list("slots").flatMap { slot ->
                    val own = Fields(slot, Pipeline.FILE, setOf("layer", "fan_in", "fan_out"))
                    own.text("layer")
                    listOf(own.small("fan_in"), own.small("fan_out"))
                }
            val width = sizes.sumOf { it.toLong() }
            if (rank < 1 || sizes.isEmpty() || sizes.any { it < 1 } || width > MAX_NUMBERS / rank) fields.wrong("its slots of rank $rank do not make the input $INPUT")
            return LoraSlots(rank, width.toInt())
        }

        const val INPUT = "lora"
    }
}

/**
 * Named weights of a generator: the first rows of its UNet's low-rank input, as float32, little-endian; null defaults are the pipeline's.
 *
 * @property word the word of a pack, which a prompt with that word switches on; null for a variant that acts where it is chosen.
 */
public data class Variant(
    val file: String,
    val sha256: String,
    val bytes: Long,
    val defaults: Defaults?,
    val word: String? = null,
) {
    /** The rows of its file. @throws DataError one holds something other than numbers. */
    internal fun rows(body: ByteArray): FloatArray {
        val found = FloatArray(body.size / 4).also { ByteBuffer.wrap(body).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(it) }
        if (!found.all(Float::isFinite)) throw DataError(file, "it holds something other than numbers", "Export the base again")
        return found
    }

    internal companion object {
        fun of(
            name: String,
            value: Json,
            slots: LoraSlots,
            defaults: (Json) -> Defaults,
        ): Variant {
            val fields = Fields(value, Pipeline.FILE, setOf("file", "sha256", "bytes", "defaults", "word"))
            val own = if (fields.has("defaults")) defaults(fields.any("defaults")) else null
            val found = Variant(fields.text("file"), fields.text("sha256"), fields.whole("bytes"), own, fields.textOrNull("word"))
            val row = 4L * slots.width
            if (!Pipeline.NAME.matches(name)) fields.wrong("it has a variant with an impossible name")
            if (!Pipeline.PATH.matches(found.file)) fields.wrong("its variant $name does not lie at a plain path inside the folder")
            if (!isDigest(found.sha256) || found.bytes % row != 0L || found.bytes / row !in 1..slots.rank) {
                fields.wrong("its variant $name has no SHA-256, or not 1 to ${slots.rank} rows of $row bytes")
            }
            if (found.word != null && !PackWords.hold(found.word)) fields.wrong("its pack $name has a word that no prompt says")
            return found
        }
    }
}
