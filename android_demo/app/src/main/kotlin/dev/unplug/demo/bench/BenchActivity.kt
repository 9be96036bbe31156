package dev.unplug.demo.bench

import ai.unplug.core.bundle.Artifact
import android.content.ClipData
import android.content.Context
import android.content.Intent
import android.os.Bundle
import android.os.PowerManager
import android.view.View
import android.view.WindowManager
import android.widget.AdapterView
import android.widget.ArrayAdapter
import android.widget.Button
import android.widget.ProgressBar
import android.widget.Spinner
import android.widget.Switch
import android.widget.TextView
import dev.unplug.demo.FilesProvider
import dev.unplug.demo.R
import dev.unplug.demo.Screen
import dev.unplug.demo.digits
import dev.unplug.demo.engine.Runs
import dev.unplug.demo.show

/** Times a file of the bundle on this phone; the same rows as `unplug bench` writes. */
@android.annotation.SuppressLint("UseSwitchCompatOrMaterialCode")
class BenchActivity : Screen<BenchState>() {
    private val file by lazy { findViewById<Spinner>(R.id.file) }
    private val delegate by lazy { findViewById<Spinner>(R.id.delegate) }
    private val sustained by lazy { findViewById<Switch>(R.id.sustained) }
    private var listed: List<Artifact> = emptyList()
    private var wanted = 0 to 0

    override fun begin(saved: Bundle?) = BenchState(app)

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        setContentView(R.layout.activity_bench)
        wanted = (saved?.getInt(FILE) ?: 0) to (saved?.getInt(DELEGATE) ?: 0)
        findViewById<View>(R.id.go).setOnClickListener { if (model.running) model.stop() else start() }
        findViewById<View>(R.id.share).setOnClickListener { share() }
        file.onItemSelectedListener = chosen { listWays() }
    }

    override fun onStart() {
        super.onStart()
        model.watch(::show)
    }

    override fun onStop() {
        super.onStop()
        model.leave()
    }

    override fun onDestroy() {
        super.onDestroy()
        if (isFinishing) model.stop()
    }

    override fun onSaveInstanceState(out: Bundle) {
        super.onSaveInstanceState(out)
        out.putInt(FILE, file.selectedItemPosition)
        out.putInt(DELEGATE, delegate.selectedItemPosition)
    }

    private fun start() {
        val artifact = listed.getOrNull(file.selectedItemPosition) ?: return
        val way = model.ways(artifact).getOrNull(delegate.selectedItemPosition) ?: return
        if (sustained.isChecked && getSystemService(PowerManager::class.java).isSustainedPerformanceModeSupported) {
            window.setSustainedPerformanceMode(true)
        }
        model.start(artifact, way, sustained.isChecked)
    }

    private fun show() {
        if (listed != model.files) listFiles()
        findViewById<View>(R.id.controls).visibility = if (listed.isEmpty()) View.GONE else View.VISIBLE
        findViewById<TextView>(R.id.alert).show(model.line)
        findViewById<TextView>(R.id.said).text = model.said
        findViewById<TextView>(R.id.thermal).show(thermalOf(this)?.let { getString(R.string.bench_thermal, it) })
        findViewById<Button>(R.id.go).apply {
            isEnabled = listed.isNotEmpty()
            setText(if (model.running) R.string.cancel else R.string.bench_go)
        }
        for (view in listOf(file, delegate, sustained)) view.isEnabled = !model.running
        findViewById<View>(R.id.share).isEnabled = model.report != null && !model.running
        findViewById<ProgressBar>(R.id.progress).apply {
            visibility = if (model.share == null) View.INVISIBLE else View.VISIBLE
            progress = (1000 * (model.share ?: 0.0)).toInt()
        }
        if (model.running) {
            window.addFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON)
        } else {
            window.clearFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON)
            window.setSustainedPerformanceMode(false)
        }
        findViewById<View>(R.id.result).visibility = if (model.row == null) View.GONE else View.VISIBLE
        model.row?.let(::showRow)
    }

    private fun showRow(row: Row) {
        val all = row.latencies.flatten().sorted()
        findViewById<ChartView>(R.id.chart).show(row.latencies)
        val median = findViewById<TextView>(R.id.median)
        val text = findViewById<TextView>(R.id.result_text)
        median.visibility = if (all.isEmpty()) View.GONE else View.VISIBLE
        val reasons = row.reasons.joinToString("; ").takeIf { it.isNotEmpty() }?.let { getString(R.string.bench_invalid, it) }
        if (all.isEmpty()) {
            text.text = reasons.orEmpty()
            return
        }
        median.text = getString(R.string.bench_median, at(all, 0.5).digits(2))
        val first = row.number("first_inference_ms") ?: 0.0
        val opened = row.number("init_ms") ?: 0.0
        val said = getString(R.string.bench_row, all.size, row.delegate, at(all, 0.95).digits(2), first.digits(1), opened.digits(0), parity(row))
        text.text = listOfNotNull(said, reasons).joinToString("\n")
    }

    private fun parity(row: Row): String =
        when {
            (row.number("compared") ?: 0.0) == 0.0 -> getString(R.string.bench_no_parity)
            row.number("parity_db") == null -> getString(R.string.bench_equal)
            else -> getString(R.string.bench_db, row.number("parity_db")?.digits(0))
        }

    private fun at(
        sorted: List<Double>,
        share: Double,
    ) = sorted[((sorted.size - 1) * share).toInt()]

    private fun listFiles() {
        listed = model.files
        file.adapter = choices(this, listed.map { "${it.path.removePrefix("artifacts/").removePrefix("members/")} · ${it.precision}" })
        file.setSelection(wanted.first.coerceIn(0, maxOf(0, listed.size - 1)))
        listWays()
    }

    private fun listWays() {
        val artifact = listed.getOrNull(file.selectedItemPosition) ?: return
        val names = model.ways(artifact).map(Runs::shown)
        if ((0 until delegate.count).map { delegate.getItemAtPosition(it) } == names) return
        delegate.adapter = choices(this, names)
        delegate.setSelection(wanted.second.coerceIn(0, names.size - 1))
    }

    private fun share() {
        val text = model.report ?: return
        val (file, uri) = FilesProvider.of(this, "bench.json")
        app.work.run({ file.writeText(text) }) { result ->
            if (result.isSuccess) {
                val intent = Intent(Intent.ACTION_SEND).setType("application/json").putExtra(Intent.EXTRA_STREAM, uri)
                intent.addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION).clipData = ClipData.newRawUri(null, uri)
                startActivity(Intent.createChooser(intent, null))
            }
        }
    }

    private fun chosen(then: () -> Unit) =
        object : AdapterView.OnItemSelectedListener {
            override fun onItemSelected(
                parent: AdapterView<*>?,
                view: View?,
                position: Int,
                id: Long,
            ) = then()

            override fun onNothingSelected(parent: AdapterView<*>?) = Unit
        }

    private companion object {
        const val FILE = "file"
        const val DELEGATE = "delegate"

        fun choices(
            context: Context,
            names: List<String>,
        ) = ArrayAdapter(context, android.R.layout.simple_spinner_item, names).apply { setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item) }
    }
}
