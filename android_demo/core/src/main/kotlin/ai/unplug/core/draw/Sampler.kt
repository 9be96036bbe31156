package ai.unplug.core.draw

import ai.unplug.core.Fields
import ai.unplug.core.InputError
import ai.unplug.core.Json

/** How the loop solves its equation. */
public enum class Solver(
    public val word: String,
) {
    DDIM("ddim"),
    DPM("dpm++"),
    ;

    public companion object {
        /** The solver of a word, or null. */
        public fun of(word: String): Solver? = entries.firstOrNull { it.word == word }
    }
}

/**
 * The noise levels of a base.
 *
 * @property alphas share of the picture's variance at each timestep, falling.
 * @property finalAlpha the share after DDIM's last step.
 * @property velocity whether the network predicts the velocity; else the noise.
 * @property spacing leading, trailing or linspace.
 * @property offset added to the timesteps with leading.
 * @property rising whether guidance rises from none in pure noise to twice its scale at the end; else it is the same at all levels.
 */
public class Schedule(
    public val alphas: DoubleArray,
    public val finalAlpha: Double,
    public val velocity: Boolean,
    public val spacing: String,
    public val offset: Int,
    public val rising: Boolean = false,
) {
    /** Most steps that a solver has here. */
    public fun mostSteps(solver: Solver): Int = alphas.size - unseen(solver)

    internal fun unseen(solver: Solver): Int = if (solver == Solver.DPM && spacing != "trailing") 1 else 0

    internal companion object {
        private const val MAX_LEVELS = 10_000
        private val KEYS = setOf("alphas_cumprod", "final_alpha_cumprod", "prediction", "spacing", "steps_offset", "guidance")

        fun of(
            value: Json,
            what: String,
        ): Schedule {
            val fields = Fields(value, what, KEYS)
            val prediction = fields.text("prediction")
            val guidance = if (fields.has("guidance")) fields.text("guidance") else "constant"
            val found =
                Schedule(
                    alphas = fields.numbers("alphas_cumprod").toDoubleArray(),
                    finalAlpha = fields.number("final_alpha_cumprod"),
                    velocity = prediction == "v_prediction",
                    spacing = fields.text("spacing"),
                    offset = fields.small("steps_offset"),
                    rising = guidance == "linear",
                )
            val levels = found.alphas
            val least = if (found.velocity) 0.0 else 1e-8
            val fall = levels.indices.all { levels[it] >= least && levels[it] < 1.0 && (it == 0 || levels[it] < levels[it - 1]) }
            if (levels.size !in 1..MAX_LEVELS || !fall) fields.wrong("its schedule has noise levels that do not fall")
            if (prediction !in setOf("epsilon", "v_prediction") || found.spacing !in setOf("leading", "trailing", "linspace")) {
                fields.wrong("its schedule has an unknown prediction or spacing")
            }
            if (guidance !in setOf("constant", "linear")) fields.wrong("its schedule has an unknown guidance")
            if (!(found.finalAlpha > 0.0 && found.finalAlpha <= 1.0) || found.offset !in levels.indices) {
                fields.wrong("its schedule ends at a level, or has an offset, out of range")
            }
            return found
        }
    }
}

/** Sampling as a table: timesteps, shares of guidance, and five coefficients a step, computed in float64 and rounded to float32 once. */
public class SamplingTable(
    public val timestep: IntArray,
    public val latentToData: FloatArray,
    public val predictionToData: FloatArray,
    public val keep: FloatArray,
    public val data: FloatArray,
    public val previous: FloatArray,
    public val guidance: DoubleArray,
) {
    /** The scale of guidance at a step, of a scale that is asked for. Wang et al., "Analysis of Classifier-Free Guidance Weight Schedulers", 2024. */
    public fun scale(
        step: Int,
        guidance: Double,
    ): Double = 1.0 + (guidance - 1.0) * this.guidance[step]
}

/** What DPM-Solver++ takes for a level of nothing but noise, whose logarithm is infinite. */
private const val LEAST_ALPHA = 1.0 / (1 shl 24)

/** The timesteps, falling; halves round to the even neighbour. */
public fun timesteps(
    schedule: Schedule,
    steps: Int,
    solver: Solver,
): IntArray {
    val levels = schedule.alphas.size
    val extra = schedule.unseen(solver)
    if (steps !in 1..levels - extra) {
        throw InputError("$steps steps", "out of range", "Use 1 to ${levels - extra} for this base and ${solver.word}")
    }
    return IntArray(steps) { i ->
        val left = steps - 1 + extra - i
        val time =
            when (schedule.spacing) {
                "leading" -> left * (levels / (steps + extra)) + schedule.offset
                "trailing" -> Math.rint(levels - i * (levels.toDouble() / steps)).toInt() - 1
                else -> Math.rint(left * ((levels - 1).toDouble() / maxOf(1, steps - 1 + extra))).toInt()
            }
        minOf(time, levels - 1)
    }
}

private class Moves(
    val keep: DoubleArray,
    val data: DoubleArray,
    val previous: DoubleArray,
)

/** The table of a sampling. @throws InputError a number of steps that the schedule does not have. */
public fun samplingTable(
    schedule: Schedule,
    steps: Int,
    solver: Solver,
): SamplingTable {
    val times = timesteps(schedule, steps, solver)
    val least = if (solver == Solver.DPM) LEAST_ALPHA else 0.0
    val alpha = DoubleArray(steps) { maxOf(schedule.alphas[times[it]], least) }
    val moves = if (solver == Solver.DPM) dpm(alpha) else ddim(schedule, times, alpha)
    val signal = alpha.map { Math.sqrt(it) }
    val noise = alpha.map { Math.sqrt(1.0 - it) }
    return SamplingTable(
        timestep = times,
        latentToData = FloatArray(steps) { (if (schedule.velocity) signal[it] else 1.0 / signal[it]).toFloat() },
        predictionToData = FloatArray(steps) { (if (schedule.velocity) -noise[it] else -noise[it] / signal[it]).toFloat() },
        keep = floats(moves.keep),
        data = floats(moves.data),
        previous = floats(moves.previous),
        guidance = DoubleArray(steps) { if (schedule.rising) 2.0 * (1.0 - times[it].toDouble() / schedule.alphas.size) else 1.0 },
    )
}

private fun floats(values: DoubleArray) = FloatArray(values.size) { values[it].toFloat() }

/** Song et al., "Denoising Diffusion Implicit Models", 2021, equation 12 with sigma = 0. */
private fun ddim(
    schedule: Schedule,
    times: IntArray,
    alpha: DoubleArray,
): Moves {
    val stride = schedule.alphas.size / times.size
    val after = DoubleArray(times.size) { if (times[it] >= stride) schedule.alphas[times[it] - stride] else schedule.finalAlpha }
    val keep = DoubleArray(times.size) { Math.sqrt((1.0 - after[it]) / (1.0 - alpha[it])) }
    val data = DoubleArray(times.size) { Math.sqrt(after[it]) - Math.sqrt(alpha[it]) * keep[it] }
    return Moves(keep, data, DoubleArray(times.size))
}

/**
 * Lu et al., "DPM-Solver++", 2022, algorithm 2: second order but for the first step and the last, which ends without noise.
 */
private fun dpm(alpha: DoubleArray): Moves {
    val last = alpha.size - 1
    val log = DoubleArray(alpha.size) { 0.5 * StrictMath.log(alpha[it] / (1.0 - alpha[it])) }

    fun step(s: Int) = log[s + 1] - log[s]
    val keep = DoubleArray(alpha.size) { if (it == last) 0.0 else Math.sqrt((1.0 - alpha[it + 1]) / (1.0 - alpha[it])) }
    val pull = DoubleArray(alpha.size) { if (it == last) 1.0 else Math.sqrt(alpha[it + 1]) * -StrictMath.expm1(-step(it)) }
    val previous = DoubleArray(alpha.size) { if (it == 0 || it == last) 0.0 else -0.5 * pull[it] * step(it) / step(it - 1) }
    return Moves(keep, DoubleArray(alpha.size) { pull[it] - previous[it] }, previous)
}

/** negative + guidance (prediction - negative), in float32. Ho and Salimans, "Classifier-Free Diffusion Guidance", 2022. */
public fun guided(
    prediction: FloatArray,
    negative: FloatArray,
    guidance: Double,
): FloatArray {
    val scale = guidance.toFloat()
    return FloatArray(prediction.size) { negative[it] + scale * (prediction[it] - negative[it]) }
}

/** One step in float32: the next latent, and this step's data. */
public fun advance(
    table: SamplingTable,
    step: Int,
    latent: FloatArray,
    prediction: FloatArray,
    before: FloatArray,
): Pair<FloatArray, FloatArray> {
    val (toData, fromPrediction) = table.latentToData[step] to table.predictionToData[step]
    val (keep, pull, previous) = Triple(table.keep[step], table.data[step], table.previous[step])
    val data = FloatArray(latent.size) { toData * latent[it] + fromPrediction * prediction[it] }
    return FloatArray(latent.size) { keep * latent[it] + pull * data[it] + previous * before[it] } to data
}
