package dev.unplug.demo

import ai.unplug.core.Json
import ai.unplug.core.bundle.Trust
import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Picture
import ai.unplug.core.picture.Point
import ai.unplug.core.text
import android.graphics.Bitmap
import android.net.Uri
import dev.unplug.demo.age.EyeFinder
import dev.unplug.demo.age.bitmap
import java.io.ByteArrayOutputStream
import java.io.File
import java.time.Instant
import java.util.Base64
import java.util.zip.ZipEntry
import java.util.zip.ZipOutputStream

/** The vectors that Python, TypeScript and Kotlin share. */
object Vectors {
    private val folder = File(checkNotNull(System.getProperty("unplug.vectors")) { "-Dunplug.vectors=tests/vectors" })

    fun file(name: String) = File(folder, name).also { check(it.exists()) { "$it is missing" } }

    fun json(name: String): Json = Json.parse(file(name).readBytes())
}

operator fun Json.get(name: String): Json = (this as Json.Obj).fields.getValue(name)

fun Json.has(name: String): Boolean = (this as Json.Obj).fields[name].let { it != null && it != Json.Null }

val Json.items: List<Json> get() = (this as Json.Arr).items
val Json.string: String get() = (this as Json.Str).value
val Json.number: Double get() = (this as Json.Num).value
val Json.bytes: ByteArray get() = Base64.getDecoder().decode(string)
val Json.files: Map<String, ByteArray> get() = (this["files"] as Json.Obj).fields.mapValues { it.value.bytes }

/** A signed bundle with a tiny age model, and the one photograph that Python has looked at. */
val AGE_BUNDLE by lazy { Vectors.json("app/bundle.json") }
val PHOTO by lazy { AGE_BUNDLE["picture"].let { Picture(it["width"].number.toInt(), it["height"].number.toInt(), it["rgb"].bytes) } }

/** The same model in a bundle that says where the eyes belong and decides at 18; and the eyes of the photograph. */
val ALIGNED by lazy { Vectors.json("app/aligned.json") }
val EYES by lazy { ALIGNED["eyes"].items.map { eye -> Point(eye.items[0].number, eye.items[1].number) }.let { (left, right) -> Eyes(left, right) } }

/** A classifier in a bundle, and its labels of the photograph. */
val LABELLED by lazy { Vectors.json("app/labelled.json") }

fun zipOf(files: Map<String, ByteArray>): ByteArray {
    val bytes = ByteArrayOutputStream()
    ZipOutputStream(bytes).use { zip ->
        for ((name, content) in files) {
            zip.putNextEntry(ZipEntry(name))
            zip.write(content)
        }
    }
    return bytes.toByteArray()
}

/** A file that some other app hands over. */
fun fileOf(
    name: String,
    bytes: ByteArray,
): Uri = Uri.fromFile(File(app.cacheDir, name).apply { writeBytes(bytes) })

fun encoded(
    bitmap: Bitmap,
    format: Bitmap.CompressFormat = Bitmap.CompressFormat.PNG,
): ByteArray = ByteArrayOutputStream().also { bitmap.compress(format, 95, it) }.toByteArray()

/** A face that a designer would draw: shown in screenshots, since photographs of people do not belong there. */
fun portrait(): Bitmap = Portrait.drawn()

/** What a phone has on which everything works: a trusted key, a bundle, a generator, and somebody who finds faces. */
fun settleIn(
    bundle: Json = AGE_BUNDLE,
    generator: Boolean = true,
) {
    app.now = { Instant.parse(bundle["now"].string) }
    app.eyes = EyeFinder { listOf(EYES) }
    Trust.of((bundle["trust"] as Json.Obj).text()).keys.forEach(app.shelf::trust)
    app.shelf.take(zipOf(bundle.files).inputStream())
    if (generator) app.generators.take(generatorZip())
    app.heads.take(zipOf(headFiles()).inputStream())
}

/** A head that ten made-up pictures are in, or another of the same trunk, as its publisher zips it. */
fun headFiles(head: String = "start"): Map<String, ByteArray> =
    mapOf("head.safetensors" to "$head.safetensors", "files/age-trunk.fp32.onnx" to "age-trunk.fp32.onnx", "files/age-trunk.fp32.onnx.json" to "age-trunk.fp32.onnx.json")
        .map { (name, file) -> "phone/$name" to Vectors.file("head/$file").readBytes() }
        .toMap()

fun generatorZip(
    root: File = Vectors.file("app/generator"),
    more: Map<String, ByteArray> = emptyMap(),
): File {
    val files = root.walk().filter { it.isFile && (it.name == "pipeline.json" || it.parentFile?.name == "mark-reader" || it.extension in listOf("onnx", "lora")) }
    return File(app.cacheDir, "tiny.zip").apply { writeBytes(zipOf((files.associate { it.relativeTo(root).path to it.readBytes() } + more).mapKeys { "tiny/${it.key}" })) }
}

/** The tiny generator as its publisher signed it. */
fun signedGenerator(): Map<String, ByteArray> {
    val root = Vectors.file("app/generator")
    val own = root.walk().filter { it.isFile && it.name !in listOf("pictures.json", "signed.json") }
    return own.associate { it.relativeTo(root).path to it.readBytes() } + Vectors.json("app/generator/signed.json").files
}

/** A photograph of the vectors as a file. */
fun photoUri(): Uri = fileOf("photo.png", encoded(PHOTO.bitmap()))
