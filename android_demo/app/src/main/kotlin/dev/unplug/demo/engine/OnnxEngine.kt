package dev.unplug.demo.engine

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtSession
import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.IntTensor
import ai.unplug.core.Tensor
import java.nio.FloatBuffer
import java.nio.IntBuffer

/**
 * A file in ONNX Runtime, on the CPU.
 *
 * @param what its name in errors.
 * @param bytes the bytes of the file, as they were checked.
 */
class OnnxEngine(
    private val what: String,
    bytes: ByteArray,
    threads: Int,
) : Engine {
    private val environment = OrtEnvironment.getEnvironment()
    private val session: OrtSession =
        try {
            OrtSession.SessionOptions().use { options ->
                options.setIntraOpNumThreads(threads)
                environment.createSession(bytes, options)
            }
        } catch (error: OrtException) {
            throw broken(error)
        }

    override val names = EngineNames(session.inputNames.toList(), session.outputNames.toList())

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatTensor> {
        val given = HashMap<String, OnnxTensor>()
        try {
            for ((name, tensor) in inputs) given[name] = handed(tensor)
            session.run(given).use { answers ->
                return answers.associate { (name, value) -> name to copied(value as OnnxTensor) }
            }
        } catch (error: OrtException) {
            throw broken(error)
        } finally {
            given.values.forEach(OnnxTensor::close)
        }
    }

    private fun handed(tensor: Tensor): OnnxTensor {
        val shape = LongArray(tensor.shape.size) { tensor.shape[it].toLong() }
        return when (tensor) {
            is FloatTensor -> OnnxTensor.createTensor(environment, FloatBuffer.wrap(tensor.values), shape)
            is IntTensor -> OnnxTensor.createTensor(environment, IntBuffer.wrap(tensor.values), shape)
        }
    }

    private fun copied(value: OnnxTensor): FloatTensor {
        val values = value.floatBuffer
        return FloatTensor(value.info.shape.map { it.toInt() }, FloatArray(values.remaining()).also(values::get))
    }

    private fun broken(error: OrtException) = DataError(what, "ONNX Runtime does not run it (${error.message.orEmpty().take(160)})", "Export it again")

    override fun close() = session.close()

    companion object {
        /** The version of the runtime. */
        val version: String? get() = OrtEnvironment.getEnvironment().version
    }
}
