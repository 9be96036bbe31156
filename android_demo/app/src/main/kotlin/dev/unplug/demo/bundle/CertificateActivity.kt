package dev.unplug.demo.bundle

import ai.unplug.core.bundle.Gate
import android.os.Bundle
import android.view.ViewGroup
import android.widget.TextView
import dev.unplug.demo.DemoApp
import dev.unplug.demo.R
import dev.unplug.demo.Screen
import dev.unplug.demo.Watched
import dev.unplug.demo.digits
import dev.unplug.demo.line
import dev.unplug.demo.show
import ai.unplug.core.bundle.Bundle as Models

/** What a bundle's signer vouches for. */
class CertificateState(
    app: DemoApp,
) : Watched() {
    var bundle: Models? = null
        private set
    var card: String? = null
        private set
    var line: String? = null
        private set

    init {
        app.work.run({ app.shelf.need("age", "classes").let { it to it.card() } }) { result ->
            bundle = result.getOrNull()?.first
            card = result.getOrNull()?.second
            line = result.exceptionOrNull()?.let { app.line(it) }
            changed()
        }
    }
}

/** What the model forgot, who says so, which gates held, and the card. */
class CertificateActivity : Screen<CertificateState>() {
    override fun begin(saved: Bundle?) = CertificateState(app)

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        setContentView(R.layout.activity_certificate)
    }

    override fun onStart() {
        super.onStart()
        model.watch(::show)
    }

    override fun onStop() {
        super.onStop()
        model.leave()
    }

    private fun show() {
        findViewById<TextView>(R.id.alert).show(model.line)
        val parts = findViewById<ViewGroup>(R.id.parts)
        parts.removeAllViews()
        val bundle = model.bundle ?: return
        lineage(parts, bundle)
        signer(parts, bundle)
        bundle.manifest.gates.forEach { gate(parts, it) }
        model.card?.let { parts.addFacts(getString(R.string.certificate_card), it.trim()) }
    }

    private fun lineage(
        parts: ViewGroup,
        bundle: Models,
    ) {
        val said = bundle.manifest.lineage
        val count = said.forgetSamples.toInt()
        val text =
            getString(
                R.string.certificate_lineage_text,
                resources.getQuantityString(R.plurals.samples, count, count),
                said.method,
                "${(100 * said.computeFraction).digits(1)} %",
                said.checkpointSha256.take(SHOWN),
                said.originalSha256.take(SHOWN),
                said.dataDigest.take(SHOWN),
                said.ledgerHead?.take(SHOWN) ?: getString(R.string.certificate_no_ledger),
            )
        parts.addFacts(getString(R.string.certificate_lineage), text)
    }

    private fun signer(
        parts: ViewGroup,
        bundle: Models,
    ) {
        val said = bundle.manifest.publication
        val until = said.expires?.let { getString(R.string.certificate_expires, it.toString().take(10)) } ?: getString(R.string.certificate_no_expiry)
        val text = getString(R.string.certificate_signed_text, said.release, said.name, bundle.verified.key.hint.take(SHOWN), bundle.id.take(SHOWN), until)
        val requests = said.requests.takeIf { it.isNotEmpty() }?.let { "\n" + getString(R.string.certificate_requests, it.joinToString()) }
        parts.addFacts(getString(R.string.certificate_signed), text + requests.orEmpty())
    }

    private fun gate(
        parts: ViewGroup,
        gate: Gate,
    ) {
        val value = gate.value?.let(::plain).orEmpty()
        val sign = if (gate.comparison == "<=") "≤" else "≥"
        parts.addFacts(
            getString(R.string.certificate_holds, gate.name),
            getString(R.string.certificate_limit, value, gate.unit, sign, plain(gate.limit), gate.detail).trim(),
        )
    }

    private fun plain(value: Double) = String.format("%.4g", value).let { if (value == Math.rint(value) && Math.abs(value) < 1e6) value.toLong().toString() else it }

    private companion object {
        const val SHOWN = 16
    }
}
