package dev.unplug.demo.draw

import ai.unplug.core.DataError
import ai.unplug.core.condition.canny
import ai.unplug.core.picture.Picture

/** The least share of black in a picture of lines; photographs have less. */
private const val BLACK = 0.5
private const val DARK = 16

/**
 * A picture as a plugin follows it: its edges for a plugin of edges, itself for the others.
 *
 * @param condition the kind of picture that the plugin was trained on.
 * @throws DataError landmarks are asked for, and it is not a drawing of them: this phone finds none itself.
 */
fun guideOf(
    picture: Picture,
    condition: String,
): Picture =
    when (condition) {
        "canny" -> canny(picture)
        "face_landmark", "holistic" -> if (isDrawing(picture)) picture else throw DataError("picture", "it is not a drawing of lines on black", "Make one with unplug condition --kind $condition")
        else -> picture
    }

private fun isDrawing(picture: Picture): Boolean {
    val count = picture.width * picture.height
    return (0 until count).count { place -> (0..2).all { (picture.pixels[3 * place + it].toInt() and 0xff) < DARK } } >= BLACK * count
}
