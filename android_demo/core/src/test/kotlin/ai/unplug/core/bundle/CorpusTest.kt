package ai.unplug.core.bundle

import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.base64
import ai.unplug.core.get
import ai.unplug.core.has
import ai.unplug.core.items
import ai.unplug.core.sha256
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.io.TempDir
import java.io.ByteArrayOutputStream
import java.io.File
import java.nio.file.Files
import java.nio.file.Path
import java.time.Instant

/** The corpus of tests/vectors/bundles: every bundle has here the verdict that Python's and TypeScript's verifiers give it. */
class CorpusTest {
    @TempDir
    lateinit var folder: Path

    private val cases = Vectors.file("bundles").listFiles { file -> file.extension == "json" }!!.sorted()

    @TestFactory
    fun `every bundle has its verdict`(): List<DynamicTest> {
        assertTrue(cases.size >= 150)
        return cases.map { file -> DynamicTest.dynamicTest(file.nameWithoutExtension) { check(file) } }
    }

    private fun check(file: File) {
        val case = Json.parse(file.readBytes())
        val path = written(case, file.nameWithoutExtension)
        assertEquals(case["verdict"].string, verdictAt(case, path))
        // In memory there are no links, and a zip file is a file.
        if (case.has("files") && !case.has("links")) assertEquals(case["verdict"].string, verdict(case, Source.of(filesOf(case))))
    }

    private fun verdict(
        case: Json,
        source: Source,
    ): String =
        try {
            val verified = verify(source, trustOf(case), Instant.parse(case["now"].string), schemaOf(case))
            for ((name, digest) in verified.files) {
                assertEquals(digest, sha256(verified.read(name)), "the bytes verified are the bytes used")
                assertEquals(digest, sha256(ByteArrayOutputStream().also { verified.copy(name, it) }.toByteArray()))
            }
            "valid"
        } catch (refused: Refused) {
            refused.verdict.word
        }

    /** A zip file may be refused as it is opened. */
    private fun verdictAt(
        case: Json,
        path: File,
    ): String =
        try {
            Source.at(path).use { verdict(case, it) }
        } catch (refused: Refused) {
            refused.verdict.word
        }

    private fun written(
        case: Json,
        name: String,
    ): File {
        if (case.has("zip")) return folder.resolve("$name.zip").toFile().apply { writeBytes(case["zip"].base64) }
        val bundle = Files.createDirectory(folder.resolve(name))
        for ((path, bytes) in filesOf(case)) {
            Files.createDirectories(bundle.resolve(path).parent)
            Files.write(bundle.resolve(path), bytes)
        }
        if (case.has("links")) for (link in case["links"].items) Files.createSymbolicLink(bundle.resolve(link.string), Path.of("/etc/passwd"))
        return bundle.toFile()
    }

    @Test
    fun `the corpus shows every verdict but those of huge bundles, which have tests of their own`() {
        val shown = cases.map { Json.parse(it.readBytes())["verdict"].string }.toSet()
        assertEquals(Verdict.entries.map { it.word }.toSet() + "valid" - setOf("too-many", "too-large"), shown)
    }

    @Test
    fun `too many files, and a manifest that is too large`() {
        val sound = Json.parse(Vectors.file("bundles/signed.json").readBytes())
        val many = filesOf(sound) + (0..4096).associate { "artifacts/$it" to ByteArray(0) }
        assertEquals("too-many", verdict(sound, Source.of(many)))
        val large = filesOf(sound) + ("model.sig" to ByteArray((8 shl 20) + 1))
        assertEquals("too-large", verdict(sound, Source.of(large)))
    }

    @Test
    fun `a file that changes after the check is refused as it is read`() {
        val sound = Json.parse(Vectors.file("bundles/signed.json").readBytes())
        val path = written(sound, "later")
        val verified = verify(Source.at(path), trustOf(sound), Instant.parse(sound["now"].string))
        File(path, "README.md").writeText("B card.\n")
        val refused = assertThrows(Refused::class.java) { verified.read("README.md") }
        assertEquals(Verdict.CHANGED, refused.verdict)
        File(path, "README.md").delete()
        Files.createSymbolicLink(path.toPath().resolve("README.md"), Path.of("/etc/passwd"))
        assertThrows(Refused::class.java) { verified.read("README.md") }
        assertEquals(Verdict.MISSING, assertThrows(Refused::class.java) { verified.read("../x") }.verdict)
    }

    @Test
    fun `no bundle at a path`() {
        assertEquals(Verdict.NO_BUNDLE, assertThrows(Refused::class.java) { Source.at(folder.resolve("none").toFile()) }.verdict)
    }

    @Test
    fun `every byte of a zip file that is turned over is found, or changes nothing that is used`() {
        val case = Json.parse(Vectors.file("bundles/zip.json").readBytes())
        val whole = case["zip"].base64
        val path = folder.resolve("turned.zip").toFile()
        for (at in whole.indices step 7) {
            path.writeBytes(whole.copyOf().also { it[at] = (it[at].toInt() xor 0x41).toByte() })
            val said = verdictAt(case, path)
            assertTrue(said == "valid" || Verdict.entries.any { it.word == said }, "$at: $said")
        }
    }
}

internal fun filesOf(case: Json): Map<String, ByteArray> = (case["files"] as Json.Obj).fields.mapValues { it.value.base64 }

internal fun trustOf(case: Json): Trust = Trust.of(case["trust"])

internal fun schemaOf(case: Json): Schema = if (case.has("schema")) Schema.entries.single { it.word == case["schema"].string } else Schema.MODELS
