package dev.unplug.demo.bench

import ai.unplug.core.Json
import ai.unplug.core.bench.BenchmarkProtocol
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
import java.util.concurrent.CancellationException

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
    private val kept = File(app.filesDir, "benchmark.json")

    init {
        if (marker.delete()) line = app.getString(R.string.bench_killed)
        app.work.run({ app.shelf.need("age") to kept.takeIf { it.isFile }?.readText() }) { result ->
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
                line = if (error == null || error is CancellationException) null else app.line(error)
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
        val folder = File(app.noBackupFilesDir, "benchmark")
        marker.createNewFile()
        try {
            writeOwnPlan(folder, bundle, file, way, app.engines.threads, sustained)
            val text =
                runPlan(app, folder) { share, text ->
                    if (running.stopped) throw CancellationException()
                    app.work.tell { progressed(share, text) }
                }
            val new = File(app.filesDir, "benchmark.new").apply { writeText(text) }
            new.renameTo(kept)
            return text
        } finally {
            marker.delete()
            folder.deleteRecursively()
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

/** Runs the plan that lies in a folder; the report as JSON. */
fun runPlan(
    app: DemoApp,
    folder: File,
    told: (Double, String) -> Unit,
): String {
    val plan = Json.parse(File(folder, "plan.json").readBytes())
    val threads = (((plan as? Json.Obj)?.fields?.get("plan") as? Json.Obj)?.fields?.get("threads") as? Json.Num)?.value?.toInt() ?: app.engines.threads
    val host = PhoneHost(app, app.engines, { File(folder, "files/${it.number}") }, told, threads)
    return BenchmarkProtocol(plan, host).run().text()
}
