package ai.unplug.core.bundle

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.IOSpec
import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.isDigest
import java.io.File
import java.time.Instant

/**
 * One exported file with what its card says.
 *
 * @property path inside the bundle.
 * @property target litert, onnx or coreml.
 */
public data class Artifact(
    val path: String,
    val target: String,
    val precision: String,
    val sha256: String,
    val bytes: Long,
    val modelType: String,
    val iospec: IOSpec,
    val config: Json.Obj,
    val checkpointSha256: String,
    val flops: Long?,
)

private const val MAX_CARD = 1L shl 20
private val CARD =
    setOf(
        "schema", "target", "precision", "file", "sha256", "bytes", "model_type", "iospec", "config", "checkpoint_sha256",
        "calibration", "minimum_ios", "flops", "parameters", "versions", "seconds", "prepare_seconds",
    )

/**
 * The file at a path, as its card says.
 *
 * @param digest the SHA-256 of the file; null where it was not read, as of a folder (Core ML's), whose tree's digest the card has.
 * @throws DataError it is the card of another file.
 */
internal fun artifactOf(
    card: Json,
    path: String,
    digest: String?,
): Artifact {
    val fields = Fields(card, "$path.json", CARD)
    val said = fields.text("sha256")
    if (!isDigest(said) || (digest ?: said) != said) fields.wrong("it is the digest of another file")
    if (fields.text("file") != path.substringAfterLast('/')) fields.wrong("it belongs to another file")
    return Artifact(
        path = path,
        target = fields.text("target"),
        precision = fields.text("precision"),
        sha256 = said,
        bytes = fields.whole("bytes"),
        modelType = fields.text("model_type"),
        iospec = IOSpec.of(fields.any("iospec"), "$path.json"),
        config = Json.Obj(fields.obj("config")),
        checkpointSha256 = fields.text("checkpoint_sha256"),
        flops = if (fields.has("flops")) fields.whole("flops") else null,
    )
}

/**
 * Files with a card each, as their cards say.
 *
 * @param fix how to get better ones.
 * @throws DataError a card is broken, or of another file.
 */
internal fun artifactsIn(
    source: Source,
    fix: String,
): List<Artifact> =
    source.sizes.keys.filter { it.endsWith(".json") && it.removeSuffix(".json") in source.sizes }.sorted().map {
        try {
            artifactOf(Json.parse(source.whole(it, MAX_CARD)), it.removeSuffix(".json"), null)
        } catch (error: JsonError) {
            throw DataError(it, "it is not strict JSON (${error.message})", fix)
        }
    }

/**
 * A bundle that was verified and whose parts are about one model.
 *
 * Only [open] makes one, so that code which holds a `Bundle` may use it.
 */
public class Bundle private constructor(
    public val verified: Verified,
    public val manifest: Manifest,
    public val artifacts: List<Artifact>,
    private val family: List<Member>?,
) {
    /** SHA-256 of its manifest: what it is called where others name it. */
    public val id: String get() = verified.id

    /** The first artifact of a target and, where it matters, a precision. */
    public fun artifact(
        target: String,
        precision: String? = null,
    ): Artifact? = artifacts.firstOrNull { it.target == target && (precision == null || it.precision == precision) }

    /**
     * The member of a family that answers: the best that takes at most [FRAME_MS]; null where the bundle has one model alone.
     *
     * @param measured milliseconds on this phone by the SHA-256 of the checkpoint; they count more than those of the manifest.
     * @throws ai.unplug.core.UnplugError see [chooseMember].
     */
    public fun member(measured: Map<String, Double>): Member? = family?.map { it.copy(latencyMs = measured[it.checkpointSha256] ?: it.latencyMs) }?.let { chooseMember(it, FRAME_MS) }

    /** The files of a member; without one those of the model of its lineage. */
    public fun artifactsOf(member: Member?): List<Artifact> = artifacts.filter { it.checkpointSha256 == (member?.checkpointSha256 ?: manifest.lineage.checkpointSha256) }

    /** A file's bytes, checked as they are read. */
    public fun read(path: String): ByteArray = verified.read(path)

    /** A report, `audit.json` say, or null where the bundle has none of this name. */
    public fun report(name: String): Json? = "reports/$name".takeIf { it in verified.files }?.let { json(verified, it) }

    /** The card, in Markdown. */
    public fun card(): String? = "README.md".takeIf { it in verified.files }?.let { read(it).toString(Charsets.UTF_8) }

    public companion object {
        private const val MAX_REPORT = 64L shl 20

        /**
         * Verifies a bundle and reads what the app uses of it.
         *
         * @throws Refused it must not be used; `manifest` also where a gate does not hold or a card is of another model.
         */
        public fun open(
            source: Source,
            trust: Trust,
            now: Instant = Instant.now(),
        ): Bundle {
            val verified = verify(source, trust, now)
            val manifest = verified.manifest()
            manifest.gates.firstOrNull { !it.holds }?.let { wrong("the gate ${it.name.take(60)} does not hold") }
            if (manifest.gates.isEmpty()) wrong("it was judged by no gate")
            val family =
                try {
                    familyOf(manifest.postprocessing)
                } catch (error: DataError) {
                    wrong("its family: ${error.why}")
                }
            val own = manifest.lineage.checkpointSha256
            if (family != null && family.none { it.checkpointSha256 == own }) wrong("its family does not list the model of its lineage")
            val weights = family.orEmpty().filter { it.checkpointSha256 != own }.associate { "members/${it.name}" to it.checkpointSha256 } + ("artifacts" to own)
            val cards = verified.files.keys.filter { it.endsWith(".json") && it.substringBeforeLast('/') in weights }
            val artifacts = cards.sorted().map { artifact(verified, it) }
            if (artifacts.isEmpty()) wrong("it holds no exported file")
            for (item in artifacts) {
                if (item.checkpointSha256 != weights[item.path.substringBeforeLast('/')]) wrong("${item.path} was made from other weights")
                if (item.modelType != manifest.modelType || !sameTensors(item.iospec, manifest.iospec)) wrong("${item.path} has other tensors")
            }
            return Bundle(verified, manifest, artifacts, family)
        }

        /** As [open], of a folder or a zip file. */
        public fun open(
            path: File,
            trust: Trust,
            now: Instant = Instant.now(),
        ): Bundle = open(Source.at(path), trust, now)

        private fun sameTensors(
            one: IOSpec,
            other: IOSpec,
        ) = one.imagesIn("NCHW") == other.imagesIn("NCHW")

        private fun artifact(
            verified: Verified,
            card: String,
        ): Artifact =
            try {
                card.removeSuffix(".json").let { artifactOf(json(verified, card), it, verified.files[it]) }
            } catch (error: DataError) {
                wrong("$card: ${error.why}")
            }

        private fun json(
            verified: Verified,
            path: String,
        ): Json =
            try {
                Json.parse(verified.read(path, MAX_REPORT))
            } catch (error: JsonError) {
                wrong("$path is not strict JSON (${error.message})")
            }

        private fun wrong(why: String): Nothing = throw Refused(Verdict.MANIFEST, why)
    }
}
