package dev.unplug.demo

import ai.unplug.core.Sample
import ai.unplug.core.bench.BenchJob
import dev.unplug.demo.bench.JobFiles

/** The files of a host that is asked about the phone alone. */
object BundleFilesOfNone : JobFiles {
    override fun bytes(job: BenchJob): ByteArray = error("there is no ${job.file}")

    override fun samples(job: BenchJob): List<Sample> = emptyList()
}
