package ai.unplug.core.bench

import ai.unplug.core.Engine
import ai.unplug.core.FloatTensor
import ai.unplug.core.Parity
import ai.unplug.core.PhasedEngine
import ai.unplug.core.Sample
import ai.unplug.core.compare

/** One cold start that was timed; times in milliseconds. */
internal class Timed(
    val initMs: Double,
    val firstInferenceMs: Double,
    val latenciesMs: List<Double>,
    val enqueueMs: Double?,
    val readBackMs: Double?,
    val summary: Summary,
    val curve: List<Window>,
    val compared: Int,
    val parity: Parity,
)

/** Looks at the outputs of every run: a runtime that is right once may be wrong the next time. */
private class OutputWatch {
    private val first = HashMap<Int, Map<String, FloatTensor>>()
    private var worst: Triple<Double, Int, Map<String, FloatTensor>>? = null
    var count = 0

    fun look(
        sample: Int,
        outputs: Map<String, FloatTensor>,
    ) {
        count++
        // The engine may fill the same arrays anew.
        val known = first.getOrPut(sample) { copy(outputs) }
        val apart = known.maxOfOrNull { (name, tensor) -> distance(tensor.values, outputs[name]?.values ?: FloatArray(0)) } ?: 0.0
        if (apart > (worst?.first ?: 0.0)) worst = Triple(apart, sample, copy(outputs))
    }

    /** The first run on each sample and the one that differed most, against what was expected. */
    fun parity(
        samples: List<Sample>,
        reference: Boolean,
        minPsnrDb: Double,
    ): Parity {
        val seen = first.toSortedMap().map { it.key to it.value } + listOfNotNull(worst?.let { it.second to it.third })
        val found =
            seen.flatMap { (sample, outputs) ->
                val wanted = if (reference) samples[sample].outputs else first.getValue(sample)
                wanted.map { (name, expected) -> name to compare(expected.values, outputs[name]?.values ?: FloatArray(0)) }
            }
        return Parity.of(found, minPsnrDb)
    }

    private fun copy(outputs: Map<String, FloatTensor>) = outputs.mapValues { FloatTensor(it.value.shape, it.value.values.copyOf()) }

    /** Largest absolute difference; infinite where a value is not finite. */
    private fun distance(
        known: FloatArray,
        value: FloatArray,
    ): Double {
        if (known.size != value.size) return Double.POSITIVE_INFINITY
        var largest = 0.0
        for (place in value.indices) {
            val apart = Math.abs(value[place].toDouble() - known[place])
            if (!apart.isFinite()) return Double.POSITIVE_INFINITY
            largest = maxOf(largest, apart)
        }
        return largest
    }
}

/** The protocol of one cold start: load, first run, warm-ups, timed runs, and a look at the outputs of every run. */
internal class ColdStart(
    private val timing: Timing,
    private val job: BenchJob,
    private val samples: List<Sample>,
    private val clock: () -> Long,
    private val share: (Double) -> Unit,
) {
    private val latency = ArrayList<Double>()
    private val enqueue = ArrayList<Double>()
    private val readBack = ArrayList<Double>()
    private val ends = ArrayList<Double>()
    private val watch = OutputWatch()

    fun run(open: () -> Engine): Timed {
        val started = clock()
        open().use { engine ->
            val opened = clock()
            val outputs = engine.run(samples[0].inputs)
            val first = clock()
            watch.look(0, outputs)
            repeat(timing.warmup) { watch.look(it % samples.size, engine.run(samples[it % samples.size].inputs)) }
            val begun = clock()
            while (!enough()) {
                one(engine)
                ends += (clock() - begun) / 1e9
                share(timing.sustainS?.let { ends.last() / it } ?: (latency.size.toDouble() / timing.iterations))
            }
            return timed((opened - started) / 1e6, (first - opened) / 1e6)
        }
    }

    private fun enough(): Boolean =
        if (timing.sustainS == null) {
            latency.size >= timing.iterations
        } else {
            ends.isNotEmpty() && (ends.last() >= timing.sustainS || ends.size >= MAX_RUNS)
        }

    private fun one(engine: Engine) {
        val index = latency.size % samples.size
        val inputs = samples[index].inputs
        val before = clock()
        if (engine is PhasedEngine) {
            engine.feed(inputs)
            val fed = clock()
            engine.invoke()
            val invoked = clock()
            val outputs = engine.read()
            val read = clock()
            enqueue += (fed - before) / 1e6
            readBack += (read - invoked) / 1e6
            // Until the outputs are there: a call of a GPU delegate returns before its work is done.
            latency += (read - fed) / 1e6
            watch.look(index, outputs)
        } else {
            val outputs = engine.run(inputs)
            latency += (clock() - before) / 1e6
            watch.look(index, outputs)
        }
    }

    private fun timed(
        init: Double,
        first: Double,
    ) = Timed(
        initMs = init,
        firstInferenceMs = first,
        latenciesMs = if (timing.sustainS == null) latency else emptyList(),
        enqueueMs = enqueue.takeIf { it.isNotEmpty() }?.let(Statistics::median),
        readBackMs = readBack.takeIf { it.isNotEmpty() }?.let(Statistics::median),
        summary = Statistics.summarize(latency),
        curve = if (timing.sustainS == null) emptyList() else Statistics.windows(ends, latency),
        compared = watch.count,
        parity = watch.parity(samples, job.parityReference == "checkpoint", job.minPsnrDb),
    )

    private companion object {
        /** The most runs of a sustained cold start: bounds its memory. */
        const val MAX_RUNS = 5_000_000
    }
}
