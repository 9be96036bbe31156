package ai.unplug.core.bundle

/** What a bundle says of itself. */
public const val MANIFEST: String = "manifest.json"

/** The signature over every other file. */
public const val SIGNATURE: String = "model.sig"
internal const val MAX_FILES = 4096
private const val MAX_PATH = 400
private val PART = Regex("[A-Za-z0-9](?:[A-Za-z0-9_.+-]{0,198}[A-Za-z0-9_+-])?")
private val DEVICE = Regex("(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\\..*)?", RegexOption.IGNORE_CASE)

/**
 * Whether a path means one file of the folder on every system: parts of ASCII letters, digits and `_.+-`, that begin with a letter
 * or digit, do not end with a dot and are not a device of Windows.
 */
internal fun isSafe(name: String): Boolean = name.codePointCount(0, name.length) <= MAX_PATH && name.split('/').all { PART.matches(it) && !DEVICE.matches(it) }

/** Refuses names of which one is unsafe, or two are one file where case does not count; in the order given. */
internal fun checkNames(names: List<String>) {
    need(names.size <= MAX_FILES + 2, Verdict.TOO_MANY, "it names more than $MAX_FILES files")
    val known = HashMap<String, String>()
    for (name in names) {
        need(isSafe(name), Verdict.UNSAFE_NAME, "it names an unsafe file ${shown(name)}")
        var end = -1
        while (end < name.length) {
            end = name.indexOf('/', end + 1).let { if (it < 0) name.length else it }
            val prefix = name.substring(0, end)
            val other = known.getOrPut(lower(prefix)) { prefix }
            need(other == prefix, Verdict.COLLISION, "${shown(prefix)} and ${shown(other)} are one file where case does not count")
        }
    }
}

/** Lower case of ASCII alone: a phone's language must not decide what is one file. */
private fun lower(text: String): String = text.map { if (it in 'A'..'Z') it + 32 else it }.joinToString("")

internal fun shown(name: String): String = "'" + name.take(80).map { if (it in ' '..'~') it else '?' }.joinToString("") + "'"

/** By code points, as Python sorts. */
internal val BY_CODE_POINT: Comparator<String> =
    Comparator { one, other ->
        val (left, right) = one.codePoints().toArray() to other.codePoints().toArray()
        val place = left.indices.firstOrNull { it >= right.size || left[it] != right[it] }
        when {
            place == null -> left.size - right.size
            place >= right.size -> 1
            else -> left[place].compareTo(right[place])
        }
    }
