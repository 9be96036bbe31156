package ai.unplug.core

/** What LiteRT says is wrong, by whichever of its APIs; the message is the runtime's own. */
public class LiteRtFault(
    message: String,
) : Exception(message)

/**
 * A file that is open in LiteRT: all that an engine asks of it, whether `Interpreter` or `CompiledModel` runs it.
 *
 * Each call may throw [LiteRtFault], IllegalArgumentException or IllegalStateException, and a LinkageError where a library is missing.
 */
public interface LiteRtModel : AutoCloseable {
    /** Names of the inputs, in the order of the file's first signature. */
    public val inputs: List<String>

    /** Shape of each output by its name, in the same order. */
    public val outputs: Map<String, List<Int>>

    /**
     * Runs it once: the outputs are in memory when it returns.
     *
     * @return the numbers of every output, row by row.
     */
    public fun run(inputs: Map<String, Tensor>): Map<String, FloatArray>
}

/**
 * A file in LiteRT, whatever API opens it: names, shapes and errors are the same.
 *
 * @param what its name in errors.
 * @param where "CPU" or "GPU", in errors.
 * @param open opens it.
 */
public class LiteRtEngine(
    private val what: String,
    private val where: String,
    open: () -> LiteRtModel,
) : Engine {
    private val model = guarded(open)

    override val names: EngineNames = EngineNames(model.inputs, model.outputs.keys.toList())

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatTensor> =
        guarded {
            val said = model.run(inputs)
            model.outputs.mapValues { (name, shape) -> FloatTensor(shape, said.getValue(name)) }
        }

    /** LiteRT says in unchecked exceptions what is wrong with a file, and in an error where a library is missing. */
    private fun <T> guarded(task: () -> T): T =
        try {
            task()
        } catch (error: LiteRtFault) {
            throw broken(error.message.orEmpty())
        } catch (error: IllegalArgumentException) {
            throw broken(error.message.orEmpty())
        } catch (error: IllegalStateException) {
            throw broken(error.message.orEmpty())
        } catch (error: LinkageError) {
            throw broken("its library does not load here")
        }

    private fun broken(why: String) = DataError(what, "LiteRT does not run it on the $where (${why.take(160)})", "Try another delegate")

    override fun close(): Unit = model.close()
}
