package ai.unplug.core.bundle

import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.UnplugError
import ai.unplug.core.Vectors
import ai.unplug.core.double
import ai.unplug.core.get
import ai.unplug.core.items
import ai.unplug.core.string
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class FamilyTest {
    private val vectors = Vectors.json("family-choice.json")

    private fun chosen(case: Json): Member = chooseMember(case["members"].items.map { Member(it["name"].string, (it["latency_ms"] as? Json.Num)?.value) }, case["budget_ms"].double)

    @Test
    fun `the first that fits is taken`() {
        for (case in vectors["cases"].items) {
            val fits = (case["fits"] as? Json.Str)?.value
            if (fits != null) {
                assertEquals(fits, chosen(case).name, case["what"].string)
            } else {
                val error = assertThrows(InputError::class.java, { chosen(case) }, case["what"].string)
                assertTrue("no member fits" in error.message.orEmpty())
            }
        }
    }

    @Test
    fun `a family or a budget that is none is refused`() {
        for (case in vectors["refused"].items) {
            val error = assertThrows(UnplugError::class.java, { chosen(case) }, case["what"].string)
            assertFalse("no member fits" in error.message.orEmpty())
        }
        for (budget in listOf(Double.NaN, Double.POSITIVE_INFINITY)) assertThrows(InputError::class.java) { chooseMember(listOf(Member("a", 1.0)), budget) }
    }
}
