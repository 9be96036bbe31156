package ai.unplug.core.condition

import ai.unplug.core.picture.Picture

/** Edges as OpenCV's Canny detector draws them, white on black. */
public fun canny(
    picture: Picture,
    low: Int = 100,
    high: Int = 200,
): Picture = TODO("$picture $low $high")

/**
 * A face's 478 landmarks as coloured lines on black.
 *
 * @param points x and y of each, in pixels of a picture of [width] x [height].
 */
public fun drawFace(
    points: FloatArray,
    width: Int,
    height: Int,
    size: Int,
): Picture = TODO("$points $width $height $size")
