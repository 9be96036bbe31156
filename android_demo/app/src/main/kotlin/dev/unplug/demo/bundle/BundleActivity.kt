package dev.unplug.demo.bundle

import ai.unplug.core.bundle.PublicKey
import ai.unplug.core.draw.GeneratorFolder
import android.app.AlertDialog
import android.content.ActivityNotFoundException
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import android.widget.Toast
import dev.unplug.demo.R
import dev.unplug.demo.Screen
import dev.unplug.demo.line
import dev.unplug.demo.show
import java.time.Instant
import ai.unplug.core.bundle.Bundle as Models

/** What is on the phone, who signed it, and whom the phone trusts. */
class BundleActivity : Screen<BundleState>() {
    private var dialog: AlertDialog? = null
    private var told: String? = null

    override fun begin(saved: Bundle?) = BundleState(app)

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        setContentView(R.layout.activity_bundle)
        findViewById<View>(R.id.import_bundle).setOnClickListener { choose(BUNDLE) }
        findViewById<View>(R.id.import_key).setOnClickListener { choose(KEY) }
        told = model.said
    }

    override fun onStart() {
        super.onStart()
        model.watch(::show)
    }

    override fun onStop() {
        super.onStop()
        model.leave()
        dialog?.dismiss()
        dialog = null
    }

    private fun choose(code: Int) {
        val intent = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*")
        try {
            @Suppress("DEPRECATION")
            startActivityForResult(intent, code)
        } catch (none: ActivityNotFoundException) {
            findViewById<TextView>(R.id.alert).show(getString(R.string.no_picker))
        }
    }

    @Deprecated("Deprecated in Java")
    override fun onActivityResult(
        code: Int,
        result: Int,
        data: Intent?,
    ) {
        val uri = data?.data ?: return
        if (result == RESULT_OK) if (code == BUNDLE) model.take(uri) else model.readKey(uri)
    }

    private fun show() {
        findViewById<TextView>(R.id.alert).show(model.line)
        val bundles = findViewById<ViewGroup>(R.id.bundles)
        bundles.removeAllViews()
        model.kept.forEach { showKept(bundles, it) }
        model.generator?.let {
            val action = getString(R.string.bundle_remove) to { model.removeGenerator() }
            bundles.addFacts(getString(R.string.bundle_generator), it.folder?.let(::factsOf) ?: it.error?.let { line(it) }.orEmpty(), action)
        }
        findViewById<View>(R.id.none).visibility = if (bundles.childCount == 0) View.VISIBLE else View.GONE
        showKeys(findViewById(R.id.keys))
        model.said?.takeIf { it != told }?.let { Toast.makeText(this, it, Toast.LENGTH_LONG).show() }
        told = model.said
        model.asked?.let(::ask)
    }

    private fun showKept(
        bundles: ViewGroup,
        kept: Kept,
    ) {
        val action = getString(R.string.bundle_remove) to { model.remove(kept) }
        val bundle = kept.bundle
        if (bundle == null) {
            bundles.addFacts(kept.file.nameWithoutExtension, kept.error?.let { line(it) }.orEmpty(), action)
        } else {
            val said = bundle.manifest.publication
            bundles.addFacts(getString(R.string.main_release, said.release, said.name), factsOf(bundle), action)
        }
    }

    private fun factsOf(generator: GeneratorFolder): String {
        val parts = generator.pipeline.parts.keys.joinToString()
        val signed = generator.signed ?: return getString(R.string.bundle_generator_facts, parts)
        val said = signed.publication
        val release = getString(R.string.main_release, said.release, said.name)
        return getString(R.string.bundle_generator_signed, parts, release, signed.key.hint.take(SHOWN), until(said.expires))
    }

    private fun until(expires: Instant?) = expires?.let { getString(R.string.certificate_expires, it.toString().take(10)) } ?: getString(R.string.certificate_no_expiry)

    private fun factsOf(bundle: Models): String {
        val manifest = bundle.manifest
        val forgot = manifest.lineage.forgetSamples.toInt()
        return getString(
            R.string.bundle_facts,
            bundle.verified.key.hint.take(SHOWN),
            until(manifest.publication.expires),
            bundle.verified.files.size,
            manifest.gates.count { it.holds },
            manifest.gates.size,
            resources.getQuantityString(R.plurals.samples, forgot, forgot),
            manifest.lineage.method,
        )
    }

    private fun showKeys(keys: ViewGroup) {
        keys.removeAllViews()
        if (model.keys.isEmpty()) keys.addFacts(getString(R.string.bundle_no_keys_title), getString(R.string.bundle_no_keys))
        for (item in model.keys) {
            val origin = if (item.builtIn) R.string.bundle_key_builtin else R.string.bundle_key_own
            val remove = if (item.builtIn) null else getString(R.string.bundle_remove) to { model.distrust(item.key) }
            keys.addFacts(getString(R.string.bundle_key, item.key.hint.take(SHOWN)), getString(origin), remove)
        }
    }

    private fun ask(key: PublicKey) {
        if (dialog != null) return
        dialog =
            AlertDialog
                .Builder(this)
                .setTitle(R.string.bundle_trust_title)
                .setMessage(getString(R.string.bundle_trust_text, key.hint.chunked(8).joinToString(" ")))
                .setPositiveButton(R.string.bundle_trust_yes) { _, _ -> model.answer(true) }
                .setNegativeButton(R.string.cancel) { _, _ -> model.answer(false) }
                .setOnCancelListener { model.answer(false) }
                .setOnDismissListener { dialog = null }
                .show()
    }

    private companion object {
        const val BUNDLE = 1
        const val KEY = 2
        const val SHOWN = 16
    }
}
