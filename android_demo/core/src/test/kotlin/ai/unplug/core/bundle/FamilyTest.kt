package ai.unplug.core.bundle

import ai.unplug.core.DataError
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
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class FamilyTest {
    private val vectors = Vectors.json("family-choice.json")

    @Test
    fun `the budget is that of all languages`() = assertEquals(vectors["frame_ms"].double, FRAME_MS)

    @Test
    fun `a manifest's family is read strictly`() {
        fun read(family: String) = familyOf(Json.parse("""{"family": $family}""") as Json.Obj)
        val member = """{"name": "a", "checkpoint_sha256": "b", "trunk_sha256": "c", "latency_ms": null}"""
        assertEquals(listOf(Member("a", null, "b")), read("""{"schema": "unplug-family/1", "members": [$member]}"""))
        assertNull(read("null"))
        for (broken in listOf("[]", """{"schema": "unplug-family/2", "members": []}""", """{"schema": "unplug-family/1", "members": [{"name": "a"}]}""")) {
            assertThrows(DataError::class.java) { read(broken) }
        }
    }

    private fun chosen(case: Json): Member = chooseMember(case["members"].items.map { Member(it["name"].string, (it["latency_ms"] as? Json.Num)?.value, "") }, case["budget_ms"].double)

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
        for (budget in listOf(Double.NaN, Double.POSITIVE_INFINITY)) assertThrows(InputError::class.java) { chooseMember(listOf(Member("a", 1.0, "")), budget) }
    }
}
