package ai.unplug.core

import ai.unplug.core.condition.Style
import ai.unplug.core.condition.drawFace
import ai.unplug.core.picture.Box
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.resize
import ai.unplug.core.picture.toTensor
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals

/** The checks of tests/vectors/app, of an implementation that is handed in: the right one, or one with a planted fault. */
object AppVectors {
    /** The tolerance of tensors: a language may multiply and add in one rounding. */
    const val TENSOR = 1e-7

    /** The centre square of a part of a picture. */
    fun squareOf(
        picture: Picture,
        box: Box?,
        size: Int,
        resized: (Picture, Int, Box) -> Picture = { one, side, part -> resize(one, side, side, part) },
    ): Picture {
        val part = box ?: Box(0.0, 0.0, picture.width.toDouble(), picture.height.toDouble())
        val cut = cut(picture, part)
        val side = minOf(cut.width, cut.height).toDouble()
        val (left, top) = (cut.width - side) * 0.5 to (cut.height - side) * 0.5
        return resized(cut, size, Box(left, top, left + side, top + side))
    }

    fun cut(
        picture: Picture,
        box: Box,
    ): Picture {
        val (left, top) = box.left.toInt() to box.top.toInt()
        val (width, height) = box.right.toInt() - left to box.bottom.toInt() - top
        val pixels = ByteArray(3 * width * height) { picture.at(left + it / 3 % width, top + it / 3 / width, it % 3).toByte() }
        return Picture(width, height, pixels)
    }

    fun squares(square: (Picture, Box?, Int) -> Picture): Int {
        val cases = Vectors.json("app/pictures.json")["cases"].items
        for (case in cases) {
            val box = if (case.has("box")) case["box"].doubles.let { Box(it[0], it[1], it[2], it[3]) } else null
            val found = square(case.picture(), box, case["size"].int)
            assertArrayEquals(case["square"].base64, found.pixels, "${case["width"].int} x ${case["height"].int} to ${case["size"].int}")
        }
        return cases.size
    }

    fun tensors(made: (Picture, TensorSpec) -> FloatTensor = ::toTensor): Int {
        val vectors = Vectors.json("app/pictures.json")
        val cases = vectors["tensors"].items
        for (case in cases) {
            val spec = TensorSpec.of(case["spec"], "pictures.json")
            near("$spec", case["values"].doubles, made(vectors["picture"].picture(), spec).values.wide(), 0.0, TENSOR)
        }
        return cases.size
    }

    fun faces(draw: (FloatArray, Int, Int, Int, Style) -> Picture = ::drawFace): Int {
        val cases = Vectors.json("app/faces.json")["cases"].items
        for (case in cases) {
            val style = Style.valueOf(case["style"].string.uppercase())
            val found = draw(case["points"].packedFloats, case["width"].int, case["height"].int, case["size"].int, style)
            val lit = (0 until found.width * found.height).count { place -> (0..2).any { found.pixels[3 * place + it] != 0.toByte() } }
            assertEquals(case["lit"].int, lit, "size ${found.width}: pixels that are not black")
            assertEquals(case["sha256"].string, sha256(found.pixels), "size ${found.width}")
        }
        return cases.size
    }
}
