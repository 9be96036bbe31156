package ai.unplug.core.draw

import ai.unplug.core.DataError
import ai.unplug.core.Fields
import ai.unplug.core.InputError
import ai.unplug.core.Json
import java.text.Normalizer
import java.util.Locale

/**
 * A prompt as its text encoder takes it.
 *
 * @property ids the token ids, as many as the base reads: the start, the words', the end, padding.
 * @property tokens the number of tokens that the whole prompt has, start and end included.
 * @property spelled words that are not tokens of their own: the base spells them, and may never have seen them.
 */
public class Encoded(
    public val ids: IntArray,
    public val tokens: Int,
    public val spelled: List<String>,
) {
    /** Whether the base reads only the beginning of the prompt. */
    public val cut: Boolean get() = tokens > ids.size
}

/**
 * A token that is cut out of a text whole, before its words are: a mark, or a word learned later.
 *
 * @property id its place in the vocabulary, which holds its text.
 * @property singleWord it counts only where no letter, digit or underscore touches it.
 * @property lstrip white space in front of it belongs to it.
 * @property rstrip white space after it belongs to it.
 * @property normalized it is looked for, and read itself, in lower case.
 */
public class AddedToken(
    public val id: Int,
    public val singleWord: Boolean = false,
    public val lstrip: Boolean = false,
    public val rstrip: Boolean = false,
    public val normalized: Boolean = false,
)

/**
 * CLIP's tokenizer, byte-pair encoding from data; Python's tokenizer.py is the reference.
 *
 * @property vocabulary a token's id is its place.
 * @property merges "LEFT RIGHT", most urgent first.
 * @property length ids of a prompt.
 * @property added tokens that are cut out whole; none: the start and the end, as they are written.
 */
public class Tokenizer(
    public val vocabulary: List<String>,
    public val merges: List<String>,
    public val length: Int,
    public val start: Int,
    public val end: Int,
    public val padding: Int,
    public val added: List<AddedToken> = emptyList(),
) {
    private val ids = HashMap<String, Int>(2 * vocabulary.size).apply { vocabulary.forEachIndexed { id, token -> put(token, id) } }
    private val ranks = HashMap<String, Int>(2 * merges.size).apply { merges.forEachIndexed { rank, pair -> put(pair, rank) } }

    /** The patterns of tokens that are looked for in a text as it is, and in its normalized rest. */
    private val cutters: Pair<Cutter, Cutter>

    init {
        fun need(
            holds: Boolean,
            what: String,
        ) {
            if (!holds) throw DataError("pipeline.json", "its tokenizer has $what", "Export the base again")
        }
        val size = vocabulary.size
        need(size in 1..MAX_VOCABULARY && ids.size == size, "a vocabulary of $size tokens")
        need(length in 3..MAX_TOKENS, "prompts of $length tokens")
        need(listOf(start, end, padding).all { it in 0 until size }, "a mark outside of its vocabulary")
        need(LETTERS.all { it in ids && it + WORD_END in ids }, "no token for some of the bytes")
        need(merges.all(::fits), "a merge that is not two tokens which make a third")
        need(added.size <= MAX_ADDED && added.all { it.id in 0 until size }, "added tokens outside of its vocabulary")
        val cut = added.ifEmpty { listOf(start, end).distinct().map { AddedToken(it) } }
        val (later, first) = cut.partition { it.normalized }
        cutters = Cutter(first.associateBy { vocabulary[it.id] }) to Cutter(later.associateBy { normalize(vocabulary[it.id]) })
        need(cutters.first.size + cutters.second.size == cut.size, "added tokens that are empty or alike")
    }

    private fun fits(merge: String): Boolean {
        val parts = merge.split(' ')
        return parts.size == 2 && parts.all { it in ids } && parts[0] + parts[1] in ids
    }

    /**
     * Token ids of a prompt, cut and padded.
     *
     * @throws InputError it is far too long.
     */
    public fun encode(text: String): Encoded {
        val characters = text.codePointCount(0, text.length)
        if (characters > MAX_CHARACTERS) {
            throw InputError("prompt of $characters characters", "more than $MAX_CHARACTERS", "Give a shorter one")
        }
        val found = ArrayList<Int>()
        val spelled = LinkedHashSet<String>()
        for (part in parts(text)) {
            if (part is Part.Token) {
                found += part.token.id
                continue
            }
            for (word in splitWords((part as Part.Text).text)) {
                val parts = merged(word)
                if (parts.size > 1) spelled += word
                parts.mapTo(found, ids::getValue)
            }
        }
        val kept = listOf(start) + found.take(length - 2) + end
        return Encoded(IntArray(length) { kept.getOrElse(it) { padding } }, found.size + 2, spelled.toList())
    }

    /** Added tokens, and normalized text between them: first those of the text as it is, then those of the rest. */
    private fun parts(text: String): List<Part> = cutters.first.cut(text).flatMap { if (it is Part.Text) cutters.second.cut(normalize(it.text)) else listOf(it) }

    private sealed interface Part {
        class Text(
            val text: String,
        ) : Part

        class Token(
            val token: AddedToken,
        ) : Part
    }

    /** Finds tokens in a text as the package tokenizers does: the leftmost first, of several the longest, none twice. */
    private class Cutter(
        named: Map<String, AddedToken>,
    ) {
        private val tokens = named - ""
        private val places = Regex(tokens.keys.sortedByDescending { it.length }.joinToString("|") { Regex.escape(it) })
        val size: Int get() = tokens.size

        fun cut(text: String): List<Part> {
            val found = ArrayList<Part>()
            var done = 0
            for (match in if (tokens.isEmpty()) emptySequence() else places.findAll(text)) {
                val token = tokens.getValue(match.value)
                var (start, end) = match.range.first to match.range.last + 1
                if (token.singleWord && touched(text, start, end)) continue
                while (token.lstrip && start > done && isWhite(text[start - 1].code)) start--
                while (token.rstrip && end < text.length && isWhite(text[end].code)) end++
                if (done < start) found += Part.Text(text.substring(done, start))
                found += Part.Token(token)
                done = end
            }
            if (done < text.length) found += Part.Text(text.substring(done))
            return found
        }

        private fun touched(
            text: String,
            start: Int,
            end: Int,
        ): Boolean = (start > 0 && inWord(text.codePointBefore(start))) || (end < text.length && inWord(text.codePointAt(end)))
    }

    /** Merges a word's bytes: again and again the pair of the lowest rank becomes one, wherever it stands, left to right. */
    private fun merged(word: String): List<String> {
        var parts = word.toByteArray(Charsets.UTF_8).map { LETTERS[it.toInt() and 0xff] }
        parts = parts.dropLast(1) + (parts.last() + WORD_END)
        while (true) {
            val best = (0 until parts.size - 1).minByOrNull { ranks["${parts[it]} ${parts[it + 1]}"] ?: Int.MAX_VALUE } ?: return parts
            if ("${parts[best]} ${parts[best + 1]}" !in ranks) return parts
            val (left, right) = parts[best] to parts[best + 1]
            val next = ArrayList<String>(parts.size)
            var at = 0
            while (at < parts.size) {
                val both = parts[at] == left && at + 1 < parts.size && parts[at + 1] == right
                next += if (both) left + right else parts[at]
                at += if (both) 2 else 1
            }
            parts = next
        }
    }

    public companion object {
        private const val WORD_END = "</w>"
        private const val MAX_TOKENS = 1024
        private const val MAX_VOCABULARY = 1 shl 20
        private const val MAX_ADDED = 1024
        private val FLAGS = listOf("single_word", "lstrip", "rstrip", "normalized")

        /** A mark that was written in capitals is not a token, but has words of its own. */
        private val MARK = Regex("(<\\|)(startoftext|endoftext)(\\|>)")

        /** The most characters of a prompt; no prompt that a base reads needs as many. */
        public const val MAX_CHARACTERS: Int = 1 shl 16
        private val CONTRACTIONS = listOf("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")

        /** GPT-2's letter of each byte: printable ones stand for themselves, the others for U+0100 and on. */
        private val LETTERS: List<String> =
            run {
                var next = 0x100
                List(256) { byte ->
                    val printable = byte in 0x21..0x7e || byte in 0xa1..0xac || byte >= 0xae
                    (if (printable) byte else next++).toChar().toString()
                }
            }

        /** Unicode's property White_Space, written out: platforms disagree about U+001C to U+001F and U+0085. */
        internal fun isWhite(code: Int): Boolean =
            code in 0x9..0xd || code == 0x20 || code == 0x85 || code == 0xa0 || code == 0x1680 || code in 0x2000..0x200a ||
                code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000

        /** NFC, runs of white space as one space, each character in lower case by itself; half a character is a question mark. */
        private fun normalize(piece: String): String {
            val whole = StringBuilder()
            piece.codePoints().forEach { whole.appendCodePoint(if (it in 0xd800..0xdfff) '?'.code else it) }
            val found = StringBuilder()
            var white = false
            Normalizer.normalize(whole, Normalizer.Form.NFC).codePoints().forEach {
                if (!isWhite(it)) {
                    found.append(String(Character.toChars(it)).lowercase(Locale.ROOT))
                } else if (!white) {
                    found.append(' ')
                }
                white = isWhite(it)
            }
            return found.toString()
        }

        /** Unicode's Alphabetic, marks, decimal digits, underscores and joiners. */
        private fun inWord(code: Int): Boolean =
            Character.isAlphabetic(code) || code == 0x200c || code == 0x200d ||
                when (Character.getType(code).toByte()) {
                    Character.NON_SPACING_MARK, Character.COMBINING_SPACING_MARK, Character.ENCLOSING_MARK,
                    Character.DECIMAL_DIGIT_NUMBER, Character.CONNECTOR_PUNCTUATION,
                    -> true
                    else -> false
                }

        private enum class Kind { LETTER, NUMBER, WHITE, OTHER }

        private fun kindOf(code: Int): Kind =
            when (Character.getType(code).toByte()) {
                Character.UPPERCASE_LETTER, Character.LOWERCASE_LETTER, Character.TITLECASE_LETTER, Character.MODIFIER_LETTER,
                Character.OTHER_LETTER,
                -> Kind.LETTER
                Character.DECIMAL_DIGIT_NUMBER, Character.LETTER_NUMBER, Character.OTHER_NUMBER -> Kind.NUMBER
                else -> if (isWhite(code)) Kind.WHITE else Kind.OTHER
            }

        /** Contractions, runs of letters, single numbers, and runs of anything else but white space, from left to right. */
        private fun splitWords(text: String): List<String> {
            val found = ArrayList<String>()
            var at = 0
            while (at < text.length) {
                val kind = kindOf(text.codePointAt(at))
                val contraction = CONTRACTIONS.firstOrNull { text.startsWith(it, at) }
                var next = at + Character.charCount(text.codePointAt(at))
                val mark = if (text.startsWith("<|", at)) MARK.matchAt(text, at) else null
                if (contraction != null) {
                    next = at + contraction.length
                } else if (mark != null) {
                    found += mark.groupValues.drop(1)
                    at = mark.range.last + 1
                    continue
                } else if (kind == Kind.LETTER || kind == Kind.OTHER) {
                    while (next < text.length && kindOf(text.codePointAt(next)) == kind) next += Character.charCount(text.codePointAt(next))
                }
                if (kind != Kind.WHITE) found += text.substring(at, next)
                at = next
            }
            return found
        }

        internal fun of(
            value: Json,
            what: String,
        ): Tokenizer {
            val fields = Fields(value, what, setOf("vocabulary", "merges", "length", "start", "end", "padding", "added"))
            val added = if (fields.has("added")) fields.list("added").map { Fields(it, what, FLAGS.toSet() + "id") } else emptyList()
            return Tokenizer(
                vocabulary = fields.texts("vocabulary"),
                merges = fields.texts("merges"),
                length = fields.small("length"),
                start = fields.small("start"),
                end = fields.small("end"),
                padding = fields.small("padding"),
                added =
                    added.map { token ->
                        val (singleWord, lstrip, rstrip, normalized) = FLAGS.map(token::flag)
                        AddedToken(token.small("id"), singleWord, lstrip, rstrip, normalized)
                    },
            )
        }
    }
}
