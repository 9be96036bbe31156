package ai.unplug.core.head

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.InputError
import ai.unplug.core.Json
import ai.unplug.core.JsonError
import ai.unplug.core.jsonOf
import ai.unplug.core.text

/**
 * A picture that the owner of a phone has added.
 *
 * @property number counts the pictures that were added, from 1.
 * @property pooled the trunk's features of it: what takes it out again.
 * @property truth the owner's age in it, in years, or the number of its label.
 */
public class OwnPicture(
    public val number: Int,
    public val pooled: DoubleArray,
    public val truth: Double,
) {
    internal val name = "me-$number"
}

/** What is said of a picture: by the head that came, and by the one with its owner's pictures. */
public data class Change(
    val before: Said,
    val now: Said,
)

/**
 * Whether the head that pictures were taken out of is one that never held them.
 *
 * @property found the digest of the head that is.
 * @property never the digest of one made anew out of the head that came and the pictures that are still in, the last first.
 */
public data class Proof(
    val found: String,
    val never: String,
) {
    public val isEqual: Boolean get() = found == never
}

/**
 * A head and its owner's pictures in it.
 *
 * @property head the head that answers: removing subtracts from it, it is never computed anew.
 * @property pictures those that are in, as they were added.
 */
public class OwnHead private constructor(
    private val start: DeviceHead,
    public val head: DeviceHead,
    public val pictures: List<OwnPicture>,
) {
    /** The head as it came. */
    public constructor(start: DeviceHead) : this(start, start, emptyList())

    /**
     * With one more picture of the owner.
     *
     * @param pooled the trunk's features of it.
     * @param truth the owner's age in it, in years, or the number of its label.
     * @throws InputError it is in already, or its numbers cannot be.
     */
    public fun add(
        pooled: DoubleArray,
        truth: Double,
    ): OwnHead {
        pictures.firstOrNull { it.pooled.contentEquals(pooled) }?.let {
            throw InputError("photograph", "it is in this head already, as picture ${it.number}", "Choose another one")
        }
        return with(OwnPicture(1 + (pictures.maxOfOrNull { it.number } ?: 0), pooled, truth))
    }

    /** Without the picture of this number. */
    public fun remove(number: Int): OwnHead {
        val gone = pictures.first { it.number == number }
        return OwnHead(start, head.remove(gone.name, gone.pooled, gone.truth), pictures - gone)
    }

    /** Without any of the owner's. */
    public fun removeAll(): OwnHead = pictures.fold(this) { now, it -> now.remove(it.number) }

    /** What the owner's pictures changed about a picture. */
    public fun change(pooled: DoubleArray): Change = Change(start.answer(pooled).said, head.answer(pooled).said)

    /** See [Proof]. */
    public fun proof(): Proof = Proof(head.digest, pictures.reversed().fold(start) { now, it -> now.add(it.name, it.pooled, it.truth) }.digest)

    /** What a phone keeps: the owner's pictures, from which [of] makes this again. */
    public fun text(): String =
        jsonOf(
            "schema" to SCHEMA,
            "trunk_sha256" to start.facts.trunkSha256,
            "pictures" to pictures.map { jsonOf("number" to it.number, kept(it.truth), "features" to it.pooled.toList()) },
        ).text()

    /** A label by its name: another head may have other numbers. */
    private fun kept(truth: Double) = if (start.facts.classes.isEmpty()) "age" to truth else "label" to start.facts.classes[truth.toInt()]

    private fun with(picture: OwnPicture) = OwnHead(start, head.add(picture.name, picture.pooled, picture.truth), pictures + picture)

    public companion object {
        private const val SCHEMA = "unplug-own/1"

        /**
         * A head that came, with the pictures that [text] kept: of those over another trunk none, since their features mean nothing here, nor
         * those whose label this head does not know.
         *
         * @throws DataError the text was edited.
         */
        public fun of(
            start: DeviceHead,
            text: String,
        ): OwnHead {
            val kept =
                try {
                    Fields(Json.parse(text), "pictures", setOf("schema", "trunk_sha256", "pictures"))
                } catch (error: JsonError) {
                    throw DataError("pictures", "what was kept of them is not JSON (${error.message})", "Import the head again")
                }
            if (kept.text("schema") != SCHEMA) kept.wrong("they are of another version than $SCHEMA")
            if (kept.text("trunk_sha256") != start.facts.trunkSha256) return OwnHead(start)
            return kept.list("pictures").fold(OwnHead(start)) { now, item ->
                val fields = Fields(item, "pictures", setOf("number", "age", "label", "features"))
                truth(fields, start.facts.classes)?.let { now.with(OwnPicture(fields.small("number"), fields.numbers("features").toDoubleArray(), it)) } ?: now
            }
        }

        private fun truth(
            fields: Fields,
            classes: List<String>,
        ): Double? {
            if (fields.has("age") == fields.has("label")) fields.wrong("one of them has not one age or label")
            if (classes.isEmpty()) return if (fields.has("age")) fields.number("age") else null
            return classes.indexOf(fields.textOrNull("label")).takeIf { it >= 0 }?.toDouble()
        }
    }
}
