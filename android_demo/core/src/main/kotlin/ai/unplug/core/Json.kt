package ai.unplug.core

import java.math.BigDecimal
import java.math.MathContext
import java.math.RoundingMode

/**
 * A JSON value.
 *
 * Why not kotlinx.serialization: of a key that stands in an object twice its parser keeps the last one and says nothing, and a
 * signed file must have one reading in every language.
 */
public sealed interface Json {
    /** `null`. */
    public data object Null : Json

    /** `true` or `false`. */
    public data class Bool(
        val value: Boolean,
    ) : Json

    /** A number, as a double keeps it. */
    public data class Num(
        val value: Double,
    ) : Json

    /** A string of whole characters. */
    public data class Str(
        val value: String,
    ) : Json

    /** A list. */
    public data class Arr(
        val items: List<Json>,
    ) : Json

    /** An object, its keys in the order of the file. */
    public data class Obj(
        val fields: Map<String, Json>,
    ) : Json

    public companion object {
        /** The largest integer that a double keeps apart from its neighbours. */
        public const val LARGEST: Double = 9007199254740991.0

        /** Levels of nesting that any file of unplug has at most. */
        public const val MAX_DEPTH: Int = 64

        /**
         * Reads JSON of which there is one reading: UTF-8 without a byte order mark, no key twice in an object, at most
         * [MAX_DEPTH] levels, no number beyond [LARGEST], no half of a surrogate pair.
         *
         * @throws JsonError it is anything else.
         */
        public fun parse(bytes: ByteArray): Json = JsonReader(decodeUtf8(bytes)).whole()

        /** As [parse], of text. */
        public fun parse(text: String): Json = JsonReader(text).whole()

        /** Numbers, texts, lists, maps and nulls of Kotlin as JSON. */
        public fun of(value: Any?): Json =
            when (value) {
                null -> Null
                is Json -> value
                is Boolean -> Bool(value)
                is Number -> Num(value.toDouble())
                is String -> Str(value)
                is Iterable<*> -> Arr(value.map(::of))
                is Map<*, *> -> Obj(value.entries.associate { (key, item) -> key.toString() to of(item) })
                else -> throw IllegalArgumentException("no JSON has a ${value::class}")
            }
    }
}

/** What is read is not strict JSON. */
public class JsonError(
    message: String,
) : Exception(message)

/** An object of these fields, in this order. */
public fun jsonOf(vararg fields: Pair<String, Any?>): Json.Obj = Json.Obj(fields.associate { (key, value) -> key to Json.of(value) })

private fun decodeUtf8(bytes: ByteArray): String =
    try {
        Charsets.UTF_8
            .newDecoder()
            .decode(java.nio.ByteBuffer.wrap(bytes))
            .toString()
    } catch (error: java.nio.charset.CharacterCodingException) {
        throw JsonError("it is not UTF-8")
    }

private class JsonReader(
    private val text: String,
) {
    private var at = 0

    fun whole(): Json {
        val value = value(0)
        space()
        if (at != text.length) fail("something follows it")
        return value
    }

    private fun value(depth: Int): Json {
        space()
        return when (val next = text.getOrNull(at)) {
            '{' -> obj(depth + 1)
            '[' -> arr(depth + 1)
            '"' -> Json.Str(string())
            't' -> word("true", Json.Bool(true))
            'f' -> word("false", Json.Bool(false))
            'n' -> word("null", Json.Null)
            else -> if (next == '-' || next in '0'..'9') number() else fail("there is no value at $at")
        }
    }

    private fun obj(depth: Int): Json {
        val fields = LinkedHashMap<String, Json>()
        items(depth, '}') {
            space()
            if (text.getOrNull(at) != '"') fail("there is no key at $at")
            val key = string()
            space()
            take(':')
            if (fields.put(key, value(depth)) != null) fail("it has a key twice")
        }
        return Json.Obj(fields)
    }

    private fun arr(depth: Int): Json {
        val items = ArrayList<Json>()
        items(depth, ']') { items += value(depth) }
        return Json.Arr(items)
    }

    private inline fun items(
        depth: Int,
        end: Char,
        one: () -> Unit,
    ) {
        if (depth > Json.MAX_DEPTH) fail("it is nested more than ${Json.MAX_DEPTH} deep")
        at++
        space()
        if (text.getOrNull(at) == end) {
            at++
            return
        }
        while (true) {
            one()
            space()
            if (text.getOrNull(at) != ',') break
            at++
        }
        take(end)
    }

    private fun string(): String {
        val found = StringBuilder()
        at++
        while (true) {
            val next = text.getOrNull(at++) ?: fail("a string does not end")
            when {
                next == '"' -> break
                next == '\\' -> found.append(escaped())
                next < ' ' -> fail("a string holds a control character")
                else -> found.append(next)
            }
        }
        return found.toString().also { if (!isWhole(it)) fail("a string holds half a character") }
    }

    private fun escaped(): Char =
        when (val next = text.getOrNull(at++)) {
            '"', '\\', '/' -> next
            'b' -> '\b'
            'f' -> '\u000c'
            'n' -> '\n'
            'r' -> '\r'
            't' -> '\t'
            'u' -> hex4()
            else -> fail("a string holds an unknown escape")
        }

    private fun hex4(): Char {
        val digits = text.substring(at, minOf(at + 4, text.length))
        if (digits.length < 4 || !digits.all { it in '0'..'9' || it in 'a'..'f' || it in 'A'..'F' }) fail("an escape is cut off")
        at += 4
        return digits.toInt(16).toChar()
    }

    private fun number(): Json {
        val start = at
        if (text[at] == '-') at++
        val first = text.getOrNull(at)
        if (digits() > 1 && first == '0') fail("a number begins with a zero")
        if (text.getOrNull(at) == '.') {
            at++
            digits()
        }
        if (text.getOrNull(at) == 'e' || text.getOrNull(at) == 'E') {
            at++
            if (text.getOrNull(at) == '+' || text.getOrNull(at) == '-') at++
            digits()
        }
        val value = text.substring(start, at).toDouble()
        if (!(kotlin.math.abs(value) <= Json.LARGEST)) fail("it holds a number that a double does not keep")
        return Json.Num(value)
    }

    private fun digits(): Int {
        val start = at
        while (at < text.length && text[at] in '0'..'9') at++
        return if (at > start) at - start else fail("a digit is missing at $at")
    }

    private fun word(
        word: String,
        value: Json,
    ): Json {
        if (!text.startsWith(word, at)) fail("there is no value at $at")
        at += word.length
        return value
    }

    private fun space() {
        while (at < text.length && text[at] in " \t\n\r") at++
    }

    private fun take(wanted: Char) {
        if (text.getOrNull(at) != wanted) fail("'$wanted' is missing at $at")
        at++
    }

    private fun fail(why: String): Nothing = throw JsonError(why)
}

/** Whether every surrogate of a text has its other half. */
internal fun isWhole(text: String): Boolean {
    var at = 0
    while (at < text.length) {
        val here = text[at++]
        if (!here.isSurrogate()) continue
        if (!here.isHighSurrogate() || text.getOrNull(at)?.isLowSurrogate() != true) return false
        at++
    }
    return true
}

/** The spelling of RFC 8785: sorted keys, no spaces, numbers as ECMAScript writes them. */
public fun canonical(value: Json): String = StringBuilder().also { write(value, it, sorted = true) }.toString()

/** Compact JSON, keys in their order. */
public fun Json.text(): String = StringBuilder().also { write(this, it, sorted = false) }.toString()

private fun write(
    value: Json,
    out: StringBuilder,
    sorted: Boolean,
) {
    when (value) {
        Json.Null -> out.append("null")
        is Json.Bool -> out.append(value.value)
        is Json.Num -> out.append(ecmaNumber(value.value))
        is Json.Str -> quote(value.value, out)
        is Json.Arr -> {
            out.append('[')
            value.items.forEachIndexed { place, item ->
                if (place > 0) out.append(',')
                write(item, out, sorted)
            }
            out.append(']')
        }
        is Json.Obj -> {
            // By UTF-16 units, as the RFC sorts and as Kotlin compares strings.
            val keys = if (sorted) value.fields.keys.sorted() else value.fields.keys
            out.append('{')
            keys.forEachIndexed { place, key ->
                if (place > 0) out.append(',')
                quote(key, out)
                out.append(':')
                write(value.fields.getValue(key), out, sorted)
            }
            out.append('}')
        }
    }
}

private fun quote(
    text: String,
    out: StringBuilder,
) {
    out.append('"')
    for (letter in text) {
        when {
            letter == '"' || letter == '\\' -> out.append('\\').append(letter)
            letter == '\b' -> out.append("\\b")
            letter == '\u000c' -> out.append("\\f")
            letter == '\n' -> out.append("\\n")
            letter == '\r' -> out.append("\\r")
            letter == '\t' -> out.append("\\t")
            letter < ' ' -> out.append("\\u00").append(letter.code.toString(16).padStart(2, '0'))
            else -> out.append(letter)
        }
    }
    out.append('"')
}

/**
 * A double as ECMAScript writes it: the fewest digits that give it back, of those the nearest.
 *
 * Not `Double.toString`, which before Java 19 and on Android sometimes writes more digits than it must.
 */
public fun ecmaNumber(value: Double): String {
    require(value.isFinite()) { "no JSON has $value" }
    if (value == 0.0) return "0"
    val (digits, exponent) = shortest(kotlin.math.abs(value))
    val sign = if (value < 0) "-" else ""
    val count = digits.length
    return sign +
        when {
            exponent in count..21 -> digits + "0".repeat(exponent - count)
            exponent in 1..21 -> digits.substring(0, exponent) + "." + digits.substring(exponent)
            exponent in -5..0 -> "0." + "0".repeat(-exponent) + digits
            else -> {
                val power = exponent - 1
                val tail = if (count > 1) "." + digits.substring(1) else ""
                digits.substring(0, 1) + tail + "e" + (if (power < 0) "-" else "+") + kotlin.math.abs(power)
            }
        }
}

/** Digits d without zeros at the end and a power e, so that the value is 0.d times 10 to the e. */
private fun shortest(value: Double): Pair<String, Int> {
    val exact = BigDecimal(value)
    for (precision in 1..17) {
        val near =
            listOf(RoundingMode.DOWN, RoundingMode.UP)
                .map { exact.round(MathContext(precision, it)) }
                .filter { it.toDouble() == value }
                .minByOrNull { (it - exact).abs() } ?: continue
        val plain = near.stripTrailingZeros()
        val digits = plain.unscaledValue().toString()
        return digits to digits.length - plain.scale()
    }
    throw IllegalStateException("17 digits identify every double")
}
