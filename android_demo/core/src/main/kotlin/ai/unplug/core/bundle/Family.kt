package ai.unplug.core.bundle

import ai.unplug.core.DataError
import ai.unplug.core.InputError

/**
 * One of the models of several sizes that share one head, as a manifest's `postprocessing.family` lists them.
 *
 * @property latencyMs median of one picture, of the phone itself where it has measured; null where nobody has.
 */
public data class Member(
    val name: String,
    val latencyMs: Double?,
)

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
    return members.firstOrNull { it.latencyMs != null && it.latencyMs <= budgetMs } ?: throw InputError(budget, "no member fits: $fastest", "Raise the budget")
}
