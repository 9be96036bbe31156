package ai.unplug.core.draw

import ai.unplug.core.Json
import ai.unplug.core.Vectors
import ai.unplug.core.base64
import ai.unplug.core.condition.canny
import ai.unplug.core.double
import ai.unplug.core.doubles
import ai.unplug.core.floats
import ai.unplug.core.get
import ai.unplug.core.has
import ai.unplug.core.int
import ai.unplug.core.items
import ai.unplug.core.near
import ai.unplug.core.picture.Picture
import ai.unplug.core.string
import ai.unplug.core.wide
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals

/** The checks of tests/vectors/pipeline, of an implementation that is handed in: the right one, or one with a planted fault. */
object PipelineVectors {
    /** The tolerance of normals: 4 units in the last place of float32, and an absolute end near zero; logarithms and cosines differ by a bit. */
    const val NORMAL = 4.0 / (1 shl 23)
    const val NORMAL_LEAST = 1e-7

    /** The tolerance of coefficients: float64 in another order, rounded to float32 once. */
    const val TABLE = 2e-6
    const val TABLE_LEAST = 1e-6

    /** The tolerance of latents, relative to the largest of each step. */
    const val LATENT = 1e-5

    fun tokenizer(change: (Json.Obj) -> Json.Obj = { it }): Tokenizer = Tokenizer.of(change(Vectors.json("pipeline/tokenizer.json") as Json.Obj), "tokenizer.json")

    fun tokens(tokenizer: Tokenizer): Int {
        val prompts = Vectors.json("pipeline/tokens.json")["prompts"].items
        for (prompt in prompts) {
            val text = prompt["text"].string.repeat(if (prompt.has("times")) prompt["times"].int else 1)
            val found = tokenizer.encode(text)
            assertEquals(prompt["ids"].items.map { it.int }, found.ids.toList(), text.take(40))
            assertEquals(prompt["tokens"].int, found.tokens, text.take(40))
        }
        return prompts.size
    }

    /** The recorded tokenizer with learned words after its vocabulary. */
    fun learned(): Int {
        val vectors = Vectors.json("pipeline/tokens.json")["learned"]
        val tokenizer =
            tokenizer { data ->
                val words = Json.Arr(data["vocabulary"].items + vectors["words"].items)
                Json.Obj(data.fields + mapOf("vocabulary" to words, "added" to vectors["added"]))
            }
        for (prompt in vectors["prompts"].items) {
            val found = tokenizer.encode(prompt["text"].string)
            assertEquals(prompt["ids"].items.map { it.int }, found.ids.toList(), prompt["text"].string)
            assertEquals(prompt["spelled"].items.map { it.string }, found.spelled, prompt["text"].string)
        }
        return vectors["prompts"].items.size
    }

    fun noise(words: (ULong, ULong, Int) -> IntArray): Int {
        val vectors = Vectors.json("pipeline/noise.json")
        val streams = vectors["streams"].items
        for (stream in streams) {
            val (seed, number) = stream["seed"].string.toULong() to stream["stream"].int.toULong()
            val wanted = stream["words"].doubles
            assertEquals(wanted.map { it.toLong().toInt() }, words(seed, number, wanted.size).toList())
            assertEquals(stream["uniforms"].doubles.toList(), words(seed, number, wanted.size).map(Noise::uniform))
            near("normals", stream["normals"].doubles, Noise.normalsOf(words(seed, number, wanted.size)).wide(), NORMAL, NORMAL_LEAST)
            near("2047", stream["normal_2047"].doubles, doubleArrayOf(Noise.normalsOf(words(seed, number, 2048))[2047].toDouble()), NORMAL, NORMAL_LEAST)
        }
        return streams.size
    }

    fun philox(): Int {
        val blocks = Vectors.json("pipeline/noise.json")["philox"].items
        for (block in blocks) {
            fun ints(name: String) = block[name].doubles.map { it.toLong().toInt() }.toIntArray()
            assertArrayEquals(ints("words"), Noise.philox(ints("counter"), ints("key")))
        }
        return blocks.size
    }

    fun schedules(): Map<String, Schedule> = (Vectors.json("pipeline/tables.json")["schedules"] as Json.Obj).fields.mapValues { Schedule.of(it.value, "tables.json") }

    fun tables(): Int {
        val schedules = schedules()
        val rows = Vectors.json("pipeline/tables.json")["tables"].items
        for (row in rows) {
            val name = row["schedule"].string + row["solver"].string + row["steps"].int
            val found = samplingTable(schedules.getValue(row["schedule"].string), row["steps"].int, solver(row))
            assertEquals(row["timestep"].items.map { it.int }, found.timestep.toList(), name)
            val columns =
                mapOf(
                    "latent_to_data" to found.latentToData,
                    "prediction_to_data" to found.predictionToData,
                    "keep" to found.keep,
                    "data" to found.data,
                    "previous" to found.previous,
                )
            for ((key, values) in columns) near("$name $key", row[key].doubles, values.wide(), TABLE, TABLE_LEAST)
            near("$name guidance", row["guidance"].doubles, found.guidance, TABLE, TABLE_LEAST)
        }
        return rows.size
    }

    private fun solver(row: Json) = checkNotNull(Solver.of(row["solver"].string))

    fun sampling(): Int {
        val schedules = schedules()
        val vectors = Vectors.json("pipeline/sampling.json")
        val runs = vectors["runs"].items
        for (run in runs) {
            val table = samplingTable(schedules.getValue(run["schedule"].string), vectors["steps"].int, solver(run))
            var latent = Noise.normals(vectors["seed"].int.toULong(), Noise.INITIAL, run["latents"].items[0].items.size)
            var before = FloatArray(latent.size)
            for ((step, wanted) in run["latents"].items.withIndex()) {
                val (told, untold) = listOf("predictions", "negative_predictions").map { vectors[it].items[step].floats }
                val (next, data) = advance(table, step, latent, guided(told, untold, table.scale(step, vectors["guidance"].double)), before)
                latent = next
                before = data
                near("step $step", wanted.doubles, latent.wide(), 0.0, LATENT * wanted.doubles.maxOf { Math.abs(it) })
            }
        }
        return runs.size
    }

    fun edges(): Int {
        val cases = Vectors.json("pipeline/canny.json")["cases"].items
        for (case in cases) {
            val (width, height) = case["width"].int to case["height"].int
            val found = canny(Picture(width, height, case["rgb"].base64), case["low"].int, case["high"].int)
            val bits = case["edges"].base64
            for (place in 0 until width * height) {
                val wanted = if (bits[place / 8].toInt() shr (7 - place % 8) and 1 == 1) 255 else 0
                for (channel in 0..2) assertEquals(wanted, found.at(place % width, place / width, channel), "$width x $height: $place")
            }
        }
        return cases.size
    }
}
