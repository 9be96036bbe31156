package dev.unplug.demo.forget

import ai.unplug.core.InputError
import ai.unplug.core.head.Change
import ai.unplug.core.head.OwnHead
import ai.unplug.core.head.OwnPicture
import ai.unplug.core.head.Proof
import ai.unplug.core.head.Trunk
import ai.unplug.core.picture.Frame
import android.graphics.Bitmap
import android.net.Uri
import dev.unplug.demo.DemoApp
import dev.unplug.demo.Watched
import dev.unplug.demo.age.decode
import dev.unplug.demo.age.whole
import dev.unplug.demo.line
import java.io.FileNotFoundException

/** A photograph that may be added. */
class Asked(
    val photo: Bitmap,
    val pooled: DoubleArray,
)

/**
 * What the screen shows of a head; made off the main thread.
 *
 * @property labels those that the head tells; none: it tells ages.
 * @property rows the owner's pictures, and what all of them changed about each.
 * @property change the same of the photograph that was chosen; null where none was.
 */
class ShownHead(
    val own: OwnHead,
    asked: Asked?,
) {
    val labels: List<String> = own.head.facts.classes
    val rows: List<Pair<OwnPicture, Change>> = own.pictures.map { it to own.change(it.pooled) }
    val change: Change? = asked?.let { own.change(it.pooled) }
    val proof: Proof = own.proof()
}

/**
 * The state of the forgetting screen.
 *
 * @property photo the chosen photograph, or null.
 */
class ForgetState(
    private val app: DemoApp,
    var photo: Uri?,
) : Watched() {
    var shown: ShownHead? = null
        private set
    var asked: Asked? = null
        private set
    var line: String? = null
        private set
    var busy = false
        private set

    init {
        act({ if (shown != null) photo?.let(::look) }) { app.heads.look()?.let { ShownHead(it, null) } }
    }

    /** A head, as a zip file; the owner's pictures over the same trunk go into it. */
    fun take(uri: Uri) =
        act {
            app.contentResolver.openInputStream(uri)?.use(app.heads::take) ?: throw FileNotFoundException()
            asked = null
            app.heads.look()?.let { ShownHead(it, null) }
        }

    fun look(uri: Uri) {
        photo = uri
        act {
            asked = read(uri)
            shown?.let { ShownHead(it.own, asked) }
        }
    }

    /** Adds the chosen photograph with its owner's age, as it was typed. */
    fun add(age: String) = add { age.replace(',', '.').toDoubleOrNull() ?: throw InputError("age", "it is not a number", "Give years") }

    /** Adds the chosen photograph with the number of its label. */
    fun add(label: Int) = add { label.toDouble() }

    private fun add(truth: () -> Double) {
        val pooled = asked?.pooled ?: return
        change { it.add(pooled, truth()) }
    }

    fun remove(number: Int) = change { it.remove(number) }

    fun removeAll() = change { it.removeAll() }

    private fun change(how: (OwnHead) -> OwnHead) =
        act {
            val now = how(checkNotNull(shown).own)
            app.heads.keep(now)
            ShownHead(now, asked)
        }

    /** The trunk's features of a photograph; the bundle of an age model says where the eyes of a face go, where the head tells ages. */
    private fun read(uri: Uri): Asked {
        val photo = decode(app.contentResolver, uri)
        app.heads.open().use { folder ->
            val bundles = if (folder.head.facts.classes.isEmpty()) app.shelf.look() else emptyList()
            val bundle = bundles.firstNotNullOfOrNull { kept -> kept.bundle?.takeIf { it.manifest.modelType == "age" } }
            val frame = bundle?.let { Frame.of(it.manifest.preprocessing) }
            val (trunk, way) = app.engines.choose(folder.trunks)
            app.engines.open(way, trunk.path, folder.read(trunk)).use { engine ->
                val faces = if (frame == null) emptyList() else app.eyes.find(photo)
                return Asked(photo, Trunk(engine, trunk.iospec, frame).pooled(photo.whole(), faces))
            }
        }
    }

    private fun act(
        then: () -> Unit = {},
        task: () -> ShownHead?,
    ) {
        if (busy) return
        busy = true
        line = null
        app.work.run({ task() }) { result ->
            busy = false
            shown = result.getOrNull() ?: shown
            line = result.exceptionOrNull()?.let { app.line(it) }
            changed()
            then()
        }
        changed()
    }
}
