package ai.unplug.core.bench

import ai.unplug.core.Engine
import ai.unplug.core.Json

/** The device's state at one moment; what it does not tell is null. */
public data class DeviceState(
    val thermal: String? = null,
    val temperatureC: Double? = null,
    val batteryPercent: Double? = null,
    val charging: Boolean? = null,
)

/** What stays the same during a benchmark; `where` is device or emulated. */
public data class DeviceFacts(
    val where: String,
    val device: String,
    val os: String,
    val soc: String? = null,
    val gpuDriver: String? = null,
)

/** What the protocol asks of the platform. */
public interface BenchmarkHost {
    public val facts: DeviceFacts

    public fun state(): DeviceState

    /** Opens a job's file anew, as a cold start does. @throws Exception with a line for the row. */
    public fun open(job: BenchJob): OpenedEngine

    /** Told how far it is, from 0 to 1. Throwing stops. */
    public fun progress(
        share: Double,
        text: String,
    )
}

/** What was opened, and what really runs it. */
public class OpenedEngine(
    public val engine: Engine,
    public val delegateGot: String,
    public val runtimeVersion: String?,
    public val threads: Int,
)

/** One artifact on one delegate, as the plan asks for it. */
public class BenchJob internal constructor(
    public val number: Int,
    public val file: String,
    public val runtime: String,
    public val delegate: String,
)

/** The plan `unplug-bench-plan/1` that the harness wrote, and the report `unplug-bench/1` that goes back. */
public class BenchmarkProtocol(
    private val plan: Json,
    private val host: BenchmarkHost,
) {
    /** Runs all; the report. */
    public fun run(): Json.Obj = TODO("$plan $host")
}
