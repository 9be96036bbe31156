package ai.unplug.core.bench

import ai.unplug.core.Engine
import ai.unplug.core.Json
import ai.unplug.core.Sample
import ai.unplug.core.UnplugError
import ai.unplug.core.draw.Noise

/**
 * What stays the same during a benchmark.
 *
 * @property where "device" or "emulated".
 */
public data class DeviceFacts(
    val where: String,
    val device: String,
    val os: String,
    val soc: String? = null,
    val gpuDriver: String? = null,
)

/**
 * The device's state at one moment; what it does not tell is null.
 *
 * @property thermal Android's word: none, light, moderate, severe, critical, emergency or shutdown.
 */
public data class DeviceState(
    val thermal: String? = null,
    val temperatureC: Double? = null,
    val batteryPercent: Double? = null,
    val charging: Boolean? = null,
)

/** What was opened, and what really runs it. */
public class OpenedEngine(
    public val engine: Engine,
    public val delegateGot: String,
    public val runtimeVersion: String?,
    public val threads: Int,
)

/** What the protocol asks of the platform. */
public interface BenchmarkHost {
    public val facts: DeviceFacts

    public fun state(): DeviceState

    /** The job's vectors. */
    public fun samples(job: BenchJob): List<Sample>

    /** Opens the job's file anew. What it throws stands in the row, in its first line. */
    public fun open(
        job: BenchJob,
        timing: Timing,
    ): OpenedEngine

    /** A row so far, after every cold start: write it down, so that nothing is lost where the app is killed. */
    public fun row(row: BenchRow) {}

    /** How far it is, from 0 to 1. What it throws stops the benchmark. */
    public fun progress(
        share: Double,
        text: String,
    ) {}

    /** Waits while the device is too hot. */
    public fun sleep(seconds: Double): Unit = Thread.sleep((seconds * 1e3).toLong())

    /** Nanoseconds of a clock that never goes back. */
    public fun clock(): Long = System.nanoTime()
}

/**
 * Cold starts of all jobs in turn, in an order drawn anew for each turn: `unplug.mobile_bench`'s protocol on the device.
 *
 * @param earlier rows that were written down before the app was killed; what they hold is not measured again.
 */
public class BenchmarkProtocol(
    private val plan: BenchPlan,
    private val host: BenchmarkHost,
    earlier: List<Json> = emptyList(),
) {
    private val rows: List<BenchRow> = plan.jobs.map { BenchRow(it, plan.timing, host.facts, earlier) }
    private val begun = host.clock()
    private var done = 0

    /** Runs what is not measured yet; the report, `unplug-bench/1`. */
    public fun run(): Json.Obj {
        for (turn in 0 until plan.timing.starts) {
            for (row in shuffled(turn)) {
                if (row.job.notRun == null && row.failure == null && row.repeats.size <= turn) {
                    coldStart(row)
                    host.row(row)
                }
                done++
                tell(row, 0.0)
            }
        }
        return report()
    }

    /** The report of what is measured so far. */
    public fun report(): Json.Obj = BenchRow.report(rows, plan.timing)

    private fun coldStart(row: BenchRow) {
        val started = (host.clock() - begun) / 1e9
        try {
            row.state = row.state ?: host.state()
            val (state, gate) = cool()
            row.gate(gate)
            val samples = host.samples(row.job)
            var opened: OpenedEngine? = null
            val timed =
                ColdStart(plan.timing, row.job, samples, host::clock) { tell(row, it) }.run {
                    host.open(row.job, plan.timing).also { opened = it }.engine
                }
            row.add(checkNotNull(opened), timed, started, state, host.state())
        } catch (error: UnplugError) {
            row.failure = printable(error.message)
        } catch (error: BenchmarkStopped) {
            throw error
        } catch (error: InterruptedException) {
            throw error
        } catch (error: Exception) {
            // Whatever a runtime throws ends this job and no other.
            row.failure = printable("${error.javaClass.simpleName}: ${error.message}")
        } catch (error: OutOfMemoryError) {
            row.failure = "its runtime took more memory than there is"
        }
    }

    /** Waits until the platform does not throttle any more; says what that came to. */
    private fun cool(): Pair<DeviceState, String> {
        var waited = 0.0
        while (true) {
            val state = host.state()
            if (state.thermal !in BenchRow.THROTTLING) return state to (if (waited > 0.0) "waited ${waited.toInt()} s" else "open")
            if (waited >= COOL_DOWN_S) return state to "gave up after ${waited.toInt()} s at ${state.thermal}"
            host.sleep(POLL_S)
            waited += POLL_S
        }
    }

    private fun tell(
        row: BenchRow,
        share: Double,
    ) {
        val all = plan.jobs.size * plan.timing.starts
        host.progress(((done + share) / all).coerceIn(0.0, 1.0), "${row.job.file} on ${row.job.delegate}")
    }

    /** Fisher and Yates, by the noise stream of the plan's seed. */
    private fun shuffled(turn: Int): List<BenchRow> {
        val order = rows.toMutableList()
        val draws = Noise.words(plan.timing.seed.toULong(), (1 + turn).toULong(), order.size)
        for (place in order.size - 1 downTo 1) {
            val other = (Noise.uniform(draws[place]) * (place + 1)).toInt()
            order[place] = order.set(other, order[place])
        }
        return order
    }

    private companion object {
        const val COOL_DOWN_S = 600.0
        const val POLL_S = 5.0
    }
}

/** Thrown by a host's `progress` to stop; what was measured stays. */
public class BenchmarkStopped : RuntimeException("it was stopped")

/** One line without control characters: it is printed on a terminal. */
internal fun printable(text: String?): String = (text ?: "it was not told why").map { if (it in ' '..'~') it else ' ' }.joinToString("").trim().take(300)
