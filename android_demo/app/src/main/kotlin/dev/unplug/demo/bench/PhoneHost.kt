package dev.unplug.demo.bench

import ai.unplug.core.DataError
import ai.unplug.core.bench.BenchJob
import ai.unplug.core.bench.BenchRow
import ai.unplug.core.bench.BenchmarkHost
import ai.unplug.core.bench.DeviceFacts
import ai.unplug.core.bench.DeviceState
import ai.unplug.core.bench.OpenedEngine
import ai.unplug.core.bench.Timing
import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.os.BatteryManager
import android.os.Build
import android.os.PowerManager
import dev.unplug.demo.engine.Engines
import dev.unplug.demo.engine.Runs
import java.io.File

/** The platform's words for its thermal status, in the order of its numbers. */
private val THERMAL = listOf("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")

/** What the platform says of its heat; null before Android 10, which does not say. */
fun thermalOf(context: Context): String? = if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) null else THERMAL.getOrNull(context.getSystemService(PowerManager::class.java).currentThermalStatus)

/**
 * The phone, as the protocol of core asks for it.
 *
 * @param files the files of the plan's jobs.
 * @param journal gets every row so far, one line each, so that an app that was killed goes on where it was.
 * @param told hears of progress; may throw to stop.
 */
class PhoneHost(
    private val context: Context,
    private val engines: Engines,
    private val files: JobFiles,
    private val journal: File,
    private val told: (Double, String) -> Unit,
) : BenchmarkHost {
    override val facts =
        DeviceFacts(
            where = if (isEmulator()) "emulated" else "device",
            device = "${Build.MANUFACTURER} ${Build.MODEL}",
            os = "Android ${Build.VERSION.RELEASE} (API ${Build.VERSION.SDK_INT}, ${Build.ID})",
            soc = if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.S) "${Build.SOC_MANUFACTURER} ${Build.SOC_MODEL}" else Build.HARDWARE,
        )

    override fun state(): DeviceState {
        val battery = context.registerReceiver(null, IntentFilter(Intent.ACTION_BATTERY_CHANGED))
        val (level, scale) = listOf(BatteryManager.EXTRA_LEVEL, BatteryManager.EXTRA_SCALE).map { battery?.getIntExtra(it, -1) ?: -1 }
        val tenths = battery?.getIntExtra(BatteryManager.EXTRA_TEMPERATURE, Int.MIN_VALUE) ?: Int.MIN_VALUE
        return DeviceState(
            thermal = thermalOf(context),
            temperatureC = if (tenths == Int.MIN_VALUE) null else tenths / 10.0,
            batteryPercent = if (level < 0 || scale <= 0) null else 100.0 * level / scale,
            charging = battery?.let { it.getIntExtra(BatteryManager.EXTRA_PLUGGED, 0) != 0 },
        )
    }

    override fun samples(job: BenchJob) = files.samples(job)

    override fun row(row: BenchRow) = journal.appendText("${row.journal()}\n")

    override fun open(
        job: BenchJob,
        timing: Timing,
    ): OpenedEngine {
        val way =
            engines.ways.firstOrNull { it.runtime == job.runtime && it.delegate == job.delegate }
                ?: throw DataError(job.file, "the app has no ${job.runtime} on ${job.delegate}", "Ask for one of ${engines.ways.joinToString { it.delegate }}")
        return OpenedEngine(engines.open(way, job.file, files.bytes(job), timing.threads), way.delegate, engines.version(way), timing.threads)
    }

    override fun progress(
        share: Double,
        text: String,
    ) = told(share, text)

    private fun isEmulator() = Build.FINGERPRINT.startsWith("generic") || "emulator" in Build.FINGERPRINT || Build.HARDWARE in setOf("goldfish", "ranchu")
}
