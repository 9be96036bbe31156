package dev.unplug.demo.bundle

import ai.unplug.core.DataError
import ai.unplug.core.UnplugError
import ai.unplug.core.bundle.PublicKey
import ai.unplug.core.bundle.Refused
import ai.unplug.core.bundle.Trust
import ai.unplug.core.bundle.Verdict
import android.net.Uri
import dev.unplug.demo.DemoApp
import dev.unplug.demo.R
import dev.unplug.demo.Watched
import dev.unplug.demo.draw.KeptGenerator
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
    var generator: KeptGenerator? = null
        private set
    var line: String? = null
        private set
    var said: String? = null
        private set

    /** A key that came in and that the user has not accepted. */
    var asked: PublicKey? = null
        private set
    private var askedFile: File? = null

    init {
        refresh()
        act(::inbox)
    }

    fun take(uri: Uri) = act { app.contentResolver.openInputStream(uri)?.use(::takeIn) ?: throw FileNotFoundException() }

    fun readKey(uri: Uri) =
        app.work.run({ app.contentResolver.openInputStream(uri)?.use(::keyIn) ?: throw FileNotFoundException() }) { result ->
            result.getOrNull()?.let { ask(it, null) }
            line = result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }

    /** The user's answer about the key that was [asked] about. */
    fun answer(yes: Boolean) {
        val key = asked ?: return
        val file = askedFile
        asked = null
        askedFile = null
        act {
            file?.delete()
            if (yes) app.shelf.trust(key)
            if (yes) inbox() else null
        }
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

    /** What adb put into the inbox: a key is asked about first, then each bundle is taken. A file that is still being pushed waits. */
    private fun inbox(): String? {
        val files = app.inbox?.listFiles().orEmpty().filter { it.isFile && it.extension != "part" }.sortedBy { it.name }
        for (file in files.filter { it.extension == "pub" }) {
            val key = keyOf(file)
            if (app.shelf.keys().none { it.key.hint == key.hint }) {
                app.work.tell { ask(key, file) }
                return null
            }
            file.delete()
        }
        return files.filter { it.extension != "pub" }.map(::takeFile).lastOrNull()
    }

    private fun keyOf(file: File): PublicKey =
        try {
            file.inputStream().use(::keyIn)
        } catch (broken: DataError) {
            file.delete()
            throw broken
        }

    private fun ask(
        key: PublicKey,
        file: File?,
    ) {
        asked = key
        askedFile = file
        changed()
    }

    /** Where the disk is full, or the key may yet come, the file stays for the next time. */
    private fun takeFile(file: File): String =
        try {
            file.inputStream().use(::takeIn).also { file.delete() }
        } catch (refused: UnplugError) {
            if ((refused as? Refused)?.verdict != Verdict.UNKNOWN_KEY) file.delete()
            throw refused
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
        app.work.run({ Triple(app.shelf.look(), app.shelf.keys(), app.generators.look()) }) { result ->
            result.onSuccess { (bundles, trusted, base) ->
                kept = bundles
                keys = trusted
                generator = base
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
