package dev.unplug.demo.engine

import ai.unplug.core.Engine
import ai.unplug.core.InputError
import ai.unplug.core.LiteRtEngine
import ai.unplug.core.bundle.Artifact

/**
 * One way to run a file.
 *
 * @property target the target of the files that it runs.
 * @property delegate its name in reports.
 * @property runtime the name in reports of the runtime that runs it.
 */
enum class Runs(
    val target: String,
    val delegate: String,
    val runtime: String,
    val shown: String,
) {
    LITERT_CPU("litert", "xnnpack", "litert-app", "LiteRT, CPU (XNNPACK)"),
    LITERT_GPU("litert", "gpu", "litert-app", "LiteRT, GPU"),
    ONNX_CPU("onnx", "cpu", "onnx-app", "ONNX Runtime, CPU"),
}

/** Opens files in the runtimes that the app has. */
open class Engines {
    /** Threads that a CPU gives a model: more than four seldom help on a phone of big and little cores. */
    val threads: Int = Runtime.getRuntime().availableProcessors().coerceIn(1, 4)

    /** The ways on this device, first those that are tried first. */
    open val ways: List<Runs> = Runs.entries

    /**
     * Opens a file.
     *
     * @throws ai.unplug.core.DataError its runtime does not take it.
     */
    open fun open(
        way: Runs,
        what: String,
        bytes: ByteArray,
        threads: Int = this.threads,
    ): Engine =
        when (way) {
            Runs.LITERT_CPU -> LiteRtEngine(what, "CPU") { InterpreterModel(bytes, threads, gpu = false) }
            Runs.LITERT_GPU -> LiteRtEngine(what, "GPU") { InterpreterModel(bytes, threads, gpu = true) }
            Runs.ONNX_CPU -> OnnxEngine(what, bytes, threads)
        }

    /** The version of a runtime, or null where it does not say. */
    open fun version(way: Runs): String? = if (way == Runs.ONNX_CPU) OnnxEngine.version else InterpreterModel.version

    /** The file and the way of running it that a screen uses: the first way that has a file, on the CPU. */
    fun choose(artifacts: List<Artifact>): Pair<Artifact, Runs> =
        ways.filter { it != Runs.LITERT_GPU }.firstNotNullOfOrNull { way ->
            artifacts.filter { it.target == way.target }.minByOrNull { PREFERRED.indexOf(it.precision).let { at -> if (at < 0) PREFERRED.size else at } }?.let { it to way }
        } ?: throw InputError("bundle", "it holds no file for this phone", "Export one to litert or onnx")

    private companion object {
        val PREFERRED = listOf("fp32", "fp16", "int8-weight", "int8-static")
    }
}
