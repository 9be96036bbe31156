package ai.unplug.core.bundle

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.InputError
import ai.unplug.core.Json

/** The budget: one frame of a preview of 30 pictures a second. */
public const val FRAME_MS: Double = 33.0

/**
 * One of the models of several sizes that share one head, as a manifest's `postprocessing.family` lists them.
 *
 * @property latencyMs median of one picture, of the phone itself where it has measured; null where nobody has.
 */
public data class Member(
    val name: String,
    val latencyMs: Double?,
    val checkpointSha256: String,
)

/**
 * The members in a manifest's `postprocessing`; null where it carries no family.
 *
 * @throws DataError what stands there is none.
 */
internal fun familyOf(postprocessing: Json.Obj): List<Member>? {
    val fields = Fields(postprocessing.fields["family"]?.takeIf { it != Json.Null } ?: return null, "family", setOf("schema", "members"))
    if (fields.text("schema") != "unplug-family/1") fields.wrong("it is of another schema")
    return fields.list("members").map {
        val told = Fields(it, "family", setOf("name", "checkpoint_sha256", "trunk_sha256", "latency_ms"))
        Member(told.text("name"), if (told.has("latency_ms")) told.number("latency_ms") else null, told.text("checkpoint_sha256"))
    }
}

/**
 * The best member that fits: the first, best first as they are listed, whose latency is known and at most the budget.
 *
 * @throws InputError no member fits, or a budget that is not above 0.
 * @throws DataError no members, two of one name, or a latency that is not above 0.
 */
public fun chooseMember(
    members: List<Member>,
    budgetMs: Double,
): Member {
    fun isTime(ms: Double) = ms > 0 && ms < Double.POSITIVE_INFINITY
    val budget = "budget $budgetMs ms"
    if (!isTime(budgetMs)) throw InputError(budget, "it is not a time", "Give milliseconds above 0")
    val known = members.mapNotNull { it.latencyMs }
    if (members.isEmpty() || members.distinctBy { it.name }.size < members.size || !known.all(::isTime)) {
        throw DataError("family", "it needs members of different names, and latencies above 0", "Get another release")
    }
    val fastest = known.minOrNull()?.let { "the fastest takes $it ms" } ?: "none was timed"
    return members.firstOrNull { it.latencyMs != null && it.latencyMs <= budgetMs } ?: throw InputError(budget, "no member fits: $fastest", "Time its files in the benchmark")
}
