package dev.unplug.demo.forget

import ai.unplug.core.head.Change
import ai.unplug.core.head.Said
import android.content.ActivityNotFoundException
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.ArrayAdapter
import android.widget.EditText
import android.widget.ImageView
import android.widget.Spinner
import android.widget.TextView
import dev.unplug.demo.R
import dev.unplug.demo.Screen
import dev.unplug.demo.bundle.addFacts
import dev.unplug.demo.digits
import dev.unplug.demo.plain
import dev.unplug.demo.show

/** Adds its owner's pictures to the phone's own head, shows what they change, and takes them out again without a trace. */
class ForgetActivity : Screen<ForgetState>() {
    private val label by lazy { findViewById<Spinner>(R.id.label) }
    private var offered: List<String> = emptyList()

    @Suppress("DEPRECATION")
    override fun begin(saved: Bundle?) = ForgetState(app, saved?.getParcelable(PHOTO))

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        setContentView(R.layout.activity_forget)
        findViewById<View>(R.id.import_head).setOnClickListener { choose("*/*", HEAD) }
        findViewById<View>(R.id.choose).setOnClickListener { choose("image/*", CHOOSE) }
        findViewById<View>(R.id.add).setOnClickListener { add() }
        findViewById<View>(R.id.remove_all).setOnClickListener { model.removeAll() }
    }

    override fun onStart() {
        super.onStart()
        model.watch(::show)
    }

    override fun onStop() {
        super.onStop()
        model.leave()
    }

    override fun onSaveInstanceState(out: Bundle) {
        super.onSaveInstanceState(out)
        out.putParcelable(PHOTO, model.photo)
    }

    private fun choose(
        type: String,
        code: Int,
    ) {
        val intent = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType(type)
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
        if (result == RESULT_OK) if (code == HEAD) model.take(uri) else model.look(uri)
    }

    private fun add() = if (offered.isEmpty()) model.add(findViewById<EditText>(R.id.age).text.toString()) else model.add(label.selectedItemPosition)

    /** Labels to choose from, in place of an age to type. */
    private fun offer(labels: List<String>) {
        see(R.id.label, labels.isNotEmpty())
        see(R.id.age, labels.isEmpty())
        if (labels == offered) return
        offered = labels
        label.adapter = ArrayAdapter(this, android.R.layout.simple_spinner_item, labels).apply { setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item) }
    }

    private fun show() {
        val (shown, asked) = model.shown to model.asked
        findViewById<TextView>(R.id.alert).show(model.line)
        for (id in listOf(R.id.import_head, R.id.choose, R.id.add, R.id.remove_all)) findViewById<View>(id).isEnabled = !model.busy
        findViewById<TextView>(R.id.how).text = shown?.own?.run { getString(R.string.forget_count, head.count, pictures.size) } ?: getString(R.string.forget_how)
        offer(shown?.labels.orEmpty())
        see(R.id.choose, shown != null)
        see(R.id.asked, asked != null)
        see(R.id.remove_all, shown != null && shown.rows.size > 1)
        findViewById<ImageView>(R.id.photo).setImageBitmap(asked?.photo)
        findViewById<TextView>(R.id.change).text = shown?.change?.let(::said)
        val rows = findViewById<ViewGroup>(R.id.pictures)
        rows.removeAllViews()
        for ((picture, change) in shown?.rows.orEmpty()) {
            val remove = getString(R.string.bundle_remove) to { model.remove(picture.number) }
            val truth = if (offered.isEmpty()) getString(R.string.age_years, picture.truth.plain()) else offered[picture.truth.toInt()]
            rows.addFacts(getString(R.string.forget_picture, picture.number, truth), said(change), remove)
        }
        val proof = shown?.proof ?: return
        val what = if (shown.rows.isEmpty()) R.string.forget_empty else R.string.forget_some
        rows.addFacts(
            getString(if (proof.isEqual) R.string.forget_equal else R.string.forget_unequal),
            getString(R.string.forget_proof, getString(what), proof.found.take(SHOWN), proof.never.take(SHOWN)),
        )
    }

    private fun said(change: Change) = getString(R.string.forget_change, said(change.before), said(change.now))

    private fun said(one: Said) = one.label?.run { getString(R.string.forget_share, name, (100 * probability).digits(1)) } ?: getString(R.string.age_years, one.years?.digits(1))

    private fun see(
        id: Int,
        isSeen: Boolean,
    ) {
        findViewById<View>(id).visibility = if (isSeen) View.VISIBLE else View.GONE
    }

    private companion object {
        const val HEAD = 1
        const val CHOOSE = 2
        const val PHOTO = "photo"
        const val SHOWN = 16
    }
}
