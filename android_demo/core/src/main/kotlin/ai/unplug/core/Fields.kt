package ai.unplug.core

/** Reads a record out of JSON strictly: every field that is asked for is there in its type, and no other is. */
internal class Fields(
    value: Json,
    private val what: String,
    private val known: Set<String>,
) {
    private val fields: Map<String, Json> = (value as? Json.Obj)?.fields ?: wrong("it is not a record")

    init {
        fields.keys.firstOrNull { it !in known }?.let { wrong("it has the unknown key ${shown(it)}") }
    }

    fun any(name: String): Json = fields[name] ?: wrong("it has no $name")

    fun has(name: String): Boolean = fields[name].let { it != null && it != Json.Null }

    fun text(name: String): String = (any(name) as? Json.Str)?.value ?: wrong("$name is not a text")

    fun textOrNull(name: String): String? = if (has(name)) text(name) else null

    fun number(name: String): Double = (any(name) as? Json.Num)?.value ?: wrong("$name is not a number")

    fun whole(name: String): Long = number(name).let { if (it == Math.rint(it)) it.toLong() else wrong("$name is not a whole number") }

    fun small(name: String): Int = whole(name).let { if (it in Int.MIN_VALUE..Int.MAX_VALUE) it.toInt() else wrong("$name is out of range") }

    fun flag(name: String): Boolean = (any(name) as? Json.Bool)?.value ?: wrong("$name is neither true nor false")

    fun obj(name: String): Map<String, Json> = (any(name) as? Json.Obj)?.fields ?: wrong("$name is not a record")

    fun list(name: String): List<Json> = (any(name) as? Json.Arr)?.items ?: wrong("$name is not a list")

    fun texts(name: String): List<String> = list(name).map { (it as? Json.Str)?.value ?: wrong("$name holds something other than texts") }

    fun numbers(name: String): List<Double> = list(name).map { (it as? Json.Num)?.value ?: wrong("$name holds something other than numbers") }

    fun wrong(why: String): Nothing = throw DataError(what, why, "Get it again from its maker")

    private fun shown(text: String): String = "'" + text.take(60).filter { it >= ' ' } + "'"
}
