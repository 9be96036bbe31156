package ai.unplug.core

/**
 * One named tensor, the same name in every target, the manifest and the apps.
 *
 * @property shape static; the first axis is the batch.
 * @property layout one letter an axis: N batch, C channels, H height, W width.
 * @property range smallest and largest value that the model expects or gives.
 * @property colour order of the colour channels, "RGB", or null where there are none.
 */
public data class TensorSpec(
    val name: String,
    val shape: List<Int>,
    val layout: String,
    val dtype: String = "float32",
    val range: ClosedFloatingPointRange<Double>? = null,
    val colour: String? = null,
    val description: String = "",
) {
    /** Size of an axis, 1 where there is none of this letter. */
    public fun axis(letter: Char): Int = layout.indexOf(letter).let { if (it < 0) 1 else shape[it] }

    /** Whether it is a picture of three channels, in whatever order of axes. */
    public val isImage: Boolean get() = layout.toSortedSet() == "CHNW".toSortedSet() && layout.length == 4 && axis('C') == 3

    /** The same tensor with its axes in another order. */
    public fun inLayout(other: String): TensorSpec {
        require(other.length == layout.length && other.toSet() == layout.toSet()) { "$name: $other has other axes than $layout" }
        return copy(layout = other, shape = other.map { shape[layout.indexOf(it)] })
    }

    public companion object {
        private val KEYS = setOf("name", "shape", "layout", "dtype", "range", "colour", "description")
        private const val MAX_ELEMENTS = 1L shl 28

        internal fun of(
            value: Json,
            what: String,
        ): TensorSpec {
            val fields = Fields(value, what, KEYS)
            val name = fields.text("name")
            val sizes = fields.numbers("shape").map { if (it >= 1 && it == Math.rint(it) && it <= MAX_ELEMENTS) it.toInt() else -1 }
            val count = sizes.fold(1L) { total, size -> if (total > MAX_ELEMENTS) total else total * size }
            val layout = fields.text("layout")
            if (sizes.any { it < 1 } || count > MAX_ELEMENTS || layout.length != sizes.size || layout.toSet().size != sizes.size) {
                fields.wrong("it gives ${name.take(60)} an impossible shape")
            }
            val ends = if (fields.has("range")) fields.numbers("range") else null
            if (ends != null && (ends.size != 2 || ends[0] > ends[1])) fields.wrong("it gives ${name.take(60)} an impossible range")
            return TensorSpec(
                name = name,
                shape = sizes,
                layout = layout,
                dtype = fields.textOrNull("dtype") ?: "float32",
                range = ends?.let { it[0]..it[1] },
                colour = fields.textOrNull("colour"),
                description = fields.textOrNull("description") ?: "",
            )
        }
    }
}

/** A model's named inputs and outputs, in call order. */
public data class IOSpec(
    val inputs: List<TensorSpec>,
    val outputs: List<TensorSpec>,
) {
    /** The same tensors, images with their axes in another order: NCHW as PyTorch has them, NHWC as phones do. */
    public fun imagesIn(layout: String): IOSpec = IOSpec(inputs.map { it.asImage(layout) }, outputs.map { it.asImage(layout) })

    private fun TensorSpec.asImage(other: String): TensorSpec = if (layout.length == other.length && layout.toSet() == other.toSet()) inLayout(other) else this

    public companion object {
        /**
         * Reads what a card, a manifest or a pipeline says.
         *
         * @param what its name in errors.
         * @throws DataError shapes that cannot be, unknown fields.
         */
        public fun of(
            value: Json,
            what: String,
        ): IOSpec {
            val fields = Fields(value, what, setOf("inputs", "outputs"))
            val sides = listOf("inputs", "outputs").map { side -> fields.list(side).map { TensorSpec.of(it, what) } }
            for (side in sides) {
                if (side.isEmpty() || side.map { it.name }.toSet().size < side.size) fields.wrong("it names no tensors, or one twice")
            }
            return IOSpec(sides[0], sides[1])
        }
    }
}
