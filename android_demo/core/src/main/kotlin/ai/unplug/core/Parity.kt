package ai.unplug.core

/**
 * One output against its reference.
 *
 * @property psnrDb 20 log10(max|reference| / rms(output - reference)); null where it is infinite (exact) or undefined.
 * @property reason why the two cannot be compared, or null.
 */
public data class Difference(
    val exact: Boolean,
    val psnrDb: Double?,
    val reason: String?,
) {
    /** Why the difference is too large, or null. */
    public fun verdict(minPsnrDb: Double): String? =
        when {
            exact -> null
            psnrDb == null -> reason
            psnrDb < minPsnrDb -> "${"%.1f".format(java.util.Locale.ROOT, psnrDb)} dB is below ${ecmaNumber(minPsnrDb)} dB"
            else -> null
        }
}

/** How near an output is to its reference; as `unplug.export.metrics` says it. */
public fun compare(
    reference: FloatArray,
    output: FloatArray,
): Difference {
    fun wrong(reason: String) = Difference(exact = false, psnrDb = null, reason = reason)
    if (reference.size != output.size) return wrong("${output.size} values where the reference has ${reference.size}")
    var squares = 0.0
    var peak = 0.0
    for (place in output.indices) {
        if (!output[place].isFinite()) return wrong("the output holds NaN or infinity")
        if (!reference[place].isFinite()) return wrong("the reference holds NaN or infinity")
        val apart = output[place].toDouble() - reference[place]
        squares += apart * apart
        peak = maxOf(peak, Math.abs(reference[place].toDouble()))
    }
    if (squares == 0.0) return Difference(exact = true, psnrDb = null, reason = null)
    if (peak == 0.0) return wrong("the reference is zero everywhere and the output is not")
    return Difference(exact = false, psnrDb = 20 * Math.log10(peak / Math.sqrt(squares / output.size)), reason = null)
}

/**
 * The worst of some outputs, and why any of them is too far off.
 *
 * @property db the worst one's decibels; null where all are exact or undefined.
 */
public data class Parity(
    val db: Double?,
    val reason: String?,
) {
    public companion object {
        /** The worst of named differences. */
        public fun of(
            found: List<Pair<String, Difference>>,
            minPsnrDb: Double,
        ): Parity {
            val reasons = LinkedHashMap<String, String>()
            for ((name, difference) in found) difference.verdict(minPsnrDb)?.let { reasons[name] = it }
            val text = reasons.entries.joinToString("; ") { "${it.key}: ${it.value}" }
            return Parity(found.mapNotNull { it.second.psnrDb }.minOrNull(), text.ifEmpty { null })
        }
    }
}
