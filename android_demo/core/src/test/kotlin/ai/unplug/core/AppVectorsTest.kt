package ai.unplug.core

import ai.unplug.core.age.AgeModel
import ai.unplug.core.age.ClassModel
import ai.unplug.core.bench.Statistics
import ai.unplug.core.condition.drawFace
import ai.unplug.core.condition.faceBox
import ai.unplug.core.picture.centreSquare
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

class AppVectorsTest {
    @Test
    fun `squares and tensors of pictures are Pillow's and NumPy's`() {
        assertEquals(11, AppVectors.squares(AppVectors::squareOf))
        assertEquals(8, AppVectors.tensors())
        for (case in Vectors.json("app/pictures.json")["cases"].items.filterNot { it.has("box") }) {
            assertArrayEquals(case["square"].base64, centreSquare(case.picture(), case["size"].int).pixels)
        }
    }

    @Test
    fun `faces are drawn as MediaPipe and OpenCV draw them`() {
        assertEquals(8, AppVectors.faces())
    }

    @Test
    fun `a face outside is told, and boxes of faces are Python's`() {
        assertThrows(InputError::class.java) { drawFace(FloatArray(956) { -5000f }, 100, 100, 64) }
        for (case in Vectors.json("app/faces.json")["cases"].items) {
            val ends = case["width"].int - 1f to case["height"].int - 1f
            val points = case["points"].packedFloats
            val inside = FloatArray(points.size) { points[it].coerceIn(1f, if (it % 2 == 0) ends.first else ends.second) }
            val box = faceBox(inside, case["width"].int, case["height"].int)
            assertEquals(case["box"].doubles.toList(), listOf(box.left, box.top, box.right, box.bottom))
        }
    }

    private val spec = IOSpec(listOf(TensorSpec("image", listOf(1, 3, 16, 16), "NCHW")), listOf(TensorSpec("age_logits", listOf(1, 5), "NC")))

    private val silent =
        object : Engine {
            override val names = EngineNames(emptyList(), emptyList())

            override fun run(inputs: Map<String, Tensor>) = emptyMap<String, FloatTensor>()
        }

    private fun model(): AgeModel {
        val edges = Vectors.json("app/ages.json")["edges"]
        return AgeModel(silent, spec, "", jsonOf(), jsonOf("age_edges" to edges, "unit" to "years", "family" to jsonOf()))
    }

    private fun outputs(case: Json) =
        mapOf(
            "age_logits" to FloatTensor(listOf(1, 5), case["age_logits"].floats),
            "expected_age" to FloatTensor(listOf(1, 1), floatArrayOf(case["expected_age"].double.toFloat())),
        )

    @Test
    fun `answers of an age model`() {
        val cases = Vectors.json("app/ages.json")["cases"].items
        assertEquals(6, cases.size)
        for (case in cases) {
            val answer = model().read(outputs(case))
            assertEquals(case["age"].double, answer.age)
            assertNull(answer.decision)
            val found = answer.groups.associate { "${ecmaNumber(it.from)}-${ecmaNumber(it.to)}" to it.probability }
            val wanted = (case["groups"] as Json.Obj).fields
            assertEquals(wanted.keys, found.keys)
            // Python's softmax is float32.
            for ((name, probability) in wanted) assertEquals(probability.double, found.getValue(name), 1e-6, name)
        }
    }

    @Test
    fun `labels of a classifier, the likeliest first`() {
        val told = Vectors.json("app/labels.json")
        val image = IOSpec(listOf(TensorSpec("image", listOf(1, 3, 16, 16), "NCHW")), listOf(TensorSpec("logits", listOf(1, 7), "NC")))

        fun model(classes: Json) = ClassModel(silent, image, jsonOf("classes" to classes, "unit" to "probability", "family" to jsonOf()))

        fun outputs(logits: FloatArray) = mapOf("logits" to FloatTensor(listOf(1, logits.size), logits))
        val known = model(told["classes"])
        for (case in told["cases"].items) {
            val found = known.read(outputs(case["logits"].floats))
            assertEquals(case["labels"].items.map { it.items[0].string }, found.map { it.name })
            for ((wanted, label) in case["labels"].items.zip(found)) assertEquals(wanted.items[1].double, label.probability, told["tolerance"].double)
        }
        for (wrong in listOf(FloatArray(6), FloatArray(7) { Float.NaN })) assertThrows(DataError::class.java) { known.read(outputs(wrong)) }
        assertThrows(DataError::class.java) { known.read(emptyMap()) }
        for (wrong in listOf(listOf("cat"), listOf(1.0, 2.0))) assertThrows(DataError::class.java) { model(jsonOf("of" to wrong)["of"]) }
    }

    @Test
    fun `outputs of another model are refused`() {
        val case = Vectors.json("app/ages.json")["cases"].items[0]
        assertThrows(DataError::class.java) { model().read(outputs(case) - "age_logits") }
        assertThrows(DataError::class.java) { model().read(outputs(case) + ("age_logits" to FloatTensor(listOf(1, 4), FloatArray(4)))) }
        assertThrows(DataError::class.java) { model().read(outputs(case) + ("expected_age" to FloatTensor(listOf(1), floatArrayOf(Float.NaN)))) }
    }

    /** The tolerance of statistics: sums in another order. */
    private val sums = 1e-9

    /** The tolerance of intervals: quantiles of Student's t come from a table. */
    private val ends = 1e-6

    @Test
    fun `statistics of runs`() {
        for (run in Vectors.json("app/statistics.json")["runs"].items) {
            val latencies = run["latencies"].doubles.toList()
            val found = Statistics.summarize(latencies)
            val summary = run["summary"]
            val values = mapOf("p50" to found.p50, "p90" to found.p90, "p95" to found.p95, "mean" to found.mean, "std" to found.std, "min" to found.min)
            assertEquals(summary["count"].int, found.count)
            for ((name, value) in values + ("max" to found.max)) near(name, doubleArrayOf(summary[name].double), doubleArrayOf(value), sums, 1e-12)
            assertEquals(summary.has("p99"), found.p99 != null)
            assertEquals(run.has("drift"), Statistics.drift(latencies) != null)
            if (run.has("drift")) assertEquals(run["drift"].double, Statistics.drift(latencies)!!, sums)
            assertEquals(run["outlier_share"].double, Statistics.outlierShare(latencies), sums)
            val windows = Statistics.windows(latencies.runningReduce { sum, one -> sum + one }.map { it / 1e3 }, latencies, 7)
            assertEquals(run["windows"].items.size, windows.size)
            for ((wanted, window) in run["windows"].items.zip(windows)) {
                assertEquals(wanted["count"].int, window.count)
                near("window", listOf("start_s", "end_s", "p50", "p95").map { wanted[it].double }.toDoubleArray(), doubleArrayOf(window.startS, window.endS, window.p50, window.p95), sums, 1e-12)
            }
        }
    }

    @Test
    fun `statistics of cold starts`() {
        for (case in Vectors.json("app/statistics.json")["starts"].items) {
            val medians = case["medians"].doubles.toList()
            val typical = Statistics.typicalLatency(medians)!!
            val mean = Statistics.meanInterval(medians)
            assertEquals(case["typical"].double, typical.value, sums)
            assertEquals(case["mean"].double, mean.value, sums)
            assertEquals(case["spread"].double, Statistics.relativeSpread(medians)!!, sums)
            for ((name, found) in listOf("typical_ends" to typical.ends, "mean_ends" to mean.ends)) {
                assertEquals(case.has(name), found != null)
                if (found != null) near(name, case[name].doubles, doubleArrayOf(found.first, found.second), ends, 0.0)
            }
        }
        assertNull(Statistics.typicalLatency(listOf(0.0, 1.0)))
    }

    @Test
    fun `parity is Python's, to its words`() {
        for (case in Vectors.json("app/statistics.json")["parity"].items) {
            val found = compare(case["reference"].floats, case["output"].floats)
            assertEquals((case["exact"] as Json.Bool).value, found.exact)
            if (case.has("psnr_db")) assertEquals(case["psnr_db"].double, found.psnrDb!!, 1e-9) else assertNull(found.psnrDb)
            assertEquals(if (case.has("verdict")) case["verdict"].string else null, found.verdict(60.0))
        }
    }

    @Test
    fun `axes in another order and back`() {
        val values = FloatArray(2 * 3 * 4 * 5) { it.toFloat() }
        val there = relaid(values, listOf(2, 3, 4, 5), "NCHW", "NHWC")
        assertEquals(values[((1 * 3 + 2) * 4 + 3) * 5 + 4], there[((1 * 4 + 3) * 5 + 4) * 3 + 2])
        assertArrayEquals(values, relaid(there, listOf(2, 4, 5, 3), "NHWC", "NCHW"))
    }
}
