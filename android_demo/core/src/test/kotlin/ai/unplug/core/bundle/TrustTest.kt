package ai.unplug.core.bundle

import ai.unplug.core.DataError
import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.get
import ai.unplug.core.items
import ai.unplug.core.string
import ai.unplug.core.text
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import java.time.Instant

class TrustTest {
    private val case = Json.parse(Vectors.file("bundles/signed.json").readBytes())
    private val pem = case["trust"]["keys"].items[0].string

    @Test
    fun `a key names itself as signatures do, whatever its line ends`() {
        val key = PublicKey.of(pem)
        assertEquals(pem, key.pem())
        assertEquals(key.hint, PublicKey.of(pem.replace("\n", "\r\n")).hint)
        assertEquals(listOf(key.hint), Trust.of(pem).keys.map { it.hint })
    }

    @Test
    fun `what is not a public key of the curve is refused`() {
        val lines = pem.lines()
        val elsewhere = (listOf(lines[0]) + lines[1] + lines[2].replaceFirst(lines[2][0], if (lines[2][0] == 'A') 'B' else 'A') + lines.drop(3))
        for (text in listOf("", "-----BEGIN PUBLIC KEY-----", pem.replace("PUBLIC", "PRIVATE"), pem.replace("M", "!"), elsewhere.joinToString("\n"))) {
            assertThrows(DataError::class.java, { PublicKey.of(text) }, text)
        }
    }

    @Test
    fun `what a release says is known afterwards, and can be written down`() {
        val verified = verify(Source.of(filesOf(case)), Trust.of(pem), Instant.parse(case["now"].string))
        val after = Trust.of(pem).after(verified.publication)
        assertEquals("face-age" to 7L, after.name to after.minimumRelease)
        assertEquals(setOf("6".repeat(64)) to setOf("5".repeat(64)), after.revoked to after.superseded)
        val again = Trust.of(after.json().text())
        assertEquals(after.copy(keys = emptyList()), again.copy(keys = emptyList()))
        assertEquals(after.keys.map { it.hint }, again.keys.map { it.hint })
    }

    @Test
    fun `a trust file with anything odd in it is refused`() {
        for (text in listOf("{}", """{"schema":"unplug-trust/2","keys":[]}""", """{"keys":[],"revoked":["x"]}""", """{"keys":[],"more":1}""", "{")) {
            assertThrows(DataError::class.java, { Trust.of(text) }, text)
        }
    }

    @Test
    fun `times have one spelling`() {
        assertEquals(Instant.ofEpochSecond(1809129600), timeOf("2027-05-01T00:00:00Z"))
        for (text in listOf("2027-02-30T00:00:00Z", "2027-5-1T0:0:0Z", "2027-05-01T24:00:00Z", "2027-05-01T00:00:60Z", "2027-05-01T00:00:00+00:00")) {
            assertNull(timeOf(text), text)
        }
    }
}
