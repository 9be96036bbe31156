package dev.unplug.demo

import ai.unplug.core.Json
import ai.unplug.core.TestVectors
import ai.unplug.core.bundle.Bundle
import ai.unplug.core.bundle.Source
import ai.unplug.core.bundle.Trust
import android.content.Intent
import androidx.test.ext.junit.runners.AndroidJUnit4
import androidx.test.platform.app.InstrumentationRegistry
import dev.unplug.demo.bench.BundleFiles
import dev.unplug.demo.bench.PhoneHost
import dev.unplug.demo.bench.ownPlan
import dev.unplug.demo.bench.runPlan
import dev.unplug.demo.engine.Engines
import dev.unplug.demo.engine.Runs
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assume.assumeTrue
import org.junit.Test
import org.junit.runner.RunWith
import java.io.File

/**
 * Tests what only a device shows: the runtimes' own libraries, LiteRT's CPU and GPU, the platform's face detector and its thermal status.
 *
 * Name a bundle of your own by `-e bundle PATH -e key PATH`, both in the app's external files; without it the tests run the
 * models of the vectors, which are ONNX only.
 */
@RunWith(AndroidJUnit4::class)
class OnDeviceTest {
    private val arguments = InstrumentationRegistry.getArguments()
    private val app = InstrumentationRegistry.getInstrumentation().targetContext.applicationContext as DemoApp

    private fun bundle(): Bundle {
        val path = arguments.getString("bundle")
        assumeTrue("-e bundle PATH -e key PATH", path != null)
        return Bundle.open(Source.at(File(path.orEmpty())), Trust.of(File(arguments.getString("key").orEmpty()).readText()))
    }

    @Test
    fun bothRuntimesLoadHere() {
        for (way in Runs.entries) assertNotNull(way.shown, Engines().version(way))
    }

    /** Parity of every file of the bundle, on every delegate that takes it. */
    @Test
    fun filesOfTheBundleGiveThePublishedNumbers() {
        val bundle = bundle()
        val engines = Engines()
        for (artifact in bundle.artifacts) {
            for (way in engines.ways.filter { it.target == artifact.target }) {
                engines.open(way, artifact.path, bundle.read(artifact.path)).use { engine ->
                    val parity = TestVectors.check(engine, BundleFiles(bundle).samples(artifact.iospec), TestVectors.minPsnrDb(artifact.precision))
                    assertNull("${artifact.path} on ${way.shown}: ${parity.reason}", parity.reason)
                }
            }
        }
    }

    /** A whole benchmark of the bundle's first file, on every delegate that takes it. */
    @Test
    fun theProtocolRunsOnEveryDelegate() {
        val bundle = bundle()
        val artifact = bundle.artifacts.first { file -> Runs.entries.any { it.target == file.target } }
        for (way in Runs.entries.filter { it.target == artifact.target }) {
            val journal = File(app.cacheDir, "device-test.jsonl").apply { delete() }
            val report = runPlan(app, ownPlan(bundle, artifact, way, Engines().threads, sustained = false), BundleFiles(bundle), journal) { _, _ -> }
            val row = ((Json.parse(report) as Json.Obj).fields.getValue("rows") as Json.Arr).items.single() as Json.Obj
            assertEquals(way.shown, Json.Str("ok"), row.fields["status"])
        }
    }

    @Test
    fun thePhoneSaysWhatItIs() {
        val host = PhoneHost(app, Engines(), BundleFilesOfNone, File(app.cacheDir, "none.jsonl")) { _, _ -> }
        assertNotNull(host.state().batteryPercent)
        assertNotNull(host.facts.soc)
    }

    @Test
    fun everyScreenOpens() {
        val instrumentation = InstrumentationRegistry.getInstrumentation()
        for (screen in listOf("MainActivity", "age.AgeActivity", "draw.DrawActivity", "bench.BenchActivity", "bundle.BundleActivity", "bundle.CertificateActivity")) {
            val intent = Intent().setClassName(app, "dev.unplug.demo.$screen").addFlags(Intent.FLAG_ACTIVITY_NEW_TASK)
            val opened = instrumentation.startActivitySync(intent)
            instrumentation.waitForIdleSync()
            instrumentation.runOnMainSync(opened::finish)
        }
    }
}
