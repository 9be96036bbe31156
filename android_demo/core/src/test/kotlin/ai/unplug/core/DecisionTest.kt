package ai.unplug.core

import ai.unplug.core.age.AgeModel
import ai.unplug.core.age.Decision
import ai.unplug.core.age.DecisionRule
import ai.unplug.core.age.overProbability
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

/** tests/vectors/decision: P(age >= T) and over, under or unsure, as Python has them. */
class DecisionTest {
    private val vectors = Vectors.json("decision/decision.json")

    private fun model(
        edges: Json,
        decision: Json,
        sha256: String = "1".repeat(64),
    ): AgeModel {
        val silent =
            object : Engine {
                override val names = EngineNames(emptyList(), emptyList())

                override fun run(inputs: Map<String, Tensor>) = emptyMap<String, FloatTensor>()
            }
        val groups = edges.items.size - 1
        val spec = IOSpec(listOf(TensorSpec("image", listOf(1, 3, 16, 16), "NCHW")), listOf(TensorSpec("age_logits", listOf(1, groups), "NC")))
        return AgeModel(silent, spec, sha256, jsonOf(), jsonOf("age_edges" to edges, "unit" to "years", "decision" to decision))
    }

    private fun outputs(logits: FloatArray) = mapOf("age_logits" to FloatTensor(listOf(1, logits.size), logits), "expected_age" to FloatTensor(listOf(1, 1), floatArrayOf(30f)))

    @Test
    fun `probabilities and answers are Python's`() {
        val cases = vectors["cases"].items
        assertEquals(54, cases.size)
        for (case in cases) {
            val what = case["what"].string
            val over = overProbability(case["age_logits"].floats, case["edges"].doubles.toList(), case["age"].double)
            assertEquals(case["over"].double, over, vectors["tolerance"].double, what)
            val rule = DecisionRule(case["age"].double, case["over_from"].double, case["under_to"].double, 0.01, 0.05, 0.95)
            assertEquals(case["answer"].string, rule.decide(over).word, what)
        }
    }

    @Test
    fun `a model answers by the rule of its manifest, and by none where there is none`() {
        val (edges, decision) = vectors["record"].let { it["edges"] to it["decision"] }
        val told = model(edges, decision)
        assertEquals(DecisionRule(18.0, 0.92, 0.31, 0.01, 0.05, 0.95, setOf("1".repeat(64))), told.rule)
        for (at in 0 until edges.items.size - 1) {
            val logits = FloatArray(edges.items.size - 1) { if (it == at) 20f else 0f }
            val wanted = if (edges.doubles[at] >= 18) Decision.OVER else Decision.UNDER
            assertEquals(wanted, told.read(outputs(logits)).decision)
            assertNull(model(edges, Json.Null).read(outputs(logits)).decision)
        }
        assertEquals(Decision.UNSURE, told.rule!!.decide(Double.NaN))
    }

    @Test
    fun `what no app may decide by is refused`() {
        val cases = vectors["refused"].items
        assertEquals(16, cases.size)
        for (case in cases) assertThrows(DataError::class.java, { model(case["edges"], case["decision"]) }, case["what"].string)
    }

    @Test
    fun `a rule decides about the models that it names, and of others only the age is told`() {
        val edges = vectors["record"]["edges"]
        val cases = vectors["models"].items
        assertEquals(6, cases.size)
        for (case in cases) {
            val found = model(edges, case["decision"], case["sha256"].string)
            val fitted = case["fitted"] == Json.Bool(true)
            assertEquals(fitted to !fitted, (found.rule != null) to found.isOfOthers, case["what"].string)
            assertEquals(fitted, found.read(outputs(FloatArray(edges.items.size - 1))).decision != null)
        }
        assertFalse(model(edges, Json.Null).isOfOthers)
    }
}
