package dev.unplug.demo.engine

import ai.unplug.core.EngineNames
import ai.unplug.core.FloatTensor
import ai.unplug.core.IntTensor
import ai.unplug.core.LiteRtFault
import ai.unplug.core.LiteRtModel
import ai.unplug.core.Tensor
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.LiteRtException
import com.google.ai.edge.litert.Model
import com.google.ai.edge.litert.TensorBuffer
import java.io.File

/**
 * A file in LiteRT's `CompiledModel`, the API of LiteRT 2 that takes the place of `Interpreter`.
 *
 * Never run: it is compiled and tested against stand-ins of these classes, and no phone has seen it. The app opens files by
 * [InterpreterModel] until one has.
 *
 * @param file the file that was checked; this API takes no bytes.
 * @param names the names of its tensors, as the bundle has them: this API does not list them.
 * @param gpu whether the GPU gets it, with what that cannot do left to the CPU.
 */
class CompiledLiteRt(
    file: File,
    names: EngineNames,
    threads: Int,
    gpu: Boolean,
) : LiteRtModel {
    private val model = said { Model.load(file.path) }
    private val compiled = said { CompiledModel.create(model, options(threads, gpu), null) }
    private val given: Map<String, TensorBuffer> = said { names.inputs.associateWith { compiled.createInputBuffer(it, null) } }
    private val taken: Map<String, TensorBuffer> = said { names.outputs.associateWith { compiled.createOutputBuffer(it, null) } }

    override val inputs: List<String> = names.inputs

    override val outputs: Map<String, List<Int>> =
        said {
            names.outputs.associateWith { name ->
                model.getOutputTensorType(name, null).layout?.dimensions ?: throw LiteRtFault("$name has no shape of its own")
            }
        }

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> =
        said {
            for ((name, tensor) in inputs) {
                when (tensor) {
                    is FloatTensor -> given.getValue(name).writeFloat(tensor.values)
                    is IntTensor -> given.getValue(name).writeInt(tensor.values)
                }
            }
            compiled.run(given, taken, null)
            // Reading waits for the accelerator.
            taken.mapValues { (_, buffer) -> buffer.readFloat() }
        }

    override fun close() {
        (given.values + taken.values).forEach(TensorBuffer::close)
        compiled.close()
        model.close()
    }

    private fun options(
        threads: Int,
        gpu: Boolean,
    ): CompiledModel.Options {
        if (gpu) return CompiledModel.Options(Accelerator.GPU, Accelerator.CPU)
        return CompiledModel.Options(Accelerator.CPU).also { it.cpuOptions = CompiledModel.CpuOptions(threads, null, null) }
    }

    private fun <T> said(task: () -> T): T =
        try {
            task()
        } catch (error: LiteRtException) {
            throw LiteRtFault(error.message.orEmpty())
        }
}
