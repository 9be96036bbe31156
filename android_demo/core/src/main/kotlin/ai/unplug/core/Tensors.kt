package ai.unplug.core

/** Named numbers of a shape, row by row: what goes into a network and comes out. */
public sealed interface Tensor {
    /** The size of every axis. */
    public val shape: List<Int>
}

/** A tensor of float32. */
public class FloatTensor(
    override val shape: List<Int>,
    public val values: FloatArray,
) : Tensor {
    init {
        require(values.size == elements(shape)) { "${values.size} values do not fill $shape" }
    }
}

/** A tensor of int32: token ids. */
public class IntTensor(
    override val shape: List<Int>,
    public val values: IntArray,
) : Tensor {
    init {
        require(values.size == elements(shape)) { "${values.size} values do not fill $shape" }
    }
}

/** How many values a shape holds. */
public fun elements(shape: List<Int>): Int = shape.fold(1) { total, size -> Math.multiplyExact(total, size) }

/**
 * Values with their axes in another order.
 *
 * @param shape the shape of the values, in the order of [from].
 * @param from one letter an axis, say NCHW.
 * @param to the same letters, say NHWC.
 */
public fun relaid(
    values: FloatArray,
    shape: List<Int>,
    from: String,
    to: String,
): FloatArray {
    if (from == to) return values
    require(from.length == shape.size && from.toSortedSet() == to.toSortedSet()) { "$to has other axes than $from" }
    val order = to.map(from::indexOf)
    val strides = IntArray(shape.size)
    var stride = 1
    for (axis in shape.indices.reversed()) {
        strides[axis] = stride
        stride *= shape[axis]
    }
    val found = FloatArray(values.size)
    val index = IntArray(shape.size)
    for (place in found.indices) {
        var source = 0
        for (axis in order.indices) source += index[axis] * strides[order[axis]]
        found[place] = values[source]
        var axis = index.size - 1
        while (axis >= 0 && ++index[axis] == shape[order[axis]]) index[axis--] = 0
    }
    return found
}

/** An opened network. Not for two threads at once. */
public interface Engine : AutoCloseable {
    /** Inputs and outputs, in the order of the file. */
    public val names: EngineNames

    /**
     * Runs it once: the outputs are there when it returns.
     *
     * @param inputs a tensor for every input, axes as the file has them.
     * @return a tensor for every output.
     */
    public fun run(inputs: Map<String, Tensor>): Map<String, FloatTensor>

    override fun close() {}
}

/** The names that a file itself gives its tensors. */
public data class EngineNames(
    val inputs: List<String>,
    val outputs: List<String>,
)

/** An engine whose phases can be timed apart: handing over, running, copying out. */
public interface PhasedEngine : Engine {
    /** Hands the inputs over. */
    public fun feed(inputs: Map<String, Tensor>)

    /** Runs on what was fed; returns when the work is done, or as early as the runtime lets it. */
    public fun invoke()

    /** Waits for the outputs and copies them. */
    public fun read(): Map<String, FloatTensor>

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatTensor> {
        feed(inputs)
        invoke()
        return read()
    }
}
