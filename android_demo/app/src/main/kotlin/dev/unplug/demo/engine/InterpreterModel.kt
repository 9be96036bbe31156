package dev.unplug.demo.engine

import ai.unplug.core.FloatTensor
import ai.unplug.core.IntTensor
import ai.unplug.core.LiteRtFault
import ai.unplug.core.LiteRtModel
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
 * A file in LiteRT's `Interpreter`, on the CPU by XNNPACK or on the GPU.
 *
 * [run] returns when the outputs lie in memory: the interpreter's own outputs are copied from the GPU before `runSignature` ends.
 *
 * @param bytes the bytes of the file, as they were checked.
 * @param gpu whether the GPU delegate gets it first. The interpreter does not tell which operators that leaves to the CPU.
 */
class InterpreterModel(
    bytes: ByteArray,
    threads: Int,
    gpu: Boolean,
) : LiteRtModel {
    // Kept: the interpreter reads from it for as long as it lives.
    private val file = memory(bytes.size).put(bytes).also { it.rewind() }
    private val delegate = if (gpu) GpuDelegate(GpuDelegateFactory.Options().setPrecisionLossAllowed(true)) else null
    private val interpreter = open(threads)
    private val signature = interpreter.signatureKeys.firstOrNull() ?: throw LiteRtFault("it has no signature with names of tensors")
    private val tensors = interpreter.getSignatureOutputs(signature).associateWith { interpreter.getOutputTensorFromSignature(it, signature) }

    override val inputs: List<String> = interpreter.getSignatureInputs(signature).toList()

    override val outputs: Map<String, List<Int>> get() = tensors.mapValues { (_, tensor) -> tensor.shape().toList() }

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> {
        val given = inputs.mapValues { (_, tensor) -> raw(tensor) }
        val taken = tensors.mapValues { (_, tensor) -> memory(tensor.numBytes()) }
        interpreter.runSignature(given, taken, signature)
        return tensors.mapValues { (name, tensor) -> copied(tensor, taken.getValue(name)) }
    }

    private fun open(threads: Int): Interpreter {
        val options = Interpreter.Options().setNumThreads(threads).setUseXNNPACK(delegate == null)
        delegate?.let(options::addDelegate)
        var opened: Interpreter? = null
        try {
            return Interpreter(file, options).also { opened = it }
        } finally {
            if (opened == null) delegate?.close()
        }
    }

    private fun raw(tensor: Tensor): ByteBuffer =
        when (tensor) {
            is FloatTensor -> memory(4 * tensor.values.size).also { it.asFloatBuffer().put(tensor.values) }
            is IntTensor -> memory(4 * tensor.values.size).also { it.asIntBuffer().put(tensor.values) }
        }

    private fun copied(
        tensor: LiteTensor,
        bytes: ByteBuffer,
    ): FloatArray {
        if (tensor.dataType() != DataType.FLOAT32) throw LiteRtFault("it answers in ${tensor.dataType()}, and not in float32")
        bytes.rewind()
        return FloatArray(tensor.numElements()).also { bytes.asFloatBuffer().get(it) }
    }

    override fun close() {
        interpreter.close()
        delegate?.close()
    }

    companion object {
        /** The version of the runtime, or null where it does not load. */
        val version: String?
            get() =
                try {
                    TensorFlowLite.runtimeVersion()
                } catch (missing: LinkageError) {
                    null
                }

        private fun memory(size: Int) = ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder())
    }
}
