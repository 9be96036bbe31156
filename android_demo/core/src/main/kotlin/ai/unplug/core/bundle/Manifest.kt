package ai.unplug.core.bundle

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.IOSpec
import ai.unplug.core.Json
import ai.unplug.core.isDigest
import java.time.DateTimeException
import java.time.Instant
import java.time.temporal.ChronoUnit

private const val MAX_NAMED = 1000
private val NAME = Regex("[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}")
private val REQUEST = Regex("[ -~]{1,200}")
private val TIME = Regex("[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")

/**
 * What the signer of a bundle says about its place among the others.
 *
 * @property name the product; releases are counted within one.
 * @property release counts up, from 1.
 * @property expires the time from which it is refused, or null.
 * @property supersedes bundles by the SHA-256 of their manifest.
 * @property requests ids of the requests that it answers; they name nobody.
 */
public data class Publication(
    val name: String,
    val release: Long,
    val expires: Instant?,
    val supersedes: List<String>,
    val revokes: List<String>,
    val requests: List<String>,
)

/** A UTC time in the one spelling that manifests use, or null. */
internal fun timeOf(text: String): Instant? {
    if (!TIME.matches(text)) return null
    // 24:00:00 and the 61st second are times to this parser, and to no other reader.
    if (text.substring(11, 13) > "23" || text.substring(17, 19) > "59") return null
    return try {
        Instant.parse(text).truncatedTo(ChronoUnit.SECONDS)
    } catch (error: DateTimeException) {
        null
    }
}

/** The form of a publication, as every reader checks it; null for every other. */
internal fun publicationOf(value: Json?): Publication? {
    val said = only(value, setOf("name", "release", "expires", "supersedes", "revokes", "requests")) ?: return null
    val name = (said["name"] as? Json.Str)?.value?.takeIf(NAME::matches) ?: return null
    val release = countOf(said["release"])?.takeIf { it >= 1 } ?: return null
    val written = said["expires"]
    val expires = (written as? Json.Str)?.value?.let(::timeOf)
    if (expires == null && written != Json.Null) return null
    val supersedes = textsOf(said["supersedes"], ::isDigest) ?: return null
    val revokes = textsOf(said["revokes"], ::isDigest) ?: return null
    val requests = textsOf(said["requests"], REQUEST::matches) ?: return null
    return Publication(name, release, expires, supersedes, revokes, requests)
}

private fun textsOf(
    value: Json?,
    fits: (String) -> Boolean,
): List<String>? {
    val items = (value as? Json.Arr)?.items?.takeIf { it.size <= MAX_NAMED } ?: return null
    return items.map { (it as? Json.Str)?.value?.takeIf(fits) ?: return null }
}

/** A whole number from 0 on, or null. */
internal fun countOf(value: Json?): Long? = (value as? Json.Num)?.value?.takeIf { it >= 0 && it == Math.rint(it) }?.toLong()

/** One condition of a release; a null value was not measured. */
public data class Gate(
    val name: String,
    val value: Double?,
    val limit: Double,
    val comparison: String,
    val passed: Boolean,
    val unit: String,
    val detail: String,
) {
    /** Whether it passed and its own numbers say so, too. */
    public val holds: Boolean
        get() = passed && value != null && (if (comparison == "<=") value <= limit else value >= limit)
}

/** Where a bundle's model comes from, in hashes: nothing here names a person, a sample or a place. */
public data class Lineage(
    val originalSha256: String,
    val checkpointSha256: String,
    val dataDigest: String,
    val forgetSamples: Long,
    val method: String,
    val computeFraction: Double,
    val ledgerHead: String?,
)

/**
 * What `manifest.json` says, `unplug-bundle/2`.
 *
 * @property modelType "age", "plugin", ...
 * @property iospec the named tensors of every artifact.
 * @property preprocessing the steps of the app before the model.
 * @property postprocessing the steps of the app after the model.
 * @property gates the conditions that held when the bundle was written.
 */
public data class Manifest(
    val publication: Publication,
    val modelType: String,
    val iospec: IOSpec,
    val preprocessing: Json.Obj,
    val postprocessing: Json.Obj,
    val lineage: Lineage,
    val gates: List<Gate>,
    val versions: Map<String, String?>,
) {
    internal companion object {
        private const val WHAT = "manifest.json"
        private val KEYS =
            setOf(
                "schema",
                "publication",
                "model_type",
                "iospec",
                "preprocessing",
                "postprocessing",
                "lineage",
                "gates",
                "versions",
                "files",
            )

        /** The typed form of a manifest whose signature was checked; `manifest` where it is of another form. */
        fun of(
            value: Json,
            publication: Publication,
        ): Manifest =
            try {
                read(Fields(value, WHAT, KEYS), publication)
            } catch (error: DataError) {
                throw Refused(Verdict.MANIFEST, "it does not follow its schema (${error.why})")
            }

        private fun read(
            fields: Fields,
            publication: Publication,
        ) = Manifest(
            publication = publication,
            modelType = fields.text("model_type"),
            iospec = IOSpec.of(fields.any("iospec"), WHAT),
            preprocessing = Json.Obj(fields.obj("preprocessing")),
            postprocessing = Json.Obj(fields.obj("postprocessing")),
            lineage = lineage(fields.any("lineage")),
            gates = fields.list("gates").map(::gate),
            versions = fields.obj("versions").mapValues { (it.value as? Json.Str)?.value },
        )

        private fun lineage(value: Json): Lineage {
            val names =
                setOf("original_sha256", "checkpoint_sha256", "data_digest", "forget_samples", "method", "compute_fraction", "ledger_head")
            val fields = Fields(value, WHAT, names)
            return Lineage(
                originalSha256 = fields.text("original_sha256"),
                checkpointSha256 = fields.text("checkpoint_sha256"),
                dataDigest = fields.text("data_digest"),
                forgetSamples = fields.whole("forget_samples"),
                method = fields.text("method"),
                computeFraction = fields.number("compute_fraction"),
                ledgerHead = fields.textOrNull("ledger_head"),
            )
        }

        private fun gate(value: Json): Gate {
            val names = setOf("name", "value", "limit", "comparison", "passed", "unit", "detail", "inconclusive", "override")
            val fields = Fields(value, WHAT, names)
            val comparison = fields.text("comparison")
            if (comparison != "<=" && comparison != ">=") fields.wrong("a gate compares by ${comparison.take(10)}")
            return Gate(
                name = fields.text("name"),
                value = if (fields.has("value")) fields.number("value") else null,
                limit = fields.number("limit"),
                comparison = comparison,
                passed = fields.flag("passed"),
                unit = fields.text("unit"),
                detail = fields.text("detail"),
            )
        }
    }
}
