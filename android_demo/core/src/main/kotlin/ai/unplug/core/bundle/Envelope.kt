package ai.unplug.core.bundle

import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.isDigest
import ai.unplug.core.sha256
import java.math.BigInteger
import java.security.GeneralSecurityException
import java.security.KeyFactory
import java.security.Signature
import java.security.spec.X509EncodedKeySpec
import java.util.Base64

private const val MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
private const val PAYLOAD_TYPE = "application/vnd.in-toto+json"
private const val STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
private const val PREDICATE_TYPE = "https://model_signing/signature/v1.0"
private val ORDER = BigInteger("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
private val BASE64 = Regex("[A-Za-z0-9+/]*={0,2}")

/** A signature file that was read and not yet believed. */
internal class Envelope(
    val payload: ByteArray,
    val signature: ByteArray,
    val hint: String,
)

internal fun strict(
    bytes: ByteArray,
    verdict: Verdict,
    what: String,
): Json =
    try {
        Json.parse(bytes)
    } catch (error: JsonError) {
        throw Refused(verdict, "$what is not strict JSON (${error.message})")
    }

/** The fields of an object of just these names, or null. */
internal fun only(
    value: Json?,
    required: Set<String>,
    optional: Set<String> = emptySet(),
): Map<String, Json>? {
    val fields = (value as? Json.Obj)?.fields ?: return null
    return fields.takeIf { it.keys.containsAll(required) && (it.keys - required - optional).isEmpty() }
}

internal fun Json?.isText(text: String): Boolean = this is Json.Str && value == text

/** Step 3 of docs/formats.md: the signature file, taken apart. */
internal fun readEnvelope(bytes: ByteArray): Envelope {
    fun wrong(why: String): Nothing = throw Refused(Verdict.ENVELOPE, why)
    val value =
        only(strict(bytes, Verdict.ENVELOPE, "the signature"), setOf("mediaType", "verificationMaterial", "dsseEnvelope"))
            ?: wrong("the signature has other fields than a Sigstore bundle")
    need(value["mediaType"].isText(MEDIA_TYPE), Verdict.WRONG_TYPE, "its media type is not $MEDIA_TYPE")
    val material = value["verificationMaterial"] as? Json.Obj ?: wrong("it names no key")
    val certified = material.fields.keys.any { it == "certificate" || it == "x509CertificateChain" }
    need(!certified, Verdict.CERTIFICATE, "its signer is named by a certificate, and only plain keys are read here")
    only(material, setOf("publicKey"), setOf("tlogEntries")) ?: wrong("it names no key, or more than one")
    val log = material.fields["tlogEntries"]
    if (log != null && (log as? Json.Arr)?.items?.isEmpty() != true) wrong("it has entries of a log that nobody checks")
    val inner =
        only(value["dsseEnvelope"], setOf("payload", "payloadType", "signatures")) ?: wrong("it holds no DSSE envelope")
    need(inner["payloadType"].isText(PAYLOAD_TYPE), Verdict.WRONG_TYPE, "its payload is not of the type $PAYLOAD_TYPE")
    val one = (inner["signatures"] as? Json.Arr)?.items?.singleOrNull() ?: wrong("it does not hold exactly one signature")
    val signature = only(one, setOf("sig"), setOf("keyid")) ?: wrong("its signature has other fields than DSSE's")
    val second = signature["keyid"]
    if (second != null && second != Json.Null && !second.isText("")) wrong("its signature names a second key")
    val hint = (only(material.fields["publicKey"], setOf("hint"))?.get("hint") as? Json.Str)?.value
    if (hint == null || !isDigest(hint)) wrong("its key is not named by a fingerprint")
    return Envelope(base64(inner["payload"]), base64(signature["sig"]), hint)
}

/** Standard base64 with its padding, in the one spelling that encodes the bytes. */
private fun base64(text: Json?): ByteArray {
    if (text is Json.Str && BASE64.matches(text.value) && text.value.length % 4 == 0) {
        val found =
            try {
                Base64.getDecoder().decode(text.value)
            } catch (error: IllegalArgumentException) {
                null
            }
        if (found != null && Base64.getEncoder().encodeToString(found) == text.value) return found
    }
    throw Refused(Verdict.ENVELOPE, "its base64 is not in the one standard spelling")
}

/** DSSE's pre-authentication encoding: no payload can be taken for one of another type. */
private fun pae(payload: ByteArray): ByteArray = "DSSEv1 ${PAYLOAD_TYPE.length} $PAYLOAD_TYPE ${payload.size} ".toByteArray() + payload

/** Steps 4 and 5: the trusted key of that fingerprint made the signature over this payload. */
internal fun checkSignature(
    found: Envelope,
    trust: Trust,
): PublicKey {
    val key =
        trust.keys.firstOrNull { it.hint == found.hint }
            ?: throw Refused(Verdict.UNKNOWN_KEY, "it is signed by an unknown key (${found.hint.take(16)})", "Import its publisher's public key, if you have it from somebody you trust")
    val holds =
        isStrictDer(found.signature) &&
            try {
                val loaded = KeyFactory.getInstance("EC").generatePublic(X509EncodedKeySpec(key.der))
                Signature.getInstance("SHA256withECDSA").run {
                    initVerify(loaded)
                    update(pae(found.payload))
                    verify(found.signature)
                }
            } catch (error: GeneralSecurityException) {
                false
            }
    need(holds, Verdict.BAD_SIGNATURE, "its signature is not that of the key it names, over what it holds")
    return key
}

/** Two numbers from 1 to the order less 1 in DER's one spelling: providers take BER, too, and not all the same. */
private fun isStrictDer(bytes: ByteArray): Boolean {
    if (bytes.size !in 8..72 || bytes[0].toInt() != 0x30 || bytes[1].toInt() != bytes.size - 2) return false
    var at = 2
    repeat(2) {
        if (at + 2 > bytes.size || bytes[at].toInt() != 2) return false
        val length = bytes[at + 1].toInt()
        if (length < 1 || at + 2 + length > bytes.size || bytes[at + 2] < 0) return false
        if (length > 1 && bytes[at + 2].toInt() == 0 && bytes[at + 3] >= 0) return false
        val number = BigInteger(1, bytes.copyOfRange(at + 2, at + 2 + length))
        if (number.signum() < 1 || number >= ORDER) return false
        at += 2 + length
    }
    return at == bytes.size
}

/** Step 6: SHA-256 of every file by its path, out of the signed statement. */
internal fun readStatement(payload: ByteArray): Map<String, String> {
    fun wrong(why: String): Nothing = throw Refused(Verdict.STATEMENT, why)
    val value =
        only(strict(payload, Verdict.STATEMENT, "what is signed"), setOf("_type", "subject", "predicateType", "predicate"))
            ?: wrong("what is signed is not an in-toto statement")
    val known = value["_type"].isText(STATEMENT_TYPE) && value["predicateType"].isText(PREDICATE_TYPE)
    need(known, Verdict.WRONG_TYPE, "what is signed is a statement of another kind")
    val predicate = only(value["predicate"], setOf("resources", "serialization")) ?: wrong("its predicate has other fields")
    checkWay(predicate["serialization"])
    val resources = (predicate["resources"] as? Json.Arr)?.items.orEmpty()
    if (resources.isEmpty()) wrong("it lists no files")
    val listed = resources.map { resource(it) ?: wrong("it lists no files") }
    checkNames(listed.map { it.first })
    if (listed.zipWithNext().any { (one, other) -> BY_CODE_POINT.compare(one.first, other.first) >= 0 }) wrong("its files are not in order")
    val sum = sha256(listed.map { it.second.chunked(2) }.flatten().map { it.toInt(16).toByte() }.toByteArray())
    val subject = (value["subject"] as? Json.Arr)?.items?.singleOrNull() as? Json.Obj ?: wrong("it is not about one bundle")
    if (only(subject.fields["digest"], setOf("sha256"))?.get("sha256").isText(sum) != true) wrong("its subject is not the sum of its files")
    return listed.toMap()
}

private fun checkWay(value: Json?) {
    val way =
        only(value, setOf("method", "hash_type", "allow_symlinks"), setOf("ignore_paths"))
            ?: throw Refused(Verdict.STATEMENT, "it does not say how files were hashed")
    val plain = way["method"].isText("files") && way["hash_type"].isText("sha256")
    need(plain, Verdict.EXCLUDED, "its files are not hashed whole by SHA-256")
    need(way["allow_symlinks"] == Json.Bool(false), Verdict.EXCLUDED, "its signer followed links")
    val ignored = way["ignore_paths"] ?: Json.Arr(emptyList())
    val none = ignored == Json.Arr(emptyList()) || ignored == Json.Arr(listOf(Json.Str(SIGNATURE)))
    need(none, Verdict.EXCLUDED, "its signer left files out")
}

/** Name and digest; other fields of a descriptor are to be ignored, as the specification says. */
private fun resource(item: Json): Pair<String, String>? {
    val fields = (item as? Json.Obj)?.fields ?: return null
    val name = (fields["name"] as? Json.Str)?.value ?: return null
    val digest = (fields["digest"] as? Json.Str)?.value ?: return null
    return if (fields["algorithm"].isText("sha256") && isDigest(digest)) name to digest else null
}
