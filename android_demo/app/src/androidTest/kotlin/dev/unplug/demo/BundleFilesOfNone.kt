package dev.unplug.demo

import ai.unplug.core.Sample
import ai.unplug.core.bench.BenchJob
import dev.unplug.demo.bench.JobFiles

/** Of a host that is only asked about the phone. */
object BundleFilesOfNone : JobFiles {
    override fun bytes(job: BenchJob): ByteArray = error("there is no ${job.file}")

    override fun samples(job: BenchJob): List<Sample> = emptyList()
}
