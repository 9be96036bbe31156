package ai.unplug.core.draw

import java.text.Normalizer
import java.util.Locale

/** Whether a prompt asks for a pack: its words switch it on, whole, in any case, in the singular or the plural; as Python's pack_words has it. */
internal object PackWords {
    private const val MAX_WORDS = 8
    private const val MAX_LETTERS = 64
    private val WORD = Regex("[\\p{L}\\p{N}][\\p{L}\\p{M}\\p{N}]*")
    private val PLURALS = listOf("ches", "shes", "sses", "xes", "zes")

    /** The words of a text, folded: NFC, each character's own lower case, one sigma for both, English plurals as singulars. */
    fun of(text: String): List<String> {
        val folded = StringBuilder()
        Normalizer.normalize(text, Normalizer.Form.NFC).codePoints().forEach { folded.append(String(Character.toChars(it)).lowercase(Locale.ROOT)) }
        return WORD.findAll(folded.toString().replace('\u03c2', '\u03c3')).map { singular(it.value) }.toList()
    }

    private fun singular(word: String): String =
        when {
            length(word) <= 3 || !word.endsWith("s") || word.endsWith("ss") -> word
            word.endsWith("ies") -> word.dropLast(3) + "y"
            PLURALS.any(word::endsWith) -> word.dropLast(2)
            else -> word.dropLast(1)
        }

    private fun length(text: String) = text.codePointCount(0, text.length)

    /** Whether folded words stand in others, next to each other and in their order. */
    fun standIn(
        wanted: List<String>,
        read: List<String>,
    ): Boolean = wanted.isNotEmpty() && read.windowed(wanted.size).any { it == wanted }

    /** Whether a record may say so: some words with single spaces, not more or longer ones than a prompt would hold. */
    fun hold(words: String): Boolean {
        val plain = words.split(' ').none { part -> part.isEmpty() || part.any { it.code in 0x1c..0x1f || Tokenizer.isWhite(it.code) } }
        return plain && length(words) <= MAX_LETTERS && of(words).size in 1..MAX_WORDS
    }
}
