package ai.unplug.core

import ai.unplug.core.picture.Picture
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Base64

/** The vectors that Python, TypeScript and Kotlin are all held to. */
object Vectors {
    val folder = File(checkNotNull(System.getProperty("unplug.vectors")) { "-Dunplug.vectors=tests/vectors" })

    fun file(name: String) = File(folder, name).also { check(it.exists()) { "$it is missing" } }

    fun json(name: String): Json = Json.parse(file(name).readBytes())
}

operator fun Json.get(name: String): Json = (this as Json.Obj).fields[name] ?: throw NoSuchElementException(name)

fun Json.has(name: String): Boolean = (this as Json.Obj).fields[name].let { it != null && it != Json.Null }

val Json.items: List<Json> get() = (this as Json.Arr).items
val Json.string: String get() = (this as Json.Str).value
val Json.double: Double get() = (this as Json.Num).value
val Json.int: Int get() = double.toInt()
val Json.doubles: DoubleArray get() = items.map { it.double }.toDoubleArray()
val Json.floats: FloatArray get() = items.map { it.double.toFloat() }.toFloatArray()
val Json.base64: ByteArray get() = Base64.getDecoder().decode(string)

/** Little-endian float32 in base64. */
val Json.packedFloats: FloatArray
    get() = base64.let { raw -> FloatArray(raw.size / 4).also { ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(it) } }

fun Json.picture(pixels: String = "rgb"): Picture = Picture(this["width"].int, this["height"].int, this[pixels].base64)

/** Each number within a part of what is wanted, or within an absolute distance where that is more. */
fun near(
    what: String,
    wanted: DoubleArray,
    found: DoubleArray,
    relative: Double,
    absolute: Double,
) {
    assertEquals(wanted.size, found.size, what)
    for (place in wanted.indices) {
        val apart = Math.abs(wanted[place] - found[place])
        assertTrue(apart <= maxOf(absolute, relative * Math.abs(wanted[place]))) { "$what[$place]: ${found[place]} is not ${wanted[place]}" }
    }
}

fun FloatArray.wide(): DoubleArray = DoubleArray(size) { this[it].toDouble() }

/** Decibels between what Python has and what was found here; infinite where they are equal. */
fun decibels(
    wanted: FloatArray,
    found: FloatArray,
): Double = compare(wanted, found).let { if (it.exact) Double.POSITIVE_INFINITY else it.psnrDb ?: Double.NEGATIVE_INFINITY }
