package dev.unplug.demo.age

import ai.unplug.core.age.AgeGroup
import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.util.AttributeSet
import android.util.TypedValue
import android.view.View
import dev.unplug.demo.R
import kotlin.math.roundToInt

/** A bar for each age group, as long as the group is probable. */
class BarsView(
    context: Context,
    attributes: AttributeSet?,
) : View(context, attributes) {
    private val text = Paint(Paint.ANTI_ALIAS_FLAG).apply { textSize = sp(13f) }
    private val fill = Paint(Paint.ANTI_ALIAS_FLAG)
    private var groups: List<AgeGroup> = emptyList()
    private var names: List<String> = emptyList()

    fun show(groups: List<AgeGroup>) {
        this.groups = groups
        names = groups.map(::nameOf)
        contentDescription =
            groups.indices.joinToString("; ") { context.getString(R.string.age_group_share, names[it], percent(groups[it])) }
        requestLayout()
        invalidate()
    }

    private fun nameOf(group: AgeGroup): String {
        val (from, to) = group.from.roundToInt() to group.to.roundToInt()
        return if (group === groups.last()) context.getString(R.string.age_group_last, from) else context.getString(R.string.age_group_between, from, to - 1)
    }

    private fun percent(group: AgeGroup) = (100 * group.probability).roundToInt()

    private fun rowHeight() = 1.75f * text.textSize

    override fun onMeasure(
        width: Int,
        height: Int,
    ) = setMeasuredDimension(getDefaultSize(0, width), (rowHeight() * groups.size).roundToInt())

    override fun onDraw(canvas: Canvas) {
        if (groups.isEmpty()) return
        val best = groups.maxOf { it.probability }
        val label = names.maxOf(text::measureText) + sp(12f)
        val number = text.measureText("100 %") + sp(8f)
        val track = width - label - number
        for ((row, group) in groups.withIndex()) {
            val top = row * rowHeight()
            val bar = 0.5f * text.textSize
            val middle = top + rowHeight() / 2
            text.color = context.getColor(if (group.probability == best) R.color.ink else R.color.soft)
            canvas.drawText(names[row], 0f, middle + 0.36f * text.textSize, text)
            fill.color = context.getColor(R.color.line)
            canvas.drawRoundRect(label, middle - bar / 2, label + track, middle + bar / 2, bar, bar, fill)
            fill.color = context.getColor(R.color.accent)
            if (percent(group) > 0) {
                canvas.drawRoundRect(label, middle - bar / 2, label + maxOf(bar, track * group.probability.toFloat()), middle + bar / 2, bar, bar, fill)
            }
            val share = "${percent(group)} %"
            canvas.drawText(share, width - text.measureText(share), middle + 0.36f * text.textSize, text)
        }
    }

    private fun sp(value: Float) = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, value, resources.displayMetrics)
}
