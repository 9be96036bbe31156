package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.jsonOf
import ai.unplug.core.text
import java.nio.ByteBuffer
import java.nio.ByteOrder

/** One tensor of a file: its type as safetensors names it, its shape, its bytes (little-endian, row by row). */
internal class RawTensor(
    val dtype: String,
    val shape: List<Int>,
    val bytes: ByteArray,
) {
    fun buffer(): ByteBuffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
}

/** The format of huggingface's safetensors: a length, a JSON head, the tensors one after the other. */
internal class Safetensors(
    val metadata: Map<String, String>,
    val tensors: Map<String, RawTensor>,
) {
    /** As the reference writes it: large types first, then by name, the head padded to a multiple of eight. */
    fun bytes(): ByteArray {
        val order = tensors.entries.sortedWith(compareBy({ -KINDS.indexOf(it.value.dtype) }, { it.key }))
        var at = 0L
        val head = LinkedHashMap<String, Any>()
        head["__metadata__"] = metadata
        for ((name, tensor) in order) {
            head[name] = jsonOf("dtype" to tensor.dtype, "shape" to tensor.shape, "data_offsets" to listOf(at, at + tensor.bytes.size))
            at += tensor.bytes.size
        }
        val raw = Json.of(head).text().toByteArray()
        val padded = raw + ByteArray((8 - raw.size % 8) % 8) { ' '.code.toByte() }
        val found = ByteBuffer.allocate(8 + padded.size + Math.toIntExact(at)).order(ByteOrder.LITTLE_ENDIAN)
        found.putLong(padded.size.toLong()).put(padded)
        order.forEach { found.put(it.value.bytes) }
        return found.array()
    }

    companion object {
        private val KINDS = listOf("U8", "F32", "F64", "I64")
        private val SIZES = mapOf("U8" to 1, "F32" to 4, "F64" to 8, "I64" to 8)
        private const val MAX_HEAD = 1 shl 20

        fun of(
            bytes: ByteArray,
            what: String,
        ): Safetensors {
            fun wrong(why: String): Nothing = throw DataError(what, why, "Make it again with unplug head make")
            val size = if (bytes.size < 8) -1 else ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).long
            if (size !in 2..minOf(MAX_HEAD.toLong(), bytes.size - 8L)) wrong("it is not a safetensors file")
            val start = 8 + size.toInt()
            val head =
                try {
                    Json.parse(bytes.copyOfRange(8, start)) as? Json.Obj ?: wrong("its head is not a record")
                } catch (error: JsonError) {
                    wrong("its head is not strict JSON (${error.message})")
                }
            val metadata = (head.fields["__metadata__"] as? Json.Obj)?.fields.orEmpty().mapValues { (it.value as? Json.Str)?.value ?: "" }
            var at = 0L
            val entries = (head.fields - "__metadata__").mapValues { Fields(it.value, what, setOf("dtype", "shape", "data_offsets")) }
            val found = LinkedHashMap<String, RawTensor>()
            for ((name, fields) in entries.entries.sortedBy { it.value.numbers("data_offsets").firstOrNull() ?: -1.0 }) {
                val dtype = fields.text("dtype")
                val shape = fields.numbers("shape")
                val unit = SIZES[dtype] ?: wrong("$name is of a type that is not read here")
                val count = shape.fold(unit.toDouble()) { total, side -> if (side >= 0 && side == Math.rint(side)) total * side else wrong("$name has an impossible shape") }
                // Each begins where the one before ends: no bytes are read twice, and none hide between.
                if (fields.numbers("data_offsets") != listOf(at.toDouble(), at + count)) wrong("$name lies elsewhere than its shape says")
                if (start + at + count > bytes.size) wrong("it is cut off")
                val from = Math.toIntExact(start + at)
                at += count.toLong()
                found[name] = RawTensor(dtype, shape.map { it.toInt() }, bytes.copyOfRange(from, Math.toIntExact(start + at)))
            }
            if (start + at != bytes.size.toLong()) wrong("something follows its tensors")
            return Safetensors(metadata, found)
        }
    }
}
