package ai.unplug.core.draw

/** The portable noise stream of docs/formats.md: number k of a stream depends on seed, stream and k alone. */
public object Noise {
    /** The stream of a picture's first latent. */
    public const val INITIAL: ULong = 0u
    private const val ROUNDS = 10
    private const val MASK = 0xffffffffL
    private const val MAX_COUNT = 1 shl 28

    /**
     * Philox4x32-10: four random words of one counter, least significant word first.
     *
     * Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011.
     */
    public fun philox(
        counter: IntArray,
        key: IntArray,
    ): IntArray {
        var (c0, c1, c2, c3) = counter
        var (k0, k1) = key
        repeat(ROUNDS) {
            val p = 0xD2511F53L * (c0.toLong() and MASK)
            val q = 0xCD9E8D57L * (c2.toLong() and MASK)
            c0 = (q ushr 32).toInt() xor c1 xor k0
            c1 = q.toInt()
            c2 = (p ushr 32).toInt() xor c3 xor k1
            c3 = p.toInt()
            k0 += 0x9E3779B9L.toInt()
            k1 += 0xBB67AE85L.toInt()
        }
        return intArrayOf(c0, c1, c2, c3)
    }

    /** The first words of a stream: word k is word k mod 4 of the block with the counter floor(k / 4). */
    public fun words(
        seed: ULong,
        stream: ULong,
        count: Int,
    ): IntArray {
        require(count in 0..MAX_COUNT) { "$count numbers of the noise stream" }
        val key = intArrayOf(seed.toInt(), (seed shr 32).toInt())
        val found = IntArray(count)
        for (block in 0 until (count + 3) / 4) {
            val words = philox(intArrayOf(block, 0, stream.toInt(), (stream shr 32).toInt()), key)
            for (place in 0 until minOf(4, count - 4 * block)) found[4 * block + place] = words[place]
        }
        return found
    }

    /** (word + 1/2) / 2^32, exactly: neither 0 nor 1 is ever drawn. */
    public fun uniform(word: Int): Double = ((word.toLong() and MASK) + 0.5) / 4294967296.0

    /**
     * The first standard normals of a stream, by Box and Muller in float64, rounded to float32 at the end.
     *
     * StrictMath, so that every phone draws the same.
     */
    public fun normals(
        seed: ULong,
        stream: ULong,
        count: Int,
    ): FloatArray = normalsOf(words(seed, stream, count + count % 2)).copyOf(count)

    /** [normals] out of an even number of words. */
    public fun normalsOf(words: IntArray): FloatArray {
        val found = FloatArray(words.size)
        for (place in words.indices step 2) {
            val radius = StrictMath.sqrt(-2.0 * StrictMath.log(uniform(words[place])))
            val angle = 2.0 * Math.PI * uniform(words[place + 1])
            found[place] = (radius * StrictMath.cos(angle)).toFloat()
            found[place + 1] = (radius * StrictMath.sin(angle)).toFloat()
        }
        return found
    }
}
