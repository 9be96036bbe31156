package dev.unplug.demo.bench

import ai.unplug.core.DataError
import ai.unplug.core.FloatTensor
import ai.unplug.core.IOSpec
import ai.unplug.core.Sample
import ai.unplug.core.TestVectors
import ai.unplug.core.bench.BenchJob
import ai.unplug.core.bench.BenchPlan
import ai.unplug.core.bench.Timing
import ai.unplug.core.bundle.Artifact
import ai.unplug.core.bundle.Bundle
import dev.unplug.demo.engine.Runs
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest

/** Where the file and the vectors of a job lie. */
interface JobFiles {
    fun bytes(job: BenchJob): ByteArray

    fun samples(job: BenchJob): List<Sample>
}

/** A folder that the harness handed over. */
class FolderFiles(
    private val folder: File,
) : JobFiles {
    override fun bytes(job: BenchJob): ByteArray = File(folder, job.model).readBytes()

    override fun samples(job: BenchJob): List<Sample> {
        val vectors = File(folder, job.vectors)
        return TestVectors.read(File(vectors, TestVectors.INDEX).readBytes(), job.iospec, job.iospec) { File(vectors, it).readBytes() }
    }
}

/** A bundle and its own test vectors. */
class BundleFiles(
    private val bundle: Bundle,
) : JobFiles {
    override fun bytes(job: BenchJob): ByteArray = bundle.read(job.model)

    override fun samples(job: BenchJob): List<Sample> = samples(job.iospec)

    fun samples(wanted: IOSpec): List<Sample> {
        val index = "test_vectors/${TestVectors.INDEX}"
        if (index !in bundle.verified.files) throw DataError("benchmark", "the bundle has no test vectors", "Release it again")
        return TestVectors.read(bundle.read(index), bundle.manifest.iospec, wanted) { bundle.read("test_vectors/$it") }
    }
}

private const val WARMUP = 3
private const val ITERATIONS = 50
private const val STARTS = 2
private const val SUSTAIN_S = 60.0

/** What the harness would ask for: one file of a bundle, run in one way. */
fun ownPlan(
    bundle: Bundle,
    artifact: Artifact,
    way: Runs,
    threads: Int,
    sustained: Boolean,
): BenchPlan {
    val timing = Timing(threads, WARMUP, ITERATIONS, if (sustained) 1 else STARTS, if (sustained) SUSTAIN_S else null, seed = 0)
    val job =
        BenchJob(
            number = 0,
            file = artifact.path.substringAfterLast('/'),
            modelType = artifact.modelType,
            modelSha256 = artifact.checkpointSha256,
            artifactSha256 = artifact.sha256,
            target = artifact.target,
            precision = artifact.precision,
            bytes = artifact.bytes,
            runtime = way.runtime,
            delegate = way.delegate,
            iospec = artifact.iospec,
            config = artifact.config,
            minPsnrDb = TestVectors.minPsnrDb(artifact.precision),
            flops = artifact.flops,
            inputsSha256 = digest(BundleFiles(bundle).samples(bundle.manifest.iospec)),
            // The test vectors are of the model of the lineage.
            parityReference = if (artifact.checkpointSha256 == bundle.manifest.lineage.checkpointSha256) "checkpoint" else "first_run",
            notRun = null,
            model = artifact.path,
            vectors = "vectors/0",
        )
    return BenchPlan(timing, listOf(job))
}

/** SHA-256 over names, types, shapes and bytes of the inputs, all samples of one stacked, as `unplug.export.digest_inputs` has it. */
internal fun digest(samples: List<Sample>): String {
    val found = MessageDigest.getInstance("SHA-256")
    for (name in samples.first().inputs.keys.sorted()) {
        val tensors = samples.map { it.inputs.getValue(name) as FloatTensor }
        val shape = listOf(samples.size) + tensors.first().shape.drop(1)
        found.update("$name\u0000<f4\u0000(${shape.joinToString(", ")})\n".toByteArray())
        for (tensor in tensors) {
            val bytes = ByteBuffer.allocate(4 * tensor.values.size).order(ByteOrder.LITTLE_ENDIAN)
            bytes.asFloatBuffer().put(tensor.values)
            found.update(bytes)
        }
    }
    return found.digest().joinToString("") { "%02x".format(it) }
}
