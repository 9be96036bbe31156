package dev.unplug.demo.engine

import ai.unplug.core.DataError
import ai.unplug.core.Engine
import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.IntTensor
import ai.unplug.core.Tensor
import org.tensorflow.lite.DataType
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.TensorFlowLite
import org.tensorflow.lite.gpu.GpuDelegate
import org.tensorflow.lite.gpu.GpuDelegateFactory
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.tensorflow.lite.Tensor as LiteTensor

/**
 * A file in LiteRT, on the CPU by XNNPACK or on the GPU.
 *
 * [run] returns when the outputs lie in memory: the interpreter's own outputs are copied from the GPU before `runSignature` ends.
 *
 * @param what its name in errors.
 * @param bytes of the file, as they were checked.
 * @param gpu whether the GPU delegate gets it first. The interpreter does not tell which operators that leaves to the CPU.
 */
class LiteRtEngine(
    private val what: String,
    bytes: ByteArray,
    threads: Int,
    gpu: Boolean,
) : Engine {
    // Kept: the interpreter reads from it for as long as it lives.
    private val file = ByteBuffer.allocateDirect(bytes.size).order(ByteOrder.nativeOrder()).put(bytes).also { it.rewind() }
    private val delegate = if (gpu) guarded { GpuDelegate(GpuDelegateFactory.Options().setPrecisionLossAllowed(true)) } else null
    private val interpreter = open(threads)
    private val signature = interpreter.signatureKeys.firstOrNull() ?: throw broken("it has no signature with names of tensors")
    private val outputs = interpreter.getSignatureOutputs(signature).associateWith { interpreter.getOutputTensorFromSignature(it, signature) }

    override val names = EngineNames(interpreter.getSignatureInputs(signature).toList(), outputs.keys.toList())

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatTensor> {
        val given = inputs.mapValues { (_, tensor) -> raw(tensor) }
        val taken = outputs.mapValues { (_, tensor) -> ByteBuffer.allocateDirect(tensor.numBytes()).order(ByteOrder.nativeOrder()) }
        guarded { interpreter.runSignature(given, taken, signature) }
        return outputs.mapValues { (name, tensor) -> copied(tensor, taken.getValue(name)) }
    }

    private fun open(threads: Int): Interpreter {
        val options = Interpreter.Options().setNumThreads(threads).setUseXNNPACK(delegate == null)
        delegate?.let(options::addDelegate)
        try {
            return guarded { Interpreter(file, options) }
        } catch (error: DataError) {
            delegate?.close()
            throw error
        }
    }

    private fun raw(tensor: Tensor): ByteBuffer {
        val bytes =
            ByteBuffer.allocateDirect(
                4 *
                    when (tensor) {
                        is FloatTensor -> tensor.values.size
                        is IntTensor -> tensor.values.size
                    },
            )
        bytes.order(ByteOrder.nativeOrder())
        when (tensor) {
            is FloatTensor -> bytes.asFloatBuffer().put(tensor.values)
            is IntTensor -> bytes.asIntBuffer().put(tensor.values)
        }
        return bytes
    }

    private fun copied(
        tensor: LiteTensor,
        bytes: ByteBuffer,
    ): FloatTensor {
        if (tensor.dataType() != DataType.FLOAT32) throw broken("it answers in ${tensor.dataType()}, and not in float32")
        bytes.rewind()
        return FloatTensor(tensor.shape().toList(), FloatArray(tensor.numElements()).also { bytes.asFloatBuffer().get(it) })
    }

    /** LiteRT says in unchecked exceptions what is wrong with a file, and in an error where a library is missing. */
    private fun <T> guarded(task: () -> T): T =
        try {
            task()
        } catch (error: IllegalArgumentException) {
            throw broken(error.message.orEmpty())
        } catch (error: IllegalStateException) {
            throw broken(error.message.orEmpty())
        } catch (error: LinkageError) {
            throw broken("its library does not load here")
        }

    private fun broken(why: String) = DataError(what, "LiteRT does not run it on the ${if (delegate != null) "GPU" else "CPU"} (${why.take(160)})", "Try another delegate")

    override fun close() {
        interpreter.close()
        delegate?.close()
    }

    companion object {
        /** Of the runtime, or null where it does not load. */
        val version: String?
            get() =
                try {
                    TensorFlowLite.runtimeVersion()
                } catch (missing: LinkageError) {
                    null
                }
    }
}
