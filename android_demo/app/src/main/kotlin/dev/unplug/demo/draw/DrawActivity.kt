package dev.unplug.demo.draw

import ai.unplug.core.draw.Order
import ai.unplug.core.draw.Pipeline
import ai.unplug.core.draw.Steer
import android.content.ActivityNotFoundException
import android.content.ClipData
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.widget.AdapterView
import android.widget.ArrayAdapter
import android.widget.Button
import android.widget.EditText
import android.widget.ProgressBar
import android.widget.SeekBar
import android.widget.Spinner
import android.widget.TextView
import dev.unplug.demo.FilesProvider
import dev.unplug.demo.R
import dev.unplug.demo.Screen
import dev.unplug.demo.age.bitmap
import dev.unplug.demo.age.whole
import dev.unplug.demo.digits
import dev.unplug.demo.show
import java.io.ByteArrayOutputStream
import java.security.SecureRandom

/** Takes words and a guide and draws a picture. */
class DrawActivity : Screen<DrawState>() {
    private val prompt by lazy { findViewById<EditText>(R.id.prompt) }
    private val variant by lazy { findViewById<Spinner>(R.id.variant) }
    private val guide by lazy { findViewById<Spinner>(R.id.guide) }
    private val sketch by lazy { findViewById<SketchView>(R.id.sketch) }
    private val strength by lazy { findViewById<SeekBar>(R.id.strength) }
    private val steps by lazy { findViewById<SeekBar>(R.id.steps) }
    private val seed by lazy { findViewById<EditText>(R.id.seed) }
    private var laidOut: Pipeline? = null
    private var saved: Bundle? = null

    /** The variant whose steps the screen shows: a spinner also reports choices that the user did not make. */
    private var suited = 0

    override fun begin(saved: Bundle?) = DrawState(app)

    @Deprecated("Deprecated in Java")
    override fun onCreate(saved: Bundle?) {
        @Suppress("DEPRECATION")
        super.onCreate(saved)
        this.saved = saved
        setContentView(R.layout.activity_draw)
        findViewById<View>(R.id.go).setOnClickListener { if (model.drawing) model.stop() else draw() }
        findViewById<View>(R.id.share).setOnClickListener { share() }
        findViewById<View>(R.id.seed_new).setOnClickListener { seed.setText(newSeed()) }
        findViewById<View>(R.id.guide_photo).setOnClickListener { choosePhoto() }
        findViewById<View>(R.id.guide_clear).setOnClickListener { clear() }
        follow(strength) { findViewById<TextView>(R.id.strength_label).text = getString(R.string.draw_strength, strengthOf().digits(2)) }
        follow(steps) { findViewById<TextView>(R.id.steps_label).text = getString(R.string.draw_steps, steps.progress + 1) }
        if (saved == null) seed.setText("0")
    }

    override fun onStart() {
        super.onStart()
        model.watch(::show)
    }

    override fun onStop() {
        super.onStop()
        model.leave()
    }

    override fun onDestroy() {
        super.onDestroy()
        if (isFinishing) model.stop()
    }

    override fun onSaveInstanceState(out: Bundle) {
        super.onSaveInstanceState(out)
        if (laidOut == null) return saved?.let(out::putAll) ?: Unit
        out.putInt(VARIANT, variant.selectedItemPosition)
        out.putInt(GUIDE, guide.selectedItemPosition)
        out.putInt(STEPS, steps.progress)
        val png = ByteArrayOutputStream().also { sketch.picture.bitmap().compress(android.graphics.Bitmap.CompressFormat.PNG, 100, it) }
        out.putByteArray(SKETCH, png.toByteArray())
    }

    private fun show() {
        val pipeline = model.pipeline
        if (pipeline != null && laidOut !== pipeline) layOut(pipeline)
        findViewById<View>(R.id.controls).visibility = if (pipeline == null) View.GONE else View.VISIBLE
        findViewById<TextView>(R.id.alert).show(model.line)
        findViewById<TextView>(R.id.said).text = model.said
        findViewById<SquareImage>(R.id.picture).apply {
            setImageBitmap(model.picture)
            contentDescription = getString(R.string.draw_picture_of, prompt.text)
        }
        findViewById<View>(R.id.picture_hint).visibility = if (model.picture == null && pipeline != null) View.VISIBLE else View.GONE
        findViewById<Button>(R.id.go).apply {
            isEnabled = pipeline != null
            setText(if (model.drawing) R.string.cancel else R.string.draw_go)
        }
        findViewById<View>(R.id.share).isEnabled = !model.drawing && model.picture != null
        findViewById<ProgressBar>(R.id.progress).apply {
            val progress = model.progress
            visibility = if (progress == null) View.INVISIBLE else View.VISIBLE
            max = progress?.second ?: 1
            this.progress = progress?.first ?: 0
        }
        model.guide?.let(sketch::show)
        model.guide = null
    }

    /** What depends on the generator: its plugins, its steps, the size of its pictures. */
    private fun layOut(pipeline: Pipeline) {
        laidOut = pipeline
        val names = listOf(getString(R.string.draw_words_only)) + pipeline.plugins.values.map { nameOf(it.condition) }
        offer(guide, names, ::showGuide)
        offer(variant, listOf(getString(R.string.draw_variant_none, pipeline.name)) + variants, ::suit)
        findViewById<View>(R.id.variant_box).visibility = if (variants.isEmpty()) View.GONE else View.VISIBLE
        findViewById<TextView>(R.id.packs).show(pipeline.packs.values.joinToString().ifEmpty { null }?.let { getString(R.string.draw_packs, it) })
        steps.max = MOST_STEPS - 1
        sketch.clear(pipeline.imageSize)
        val kept = saved
        steps.progress = kept?.getInt(STEPS) ?: (pipeline.defaults.steps - 1)
        suited = (kept?.getInt(VARIANT) ?: 0).coerceIn(0, variants.size)
        variant.setSelection(suited)
        guide.setSelection((kept?.getInt(GUIDE) ?: 0).coerceIn(0, names.size - 1))
        kept?.getByteArray(SKETCH)?.let { android.graphics.BitmapFactory.decodeByteArray(it, 0, it.size) }?.let { sketch.show(it.whole()) }
        showGuide()
    }

    private fun offer(
        spinner: Spinner,
        names: List<String>,
        chosen: () -> Unit,
    ) {
        spinner.adapter = ArrayAdapter(this, android.R.layout.simple_spinner_item, names).apply { setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item) }
        spinner.onItemSelectedListener =
            object : AdapterView.OnItemSelectedListener {
                override fun onItemSelected(
                    parent: AdapterView<*>?,
                    view: View?,
                    position: Int,
                    id: Long,
                ) = chosen()

                override fun onNothingSelected(parent: AdapterView<*>?) = chosen()
            }
    }

    /** Those that are chosen by name: packs are not. */
    private val variants get() = laidOut?.run { variants.keys - packs.keys }.orEmpty()

    private fun variantOf(): String? = variants.elementAtOrNull(variant.selectedItemPosition - 1)

    /** The steps of a variant that was just chosen. */
    private fun suit() {
        val pipeline = laidOut ?: return
        if (variant.selectedItemPosition == suited) return
        suited = variant.selectedItemPosition
        steps.progress = pipeline.defaultsOf(variantOf()).steps - 1
    }

    private fun nameOf(condition: String): String =
        when (condition) {
            "canny" -> getString(R.string.guide_canny)
            "face_landmark" -> getString(R.string.guide_face_landmark)
            "holistic" -> getString(R.string.guide_holistic)
            "depth" -> getString(R.string.guide_depth)
            else -> condition
        }

    private fun plugin(): String? = laidOut?.plugins?.keys?.elementAtOrNull(guide.selectedItemPosition - 1)

    private fun condition(): String? = plugin()?.let { laidOut?.plugins?.get(it)?.condition }

    private fun showGuide() {
        findViewById<View>(R.id.guide_box).visibility = if (plugin() == null) View.GONE else View.VISIBLE
        sketch.pen = condition() == "canny"
        sketch.contentDescription = getString(R.string.draw_sketch)
    }

    private fun clear() {
        laidOut?.let { sketch.clear(it.imageSize) }
    }

    private fun strengthOf() = strength.progress / 20.0

    private fun draw() {
        val number = seed.text.toString().toULongOrNull() ?: return model.say(getString(R.string.draw_seed_wrong))
        val steers = plugin()?.let { listOf(Steer(it, sketch.picture, strengthOf())) }.orEmpty()
        model.draw(Order(prompt = prompt.text.toString(), seed = number, steps = steps.progress + 1, steers = steers, variant = variantOf()))
    }

    private fun newSeed() = SecureRandom().nextInt(1_000_000).toString()

    private fun choosePhoto() {
        val intent = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("image/*")
        try {
            @Suppress("DEPRECATION")
            startActivityForResult(intent, PHOTO)
        } catch (none: ActivityNotFoundException) {
            model.say(getString(R.string.no_picker))
        }
    }

    @Deprecated("Deprecated in Java")
    override fun onActivityResult(
        code: Int,
        result: Int,
        data: Intent?,
    ) {
        val uri = data?.data ?: return
        val condition = condition() ?: return
        if (result == RESULT_OK) model.guideFrom(uri, condition)
    }

    private fun share() {
        val (file, uri) = FilesProvider.of(this, "unplug.png")
        app.work.run({ model.finished.copyTo(file, overwrite = true) }) { result ->
            result.exceptionOrNull()?.let { model.say(it.message.orEmpty()) } ?: startActivity(Intent.createChooser(sending(uri), null))
        }
    }

    private fun sending(uri: android.net.Uri) =
        Intent(Intent.ACTION_SEND).setType("image/png").putExtra(Intent.EXTRA_STREAM, uri).addFlags(Intent.FLAG_GRANT_READ_URI_PERMISSION).apply {
            clipData = ClipData.newRawUri(null, uri)
        }

    private fun follow(
        bar: SeekBar,
        moved: () -> Unit,
    ) {
        bar.setOnSeekBarChangeListener(
            object : SeekBar.OnSeekBarChangeListener {
                override fun onProgressChanged(
                    bar: SeekBar,
                    progress: Int,
                    fromUser: Boolean,
                ) = moved()

                override fun onStartTrackingTouch(bar: SeekBar) = Unit

                override fun onStopTrackingTouch(bar: SeekBar) = Unit
            },
        )
        moved()
    }

    private companion object {
        const val PHOTO = 1
        const val MOST_STEPS = 50
        const val VARIANT = "variant"
        const val GUIDE = "guide"
        const val STEPS = "steps"
        const val SKETCH = "sketch"
    }
}
