package ai.unplug.core

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

class JsonTest {
    @Test
    fun `RFC 8785's own example`() {
        val text =
            """{"numbers":[333333333.33333329,1E-9,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac${'$'}\u000F\u000aA'\u0042\u0022""" +
                """\u005c\\\"\/","literals":[null,true,false]}"""
        val wanted =
            """{"literals":[null,true,false],"numbers":[333333333.3333333,1e-9,4.5,0.002,1e-27],"string":"€${'$'}\u000f\nA'B\"\\\\\"/"}"""
        assertEquals(wanted, canonical(Json.parse(text)))
    }

    @Test
    fun `numbers are spelled as Python spells them`() {
        val cases = Vectors.json("app/numbers.json")["cases"].items
        assertTrue(cases.size > 500)
        for (case in cases) {
            val value = java.lang.Double.longBitsToDouble(java.lang.Long.parseUnsignedLong(case.items[0].string, 16))
            assertEquals(case.items[1].string, ecmaNumber(value))
        }
    }

    @ParameterizedTest
    @ValueSource(
        strings = [
            "", "{", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "[1,]", "[01]", "[1.]", "[.5]", "[+1]", "[NaN]", "[Infinity]",
            "[9007199254740992]", "[1e400]", "\"\\ud800\"", "\"\\x41\"", "\"\t\"", "[1] 2", "{a:1}", "{'a':1}", "tru", "[1 2]", "\"",
            "\"\\u12\"", "-", "[1d]", "[0x1]", "// 1", "\ufeff1",
        ],
    )
    fun `what has another reading is none`(text: String) {
        assertThrows(JsonError::class.java) { Json.parse(text.toByteArray()) }
    }

    @Test
    fun `depth is bounded, also by those who would fill the stack`() {
        Json.parse("[".repeat(64) + "]".repeat(64))
        assertThrows(JsonError::class.java) { Json.parse("[".repeat(65) + "]".repeat(65)) }
        assertThrows(JsonError::class.java) { Json.parse("[".repeat(1_000_000)) }
    }

    @Test
    fun `bytes that are not UTF-8 are none`() {
        assertThrows(JsonError::class.java) { Json.parse(byteArrayOf('"'.code.toByte(), -1, '"'.code.toByte())) }
    }

    @Test
    fun `what is written is read again`() {
        val value = jsonOf("b" to listOf(1, -0.5, 1e-7, null, true), "a" to mapOf("x\u0001\"\\" to "\ud83c\udf4e\n"))
        assertEquals(value, Json.parse(value.text()))
        assertEquals("""{"a":{"x\u0001\"\\":"🍎\n"},"b":[1,-0.5,1e-7,null,true]}""", canonical(value))
    }
}
