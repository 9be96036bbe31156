package ai.unplug.core.bench

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.Json
import ai.unplug.core.Sample
import ai.unplug.core.Tensor
import ai.unplug.core.TestVectors
import ai.unplug.core.Vectors
import ai.unplug.core.double
import ai.unplug.core.get
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.string
import ai.unplug.core.text
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.io.File

/** The protocol on a scripted device: a clock that steps, an engine that knows its answers, and whatever goes wrong. */
private open class ScriptedHost(
    private val samples: List<Sample>,
    private val off: Float = 1e-6f,
) : BenchmarkHost {
    override val facts = DeviceFacts(where = "device", device = "Scripted 1", os = "Android 16 (API 36)", soc = "S1", gpuDriver = "G 2")
    var states = ArrayDeque<String>()
    val opened = ArrayList<String>()
    val written = ArrayList<String>()
    var slept = 0.0
    private var now = 0L
    private var steps = 0

    override fun state() = DeviceState(states.removeFirstOrNull() ?: "none", 30.5, 80.0, false)

    override fun samples(job: BenchJob) = samples

    override fun open(
        job: BenchJob,
        timing: Timing,
    ): OpenedEngine {
        opened += job.delegate
        return OpenedEngine(engine(job), job.delegate, "1.22", timing.threads)
    }

    open fun engine(job: BenchJob): Engine = answering { outputs -> if (job.delegate == "gpu") FloatArray(outputs.size) { outputs[it] * (1 + off) } else outputs }

    fun answering(change: (FloatArray) -> FloatArray) =
        object : Engine {
            override val names = EngineNames(listOf("image"), listOf("age_logits", "expected_age"))

            override fun run(inputs: Map<String, Tensor>): Map<String, FloatTensor> {
                val given = (inputs.getValue("image") as FloatTensor).values
                val sample = samples.first { (it.inputs.getValue("image") as FloatTensor).values.contentEquals(given) }
                return sample.outputs.mapValues { FloatTensor(it.value.shape, change(it.value.values)) }
            }
        }

    override fun clock(): Long {
        steps++
        now += 250_000L + 3_000L * (steps * 7 % 13)
        return now
    }

    override fun sleep(seconds: Double) {
        slept += seconds
    }

    override fun row(row: BenchRow) {
        written += row.journal()
    }
}

class BenchmarkTest {
    private val plan = BenchPlan.of(Vectors.file("app/bench/plan.json").readBytes())
    private val samples =
        plan.jobs[0].let { job ->
            TestVectors.read(Vectors.file("app/bench/${job.vectors}/vectors.json").readBytes(), job.iospec, job.iospec) {
                Vectors.file("app/bench/${job.vectors}/$it").readBytes()
            }
        }

    @Test
    fun `the report is the one that Python's checks are held to`() {
        val host = ScriptedHost(samples)
        val report = BenchmarkProtocol(plan, host).run()
        File("target/report.json").writeText(report.text() + "\n")
        assertEquals(Vectors.file("app/bench/report.json").readText(), report.text() + "\n")
        val rows = report["rows"].items
        assertEquals(listOf("ok", "ok", "not_run"), rows.map { it["status"].string })
        assertEquals(6, host.opened.size)
        assertEquals(host.opened.take(2).toSet(), setOf("cpu", "gpu"))
        assertEquals(15, rows[0]["repeats"].items[0]["compared"].int)
        assertTrue(rows[1]["repeats"].items[0]["parity_db"].double > 100)
    }

    @Test
    fun `an app that was killed goes on where it was`() {
        val first =
            object : ScriptedHost(samples) {
                override fun progress(
                    share: Double,
                    text: String,
                ) {
                    if (share > 0.5) throw BenchmarkStopped()
                }
            }
        assertThrows(BenchmarkStopped::class.java) { BenchmarkProtocol(plan, first).run() }
        val kept = first.written.map { Json.parse(it) }.reversed()
        val second = ScriptedHost(samples)
        val rows = BenchmarkProtocol(plan, second, kept).run()["rows"].items
        assertEquals(6, first.written.size + second.opened.size)
        assertTrue(second.opened.size in 1..5)
        assertEquals(listOf(3, 3, 0), rows.map { it["repeats"].items.size })
        assertTrue(rows.any { row -> row["interruptions"].items.any { it.string.startsWith("the app ended after") } })
        val other = BenchPlan(plan.timing.copy(warmup = 3), plan.jobs)
        val third = ScriptedHost(samples)
        BenchmarkProtocol(other, third, kept).run()
        assertEquals(6, third.opened.size, "rows of another plan are not taken")
    }

    private fun only(
        host: ScriptedHost,
        change: (Timing) -> Timing = { it },
    ) = BenchmarkProtocol(BenchPlan(change(plan.timing), plan.jobs.take(1)), host).run()["rows"].items.single()

    @Test
    fun `a runtime that is right once and wrong later is found, and its row refused`() {
        val host =
            object : ScriptedHost(samples) {
                override fun engine(job: BenchJob): Engine {
                    var runs = 0
                    return answering { outputs -> if (++runs == 20) FloatArray(outputs.size) else outputs }
                }
            }
        val row = only(host)
        assertEquals(Json.Bool(false), row["valid"])
        assertTrue(row["reasons"].items[0].string.startsWith("parity: "))
    }

    @Test
    fun `what a runtime throws stands in the row`() {
        val host =
            object : ScriptedHost(samples) {
                override fun engine(job: BenchJob): Engine = throw IllegalStateException("no such\u0007 delegate\nat line 2")
            }
        val row = only(host)
        assertEquals("failed", row["status"].string)
        assertEquals("IllegalStateException: no such  delegate at line 2", row["reasons"].items[0].string)
    }

    @Test
    fun `a hot device is waited for, and not forever`() {
        val cooling = ScriptedHost(samples).apply { states = ArrayDeque(listOf("none", "severe", "moderate", "light")) }
        assertEquals("waited 10 s", only(cooling)["thermal_gate"].string)
        assertEquals(10.0, cooling.slept)
        val hot = ScriptedHost(samples).apply { states = ArrayDeque(List(1000) { "critical" }) }
        val row = only(hot) { it.copy(starts = 1) }
        assertEquals("gave up after 600 s at critical", row["thermal_gate"].string)
        assertEquals(Json.Bool(false), row["valid"])
    }

    @Test
    fun `a delegate that fell back is told`() {
        val host =
            object : ScriptedHost(samples) {
                override fun open(
                    job: BenchJob,
                    timing: Timing,
                ) = OpenedEngine(engine(job), "xnnpack", "1", 1)
            }
        assertEquals("cpu was asked for and xnnpack ran", only(host)["reasons"].items[0].string)
    }

    @Test
    fun `a sustained run is a curve`() {
        val row = only(ScriptedHost(samples)) { it.copy(starts = 1, sustainS = 0.05) }
        assertEquals("sustained", row["mode"].string)
        assertEquals(0, row["repeats"].items[0]["latencies_ms"].items.size)
        assertEquals(row["repeats"].items[0]["summary"]["count"].int, row["curve"].items.sumOf { it["count"].int })
    }

    @Test
    fun `a plan of another version, or one that leads elsewhere, is refused`() {
        val text = Vectors.file("app/bench/plan.json").readText()
        for ((from, to) in listOf("plan/1" to "plan/2", "files/0" to "../files/0", "\"starts\": 3" to "\"starts\": 0", "\"jobs\"" to "\"works\"", "}" to "")) {
            assertThrows(DataError::class.java, { BenchPlan.of(text.replace(from, to).toByteArray()) }, from)
        }
    }
}
