package ai.unplug.core.onnx

import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtSession
import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.IntTensor
import ai.unplug.core.PhasedEngine
import ai.unplug.core.Tensor
import java.io.File
import java.nio.FloatBuffer
import java.nio.IntBuffer

/** ONNX Runtime's JVM build as an [ai.unplug.core.Engine], for the tests. */
class OnnxEngine(
    model: ByteArray,
) : PhasedEngine {
    private val environment = OrtEnvironment.getEnvironment()
    private val session: OrtSession =
        OrtSession.SessionOptions().use { options ->
            options.setIntraOpNumThreads(1)
            environment.createSession(model, options)
        }
    private var given: Map<String, OnnxTensor> = emptyMap()
    private var result: OrtSession.Result? = null

    constructor(file: File) : this(file.readBytes())

    override val names = EngineNames(session.inputNames.toList(), session.outputNames.toList())

    override fun feed(inputs: Map<String, Tensor>) {
        free()
        given = inputs.mapValues { (_, tensor) -> onnx(tensor) }
    }

    private fun onnx(tensor: Tensor): OnnxTensor {
        val shape = tensor.shape.map { it.toLong() }.toLongArray()
        return when (tensor) {
            is FloatTensor -> OnnxTensor.createTensor(environment, FloatBuffer.wrap(tensor.values), shape)
            is IntTensor -> OnnxTensor.createTensor(environment, IntBuffer.wrap(tensor.values), shape)
        }
    }

    override fun invoke() {
        result = session.run(given)
    }

    override fun read(): Map<String, FloatTensor> =
        checkNotNull(result).associate { (name, value) ->
            val tensor = value as OnnxTensor
            val shape = tensor.info.shape.map { it.toInt() }
            name to FloatTensor(shape, FloatArray(tensor.floatBuffer.remaining()).also { tensor.floatBuffer.get(it) })
        }

    private fun free() {
        result?.close()
        result = null
        given.values.forEach(OnnxTensor::close)
        given = emptyMap()
    }

    override fun close() {
        free()
        session.close()
    }
}
