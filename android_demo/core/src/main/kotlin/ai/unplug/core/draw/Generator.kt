package ai.unplug.core.draw

import ai.unplug.core.Engine
import ai.unplug.core.FloatTensor
import ai.unplug.core.picture.Picture

/** How the loop solves its equation. */
public enum class Solver(
    public val word: String,
) { DDIM("ddim"), DPM("dpm++") }

/** One plugin with the picture that it follows; a strength of 0 is off, 1 is as trained. */
public class Steer(
    public val plugin: String,
    public val condition: Picture,
    public val strength: Double = 1.0,
)

/** What to draw; what is null is the pipeline's own. */
public data class Order(
    val prompt: String,
    val negative: String = "",
    val seed: ULong = 0u,
    val steps: Int? = null,
    val guidance: Double? = null,
    val solver: Solver? = null,
    val steers: List<Steer> = emptyList(),
)

/** Behind a step: the latent, and that of the picture that the step points at. */
public class Step(
    public val done: Int,
    public val steps: Int,
    public val latent: FloatTensor,
    public val data: FloatTensor,
)

/** Told of every step; throwing stops the drawing. */
public fun interface Watch {
    public fun step(step: Step)
}

/**
 * A picture that was drawn.
 *
 * @property decoded as the decoder gave it: (1, 3, H, W) from 0 to 1.
 * @property cut whether the base read only the beginning of the prompt.
 */
public class Drawn(
    public val picture: Picture,
    public val decoded: FloatTensor,
    public val latent: FloatTensor,
    public val cut: Boolean,
)

/** What is needed of a generator's folder: bytes of `pipeline.json` and the opened parts. */
public fun interface EngineSource {
    /** @param part text_encoder, unet, decoder, or plugins.NAME. */
    public fun open(part: String): Engine
}

/** Draws with opened parts: one (prompt, seed, condition) is one picture in every language. */
public class Generator(
    private val engines: EngineSource,
) : AutoCloseable {
    /** Draws one picture; [watch] hears of every step and may throw to stop. */
    public fun draw(
        order: Order,
        watch: Watch? = null,
    ): Drawn = TODO("$order $watch $engines")

    override fun close() {}
}
