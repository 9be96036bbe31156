package ai.unplug.core.bench

import ai.unplug.core.Json
import ai.unplug.core.jsonOf

/** What a set of latencies comes to, in milliseconds; p99 is null below 1,000 of them. */
public data class Summary(
    val count: Int,
    val p50: Double,
    val p90: Double,
    val p95: Double,
    val p99: Double?,
    val mean: Double,
    val std: Double,
    val min: Double,
    val max: Double,
) {
    internal fun json(): Json.Obj =
        jsonOf(
            "count" to count,
            "p50" to p50,
            "p90" to p90,
            "p95" to p95,
            "p99" to p99,
            "mean" to mean,
            "std" to std,
            "min" to min,
            "max" to max,
        )
}

/** A part of a sustained run, with the runs that ended in it. */
public data class Window(
    val startS: Double,
    val endS: Double,
    val count: Int,
    val p50: Double,
    val p95: Double,
) {
    internal fun json(): Json.Obj = jsonOf("start_s" to startS, "end_s" to endS, "count" to count, "p50" to p50, "p95" to p95, "temperature_c" to null)
}

/** A number with its interval; no ends where one cold start says nothing of the others. */
public data class Estimate(
    val value: Double,
    val ends: Pair<Double, Double>?,
)

/** As `unplug.mobile_bench.statistics` and `.sustained` compute it. */
public object Statistics {
    private const val MIN_SAMPLES_P99 = 1000
    private const val MIN_SAMPLES_DRIFT = 8
    private const val MAX_DRIFT_POINTS = 200
    private const val WINDOWS = 60
    private const val MAX_EXPONENT = 700.0
    private const val NORMAL_975 = 1.959963984540054

    /** Student's t at 97.5 %, for 1 to 30 degrees of freedom. */
    private val T_975 =
        doubleArrayOf(
            12.70620474, 4.30265273, 3.182446305, 2.776445105, 2.570581836, 2.446911851, 2.364624252, 2.306004135, 2.262157163,
            2.228138852, 2.20098516, 2.17881283, 2.160368656, 2.144786688, 2.131449546, 2.119905299, 2.109815578, 2.10092204,
            2.093024054, 2.085963447, 2.079613845, 2.073873068, 2.06865761, 2.063898562, 2.059538553, 2.055529439, 2.051830516,
            2.048407142, 2.045229642, 2.042272456,
        )

    /** A percentile of ascending numbers, by linear interpolation between order statistics. */
    public fun percentile(
        sorted: DoubleArray,
        percent: Double,
    ): Double {
        val place = (sorted.size - 1) * percent / 100.0
        val below = Math.floor(place).toInt()
        val (low, high) = sorted[below] to sorted[minOf(below + 1, sorted.size - 1)]
        return low + (place - below) * (high - low)
    }

    /** The middle of some numbers. */
    public fun median(values: Collection<Double>): Double = percentile(values.sorted().toDoubleArray(), 50.0)

    /** Percentiles, mean, spread and extremes of at least one latency. */
    public fun summarize(latencies: Collection<Double>): Summary {
        require(latencies.isNotEmpty()) { "no samples to summarize" }
        val sorted = latencies.sorted().toDoubleArray()
        val mean = sorted.sum() / sorted.size
        val squares = sorted.sumOf { (it - mean) * (it - mean) }
        return Summary(
            count = sorted.size,
            p50 = percentile(sorted, 50.0),
            p90 = percentile(sorted, 90.0),
            p95 = percentile(sorted, 95.0),
            p99 = if (sorted.size >= MIN_SAMPLES_P99) percentile(sorted, 99.0) else null,
            mean = mean,
            std = if (sorted.size > 1) Math.sqrt(squares / (sorted.size - 1)) else 0.0,
            min = sorted.first(),
            max = sorted.last(),
        )
    }

    /** Student's interval of a mean at 95 %. */
    public fun meanInterval(values: List<Double>): Estimate {
        val mean = values.sum() / values.size
        val freedom = values.size - 1
        if (freedom < 1) return Estimate(mean, null)
        val deviation = Math.sqrt(values.sumOf { (it - mean) * (it - mean) } / freedom)
        val half = t975(freedom) * deviation / Math.sqrt(values.size.toDouble())
        return Estimate(mean, mean - half to mean + half)
    }

    /** Beyond the table by Fisher's expansion, which is right to 1e-6 there. */
    private fun t975(freedom: Int): Double {
        if (freedom <= T_975.size) return T_975[freedom - 1]
        val (z, n) = NORMAL_975 to freedom.toDouble()
        val third = Math.pow(z, 3.0)
        return z + (third + z) / (4 * n) + (5 * Math.pow(z, 5.0) + 16 * third + 3 * z) / (96 * n * n) +
            (3 * Math.pow(z, 7.0) + 19 * Math.pow(z, 5.0) + 17 * third - 15 * z) / (384 * n * n * n)
    }

    /** Geometric mean of the cold starts' medians, with Student's interval on their logarithms; null where a clock says zero. */
    public fun typicalLatency(medians: List<Double>): Estimate? {
        if (medians.min() <= 0.0) return null
        val logs = meanInterval(medians.map { Math.log(it) })

        fun exp(value: Double) = Math.exp(minOf(value, MAX_EXPONENT))
        return Estimate(exp(logs.value), logs.ends?.let { (low, high) -> exp(low) to exp(high) })
    }

    /** (largest - smallest) / smallest, or null where a coarse clock says zero. */
    public fun relativeSpread(medians: List<Double>): Double? = medians.min().let { if (it > 0.0) (medians.max() - it) / it else null }

    /**
     * By which share runs became slower from the first to the last: the median slope between all pairs, times N - 1, over the median.
     *
     * Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
     */
    public fun drift(latencies: List<Double>): Double? {
        if (latencies.size < MIN_SAMPLES_DRIFT) return null
        val middle = median(latencies)
        if (middle <= 0.0) return null
        val step = (latencies.size + MAX_DRIFT_POINTS - 1) / MAX_DRIFT_POINTS
        val parts = latencies.chunked(step).map(::median)
        val slopes = parts.indices.flatMap { i -> (i + 1 until parts.size).map { j -> (parts[j] - parts[i]) / (j - i) } }
        return median(slopes) * (latencies.size - 1) / step / middle
    }

    /** Share of runs above the median and 5 robust standard deviations. */
    public fun outlierShare(latencies: List<Double>): Double {
        val middle = median(latencies)
        val deviation = 1.4826 * median(latencies.map { Math.abs(it - middle) })
        if (deviation <= 0.0) return 0.0
        return latencies.count { it > middle + 5.0 * deviation }.toDouble() / latencies.size
    }

    /** A sustained run in windows of equal length; those in which no run ended are left out. */
    public fun windows(
        ends: List<Double>,
        latencies: List<Double>,
        count: Int = WINDOWS,
    ): List<Window> {
        val last = ends.lastOrNull() ?: return emptyList()
        val places = ends.map { Math.ceil(it / last * count).toInt().coerceIn(1, count) - 1 }
        return places.indices.groupBy { places[it] }.map { (place, runs) ->
            val own = runs.map { latencies[it] }.sorted().toDoubleArray()
            Window(place * last / count, (place + 1) * last / count, own.size, percentile(own, 50.0), percentile(own, 95.0))
        }
    }
}
