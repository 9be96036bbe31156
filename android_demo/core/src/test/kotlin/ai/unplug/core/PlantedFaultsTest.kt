package ai.unplug.core

import ai.unplug.core.condition.Style
import ai.unplug.core.condition.drawFace
import ai.unplug.core.draw.Noise
import ai.unplug.core.draw.PipelineVectors
import ai.unplug.core.picture.Box
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.resize
import ai.unplug.core.picture.toTensor
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.TestFactory

/** Mistakes that ports make, each planted alone: the vectors fail on every one of them, and on nothing else. */
class PlantedFaultsTest {
    /** A weight a pixel as it is, without the area that a target pixel covers: what many platforms' scalers do. */
    private fun nearest(
        picture: Picture,
        size: Int,
        box: Box,
    ): Picture {
        val scale = (box.right - box.left) / size

        fun at(
            place: Int,
            start: Double,
            end: Int,
        ) = (start + (place + 0.5) * scale).toInt().coerceAtMost(end - 1)
        val pixels =
            ByteArray(3 * size * size) {
                picture.at(at(it / 3 % size, box.left, picture.width), at(it / 3 / size, box.top, picture.height), it % 3).toByte()
            }
        return Picture(size, size, pixels)
    }

    /** Centres of pixels half a target pixel off: "align corners", or a forgotten + 0.5. */
    private fun halfPixel(
        picture: Picture,
        size: Int,
        box: Box,
    ): Picture {
        val shift = minOf((box.right - box.left) / size / 2, picture.width - box.right)
        return resize(picture, size, size, Box(box.left + shift, box.top, box.right + shift, box.bottom)).takeIf { shift > 0 }
            ?: resize(picture, size, size, Box(box.left + (box.right - box.left) / size / 2, box.top, box.right, box.bottom))
    }

    private fun square(resized: (Picture, Int, Box) -> Picture): () -> Unit =
        {
            AppVectors.squares { picture, box, size -> AppVectors.squareOf(picture, box, size, resized) }
        }

    private fun right(
        picture: Picture,
        size: Int,
        box: Box,
    ) = resize(picture, size, size, box)

    private val faults: Map<String, () -> Unit> =
        mapOf(
            "BGR" to { AppVectors.tensors { picture, spec -> toTensor(picture, spec.copy(colour = "BGR")) } },
            "a wrong mean" to
                {
                    AppVectors.tensors { picture, spec -> toTensor(picture, spec.copy(range = (spec.range?.start ?: 0.0) + 1e-6..(spec.range?.endInclusive ?: 1.0) + 1e-6)) }
                },
            "a division by 256" to { AppVectors.tensors { picture, spec -> toTensor(picture, spec).also { for (at in it.values.indices) it.values[at] *= 255f / 256f } } },
            "channels last for channels first" to { AppVectors.tensors { picture, spec -> toTensor(picture, spec.inLayout(if (spec.layout == "NCHW") "NHWC" else "NCHW")) } },
            "a crop that is one off" to
                square { picture, size, box ->
                    val shift = if (box.right + 1 <= picture.width) 1.0 else if (box.left >= 1) -1.0 else 0.0
                    right(picture, size, Box(box.left + shift, box.top, box.right + shift, box.bottom))
                },
            "a crop from the corner" to square { picture, size, box -> right(picture, size, Box(0.0, 0.0, box.right - box.left, box.bottom - box.top)) },
            "a resize half a pixel off" to square(::halfPixel),
            "a resize that looks at one pixel" to square(::nearest),
            "columns always first" to
                square { picture, size, box ->
                    val narrow = resize(picture, picture.width, size, Box(0.0, box.top, picture.width.toDouble(), box.bottom))
                    resize(narrow, size, size, Box(box.left, 0.0, box.right, size.toDouble()))
                },
            "lines always first" to
                square { picture, size, box ->
                    val low = resize(picture, size, picture.height, Box(box.left, 0.0, box.right, picture.height.toDouble()))
                    resize(low, size, size, Box(0.0, box.top, size.toDouble(), box.bottom))
                },
            "two tokenizer merges swapped" to { PipelineVectors.tokens(PipelineVectors.tokenizer { swapped(it, 2, 18) }) },
            "a tokenizer merge left out" to { PipelineVectors.tokens(PipelineVectors.tokenizer { without(it, 2) }) },
            "a noise counter from one" to { PipelineVectors.noise { seed, stream, count -> Noise.words(seed, stream, count + 4).copyOfRange(4, count + 4) } },
            "a noise counter with words turned round" to
                { PipelineVectors.noise { seed, stream, count -> Noise.words(seed, stream, (count + 3) / 4 * 4).toList().chunked(4).flatMap { it.reversed() }.take(count).toIntArray() } },
            "a seed of 32 bits" to { PipelineVectors.noise { seed, stream, count -> Noise.words(seed and 0xffffffffu, stream, count) } },
            "a stream left out" to { PipelineVectors.noise { seed, _, count -> Noise.words(seed, 0u, count) } },
            "points rounded that should be cut" to
                {
                    AppVectors.faces { points, width, height, size, style -> drawFace(points.map { it + 0.2f }.toFloatArray(), width, height, size, style) }
                },
            "a face in BGR" to
                {
                    AppVectors.faces { points, width, height, size, style ->
                        val drawn = drawFace(points, width, height, size, style)
                        Picture(size, size, ByteArray(drawn.pixels.size) { drawn.pixels[it - it % 3 + 2 - it % 3] })
                    }
                },
            "another style" to { AppVectors.faces { points, width, height, size, _ -> drawFace(points, width, height, size, Style.UNPLUG) } },
        )

    private fun swapped(
        data: Json.Obj,
        one: Int,
        other: Int,
    ): Json.Obj {
        val merges = data["merges"].items.toMutableList()
        merges[one] = merges.set(other, merges[one])
        return Json.Obj(data.fields + ("merges" to Json.Arr(merges)))
    }

    private fun without(
        data: Json.Obj,
        one: Int,
    ): Json.Obj = Json.Obj(data.fields + ("merges" to Json.Arr(data["merges"].items.filterIndexed { place, _ -> place != one })))

    @TestFactory
    fun `the vectors fail on`(): List<DynamicTest> = faults.map { (name, check) -> DynamicTest.dynamicTest(name) { assertThrows(AssertionError::class.java, check) } }

    @TestFactory
    fun `and hold without a fault`(): List<DynamicTest> =
        mapOf<String, () -> Unit>(
            "tensors" to { AppVectors.tensors() },
            "squares" to square(::right),
            "tokens" to { PipelineVectors.tokens(PipelineVectors.tokenizer()) },
            "noise" to { PipelineVectors.noise(Noise::words) },
            "faces" to { AppVectors.faces() },
        ).map { (name, check) -> DynamicTest.dynamicTest(name) { check() } }
}
