package dev.unplug.demo.bundle

import ai.unplug.core.DataError
import ai.unplug.core.UnplugError
import ai.unplug.core.bundle.Bundle
import ai.unplug.core.bundle.PublicKey
import ai.unplug.core.bundle.Publication
import ai.unplug.core.bundle.Trust
import ai.unplug.core.text
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import java.time.Instant

/** A bundle that lies on the phone: it opens, or why it does not. */
class Kept(
    val file: File,
    val bundle: Bundle?,
    val error: UnplugError?,
)

/** A key whose signatures count; one that came with the app cannot be removed. */
class TrustedKey(
    val key: PublicKey,
    val builtIn: Boolean,
)

/**
 * The bundles that the app holds, one zip file a product, and whom it trusts.
 *
 * A new release of a product takes the place of the last, never the other way round: what was seen of a product is kept next to it.
 * Nothing here runs on the main thread.
 *
 * @param folder the app's own folder, where nothing else writes.
 * @param asset opens a file that was put there when the app was built, or gives null: `bundle.unplug` and `trust.json`.
 * @param now the time, by which bundles expire.
 */
class Shelf(
    private val folder: File,
    private val asset: (String) -> InputStream?,
    private val now: () -> Instant,
) {
    private val seen = File(folder, "seen")
    private val ownKeys = File(folder, "keys.json")
    private val opened = HashMap<File, Pair<List<Any>, Kept>>()

    /** All bundles that lie here, checked when they are new, when the trusted keys change, and each time the app starts. */
    @Synchronized
    fun look(): List<Kept> {
        takeAsset()
        val keys = keys().map { it.key.hint }
        opened.keys.retainAll(files().toSet())
        return files().map { file ->
            val stamp = listOf(file.length(), file.lastModified(), keys)
            val known = opened[file]?.takeIf { it.first == stamp && !expired(it.second) }
            (known?.second ?: checked(file)).also { opened[file] = stamp to it }
        }
    }

    private fun checked(file: File): Kept =
        try {
            Kept(file, open(file), null)
        } catch (error: UnplugError) {
            Kept(file, null, error)
        }

    private fun expired(kept: Kept) = kept.bundle?.manifest?.publication?.expires?.let { it <= now() } ?: false

    /**
     * The bundle that holds models of one of some kinds.
     *
     * @param modelTypes "age" say; none takes any.
     * @throws DataError there is none; or why the one that is here does not open.
     */
    fun need(vararg modelTypes: String): Bundle {
        val kept = look()
        kept.mapNotNull { it.bundle }.firstOrNull { modelTypes.isEmpty() || it.manifest.modelType in modelTypes }?.let { return it }
        kept.firstNotNullOfOrNull { it.error }?.let { throw it }
        throw DataError("bundle", "no bundle for this screen is on the phone", "Open Bundles on the first screen to import one")
    }

    /**
     * Takes a zip file in, if it may be used: whole, or not at all.
     *
     * @throws UnplugError why it may not.
     * @throws IOException it cannot be read, or the storage is full.
     */
    @Synchronized
    fun take(bytes: InputStream): Bundle {
        val incoming = write("incoming") { out -> copy(bytes, out) }
        try {
            val bundle = open(incoming)
            val said = bundle.manifest.publication
            remember(said)
            val place = File(folder, "${said.name}$SUFFIX")
            replace(incoming, place)
            opened.remove(place)
            return bundle
        } finally {
            incoming.delete()
        }
    }

    @Synchronized
    fun remove(file: File) {
        require(file.parentFile == folder) { "$file lies elsewhere" }
        file.delete()
    }

    /** The keys that this phone trusts. */
    @Synchronized
    fun keys(): List<TrustedKey> {
        val builtIn = asset("trust.json")?.use { Trust.of(it.readBytes().toString(Charsets.UTF_8)).keys }.orEmpty()
        return builtIn.map { TrustedKey(it, true) } + own().filter { key -> builtIn.none { it.hint == key.hint } }.map { TrustedKey(it, false) }
    }

    @Synchronized
    fun trust(key: PublicKey) = keep(own().filter { it.hint != key.hint } + key)

    @Synchronized
    fun distrust(key: PublicKey) = keep(own().filter { it.hint != key.hint })

    private fun files() = folder.listFiles().orEmpty().filter { it.isFile && it.name.endsWith(SUFFIX) }.sortedBy { it.name }

    private fun open(file: File): Bundle = trusted({ it.manifest.publication }) { trust, now -> Bundle.open(file, trust, now) }

    /** Checked by the keys first, since only a signed bundle says of which product it is, then against what was seen of that. */
    @Synchronized
    internal fun <T> trusted(
        said: (T) -> Publication,
        open: (Trust, Instant) -> T,
    ): T {
        val first = open(Trust(keys().map { it.key }), now())
        val name = said(first).name
        return if (seenFile(name).isFile) open(knownOf(name), now()) else first
    }

    /** Nothing older than this release opens from here on, nor what it takes back. */
    @Synchronized
    internal fun remember(said: Publication) = replace(write("seen.new") { it.write(knownOf(said.name).after(said).json().text().toByteArray()) }, seenFile(said.name))

    private fun knownOf(name: String): Trust {
        val trust = Trust(keys().map { it.key })
        val file = seenFile(name)
        return if (file.isFile) Trust.of(file.readText()).copy(keys = trust.keys) else trust
    }

    private fun seenFile(name: String) = File(seen, "$name.json")

    private fun own(): List<PublicKey> = if (ownKeys.isFile) Trust.of(ownKeys.readText()).keys else emptyList()

    private fun keep(keys: List<PublicKey>) = replace(write("keys.new") { it.write(Trust(keys).json().text().toByteArray()) }, ownKeys)

    /** The bundle that the app was built with, once: a newer release that came since stays. */
    private fun takeAsset() {
        if (files().isEmpty()) asset("bundle.unplug")?.use(::take)
    }

    private fun write(
        name: String,
        fill: (FileOutputStream) -> Unit,
    ): File {
        if (!folder.isDirectory && !folder.mkdirs()) throw IOException("$folder cannot be made")
        seen.mkdirs()
        val file = File(folder, name)
        try {
            FileOutputStream(file).use { out ->
                fill(out)
                out.fd.sync()
            }
        } catch (error: Exception) {
            file.delete()
            throw error
        }
        return file
    }

    private fun replace(
        new: File,
        old: File,
    ) {
        if (!new.renameTo(old)) throw IOException("${old.name} cannot be written")
    }

    companion object {
        private const val SUFFIX = ".unplug"
        private const val MAX_BYTES = 512L shl 20

        /** Copies until the end, or until it is more than any bundle. */
        internal fun copy(
            from: InputStream,
            to: FileOutputStream,
            maxBytes: Long = MAX_BYTES,
        ) {
            val buffer = ByteArray(1 shl 16)
            var total = 0L
            while (true) {
                val count = from.read(buffer)
                if (count < 0) return
                total += count
                if (total > maxBytes) throw DataError("file", "it is larger than ${maxBytes shr 20} MiB", "Choose a bundle's zip file")
                to.write(buffer, 0, count)
            }
        }
    }
}
