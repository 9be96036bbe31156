package dev.unplug.demo.bench

import ai.unplug.core.DataError
import ai.unplug.core.Json
import ai.unplug.core.bundle.Artifact
import ai.unplug.core.bundle.Bundle
import ai.unplug.core.jsonOf
import ai.unplug.core.text
import dev.unplug.demo.engine.Runs
import java.io.File
import java.security.MessageDigest

private const val INDEX = "vectors.json"
private const val WARMUP = 3
private const val ITERATIONS = 50
private const val STARTS = 2
private const val SUSTAIN_S = 60.0
private val SAFE = Regex("[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")

/**
 * Writes what the harness would write: a plan of one job on a bundle's file, the file, and the bundle's own test vectors.
 *
 * @param folder made anew.
 */
fun writeOwnPlan(
    folder: File,
    bundle: Bundle,
    artifact: Artifact,
    way: Runs,
    threads: Int,
    sustained: Boolean,
) {
    folder.deleteRecursively()
    val vectors = File(folder, "vectors/0").apply { mkdirs() }
    File(folder, "files").mkdirs()
    File(folder, "files/0").outputStream().use { bundle.verified.copy(artifact.path, it) }
    val samples = samplesOf(bundle)
    File(vectors, INDEX).writeBytes(bundle.read("test_vectors/$INDEX"))
    for (name in samples.flatMap { it.inputs.values + it.outputs.values }) File(vectors, name).writeBytes(bundle.read("test_vectors/$name"))
    val card = Json.parse(bundle.read("${artifact.path}.json")) as Json.Obj
    val plan = jsonOf("threads" to threads, "warmup" to WARMUP, "iterations" to ITERATIONS, "starts" to STARTS, "sustain_s" to if (sustained) SUSTAIN_S else null, "seed" to 0)
    val job =
        jsonOf(
            "number" to 0, "file" to artifact.path.substringAfterLast('/'), "model_type" to artifact.modelType,
            "model_sha256" to artifact.checkpointSha256, "artifact_sha256" to artifact.sha256, "target" to artifact.target,
            "precision" to artifact.precision, "bytes" to artifact.bytes, "runtime" to way.runtime, "delegate" to way.delegate,
            "iospec" to card.fields["iospec"], "config" to card.fields["config"], "min_psnr_db" to leastDb(artifact.precision),
            "flops" to artifact.flops, "inputs_sha256" to digest(bundle, samples), "parity_reference" to "checkpoint",
            "not_run" to null, "row" to null, "model_url" to "files/0", "vectors_url" to "vectors/0",
        )
    val all = jsonOf("schema" to "unplug-bench-plan/1", "plan" to plan, "jobs" to listOf(job), "auto" to true)
    File(folder, "plan.json").writeText(all.text())
}

private class Sample(
    val inputs: Map<String, String>,
    val outputs: Map<String, String>,
    val shapes: Map<String, List<Int>>,
)

private fun samplesOf(bundle: Bundle): List<Sample> {
    fun wrong(): Nothing = throw DataError("test vectors", "the bundle has none that this app reads", "Release it again")
    if ("test_vectors/$INDEX" !in bundle.verified.files) wrong()
    val value = Json.parse(bundle.read("test_vectors/$INDEX")) as? Json.Obj ?: wrong()
    val samples = (value.fields["samples"] as? Json.Arr)?.items ?: wrong()
    return samples.map { item ->
        fun side(name: String) = ((item as? Json.Obj)?.fields?.get(name) as? Json.Obj)?.fields?.mapValues { it.value as? Json.Obj ?: wrong() } ?: wrong()
        fun file(entry: Json.Obj) = (entry.fields["file"] as? Json.Str)?.value?.takeIf(SAFE::matches) ?: wrong()
        val shapes = side("inputs").mapValues { (_, entry) -> (entry.fields["shape"] as? Json.Arr)?.items?.map { (it as? Json.Num)?.value?.toInt() ?: wrong() } ?: wrong() }
        Sample(side("inputs").mapValues { file(it.value) }, side("outputs").mapValues { file(it.value) }, shapes)
    }.ifEmpty { wrong() }
}

/** SHA-256 over names, types, shapes and bytes of the inputs, all samples of one stacked, as the harness has it. */
private fun digest(
    bundle: Bundle,
    samples: List<Sample>,
): String {
    val found = MessageDigest.getInstance("SHA-256")
    for (name in samples.first().inputs.keys.sorted()) {
        val shape = listOf(samples.size) + samples.first().shapes.getValue(name).drop(1)
        found.update("$name\u0000<f4\u0000(${shape.joinToString(", ")})\n".toByteArray())
        samples.forEach { found.update(bundle.read("test_vectors/${it.inputs.getValue(name)}")) }
    }
    return found.digest().joinToString("") { "%02x".format(it) }
}

/** Parity that a precision must reach, as in `unplug.export`. */
private fun leastDb(precision: String): Double =
    when (precision) {
        "fp32" -> 100.0
        "fp16" -> 60.0
        else -> 30.0
    }
