package dev.unplug.demo.age

import ai.unplug.core.age.Decision
import ai.unplug.core.age.DecisionRule
import ai.unplug.core.bundle.FRAME_MS
import android.content.ActivityNotFoundException
import android.content.ClipData
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import android.provider.MediaStore
import android.util.TypedValue
import android.view.View
import android.widget.ImageView
import android.widget.TextView
import dev.unplug.demo.FilesProvider
import dev.unplug.demo.R
import dev.unplug.demo.Screen
import dev.unplug.demo.bundle.CertificateActivity
import dev.unplug.demo.digits
import dev.unplug.demo.plain
import dev.unplug.demo.show

/** Takes a photograph and shows an age or a label; what the model forgot is one tap away. */
class AgeActivity : Screen<AgeState>() {
    @Suppress("DEPRECATION")
    override fun begin(saved: Bundle?): AgeState = AgeState(app, saved?.getParcelable(PHOTO) ?: intent.data).apply { taking = saved?.getParcelable(TAKING) }

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        setContentView(R.layout.activity_age)
        findViewById<View>(R.id.choose).setOnClickListener { choose() }
        findViewById<View>(R.id.take).setOnClickListener { take() }
        findViewById<View>(R.id.certificate).setOnClickListener { startActivity(Intent(this, CertificateActivity::class.java)) }
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
        out.putParcelable(TAKING, model.taking)
    }

    private fun choose() {
        val intent = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("image/*")
        ask(intent, CHOOSE, R.string.no_picker)
    }

    private fun take() {
        val (_, uri) = FilesProvider.of(this, "photo-${System.currentTimeMillis()}.jpg")
        model.taking = uri
        val intent =
            Intent(MediaStore.ACTION_IMAGE_CAPTURE)
                .putExtra(MediaStore.EXTRA_OUTPUT, uri)
                .addFlags(Intent.FLAG_GRANT_WRITE_URI_PERMISSION or Intent.FLAG_GRANT_READ_URI_PERMISSION)
        intent.clipData = ClipData.newRawUri(null, uri)
        ask(intent, TAKE, R.string.no_camera)
    }

    private fun ask(
        intent: Intent,
        code: Int,
        nobody: Int,
    ) {
        try {
            @Suppress("DEPRECATION")
            startActivityForResult(intent, code)
        } catch (none: ActivityNotFoundException) {
            model.say(getString(nobody))
        }
    }

    @Deprecated("Deprecated in Java")
    override fun onActivityResult(
        code: Int,
        result: Int,
        data: Intent?,
    ) {
        if (result != RESULT_OK) return
        val uri: Uri = (if (code == TAKE) model.taking else data?.data) ?: return
        model.look(uri)
    }

    private fun show() {
        val (answered, shown) = model.answered to model.shown
        findViewById<TextView>(R.id.alert).show(model.line)
        findViewById<View>(R.id.busy).visibility = if (model.busy) View.VISIBLE else View.GONE
        findViewById<View>(R.id.photo_hint).visibility = if (shown == null && !model.busy) View.VISIBLE else View.GONE
        findViewById<View>(R.id.answer).visibility = if (answered == null) View.GONE else View.VISIBLE
        findViewById<View>(R.id.forgotten).visibility = if (answered == null) View.GONE else View.VISIBLE
        val photo = findViewById<ImageView>(R.id.photo)
        photo.setImageBitmap(shown)
        photo.contentDescription = shown?.let { getString(if (answered == null) R.string.age_photo else R.string.age_photo_of) }
        photo.importantForAccessibility = if (shown == null) View.IMPORTANT_FOR_ACCESSIBILITY_NO else View.IMPORTANT_FOR_ACCESSIBILITY_YES
        photo.setOnTouchListener(if (model.eyesAsked > 0) EyeTaps(model::show) else null)
        findViewById<TextView>(R.id.eyes).show(listOf(null, R.string.age_second_eye, R.string.age_eyes)[model.eyesAsked]?.let(::getString))
        answered?.let(::showAnswer)
    }

    private fun showAnswer(answered: Answered) {
        val (answer, model) = answered.answer to answered.model
        val (likeliest, rule) = answered.labels.first() to model?.rule
        val years = findViewById<TextView>(R.id.years)
        years.text = answer?.let { getString(R.string.age_years, it.age.digits(0)) } ?: getString(R.string.age_label, likeliest.name, likeliest.percent)
        years.setTextSize(TypedValue.COMPLEX_UNIT_SP, if (answer == null) LABEL_SP else YEARS_SP)
        val said =
            when (answer?.decision) {
                Decision.OVER -> R.string.age_over
                Decision.UNDER -> R.string.age_under
                Decision.UNSURE -> R.string.age_unsure
                null -> null
            }
        findViewById<TextView>(R.id.decision).show(said?.let { getString(it, rule?.age?.plain()) })
        val others = if (model?.isOfOthers == true) getString(R.string.age_of_others) else null
        findViewById<TextView>(R.id.limit).show(rule?.let(::limit) ?: others)
        findViewById<BarsView>(R.id.groups).show(answered.labels)
        findViewById<TextView>(R.id.square).show(if (model != null && model.frame == null) getString(R.string.age_square) else null)
        val how = getString(R.string.age_how, answered.millis.digits(1), answered.runtime)
        val member = answered.member?.let { getString(R.string.age_member, it.name, FRAME_MS.plain()) }
        findViewById<TextView>(R.id.how).text = listOfNotNull(how, member).joinToString("\n")
        val manifest = answered.bundle.manifest
        val forgot = manifest.lineage.forgetSamples.toInt()
        findViewById<TextView>(R.id.forgotten_text).text =
            getString(
                R.string.age_forgot,
                resources.getQuantityString(R.plurals.samples, forgot, forgot),
                manifest.lineage.method,
                manifest.gates.count { it.holds },
                manifest.gates.size,
            )
    }

    /** What a decision holds. */
    private fun limit(rule: DecisionRule): String {
        val sure = rule.confidence?.let { getString(R.string.age_sure, (100 * it).plain()) } ?: getString(R.string.age_sure_on_average)
        return getString(R.string.age_limit, (100 * rule.maxFpr).plain(), rule.age.plain(), (100 * rule.maxFnr).plain(), sure)
    }

    private companion object {
        const val YEARS_SP = 56f

        /** Labels are longer than ages. */
        const val LABEL_SP = 34f
        const val CHOOSE = 1
        const val TAKE = 2
        const val PHOTO = "photo"
        const val TAKING = "taking"
    }
}
