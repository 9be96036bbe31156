package dev.unplug.demo

import ai.unplug.core.bench.BenchPlan
import android.os.Bundle
import android.os.Process
import android.view.WindowManager
import android.widget.ProgressBar
import android.widget.TextView
import dev.unplug.demo.bench.FolderFiles
import dev.unplug.demo.bench.runPlan
import java.io.File
import java.io.IOException

/** The state of a benchmark that a computer drives. */
class DrivenState(
    private val app: DemoApp,
    folder: File?,
) : Watched() {
    var line: String? = null
        private set
    var said: String = app.getString(R.string.working)
        private set
    var share: Double = 0.0
        private set
    var ended = false
        private set

    init {
        if (folder == null) {
            line = app.getString(R.string.bench_no_folder)
            ended = true
        } else {
            app.work.run({ measure(folder) }) { result ->
                result.fold({ said = app.getString(R.string.bench_driven_done) }, { line = app.line(it) })
                share = 1.0
                ended = true
                changed()
            }
        }
    }

    /** The report appears whole or not at all; the reason of a failure is left next to it, for the harness. */
    private fun measure(folder: File) {
        try {
            val plan = BenchPlan.of(File(folder, BenchPlan.FILE).readBytes())
            val report = runPlan(app, plan, FolderFiles(folder), File(folder, "journal.jsonl")) { share, text -> app.work.tell { progressed(share, text) } }
            write(folder, "report.json", report)
        } catch (error: Exception) {
            runCatching { write(folder, "failed.txt", app.line(error)) }
            throw error
        }
    }

    private fun write(
        folder: File,
        name: String,
        text: String,
    ) {
        val new = File(folder, "$name.new")
        new.writeText(text)
        if (!new.renameTo(File(folder, name))) throw IOException("$name cannot be written")
    }

    private fun progressed(
        share: Double,
        text: String,
    ) {
        this.share = share
        said = text
        changed()
    }
}

/**
 * Runs the benchmark of `unplug bench --on android-app`: the folder that the intent names holds a plan, files and vectors, and gets the
 * report. Started over adb only: other apps do not hold the permission that the manifest asks for.
 */
class BenchmarkActivity : Screen<DrivenState>() {
    /** Ends the process: that tells the harness that nothing more will come. */
    internal var leave: () -> Unit = { Process.killProcess(Process.myPid()) }

    override fun begin(saved: Bundle?) = DrivenState(app, folderOf(intent.getStringExtra("folder")))

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        setContentView(R.layout.activity_benchmark)
        window.addFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON)
    }

    override fun onStart() {
        super.onStart()
        model.watch(::show)
    }

    override fun onStop() {
        super.onStop()
        model.leave()
    }

    /** Only inside this app's own folder on the shared storage, which adb can write and read. */
    private fun folderOf(text: String?): File? {
        val own = getExternalFilesDir(null)?.canonicalFile ?: return null
        return text?.let { File(it).canonicalFile }?.takeIf { it.startsWith(own) && it != own && File(it, BenchPlan.FILE).isFile }
    }

    private fun show() {
        findViewById<TextView>(R.id.alert).show(model.line)
        findViewById<TextView>(R.id.said).text = model.said
        findViewById<ProgressBar>(R.id.progress).progress = (1000 * model.share).toInt()
        if (model.ended) {
            finishAndRemoveTask()
            leave()
        }
    }
}
