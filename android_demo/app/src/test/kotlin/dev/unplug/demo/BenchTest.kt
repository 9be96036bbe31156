package dev.unplug.demo

import ai.unplug.core.Json
import ai.unplug.core.bench.BenchPlan
import ai.unplug.core.bench.BenchmarkStopped
import android.content.Intent
import android.content.pm.PackageManager
import android.os.Bundle
import android.os.PowerManager
import android.view.WindowManager
import dev.unplug.demo.bench.BenchActivity
import dev.unplug.demo.bench.BenchState
import dev.unplug.demo.bench.ChartView
import dev.unplug.demo.bench.FolderFiles
import dev.unplug.demo.bench.runPlan
import dev.unplug.demo.engine.Runs
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.Shadows.shadowOf
import java.io.File
import java.nio.file.Files

class BenchTest : OnPhone() {
    private val folder by lazy { File(app.getExternalFilesDir(null), "unplug-bench") }

    @Test
    fun `a press times the bundle's model, draws a chart, and shares the report`() {
        settleIn()
        val controller = open(BenchActivity::class.java)
        val screen = controller.get()
        shadowOf(app.getSystemService(PowerManager::class.java)).setCurrentThermalStatus(PowerManager.THERMAL_STATUS_LIGHT)
        screen.press("Run")
        assertTrue("Thermal status: light" in screen.words())
        assertTrue("it can be stopped", "Cancel" in screen.words())
        assertTrue("the phone stays awake", screen.window.attributes.flags and WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON != 0)
        settle()
        assertNull(screen.alert())
        val said = screen.words().first { it.startsWith("Median of ") }
        assertTrue(said, said.startsWith("Median of 100 runs on cpu; ") && said.endsWith("Parity: equal."))
        assertTrue(screen.findViewById<ChartView>(R.id.chart).contentDescription.startsWith("Latency of each run in milliseconds: from "))
        screen.shot("bench-done")
        val again = reborn(controller).get()
        assertTrue("the last report is kept", said in again.words())
        again.press("Share JSON")
        settle()
        val sent = File(app.cacheDir, "shared/bench.json").readText()
        val row = Json.parse(sent)["rows"].items.single()
        assertEquals("ok", row["status"].string)
        assertEquals(AGE_BUNDLE.files.let { ai.unplug.core.sha256(it.getValue("artifacts/age.fp32.onnx")) }, row["artifact_sha256"].string)
        assertEquals("light", row["repeats"].items[0]["thermal"].string)
    }

    @Test
    fun `an app that was ended in a benchmark says so, and goes on`() {
        settleIn()
        File(app.filesDir, "benchmark-runs").createNewFile()
        val state = BenchState(app).also { settle() }
        assertEquals("The last benchmark was cut off: the app was closed or the phone stopped it. What was measured is kept; run it again to go on.", state.line)
        state.start(state.files.first(), Runs.ONNX_CPU, false)
        settle()
        assertNull(state.line)
        assertNull("it is said once", BenchState(app).also { settle() }.line)
    }

    @Test
    fun `a benchmark stops when it is told to`() {
        settleIn()
        val state = BenchState(app).also { settle() }
        state.start(state.files.first(), Runs.ONNX_CPU, true)
        state.stop()
        settle()
        assertNull(state.line)
        assertFalse(state.running)
        assertNull(state.report)
    }

    /** As `unplug bench --on android-app` starts it; what the activity leaves in the folder. */
    private fun driven(
        name: String? = folder.path,
        change: () -> Unit = {},
    ): BenchmarkActivity {
        Vectors.file("app/bench").copyRecursively(folder, overwrite = true)
        change()
        val controller = Robolectric.buildActivity(BenchmarkActivity::class.java, Intent().putExtra("folder", name))
        controller.get().leave = { left = true }
        controller.create(null as Bundle?).start().postCreate(null).resume().visible()
        settle()
        assertTrue("the process ends, by which the harness knows that nothing more will come", left)
        return controller.get()
    }

    private var left = false

    @Test
    fun `a computer's plan is run without a user, and its report lies where the computer looks`() {
        driven()
        val text = File(folder, "report.json").readText()
        val rows = Json.parse(text)["rows"].items
        assertEquals(listOf("ok", "failed", "not_run"), rows.map { it["status"].string })
        assertEquals(Json.Bool(true), rows[0]["valid"])
        assertEquals(3, rows[0]["repeats"].items.size)
        assertEquals("age.fp32.onnx: the app has no onnx-app on gpu. Ask for one of xnnpack, gpu, cpu.", rows[1]["reasons"].items[0].string)
        File(System.getProperty("unplug.report")).writeText(text)
        assertFalse(File(folder, "failed.txt").exists())
    }

    @Test
    fun `what stops a driven benchmark is left for the computer to read`() {
        driven { File(folder, "plan.json").run { writeText(readText().replace("bench-plan/1", "bench-plan/9")) } }
        assertFalse(File(folder, "report.json").exists())
        assertEquals("Plan.json: its schema is not unplug-bench-plan/1. Get it again from its maker.", File(folder, "failed.txt").readText())
    }

    @Test
    fun `a full disk stops it, and the computer is told`() {
        driven { Files.createSymbolicLink(File(folder, "journal.jsonl").toPath(), File("/dev/full").toPath()) }
        assertEquals("Storage is full. Nothing was lost; free some space and try again.", File(folder, "failed.txt").readText())
    }

    @Test
    fun `a driven benchmark goes on where the app was killed, and its row says so`() {
        Vectors.file("app/bench").copyRecursively(folder, overwrite = true)
        val plan = BenchPlan.of(File(folder, BenchPlan.FILE).readBytes())
        val journal = File(folder, "journal.jsonl")
        val killed = runCatching { runPlan(app, plan, FolderFiles(folder), journal) { share, _ -> if (share > 0.5) throw BenchmarkStopped() } }
        assertTrue("${killed.exceptionOrNull()}", killed.exceptionOrNull() is BenchmarkStopped)
        driven { journal.appendText("{\"key\": cut off") }
        val row = Json.parse(File(folder, "report.json").readText())["rows"].items[0]
        assertTrue("$row", row["interruptions"].items.any { it.string.startsWith("the app ended after") })
        assertEquals(3, row["repeats"].items.size)
        assertFalse(journal.exists())
    }

    @Test
    fun `folders of others are not opened`() {
        for (name in listOf(null, "/", app.filesDir.path, "${folder.path}/../..", app.getExternalFilesDir(null)?.path)) {
            left = false
            driven(name)
            assertFalse(File(folder, "report.json").exists())
        }
    }

    @Test
    fun `only who holds DUMP starts it, and the app asks for no permission`() {
        val facts = app.packageManager.getPackageInfo(app.packageName, PackageManager.GET_ACTIVITIES or PackageManager.GET_PERMISSIONS)
        val driven = checkNotNull(facts.activities).single { it.name == BenchmarkActivity::class.java.name }
        assertEquals(android.Manifest.permission.DUMP, driven.permission)
        assertTrue(driven.exported)
        assertNull(facts.requestedPermissions)
        val exported = checkNotNull(facts.activities).filter { it.exported && it.permission == null }.map { it.name }
        assertEquals(listOf(MainActivity::class.java.name), exported)
    }
}
