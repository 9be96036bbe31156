package ai.unplug.core.bench

import ai.unplug.core.Fields
import ai.unplug.core.Json
import ai.unplug.core.jsonOf
import ai.unplug.core.sha256
import ai.unplug.core.text

/**
 * One artifact on one delegate of this device: a row of `unplug-bench/1`. Python works every derived number out again and believes none
 * of these.
 */
public class BenchRow internal constructor(
    public val job: BenchJob,
    private val timing: Timing,
    private val facts: DeviceFacts,
    earlier: List<Json>,
) {
    /** Why it went no further, or null. */
    public var failure: String? = null
        internal set
    internal var state: DeviceState? = null
    internal val repeats = ArrayList<Json.Obj>()
    private var curve: List<Json> = emptyList()
    private var gate: String? = null
    private var threads = timing.threads
    private var runtimeVersion: String? = null
    private var after: DeviceState? = null
    private val interruptions = ArrayList<String>()

    /** What makes a row the same where the app was killed in between. */
    private val key = sha256(listOf(job.copy(number = 0), timing, facts).toString().toByteArray())

    init {
        earlier.firstNotNullOfOrNull(::taken)?.let { kept ->
            repeats += kept.list("repeats").filterIsInstance<Json.Obj>()
            curve = kept.list("curve")
            threads = kept.small("threads")
            runtimeVersion = kept.textOrNull("runtime_version")
            gate = kept.textOrNull("thermal_gate")
            interruptions += kept.texts("interruptions")
            if (repeats.size in 1 until timing.starts) interruptions += "the app ended after ${repeats.size} cold starts, and went on"
        }
    }

    /** The row that was written down, if it is of this job, plan and device. */
    private fun taken(value: Json): Fields? {
        val note = (value as? Json.Obj)?.fields ?: return null
        if (note["key"] != Json.Str(key)) return null
        return Fields(note["row"] ?: return null, "journal", (note["row"] as? Json.Obj)?.fields?.keys.orEmpty())
    }

    /** As it is written down for a later start. */
    public fun journal(): String = jsonOf("key" to key, "row" to json()).text()

    internal fun gate(found: String) {
        gate = listOfNotNull(gate, found).minBy { ORDER.indexOf(it.substringBefore(" after").substringBefore(' ')) }
    }

    internal fun add(
        opened: OpenedEngine,
        timed: Timed,
        startedS: Double,
        before: DeviceState,
        now: DeviceState,
    ) {
        threads = opened.threads
        runtimeVersion = opened.runtimeVersion
        curve = timed.curve.map(Window::json)
        after = now
        repeats +=
            jsonOf(
                "started_s" to startedS,
                "init_ms" to timed.initMs,
                "first_inference_ms" to timed.firstInferenceMs,
                "latencies_ms" to timed.latenciesMs,
                "enqueue_ms" to timed.enqueueMs,
                "read_back_ms" to timed.readBackMs,
                "summary" to timed.summary.json(),
                "compared" to timed.compared,
                "parity_db" to timed.parity.db,
                "parity_reason" to timed.parity.reason,
                "delegate_got" to opened.delegateGot,
                "thermal" to before.thermal,
                "temperature_c" to before.temperatureC,
                "battery_percent" to before.batteryPercent,
                "charging" to before.charging,
                "thermal_after" to now.thermal,
                "temperature_after_c" to now.temperatureC,
            )
    }

    private fun reasons(): List<String> {
        val missing = repeats.size < timing.starts
        val stopped = job.notRun ?: failure ?: "the rest is to come"
        val own = if (missing && repeats.isNotEmpty()) "${repeats.size} of ${timing.starts} cold starts were timed: " else ""
        val parity = texts("parity_reason").distinct().map { "parity: $it" }
        val fallback = texts("delegate_got").filter { it != job.delegate }.distinct().map { "${job.delegate} was asked for and $it ran" }
        val heat = (texts("thermal") + texts("thermal_after")).filter { it in THROTTLING }.distinct()
        val hot = if (timing.sustainS == null && heat.isNotEmpty()) listOf("the device says that it throttles (${heat.joinToString()})") else emptyList()
        return (if (missing) listOf(own + stopped) else emptyList()) + parity + fallback + hot
    }

    private fun texts(name: String): List<String> = repeats.mapNotNull { (it.fields[name] as? Json.Str)?.value }

    private fun numbers(name: String): List<Double> = repeats.mapNotNull { (it.fields[name] as? Json.Num)?.value }

    private fun latencies(repeat: Json.Obj): List<Double> = (repeat.fields["latencies_ms"] as? Json.Arr)?.items.orEmpty().mapNotNull { (it as? Json.Num)?.value }

    private fun middle(name: String): Double? = numbers(name).takeIf { it.isNotEmpty() }?.let(Statistics::median)

    /** The row as the report has it. */
    public fun json(): Json.Obj {
        val why = reasons()
        val status = if (job.notRun != null) "not_run" else if (repeats.size >= timing.starts) "ok" else "failed"
        return Json.Obj(
            jsonOf(
                "file" to job.file,
                "model_type" to job.modelType,
                "model_sha256" to job.modelSha256,
                "artifact_sha256" to job.artifactSha256,
                "target" to job.target,
                "precision" to job.precision,
                "bytes" to job.bytes,
                "where" to facts.where,
                "device" to printable(facts.device),
                "soc" to facts.soc?.let(::printable),
                "os" to printable(facts.os),
                "gpu_driver" to facts.gpuDriver?.let(::printable),
                "runtime" to job.runtime,
                "runtime_version" to runtimeVersion,
                "threads" to threads,
                "delegate_asked" to job.delegate,
                "delegate_got" to texts("delegate_got").firstOrNull(),
                "status" to status,
                "valid" to why.isEmpty(),
                "reasons" to why,
                "warnings" to emptyList<String>(),
                "mode" to if (timing.sustainS == null) "burst" else "sustained",
                "warmup" to timing.warmup,
                "iterations" to timing.iterations,
                "timed_until" to "read_back",
                "repeats" to repeats,
                "curve" to curve,
                "thermal_after" to after?.thermal,
                "thermal_gate" to gate,
                "battery_percent" to state?.batteryPercent,
                "battery_after_percent" to after?.batteryPercent,
                "charging" to state?.charging,
                "interruptions" to interruptions,
                "parity_reference" to job.parityReference,
                "inputs_sha256" to job.inputsSha256,
                "flops" to job.flops,
            ).fields + derived(),
        )
    }

    /** Numbers over all repeats. */
    private fun derived(): Map<String, Json> {
        val medians = repeats.mapNotNull { ((it.fields["summary"] as? Json.Obj)?.fields?.get("p50") as? Json.Num)?.value }
        val pooled = repeats.flatMap(::latencies)
        val typical = medians.takeIf { it.isNotEmpty() }?.let(Statistics::typicalLatency)
        val slopes = repeats.mapNotNull { Statistics.drift(latencies(it)) }.takeIf { it.isNotEmpty() }?.let(Statistics::meanInterval)
        val outliers = repeats.map(::latencies).filter { it.isNotEmpty() }.map(Statistics::outlierShare)
        return jsonOf(
            "init_ms_cold" to middle("init_ms"),
            "first_inference_ms" to middle("first_inference_ms"),
            "enqueue_ms" to middle("enqueue_ms"),
            "read_back_ms" to middle("read_back_ms"),
            "summary" to if (pooled.isNotEmpty()) Statistics.summarize(pooled).json() else repeats.firstOrNull()?.fields?.get("summary"),
            "median_ms" to typical?.value,
            "median_ci95_ms" to typical?.ends?.toList(),
            "spread" to medians.takeIf { it.isNotEmpty() }?.let(Statistics::relativeSpread),
            "drift" to slopes?.value,
            "drift_ci95" to slopes?.ends?.toList(),
            "outlier_share" to outliers.takeIf { it.isNotEmpty() }?.average(),
        ).fields
    }

    internal companion object {
        val THROTTLING = setOf("moderate", "severe", "critical", "emergency", "shutdown")

        /** From bad to good. */
        private val ORDER = listOf("gave", "waited", "open")

        fun report(
            rows: List<BenchRow>,
            timing: Timing,
        ): Json.Obj {
            val versions = rows.mapNotNull { row -> row.runtimeVersion?.let { row.job.runtime to it } }.toMap()
            return jsonOf(
                "schema" to "unplug-bench/1",
                "rows" to rows.map(BenchRow::json),
                "seed" to timing.seed,
                "versions" to versions,
                "git_revision" to null,
            )
        }
    }
}
