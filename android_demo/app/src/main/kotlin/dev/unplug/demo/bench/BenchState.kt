package dev.unplug.demo.bench

import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.bench.BenchPlan
import ai.unplug.core.bench.BenchmarkProtocol
import ai.unplug.core.bench.BenchmarkStopped
import ai.unplug.core.bundle.Artifact
import ai.unplug.core.bundle.Bundle
import ai.unplug.core.text
import dev.unplug.demo.DemoApp
import dev.unplug.demo.R
import dev.unplug.demo.Running
import dev.unplug.demo.Watched
import dev.unplug.demo.engine.Runs
import dev.unplug.demo.line
import java.io.File
import java.io.IOException

/** One row of a report, as far as the screen shows it. */
class Row(
    val reasons: List<String>,
    val delegate: String,
    val starts: List<Json.Obj>,
) {
    val latencies: List<List<Double>> get() = starts.map { start -> (start.fields["latencies_ms"] as? Json.Arr)?.items.orEmpty().map { (it as Json.Num).value } }

    fun number(name: String): Double? = (starts.firstOrNull()?.fields?.get(name) as? Json.Num)?.value

    companion object {
        fun of(report: Json.Obj): Row? {
            val row = (report.fields["rows"] as? Json.Arr)?.items?.firstOrNull() as? Json.Obj ?: return null
            return Row(
                reasons = (row.fields["reasons"] as? Json.Arr)?.items.orEmpty().mapNotNull { (it as? Json.Str)?.value },
                delegate = (row.fields["delegate_asked"] as? Json.Str)?.value.orEmpty(),
                starts = (row.fields["repeats"] as? Json.Arr)?.items.orEmpty().filterIsInstance<Json.Obj>(),
            )
        }
    }
}

/** The state of the benchmark screen. */
class BenchState(
    private val app: DemoApp,
) : Watched() {
    var files: List<Artifact> = emptyList()
        private set
    var row: Row? = null
        private set
    var report: String? = null
        private set
    var line: String? = null
        private set
    var said: String = ""
        private set
    var share: Double? = null
        private set
    val running: Boolean get() = run != null
    private var bundle: Bundle? = null
    private var run: Running? = null
    private val marker = File(app.filesDir, "benchmark-runs")
    private val journal = File(app.filesDir, "benchmark.jsonl")
    private val kept = app.report

    init {
        if (marker.delete()) line = app.getString(R.string.bench_killed)
        app.work.run({ app.shelf.need() to kept.takeIf { it.isFile }?.readText() }) { result ->
            bundle = result.getOrNull()?.first
            files = bundle?.artifacts.orEmpty().filter { file -> app.engines.ways.any { it.target == file.target } }
            result.getOrNull()?.second?.let(::shown)
            line = line ?: result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }
    }

    /** The ways that a file can be run here. */
    fun ways(file: Artifact): List<Runs> = app.engines.ways.filter { it.target == file.target }

    fun start(
        file: Artifact,
        way: Runs,
        sustained: Boolean,
    ) {
        val bundle = bundle ?: return
        line = null
        share = 0.0
        said = app.getString(R.string.working)
        run =
            app.work.run({ running -> measure(bundle, file, way, sustained, running) }) { result ->
                run = null
                share = null
                said = ""
                val error = result.exceptionOrNull()
                result.getOrNull()?.let(::shown)
                line = if (error == null || error is BenchmarkStopped) null else app.line(error)
                changed()
            }
        changed()
    }

    fun stop() = run?.stop() ?: Unit

    private fun measure(
        bundle: Bundle,
        file: Artifact,
        way: Runs,
        sustained: Boolean,
        running: Running,
    ): String {
        marker.createNewFile()
        val plan = ownPlan(bundle, file, way, app.engines.threads, sustained)
        try {
            val text =
                runPlan(app, plan, BundleFiles(bundle), journal) { share, text ->
                    if (running.stopped) throw BenchmarkStopped()
                    app.work.tell { progressed(share, text) }
                }
            val new = File(app.filesDir, "benchmark.new").apply { writeText(text) }
            if (!new.renameTo(kept)) throw IOException("the report cannot be written")
            return text
        } finally {
            marker.delete()
        }
    }

    private fun progressed(
        share: Double,
        text: String,
    ) {
        if (run == null) return
        this.share = share
        said = text
        changed()
    }

    private fun shown(text: String) {
        report = text
        row = Row.of(Json.parse(text) as Json.Obj)
    }
}

private val DemoApp.report get() = File(filesDir, "benchmark.json")

/** The latency in milliseconds that the last benchmark found, if it holds, by the SHA-256 of the checkpoint. */
fun measured(app: DemoApp): Map<String, Double> {
    val rows = app.report.takeIf { it.isFile }?.let { (Json.parse(it.readText()) as Json.Obj).fields["rows"] as? Json.Arr }
    val known = rows?.items.orEmpty().filterIsInstance<Json.Obj>().filter { it.fields["valid"] == Json.Bool(true) }
    return known.mapNotNull { row -> (row.fields["median_ms"] as? Json.Num)?.let { (row.fields["model_sha256"] as? Json.Str)?.value.orEmpty() to it.value } }.toMap()
}

/**
 * Runs a plan, going on where an app that was killed had stopped; the report as JSON.
 *
 * @param journal the rows so far; they stay until the plan is done, so that the same plan goes on when it is run again.
 */
fun runPlan(
    app: DemoApp,
    plan: BenchPlan,
    files: JobFiles,
    journal: File,
    told: (Double, String) -> Unit,
): String {
    val earlier = if (journal.isFile) journal.readLines().reversed().mapNotNull(::lineOf) else emptyList()
    val report = BenchmarkProtocol(plan, PhoneHost(app, app.engines, files, journal, told), earlier).run().text()
    journal.delete()
    return report
}

/** A line that the app's end cut off is not JSON, and is left out. */
private fun lineOf(line: String): Json? =
    try {
        Json.parse(line)
    } catch (cut: JsonError) {
        null
    }
