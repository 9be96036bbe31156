package ai.unplug.core.age

import ai.unplug.core.Fields
import ai.unplug.core.Json

/**
 * P(age >= T): the groups above T, and of the group around T the share above it, where ages are taken as even.
 *
 * p = sum over groups g of softmax(logits)_g * clip((high_g - T) / (high_g - low_g), 0, 1)
 *
 * @param logits the scores of the groups.
 * @param edges borders of the groups in years, one more than groups.
 * @param age T in years, above the first border and below the last.
 */
public fun overProbability(
    logits: FloatArray,
    edges: List<Double>,
    age: Double,
): Double {
    require(logits.size == edges.size - 1) { "${logits.size} logits for ${edges.size} borders" }
    val top = logits.max().toDouble()
    val weights = logits.map { Math.exp(it - top) }
    val above = weights.indices.sumOf { weights[it] * ((edges[it + 1] - age) / (edges[it + 1] - edges[it])).coerceIn(0.0, 1.0) }
    return above / weights.sum()
}

/**
 * The rule "over from here, under up to there, unsure between", of P(age >= T); `postprocessing.decision` in a manifest.
 *
 * @property age T in years; a person who has had that birthday is over.
 * @property overFrom the smallest probability that is answered over; above 1 nobody is.
 * @property underTo the largest that is answered under; below 0 nobody is.
 * @property maxFpr share of minors that is called over, at most; for people like those that the rule was fitted on.
 * @property maxFnr the same of adults called under.
 * @property confidence the probability that this holds over the draw of those people; null where it holds on average over draws.
 * @property models SHA-256 of the checkpoints and files that it was fitted on: about others it decides nothing.
 */
public data class DecisionRule(
    val age: Double,
    val overFrom: Double,
    val underTo: Double,
    val maxFpr: Double,
    val maxFnr: Double,
    val confidence: Double?,
    val models: Set<String> = emptySet(),
) {
    /** The answer to P(age >= T); anything but a number is unsure. */
    public fun decide(over: Double): Decision = if (over >= overFrom) Decision.OVER else if (over <= underTo) Decision.UNDER else Decision.UNSURE

    internal companion object {
        private const val SCHEMA = "unplug-decision/1"
        private val KEYS =
            setOf(
                "schema",
                "age",
                "over_from",
                "under_to",
                "max_fpr",
                "max_fnr",
                "method",
                "confidence",
                "minors_from",
                "minors",
                "adults",
                "data_digest",
                "apart",
                "by",
                "groups",
                "models",
            )

        /** The rule in a manifest whose model has these groups. */
        fun of(
            value: Json,
            edges: List<Double>,
        ): DecisionRule {
            val fields = Fields(value, "decision", KEYS)
            if (fields.text("schema") != SCHEMA) fields.wrong("it is of another version than $SCHEMA")
            val found =
                DecisionRule(
                    age = fields.number("age"),
                    overFrom = fields.number("over_from"),
                    underTo = fields.number("under_to"),
                    maxFpr = fields.number("max_fpr"),
                    maxFnr = fields.number("max_fnr"),
                    confidence = if (fields.has("confidence")) fields.number("confidence") else null,
                    models = fields.list("models").map { model(it, fields) }.toSet(),
                )
            if (found.underTo >= found.overFrom) fields.wrong("its ends cross")
            if (found.age <= edges.first() || found.age >= edges.last()) fields.wrong("no age group speaks of its age")
            return found
        }

        private fun model(
            value: Json,
            fields: Fields,
        ): String = ((value as? Json.Obj)?.fields?.get("sha256") as? Json.Str)?.value ?: fields.wrong("it names a model without its hash")
    }
}
