package dev.unplug.demo.bundle

import ai.unplug.core.DataError
import ai.unplug.core.bundle.PublicKey
import ai.unplug.core.bundle.Trust
import android.net.Uri
import dev.unplug.demo.DemoApp
import dev.unplug.demo.R
import dev.unplug.demo.Watched
import dev.unplug.demo.draw.isGenerator
import dev.unplug.demo.line
import java.io.File
import java.io.FileNotFoundException
import java.io.InputStream

/** The state of the bundle screen. */
class BundleState(
    private val app: DemoApp,
) : Watched() {
    var kept: List<Kept> = emptyList()
        private set
    var keys: List<TrustedKey> = emptyList()
        private set
    var generator: List<String>? = null
        private set
    var line: String? = null
        private set
    var said: String? = null
        private set

    /** A key that came in and that nobody has said yes to. */
    var asked: PublicKey? = null
        private set

    init {
        refresh()
        takeInbox()
    }

    fun take(uri: Uri) = act { app.contentResolver.openInputStream(uri)?.use(::takeIn) ?: throw FileNotFoundException() }

    fun readKey(uri: Uri) =
        app.work.run({ app.contentResolver.openInputStream(uri)?.use(::keyIn) ?: throw FileNotFoundException() }) { result ->
            asked = result.getOrNull()
            line = result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }

    /** What the user says of the key that was [asked] about. */
    fun answer(yes: Boolean) {
        val key = asked ?: return
        asked = null
        if (yes) {
            act {
                app.shelf.trust(key)
                null
            }
        }
        if (yes) takeInbox()
    }

    fun distrust(key: PublicKey) =
        act {
            app.shelf.distrust(key)
            null
        }

    fun remove(kept: Kept) =
        act {
            app.shelf.remove(kept.file)
            null
        }

    fun removeGenerator() =
        act {
            app.generators.remove()
            null
        }

    /** What adb put into the inbox: a key is asked about, a bundle is taken when its key is trusted. */
    private fun takeInbox() =
        act {
            val files = app.inbox?.listFiles().orEmpty().filter { it.isFile }.sortedBy { it.name }
            val known = app.shelf.keys().map { it.key.hint }
            val waiting = files.filter { it.extension == "pub" }.map { file -> file to file.inputStream().use(::keyIn) }
            val key = waiting.firstOrNull { it.second.hint !in known }
            waiting.filter { it.second.hint in known }.forEach { it.first.delete() }
            if (key != null) {
                app.work.tell { ask(key) }
                null
            } else {
                files.filter { it.extension != "pub" }.map { file -> takeFile(file) }.lastOrNull()
            }
        }

    private fun ask(key: Pair<File, PublicKey>) {
        asked = key.second
        key.first.delete()
        changed()
    }

    private fun takeFile(file: File): String =
        try {
            file.inputStream().use(::takeIn)
        } finally {
            file.delete()
        }

    /** A zip file: a bundle, or a generator; told apart by what lies in it. */
    private fun takeIn(bytes: InputStream): String {
        val copy = File.createTempFile("taken", ".zip", app.cacheDir)
        try {
            copy.outputStream().use { Shelf.copy(bytes, it, MAX_BYTES) }
            if (isGenerator(copy)) {
                app.generators.take(copy)
                return app.getString(R.string.bundle_generator_taken)
            }
            val said = copy.inputStream().use(app.shelf::take).manifest.publication
            return app.getString(R.string.bundle_taken, said.release, said.name)
        } finally {
            copy.delete()
        }
    }

    private fun keyIn(bytes: InputStream): PublicKey {
        val text = ByteArray(MAX_KEY).let { String(it, 0, maxOf(0, bytes.readNBytesInto(it)), Charsets.UTF_8) }
        return Trust.of(text).keys.singleOrNull() ?: throw DataError("key", "the file holds several keys", "Add them one by one")
    }

    private fun InputStream.readNBytesInto(buffer: ByteArray): Int {
        var total = 0
        while (total < buffer.size) {
            val count = read(buffer, total, buffer.size - total)
            if (count < 0) break
            total += count
        }
        return total
    }

    private fun act(task: () -> String?) {
        line = null
        app.work.run({ task() }) { result ->
            said = result.getOrNull() ?: said
            line = result.exceptionOrNull()?.let { app.line(it) }
            refresh()
        }
    }

    private fun refresh() {
        app.work.run({ Triple(app.shelf.look(), app.shelf.keys(), app.generators.partsOrNull()) }) { result ->
            result.onSuccess { (bundles, trusted, parts) ->
                kept = bundles
                keys = trusted
                generator = parts
            }
            line = line ?: result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }
    }

    private companion object {
        const val MAX_KEY = 1 shl 16
        const val MAX_BYTES = 2L shl 30
    }
}
