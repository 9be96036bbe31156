package ai.unplug.core.bundle

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.hex
import ai.unplug.core.isDigest
import ai.unplug.core.sha256
import java.math.BigInteger
import java.util.Base64

private const val BEGIN = "-----BEGIN PUBLIC KEY-----"
private const val END = "-----END PUBLIC KEY-----"
private const val P256_HEAD = "3059301306072a8648ce3d020106082a8648ce3d03010703420004"
private const val FIX = "Give the public key that its publisher made with unplug bundle keygen"
private val FIELD = BigInteger("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16)
private val CONSTANT = BigInteger("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b", 16)

/**
 * A public key of P-256.
 *
 * @property der its 91 bytes, SubjectPublicKeyInfo.
 */
public class PublicKey private constructor(
    internal val der: ByteArray,
) {
    /** SHA-256 of the text form in lines of 64, by which a signature names its key. */
    public val hint: String = sha256(pem().toByteArray())

    /** The text form. */
    public fun pem(): String {
        val lines = Base64.getEncoder().encodeToString(der).chunked(64)
        return (listOf(BEGIN) + lines + listOf(END, "")).joinToString("\n")
    }

    public companion object {
        /**
         * A public key out of its PEM text.
         *
         * @throws DataError it is not a public key of P-256, or not a point of that curve.
         */
        public fun of(pem: String): PublicKey {
            fun wrong(why: String): Nothing = throw DataError("public key", why, FIX)
            if ("PRIVATE KEY" in pem) wrong("it is a private key")
            val body = pem.trim()
            if (!body.startsWith(BEGIN) || !body.endsWith(END) || body.length < BEGIN.length + END.length) wrong("it is not PEM text")
            val text = body.substring(BEGIN.length, body.length - END.length).filterNot { it in " \t\r\n" }
            val der =
                try {
                    Base64.getDecoder().decode(text)
                } catch (error: IllegalArgumentException) {
                    wrong("its base64 is broken")
                }
            if (der.size != 91 || !hex(der).startsWith(P256_HEAD)) wrong("it is a key of another kind than P-256")
            val (x, y) = listOf(27, 59).map { BigInteger(1, der.copyOfRange(it, it + 32)) }
            val right = x.pow(3) - x.multiply(BigInteger.valueOf(3)) + CONSTANT
            if (x >= FIELD || y >= FIELD || (y * y - right).mod(FIELD).signum() != 0) wrong("it is not a point of the curve P-256")
            return PublicKey(der)
        }
    }
}

/**
 * What a reader knows before it opens a bundle.
 *
 * @property keys the keys whose signatures count.
 * @property name the product that is expected; null takes any.
 * @property minimumRelease older releases are refused.
 * @property revoked bundles by the SHA-256 of their manifest.
 * @property superseded the same, of bundles that newer ones took the place of.
 */
public data class Trust(
    val keys: List<PublicKey>,
    val name: String? = null,
    val minimumRelease: Long = 1,
    val revoked: Set<String> = emptySet(),
    val superseded: Set<String> = emptySet(),
) {
    /** What is known once a release was seen: nothing older than it counts, nor what it takes back. */
    public fun after(publication: Publication): Trust =
        copy(
            name = publication.name,
            minimumRelease = maxOf(minimumRelease, publication.release),
            revoked = revoked + publication.revokes,
            superseded = superseded + publication.supersedes,
        )

    /** As an `unplug-trust/1` file. */
    public fun json(): Json.Obj =
        ai.unplug.core.jsonOf(
            "schema" to SCHEMA,
            "keys" to keys.map { it.pem() },
            "name" to name,
            "minimum_release" to minimumRelease,
            "revoked" to revoked.sorted(),
            "superseded" to superseded.sorted(),
        )

    public companion object {
        private const val SCHEMA = "unplug-trust/1"
        private val KEYS = setOf("schema", "keys", "name", "minimum_release", "revoked", "superseded")

        /**
         * Trust out of a file: one public key in PEM form, or an `unplug-trust/1` JSON.
         *
         * @throws DataError it is neither.
         */
        public fun of(text: String): Trust {
            if (!text.trimStart().startsWith("{")) return Trust(listOf(PublicKey.of(text)))
            val value =
                try {
                    Json.parse(text)
                } catch (error: JsonError) {
                    throw DataError("trust", "it is not strict JSON (${error.message})", FIX)
                }
            return of(value)
        }

        internal fun of(value: Json): Trust {
            val fields = Fields(value, "trust", KEYS)
            if (fields.has("schema") && fields.text("schema") != SCHEMA) fields.wrong("its schema is not $SCHEMA")

            fun digests(name: String): Set<String> {
                val found = if (fields.has(name)) fields.texts(name).toSet() else emptySet()
                return if (found.all(::isDigest)) found else fields.wrong("$name holds something other than SHA-256")
            }
            return Trust(
                keys = fields.texts("keys").map(PublicKey::of),
                name = fields.textOrNull("name"),
                minimumRelease = if (fields.has("minimum_release")) fields.whole("minimum_release") else 1,
                revoked = digests("revoked"),
                superseded = digests("superseded"),
            )
        }
    }
}
