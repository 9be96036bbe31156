package ai.unplug.core.onnx

import ai.unplug.core.DataError
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.TestVectors
import ai.unplug.core.Vectors
import ai.unplug.core.age.AgeModel
import ai.unplug.core.age.ClassModel
import ai.unplug.core.base64
import ai.unplug.core.bundle.Bundle
import ai.unplug.core.bundle.Refused
import ai.unplug.core.bundle.Source
import ai.unplug.core.bundle.Trust
import ai.unplug.core.bundle.Verdict
import ai.unplug.core.double
import ai.unplug.core.doubles
import ai.unplug.core.floats
import ai.unplug.core.get
import ai.unplug.core.has
import ai.unplug.core.head.HeadFolder
import ai.unplug.core.head.OwnHead
import ai.unplug.core.head.Trunk
import ai.unplug.core.items
import ai.unplug.core.picture
import ai.unplug.core.picture.Eyes
import ai.unplug.core.picture.Point
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Instant

/** A signed bundle, verified, its own vectors run, and an age out of a photograph: what the app does first. */
class AgeBundleTest {
    private val case = Vectors.json("app/bundle.json")
    private val trust = Trust.of(case["trust"])
    private val files = (case["files"] as Json.Obj).fields.mapValues { it.value.base64 }

    private fun open() = Bundle.open(Source.of(files), trust, Instant.parse(case["now"].string))

    @Test
    fun `a bundle's model answers as it does in Python`() {
        val bundle = open()
        val artifact = checkNotNull(bundle.artifact("onnx", "fp32"))
        assertNull(bundle.artifact("litert"))
        OnnxEngine(bundle.read(artifact.path)).use { engine ->
            assertEquals(artifact.iospec.inputs.map { it.name }, engine.names.inputs)
            val samples = TestVectors.read(bundle.read("test_vectors/vectors.json"), bundle.manifest.iospec, artifact.iospec) { bundle.read("test_vectors/$it") }
            val parity = TestVectors.check(engine, samples, TestVectors.minPsnrDb(artifact.precision))
            println("age, ${samples.size} test vectors: ${parity.db?.let { "%.1f dB".format(it) } ?: "equal"}")
            assertNull(parity.reason)
        }
        assertEquals("small", bundle.member(mapOf(artifact.checkpointSha256 to 9.0))?.name)
        assertThrows(InputError::class.java) { bundle.member(bundle.artifacts.associate { it.checkpointSha256 to 34.0 }) }
        val member = checkNotNull(bundle.member(emptyMap()))
        val taken = bundle.artifactsOf(member).single()
        assertEquals("nano" to "members/nano/age.fp32.onnx", member.name to taken.path)
        OnnxEngine(bundle.read(taken.path)).use { engine ->
            val model = AgeModel(engine, taken, bundle.manifest)
            assertNull(model.frame)
            val answer = model.answer(model.shown(case["picture"].picture(), emptyList()))
            assertEquals(case["expected_age"].double, answer.age, 1e-4)
            assertEquals(3, answer.groups.size)
            assertEquals(1.0, answer.groups.sumOf { it.probability }, 1e-9)
        }
        assertTrue(checkNotNull(bundle.card()).startsWith("# A tiny"))
        assertNotNull(bundle.report("audit.json"))
        assertEquals("face-age", bundle.manifest.publication.name)
    }

    @Test
    fun `a photograph whose eyes are known goes the whole way to a decision`() {
        val told = Vectors.json("app/aligned.json")
        val signed = (told["files"] as Json.Obj).fields.mapValues { it.value.base64 }
        val bundle = Bundle.open(Source.of(signed), Trust.of(told["trust"]), Instant.parse(told["now"].string))
        val artifact = checkNotNull(bundle.artifact("onnx"))
        OnnxEngine(bundle.read(artifact.path)).use { engine ->
            val model = AgeModel(engine, artifact, bundle.manifest)
            val (left, right) = told["eyes"].items.map { eye -> eye.doubles.let { Point(it[0], it[1]) } }
            val answer = model.answer(model.shown(told["picture"].picture(), listOf(Eyes(left, right))))
            assertEquals(told["expected_age"].double, answer.age, 1e-4)
            assertEquals(told["decision"]["answer"].string, answer.decision?.word)
            assertEquals(told["decision"]["age"].double, model.rule?.age)
            assertThrows(DataError::class.java) { model.shown(told["picture"].picture(), emptyList()) }
        }
    }

    @Test
    fun `a classifier's bundle says the labels that Python says`() {
        val told = Vectors.json("app/labelled.json")
        val signed = (told["files"] as Json.Obj).fields.mapValues { it.value.base64 }
        val bundle = Bundle.open(Source.of(signed), Trust.of(told["trust"]), Instant.parse(told["now"].string))
        val artifact = checkNotNull(bundle.artifact("onnx"))
        OnnxEngine(bundle.read(artifact.path)).use { engine ->
            val model = ClassModel(engine, artifact.iospec, bundle.manifest.postprocessing)
            val found = model.answer(model.shown(told["picture"].picture()))
            assertEquals(told["labels"].items.map { it.items[0].string }, found.map { it.name })
            for ((wanted, label) in told["labels"].items.zip(found)) assertEquals(wanted.items[1].double, label.probability, 1e-5)
        }
    }

    @Test
    fun `a photograph goes through the trunk of a head, and its owner is in and out again`() = listOf("head", "head/classes").forEach(::inAndOut)

    private fun inAndOut(kind: String) {
        val (told, trunk) = Vectors.json("$kind/own.json") to "files/age-trunk.fp32.onnx"
        val files =
            listOf(trunk, "$trunk.json").associateWith { Vectors.file("head/${it.removePrefix("files/")}").readBytes() } +
                ("phone/head.safetensors" to Vectors.file("$kind/start.safetensors").readBytes())
        val folder = HeadFolder.of(Source.of(files))
        val own = OwnHead(folder.head)
        OnnxEngine(folder.read(folder.trunks.single())).use { engine ->
            val pooled = Trunk(engine, folder.trunks[0].iospec, null).pooled(case["picture"].picture(), emptyList())
            assertArrayEquals(told["features"].doubles, pooled, 1e-6)
            val full = own.add(pooled, told["truth"].double)
            for ((name, said) in listOf("before" to full.change(pooled).before, "now" to full.change(pooled).now)) {
                assertEquals(told[name].double, checkNotNull(said.years ?: said.label?.probability), 1e-4)
                if (told.has("label_$name")) assertEquals(told["label_$name"].string, said.label?.name)
            }
            assertEquals(folder.head.digest, full.removeAll().proof().found)
        }
        val another = files.getValue("$trunk.json").decodeToString().replace("0".repeat(64), "1".repeat(64)).encodeToByteArray()
        for (changed in files.keys.map { files - it } + (files + (trunk to ByteArray(9))) + (files + ("$trunk.json" to another))) {
            assertThrows(DataError::class.java) { HeadFolder.of(Source.of(changed)).use { it.read(it.trunks[0]) } }
        }
    }

    @Test
    fun `vectors of other numbers are told`() {
        val bundle = open()
        val artifact = checkNotNull(bundle.artifact("onnx"))
        val samples =
            TestVectors.read(bundle.read("test_vectors/vectors.json"), bundle.manifest.iospec, artifact.iospec) { name ->
                bundle.read("test_vectors/$name").also { if (name == "1-age_logits.f32") it[2] = (it[2] + 8).toByte() }
            }
        OnnxEngine(bundle.read(artifact.path)).use { engine ->
            assertTrue(checkNotNull(TestVectors.check(engine, samples, 100.0).reason).startsWith("age_logits: "))
        }
        assertEquals(case["age_logits"].floats.size, samples[0].outputs.getValue("age_logits").values.size)
    }

    @Test
    fun `a verified bundle that says too little of its model is refused with a verdict`() {
        val sound = Vectors.json("bundles/signed.json")
        val bare = (sound["files"] as Json.Obj).fields.mapValues { it.value.base64 }
        val refused = assertThrows(Refused::class.java) { Bundle.open(Source.of(bare), Trust.of(sound["trust"]), Instant.parse(sound["now"].string)) }
        assertEquals(Verdict.MANIFEST, refused.verdict)
    }
}
