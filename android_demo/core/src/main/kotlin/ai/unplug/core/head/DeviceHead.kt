package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.age.Label
import ai.unplug.core.age.likeliest
import ai.unplug.core.hex
import ai.unplug.core.jsonOf
import ai.unplug.core.text
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest

/**
 * The settings that a head is computed with, `unplug-head/1`.
 *
 * @property trunkSha256 the SHA-256 of the trunk's weight file; features of no other trunk mean anything here.
 * @property grid features are rounded to multiples of it.
 * @property ridge penalty a picture.
 * @property scale the factor that group scores are multiplied by.
 * @property edges borders of the age groups in years; none: the head tells classes.
 * @property classes their names; none: the head tells ages.
 */
public data class HeadFacts(
    val trunkSha256: String,
    val grid: Double,
    val ridge: Double,
    val scale: Double,
    val edges: List<Double>,
    val classes: List<String>,
)

/** An age in years, or the likeliest label; the other is null. */
public data class Said(
    val years: Double?,
    val label: Label?,
)

/** What a head says of one picture, and the scores of its groups. */
public class HeadAnswer(
    public val logits: DoubleArray,
    public val said: Said,
)

/**
 * A head that a phone adds people to and forgets them from, offline and exactly: docs/formats.md. It holds sums over everybody who is in,
 * and a commitment to each; removing leaves, bit for bit, what never held them. The truth of a picture is an age in years, or the number of
 * its class.
 */
public class DeviceHead private constructor(
    public val facts: HeadFacts,
    private val lift: FloatArray,
    private val offset: FloatArray,
    private val centers: DoubleArray,
    private val sums: LongArray,
    private val committed: Set<String>,
) {
    private val channels = lift.size / offset.size
    private val features = offset.size
    private val groups = centers.size

    /** Columns of the sums: features, one, groups, and the age where there is one. */
    private val size = sizeOf(features, facts)
    private val isAged = facts.classes.isEmpty()

    /** Pictures that are in. */
    public val count: Int get() = committed.size

    /**
     * With one more picture.
     *
     * @param name the name of the picture.
     * @param pooled the trunk's features of it.
     * @param truth the age in years, or the number of the class.
     * @throws InputError it is in already, or its numbers cannot be.
     */
    public fun add(
        name: String,
        pooled: DoubleArray,
        truth: Double,
    ): DeviceHead {
        val digest = commitment(name, pooled, truth)
        if (digest in committed) throw InputError("picture $name", "it is in this head already", "Give other pictures other names")
        return with(moved(pooled, truth, 1), committed + digest)
    }

    /**
     * Without a picture, as if it had never been there.
     *
     * @throws InputError that picture under that name and truth is not in it, or nobody would be left.
     */
    public fun remove(
        name: String,
        pooled: DoubleArray,
        truth: Double,
    ): DeviceHead {
        val digest = commitment(name, pooled, truth)
        if (digest !in committed) {
            val word = if (isAged) "age" else "class"
            throw InputError("picture $name", "it is not in this head under this name and with this $word", "Give name, picture and $word as they were added")
        }
        if (count == 1) throw InputError("picture $name", "nobody would be left in this head", "Delete the head instead")
        return with(moved(pooled, truth, -1), committed - digest)
    }

    /** SHA-256 of name, a zero byte, the rounded features and the truth, in hexadecimal digits. */
    public fun commitment(
        name: String,
        pooled: DoubleArray,
        truth: Double,
    ): String {
        check(truth)
        val steps = steps(pooled)
        val numbers = ByteBuffer.allocate(4 * steps.size + 8).order(ByteOrder.LITTLE_ENDIAN)
        steps.forEach { numbers.putInt(it.toInt()) }
        numbers.putDouble(truth)
        val digest = MessageDigest.getInstance("SHA-256")
        digest.update(name.toByteArray() + 0)
        return hex(digest.digest(numbers.array()))
    }

    /**
     * What the head says of the trunk's features of a picture, which are not rounded here, as they are not in the network that ships.
     */
    public fun answer(pooled: DoubleArray): HeadAnswer {
        val (weights, bias) = weights
        val lifted = lifted(pooled, Double.POSITIVE_INFINITY)
        val said = DoubleArray(bias.size) { row -> bias[row] + lifted.indices.sumOf { weights[row][it] * lifted[it] } }
        if (!said.all { it.isFinite() }) throw DataError("head", "it answers with something other than numbers", RESTORE)
        val logits = DoubleArray(groups) { facts.scale * said[it] }
        if (!isAged) return HeadAnswer(logits, Said(null, likeliest(logits, facts.classes).first()))
        return HeadAnswer(logits, Said(said[groups].coerceIn(facts.edges.first(), facts.edges.last()), null))
    }

    /** W, a row a group and one of the age if there is one, and b: the ridge regression of the sums, by Cholesky. */
    public val weights: Pair<Array<DoubleArray>, DoubleArray> by lazy {
        val order = features + 1
        val gram = Array(order) { j -> DoubleArray(order) { k -> moment(j, k) } }
        for (j in 0 until features) gram[j][j] += facts.ridge * count
        val scale = DoubleArray(order) { 1.0 / Math.sqrt(gram[it][it]) }
        for (j in 0 until order) for (k in 0 until order) gram[j][k] = gram[j][k] * scale[j] * scale[k]
        val low = cholesky(gram) ?: throw DataError("head", "its equations are singular", RESTORE)
        val solved = Array(size - order) { g -> solve(low, DoubleArray(order) { scale[it] * moment(it, order + g) }) }
        val rows = Array(size - order) { g -> DoubleArray(features) { scale[it] * solved[g][it] } }
        rows to DoubleArray(size - order) { scale[features] * solved[it][features] }
    }

    /** SHA-256 over all of its numbers, as the file's header has it. */
    public val digest: String by lazy { digestOf(tensors()) }

    /** The file. */
    public fun bytes(): ByteArray {
        val said =
            jsonOf(
                "digest" to digest,
                if (isAged) "edges" to facts.edges else "classes" to facts.classes,
                "grid" to facts.grid,
                "ridge" to facts.ridge,
                "scale" to facts.scale,
                "schema" to SCHEMA,
                "trunk_sha256" to facts.trunkSha256,
            )
        return Safetensors(mapOf("unplug" to said.text()), tensors()).bytes()
    }

    internal fun tensors(): Map<String, RawTensor> {
        fun raw(
            dtype: String,
            shape: List<Int>,
            size: Int,
            fill: ByteBuffer.() -> Unit,
        ) = RawTensor(dtype, shape, ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN).apply(fill).array())
        return mapOf(
            "lift" to raw("F32", listOf(features, channels), 4 * lift.size) { lift.forEach(::putFloat) },
            "offset" to raw("F32", listOf(features), 4 * features) { offset.forEach(::putFloat) },
            "centers" to raw("F64", listOf(groups), 8 * groups) { centers.forEach(::putDouble) },
            "sums" to raw("I64", listOf(sums.size), 8 * sums.size) { sums.forEach(::putLong) },
            "committed" to
                raw("U8", listOf(count, 32), 32 * count) {
                    committed.sorted().forEach { text -> text.chunked(2).forEach { put(it.toInt(16).toByte()) } }
                },
        )
    }

    private fun with(
        sums: LongArray,
        committed: Set<String>,
    ) = DeviceHead(facts, lift, offset, centers, sums, committed)

    /** The sums with z z^T of a picture added [times] times. */
    private fun moved(
        pooled: DoubleArray,
        truth: Double,
        times: Int,
    ): LongArray {
        val z = integers(pooled, truth)
        val found = sums.copyOf()
        var at = 0
        for (j in z.indices) for (k in j until z.size) found[at++] += times * z[j] * z[k]
        return found
    }

    /** z = (features, 1, targets), in units of 2^-20 of each column's range. */
    private fun integers(
        pooled: DoubleArray,
        truth: Double,
    ): LongArray {
        val rounded = steps(pooled).map { it * facts.grid }.toDoubleArray()
        val z = lifted(rounded, (1 shl FEATURE_RANGE).toDouble()) + doubleArrayOf(1.0) + targets(truth)
        return LongArray(size) { Math.rint(Math.scalb(z[it], BITS - exponent(it))).toLong() }
    }

    /** Soft groups and the age, or 1 for the class. */
    private fun targets(truth: Double): DoubleArray {
        if (!isAged) return DoubleArray(groups) { if (it.toDouble() == truth) 1.0 else 0.0 }
        val powers = DoubleArray(groups) { Math.pow((centers[it] - truth) / WIDTH, 2.0) * -0.5 }
        val odds = powers.map { StrictMath.exp(it - powers.max()) }
        return odds.map { it / odds.sum() }.toDoubleArray() + doubleArrayOf(truth)
    }

    private fun exponent(column: Int) = if (column < features) FEATURE_RANGE else if (isAged && column == size - 1) AGE_RANGE else 1

    /** An entry of the matrix of second moments. */
    private fun moment(
        j: Int,
        k: Int,
    ): Double {
        val (low, high) = minOf(j, k).toLong() to maxOf(j, k)
        val at = low * size - low * (low - 1) / 2 + (high - low)
        return Math.scalb(sums[at.toInt()].toDouble(), exponent(j) + exponent(k) - 2 * BITS)
    }

    private fun steps(pooled: DoubleArray): DoubleArray {
        if (pooled.size != channels || !pooled.all { it.isFinite() }) {
            throw InputError("picture", "${pooled.size} features where this trunk has $channels, or some are not numbers", "Give what the exported trunk says of it")
        }
        val steps = DoubleArray(channels) { Math.rint(pooled[it] / facts.grid) }
        if (steps.any { Math.abs(it) > Int.MAX_VALUE }) {
            throw InputError("picture", "its features are far larger than any of this trunk", "Give what the exported trunk says of it")
        }
        return steps
    }

    private fun lifted(
        pooled: DoubleArray,
        most: Double,
    ) = DoubleArray(features) { row ->
        var sum = 0.0
        for (channel in 0 until channels) sum += pooled[channel] * lift[row * channels + channel]
        (sum + offset[row]).coerceIn(0.0, most)
    }

    private fun check(truth: Double) {
        if (!isAged) {
            if (facts.classes.indices.none { it.toDouble() == truth }) throw InputError("class $truth", "no class has this number", "Give that of one of the ${facts.classes.size} classes")
        } else if (!(truth >= 0.0 && truth < 1 shl AGE_RANGE)) {
            throw InputError("age $truth", "it is not an age", "Give years from 0 up to ${(1 shl AGE_RANGE) - 1}")
        }
    }

    public companion object {
        private const val SCHEMA = "unplug-head/1"
        private const val RESTORE = "Make it again with unplug head make"
        private const val BITS = 20
        private const val FEATURE_RANGE = 6
        private const val AGE_RANGE = 7
        private const val WIDTH = 4.0
        private const val MAX_BYTES = 1 shl 28
        private const val MAX_SIDE = 4096
        private const val MAX_GROUPS = 1000
        private const val MAX_NAME = 100

        /** What the settings may be; beyond it float64 runs over. */
        private val GRIDS = Math.scalb(1.0, -40)..Math.scalb(1.0, 10)
        private val RIDGES = 1e-9..1e6
        private val SCALES = 1e-6..1e6
        private val TENSORS = linkedMapOf("lift" to "F32", "offset" to "F32", "centers" to "F64", "sums" to "I64", "committed" to "U8")
        private val KEYS = setOf("trunk_sha256", "grid", "ridge", "scale", "digest", "schema")

        /** Reads `head.safetensors`. @throws DataError no head, one that was edited or cut, or numbers that do not belong together. */
        public fun of(bytes: ByteArray): DeviceHead {
            fun wrong(why: String): Nothing = throw DataError("head", why, RESTORE)
            if (bytes.size > MAX_BYTES) wrong("it has ${bytes.size} bytes")
            val file = Safetensors.of(bytes, "head")
            val said =
                try {
                    Json.parse(file.metadata["unplug"] ?: wrong("it does not say what it is"))
                } catch (error: JsonError) {
                    wrong("what it says of itself is not strict JSON (${error.message})")
                }
            // One of the two, never both.
            val kind = if ((said as? Json.Obj)?.fields.orEmpty().containsKey("classes")) "classes" else "edges"
            val fields = Fields(said, "head", KEYS + kind)
            if (fields.text("schema") != SCHEMA) wrong("its schema is not $SCHEMA")
            if (file.tensors.keys != TENSORS.keys || TENSORS.any { (name, kind) -> file.tensors.getValue(name).dtype != kind }) {
                wrong("its tensors are not ${TENSORS.keys} in their types")
            }
            if (digestOf(file.tensors) != fields.text("digest")) wrong("its numbers are not those that were written (SHA-256 differs)")
            return opened(facts(fields), file.tensors, ::wrong)
        }

        private fun facts(fields: Fields): HeadFacts {
            val classes = if (fields.has("classes")) fields.texts("classes") else emptyList()
            val edges = if (fields.has("classes")) emptyList() else fields.numbers("edges")
            val found =
                HeadFacts(fields.text("trunk_sha256"), fields.number("grid"), fields.number("ridge"), fields.number("scale"), edges, classes)
            val rising = edges.size >= 3 && edges.zipWithNext().all { (low, high) -> low < high }
            val named = classes.size >= 2 && classes.toSet().size == classes.size && classes.all { it.codePointCount(0, it.length) in 1..MAX_NAME }
            if (found.grid !in GRIDS || found.ridge !in RIDGES || found.scale !in SCALES || !(rising || named)) fields.wrong("its settings are out of range")
            return found
        }

        private fun groupsOf(facts: HeadFacts) = if (facts.classes.isEmpty()) facts.edges.size - 1 else facts.classes.size

        private fun sizeOf(
            features: Int,
            facts: HeadFacts,
        ) = features + 1 + groupsOf(facts) + if (facts.classes.isEmpty()) 1 else 0

        private fun opened(
            facts: HeadFacts,
            tensors: Map<String, RawTensor>,
            wrong: (String) -> Nothing,
        ): DeviceHead {
            val (lift, offset, centers, sums, committed) = TENSORS.keys.map(tensors::getValue)
            val groups = groupsOf(facts)
            val (features, channels) = if (lift.shape.size == 2) lift.shape[0] to lift.shape[1] else 0 to 0
            if (features !in 1..MAX_SIDE || channels !in 1..MAX_SIDE || groups > MAX_GROUPS) wrong("it is larger than any head")
            val size = sizeOf(features, facts)
            val shapes = listOf(offset.shape, centers.shape, sums.shape, committed.shape.drop(1))
            if (shapes != listOf(listOf(features), listOf(groups), listOf(size * (size + 1) / 2), listOf(32))) wrong("its tensors have other shapes")
            val floats = listOf(lift, offset).map { raw -> FloatArray(raw.bytes.size / 4).also { raw.buffer().asFloatBuffer().get(it) } }
            val middles = DoubleArray(groups).also { centers.buffer().asDoubleBuffer().get(it) }
            if (!floats.all { item -> item.all { it.isFinite() } } || !middles.all { it.isFinite() }) wrong("some of its values are not numbers")
            val totals = LongArray(sums.shape[0]).also { sums.buffer().asLongBuffer().get(it) }
            val people = committed.bytes.toList().chunked(32).map { hex(it.toByteArray()) }
            val inside = totals[features * size - features * (features - 1) / 2] shr (2 * (BITS - 1))
            if (people.isEmpty() || people.toSet().size != people.size || inside != people.size.toLong()) wrong("its sums hold $inside pictures where ${people.size} are named")
            val diagonal = (0 until size).all { totals[it * size - it * (it - 1) / 2] >= 0 }
            if (!diagonal) wrong("its sums cannot be")
            return DeviceHead(facts, floats[0], floats[1], middles, totals, people.toSet())
        }

        private fun digestOf(tensors: Map<String, RawTensor>): String {
            val digest = MessageDigest.getInstance("SHA-256")
            for (name in TENSORS.keys) {
                digest.update(name.toByteArray() + 0)
                digest.update(tensors.getValue(name).bytes)
            }
            return hex(digest.digest())
        }

        /** L with L L^T = A, or null where A is not positive. */
        private fun cholesky(a: Array<DoubleArray>): Array<DoubleArray>? {
            val low = Array(a.size) { DoubleArray(it + 1) }
            for (j in a.indices) {
                for (k in 0..j) {
                    var sum = a[j][k]
                    for (i in 0 until k) sum -= low[j][i] * low[k][i]
                    if (j == k && !(sum > 0.0)) return null
                    low[j][k] = if (j == k) Math.sqrt(sum) else sum / low[k][k]
                }
            }
            return low
        }

        /** x with L L^T x = b. */
        private fun solve(
            low: Array<DoubleArray>,
            b: DoubleArray,
        ): DoubleArray {
            val x = b.copyOf()
            for (j in x.indices) {
                for (k in 0 until j) x[j] -= low[j][k] * x[k]
                x[j] /= low[j][j]
            }
            for (j in x.indices.reversed()) {
                for (k in j + 1 until x.size) x[j] -= low[k][j] * x[k]
                x[j] /= low[j][j]
            }
            return x
        }
    }
}
