package ai.unplug.core.bench

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.IOSpec
import ai.unplug.core.Json
import ai.unplug.core.JsonError

/**
 * How each artifact is timed.
 *
 * @property starts cold starts of each.
 * @property sustainS seconds at full load, in one cold start, instead of iterations; or null.
 */
public data class Timing(
    val threads: Int,
    val warmup: Int,
    val iterations: Int,
    val starts: Int,
    val sustainS: Double?,
    val seed: Long,
)

/**
 * One artifact on one delegate.
 *
 * @property model the path of its file in the folder, `files/0`.
 * @property vectors the path of its vectors, `vectors/0`.
 * @property notRun why it is not to be run, or null.
 */
public data class BenchJob(
    val number: Int,
    val file: String,
    val modelType: String,
    val modelSha256: String,
    val artifactSha256: String,
    val target: String,
    val precision: String,
    val bytes: Long,
    val runtime: String,
    val delegate: String,
    val iospec: IOSpec,
    val config: Json.Obj,
    val minPsnrDb: Double,
    val flops: Long?,
    val inputsSha256: String,
    val parityReference: String,
    val notRun: String?,
    val model: String,
    val vectors: String,
)

/** `plan.json`, `unplug-bench-plan/1`: what the harness asks for. */
public class BenchPlan(
    public val timing: Timing,
    public val jobs: List<BenchJob>,
) {
    public companion object {
        /** Its name in the folder that the harness hands over. */
        public const val FILE: String = "plan.json"
        private const val SCHEMA = "unplug-bench-plan/1"
        private const val MAX_JOBS = 2000
        private val PLACE = Regex("(files|vectors)/[0-9]{1,6}")
        private val JOB =
            setOf(
                "number", "file", "model_type", "model_sha256", "artifact_sha256", "target", "precision", "bytes", "runtime", "delegate",
                "iospec", "config", "min_psnr_db", "flops", "inputs_sha256", "parity_reference", "not_run", "row", "model_url", "vectors_url",
            )

        /** Reads the plan. @throws DataError it is of another version, or broken. */
        public fun of(bytes: ByteArray): BenchPlan {
            val value =
                try {
                    Json.parse(bytes)
                } catch (error: JsonError) {
                    throw DataError(FILE, "it is not strict JSON (${error.message})", "Start the benchmark again with unplug bench")
                }
            val fields = Fields(value, FILE, setOf("schema", "plan", "jobs", "auto"))
            if (fields.text("schema") != SCHEMA) fields.wrong("its schema is not $SCHEMA")
            val jobs = fields.list("jobs")
            if (jobs.size !in 1..MAX_JOBS) fields.wrong("it has ${jobs.size} jobs")
            return BenchPlan(timing(fields.any("plan")), jobs.map(::job))
        }

        private fun timing(value: Json): Timing {
            val fields = Fields(value, FILE, setOf("threads", "warmup", "iterations", "starts", "sustain_s", "seed"))
            val found =
                Timing(
                    threads = fields.small("threads"),
                    warmup = fields.small("warmup"),
                    iterations = fields.small("iterations"),
                    starts = fields.small("starts"),
                    sustainS = if (fields.has("sustain_s")) fields.number("sustain_s") else null,
                    seed = fields.whole("seed"),
                )
            val plain = found.threads >= 1 && found.warmup >= 0 && found.iterations >= 1 && found.starts >= 1 && (found.sustainS ?: 1.0) > 0.0
            return if (plain) found else fields.wrong("its numbers are out of range")
        }

        private fun job(value: Json): BenchJob {
            val fields = Fields(value, FILE, JOB)

            fun place(name: String) = fields.text(name).also { if (!PLACE.matches(it)) fields.wrong("$name leads elsewhere") }
            return BenchJob(
                number = fields.small("number"),
                file = fields.text("file"),
                modelType = fields.text("model_type"),
                modelSha256 = fields.text("model_sha256"),
                artifactSha256 = fields.text("artifact_sha256"),
                target = fields.text("target"),
                precision = fields.text("precision"),
                bytes = fields.whole("bytes"),
                runtime = fields.text("runtime"),
                delegate = fields.text("delegate"),
                iospec = IOSpec.of(fields.any("iospec"), FILE),
                config = Json.Obj(fields.obj("config")),
                minPsnrDb = fields.number("min_psnr_db"),
                flops = if (fields.has("flops")) fields.whole("flops") else null,
                inputsSha256 = fields.text("inputs_sha256"),
                parityReference = fields.text("parity_reference"),
                notRun = fields.textOrNull("not_run"),
                model = place("model_url"),
                vectors = place("vectors_url"),
            )
        }
    }
}
