package dev.unplug.demo.age

import ai.unplug.core.age.Label
import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.text.TextPaint
import android.text.TextUtils
import android.util.AttributeSet
import android.util.TypedValue
import android.view.View
import dev.unplug.demo.R
import kotlin.math.roundToInt

/** The probability in whole percent. */
val Label.percent: Int get() = (100 * probability).roundToInt()

/** A bar for each label, as long as the label is probable. */
class BarsView(
    context: Context,
    attributes: AttributeSet?,
) : View(context, attributes) {
    private val text = TextPaint(Paint.ANTI_ALIAS_FLAG).apply { textSize = sp(13f) }
    private val fill = Paint(Paint.ANTI_ALIAS_FLAG)
    private var labels: List<Label> = emptyList()

    fun show(labels: List<Label>) {
        this.labels = labels
        contentDescription = labels.joinToString("; ") { context.getString(R.string.age_group_share, it.name, it.percent) }
        requestLayout()
        invalidate()
    }

    private fun rowHeight() = 1.75f * text.textSize

    override fun onMeasure(
        width: Int,
        height: Int,
    ) = setMeasuredDimension(getDefaultSize(0, width), (rowHeight() * labels.size).roundToInt())

    override fun onDraw(canvas: Canvas) {
        if (labels.isEmpty()) return
        val best = labels.maxOf { it.probability }
        val names = labels.map { TextUtils.ellipsize(it.name, text, width / 2f, TextUtils.TruncateAt.END).toString() }
        val label = names.maxOf(text::measureText) + sp(12f)
        val number = text.measureText("100 %") + sp(8f)
        val track = width - label - number
        for ((row, one) in labels.withIndex()) {
            val top = row * rowHeight()
            val bar = 0.5f * text.textSize
            val middle = top + rowHeight() / 2
            text.color = context.getColor(if (one.probability == best) R.color.ink else R.color.soft)
            canvas.drawText(names[row], 0f, middle + 0.36f * text.textSize, text)
            fill.color = context.getColor(R.color.line)
            canvas.drawRoundRect(label, middle - bar / 2, label + track, middle + bar / 2, bar, bar, fill)
            fill.color = context.getColor(R.color.accent)
            if (one.percent > 0) {
                canvas.drawRoundRect(label, middle - bar / 2, label + maxOf(bar, track * one.probability.toFloat()), middle + bar / 2, bar, bar, fill)
            }
            val share = "${one.percent} %"
            canvas.drawText(share, width - text.measureText(share), middle + 0.36f * text.textSize, text)
        }
    }

    private fun sp(value: Float) = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, value, resources.displayMetrics)
}
