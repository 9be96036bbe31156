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
 * @property ids as many as the base reads: the start, the words', the end, padding.
 * @property tokens that the whole prompt has, start and end included.
 * @property spelled words that are no token of their own: the base spells them, and may never have seen them.
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
 * CLIP's tokenizer, byte-pair encoding from data; docs/device.md has its steps.
 *
 * @property vocabulary a token's id is its place.
 * @property merges "LEFT RIGHT", most urgent first.
 * @property length ids of a prompt.
 */
public class Tokenizer(
    public val vocabulary: List<String>,
    public val merges: List<String>,
    public val length: Int,
    public val start: Int,
    public val end: Int,
    public val padding: Int,
) {
    private val ids = HashMap<String, Int>(2 * vocabulary.size).apply { vocabulary.forEachIndexed { id, token -> put(token, id) } }
    private val ranks = HashMap<String, Int>(2 * merges.size).apply { merges.forEachIndexed { rank, pair -> put(pair, rank) } }

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
        for (piece in apart(text)) {
            if (piece == vocabulary[start] || piece == vocabulary[end]) {
                found += ids.getValue(piece)
                continue
            }
            for (word in splitWords(normalize(piece))) {
                val parts = merged(word)
                if (parts.size > 1) spelled += word
                parts.mapTo(found, ids::getValue)
            }
        }
        val kept = listOf(start) + found.take(length - 2) + end
        return Encoded(IntArray(length) { kept.getOrElse(it) { padding } }, found.size + 2, spelled.toList())
    }

    /** The text, cut around the marks where somebody wrote them out: those are tokens and no words. */
    private fun apart(text: String): List<String> {
        val marks = Regex(listOf(start, end).distinct().sorted().joinToString("|") { Regex.escape(vocabulary[it]) })
        val found = ArrayList<String>()
        var at = 0
        for (mark in marks.findAll(text)) {
            found += text.substring(at, mark.range.first)
            found += mark.value
            at = mark.range.last + 1
        }
        return (found + text.substring(at)).filter { it.isNotEmpty() }
    }

    /** Of a word's bytes: again and again the pair of the lowest rank becomes one, wherever it stands, left to right. */
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

        /** Of a prompt; no prompt that any base reads needs as many. */
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
        private fun isWhite(code: Int): Boolean =
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
                if (contraction != null) {
                    next = at + contraction.length
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
            val fields = Fields(value, what, setOf("vocabulary", "merges", "length", "start", "end", "padding"))
            return Tokenizer(
                vocabulary = fields.texts("vocabulary"),
                merges = fields.texts("merges"),
                length = fields.small("length"),
                start = fields.small("start"),
                end = fields.small("end"),
                padding = fields.small("padding"),
            )
        }
    }
}
