package ai.unplug.core.bundle

import ai.unplug.core.Json
import ai.unplug.core.canonical
import ai.unplug.core.hex
import ai.unplug.core.isDigest
import ai.unplug.core.sha256
import java.io.OutputStream
import java.security.MessageDigest
import java.time.Instant

private const val MAX_FILE_BYTES = 8L shl 20

/** What a bundle holds, by the schema of its manifest. */
public enum class Schema(
    public val word: String,
) {
    MODELS("unplug-bundle/2"),

    /** A base of exported files, with `pipeline.json`. */
    GENERATOR("unplug-generator-bundle/1"),
}

/**
 * A bundle that is what its signer made, and may be used.
 *
 * @property id SHA-256 of its manifest.
 * @property key the key that signed it.
 * @property manifestJson the manifest's JSON, as it was read.
 * @property files SHA-256 by path of every file but the signature.
 */
public class Verified internal constructor(
    public val id: String,
    public val key: PublicKey,
    public val publication: Publication,
    public val manifestJson: Json.Obj,
    public val files: Map<String, String>,
    private val source: Source,
) {
    /**
     * A file's bytes as they were signed: hashed again as they are read, whatever happened on the disk since.
     *
     * @throws Refused `changed`, `wrong-size`, `archive` or `too-large`.
     */
    public fun read(
        name: String,
        maxBytes: Long = Int.MAX_VALUE.toLong() - 64,
    ): ByteArray {
        val bytes = source.whole(known(name), maxBytes)
        need(sha256(bytes) == files[name], Verdict.CHANGED, "$name was changed since it was verified")
        return bytes
    }

    /** Copies a file, hashing as it goes; what was written must be thrown away where this throws. */
    public fun copy(
        name: String,
        out: OutputStream,
    ) {
        val found = MessageDigest.getInstance("SHA-256")
        source.blocks(known(name)) { bytes, count ->
            found.update(bytes, 0, count)
            out.write(bytes, 0, count)
        }
        need(hex(found.digest()) == files[name], Verdict.CHANGED, "$name was changed since it was verified")
    }

    /** The typed manifest. @throws Refused `manifest`: it does not follow its schema. */
    public fun manifest(): Manifest = Manifest.of(manifestJson, publication)

    private fun known(name: String): String {
        need(name in files, Verdict.MISSING, "${shown(name)} is not in it")
        return name
    }
}

/**
 * Checks a bundle, step by step as docs/formats.md has it, cheap steps first; nothing of it is believed before its signature, and no
 * file hashed before its size.
 *
 * @param trust the keys and releases that the reader knows.
 * @param now the time.
 * @param schema the schema of the manifest.
 * @param whole false where files were left out on purpose, without step 9: each is held to its hash when it is read.
 * @throws Refused with the verdict of the first step that fails.
 */
public fun verify(
    source: Source,
    trust: Trust,
    now: Instant = Instant.now(),
    schema: Schema = Schema.MODELS,
    whole: Boolean = true,
): Verified {
    present(source)
    val envelope = readEnvelope(source.whole(SIGNATURE, MAX_FILE_BYTES))
    val key = checkSignature(envelope, trust)
    val files = readStatement(envelope.payload)
    val raw = source.whole(MANIFEST, MAX_FILE_BYTES)
    val id = sha256(raw)
    need(files[MANIFEST] == id, Verdict.CHANGED, "$MANIFEST is not the one that was signed")
    val (value, publication, sizes) = readManifest(raw, files, schema)
    allowed(id, publication, trust, now)
    if (whole) contents(source, files, sizes)
    return Verified(id, key, publication, value, files, source)
}

/** Steps 1 and 2. */
private fun present(source: Source) {
    need(source.sizes.size + source.odd.size <= MAX_FILES + 2, Verdict.TOO_MANY, "more than $MAX_FILES files are in it")
    source.odd.firstOrNull()?.let { throw Refused(Verdict.LINK, "${shown(it)} is a link, or not a plain file") }
    checkNames(source.sizes.keys.sortedWith(BY_CODE_POINT))
    need(MANIFEST in source.sizes, Verdict.NO_BUNDLE, "no $MANIFEST in it")
    need(SIGNATURE in source.sizes, Verdict.UNSIGNED, "it is not signed")
}

/** Step 7: the canonical manifest, which says of the same files what the signed statement says. */
private fun readManifest(
    raw: ByteArray,
    files: Map<String, String>,
    schema: Schema,
): Triple<Json.Obj, Publication, Map<String, Long>> {
    fun wrong(why: String): Nothing = throw Refused(Verdict.MANIFEST, "$MANIFEST $why")
    val value = strict(raw, Verdict.MANIFEST, MANIFEST)
    if (!canonical(value).toByteArray().contentEquals(raw)) wrong("is in another spelling than RFC 8785's")
    val fields = (value as? Json.Obj)?.fields
    if (fields == null || !fields["schema"].isText(schema.word)) {
        throw Refused(Verdict.WRONG_VERSION, "$MANIFEST is not of the schema ${schema.word}")
    }
    val listed = (fields["files"] as? Json.Obj)?.fields ?: wrong("lists no files")
    val publication = publicationOf(fields["publication"]) ?: wrong("does not say what was published")
    val sizes = HashMap<String, Long>()
    val digests = HashMap<String, String>()
    for ((name, item) in listed) {
        val entry = only(item, setOf("sha256", "bytes")) ?: wrong("lists no files")
        digests[name] = (entry["sha256"] as? Json.Str)?.value?.takeIf(::isDigest) ?: wrong("lists no files")
        sizes[name] = countOf(entry["bytes"]) ?: wrong("lists no files")
    }
    if (MANIFEST in digests || digests + (MANIFEST to files[MANIFEST]) != files) wrong("and the signature list different files")
    return Triple(value, publication, sizes)
}

/** Step 8: the product that is expected, not expired, not taken back, not older than what was seen. */
private fun allowed(
    id: String,
    said: Publication,
    trust: Trust,
    now: Instant,
) {
    fun newer(
        holds: Boolean,
        verdict: Verdict,
        why: String,
    ) {
        if (!holds) throw Refused(verdict, why, Refused.NEWER)
    }
    need(trust.name == null || trust.name == said.name, Verdict.ANOTHER_PRODUCT, "it is ${said.name}, and ${trust.name} is expected")
    newer(said.expires == null || now < said.expires, Verdict.EXPIRED, "it expired at ${said.expires}")
    newer(id !in trust.revoked, Verdict.REVOKED, "it was revoked")
    newer(id !in trust.superseded, Verdict.SUPERSEDED, "a newer release took its place")
    newer(said.release >= trust.minimumRelease, Verdict.DOWNGRADED, "it is release ${said.release}, older than ${trust.minimumRelease}")
}

/** Step 9: all files that are listed and no others, sizes before hashes. */
private fun contents(
    source: Source,
    files: Map<String, String>,
    sizes: Map<String, Long>,
) {
    for (name in (files.keys - source.sizes.keys).sorted()) throw Refused(Verdict.MISSING, "$name is missing")
    for (name in (source.sizes.keys - files.keys - SIGNATURE).sorted()) throw Refused(Verdict.UNLISTED, "$name is not in $MANIFEST")
    for ((name, size) in sizes.toSortedMap()) need(source.sizes[name] == size, Verdict.WRONG_SIZE, "$name was changed")
    for (name in sizes.keys.sorted()) need(source.digest(name) == files[name], Verdict.CHANGED, "$name was changed")
}
