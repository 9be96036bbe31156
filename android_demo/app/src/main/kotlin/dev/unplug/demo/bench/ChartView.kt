package dev.unplug.demo.bench

import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.util.AttributeSet
import android.util.TypedValue
import android.view.View
import dev.unplug.demo.R
import dev.unplug.demo.digits
import kotlin.math.ceil
import kotlin.math.floor
import kotlin.math.log10
import kotlin.math.pow

/** Latency of each run, in order: a phone that heats up climbs. */
class ChartView(
    context: Context,
    attributes: AttributeSet?,
) : View(context, attributes) {
    private val text =
        Paint(Paint.ANTI_ALIAS_FLAG).apply {
            textSize = sp(12f)
            color = context.getColor(R.color.soft)
        }
    private val paint = Paint(Paint.ANTI_ALIAS_FLAG)
    private var starts: List<List<Double>> = emptyList()

    /** @param starts milliseconds of the runs of each cold start. */
    fun show(starts: List<List<Double>>) {
        this.starts = starts.filter { it.isNotEmpty() }
        val all = this.starts.flatten()
        contentDescription = if (all.isEmpty()) null else context.getString(R.string.bench_chart, all.min().digits(2), all.max().digits(2))
        invalidate()
    }

    override fun onDraw(canvas: Canvas) {
        val all = starts.flatten()
        if (all.isEmpty()) return
        val step = stepOf(all.max())
        val top = ceil(all.max() / step) * step
        val labels = generateSequence(0.0) { it + step }.takeWhile { it <= top + step / 2 }.toList()
        val left = labels.maxOf { text.measureText(named(it, step)) } + sp(8f)
        val (above, below) = sp(TOP) to height - sp(22f)

        fun y(value: Double) = (below - (below - above) * (value / top)).toFloat()
        paint.strokeWidth = 1f
        for (value in labels) {
            paint.color = context.getColor(R.color.line)
            canvas.drawLine(left, y(value), width.toFloat(), y(value), paint)
            val name = named(value, step)
            canvas.drawText(name, left - sp(8f) - text.measureText(name), y(value) + 0.35f * text.textSize, text)
        }
        canvas.drawText("ms", 0f, sp(12f), text)
        dots(canvas, left + sp(6f), all.size) { y(it) }
    }

    private fun dots(
        canvas: Canvas,
        left: Float,
        count: Int,
        y: (Double) -> Float,
    ) {
        val pitch = (width - left - sp(6f)) / maxOf(1, count - 1)
        var place = 0
        for ((number, runs) in starts.withIndex()) {
            if (number > 0) {
                paint.color = context.getColor(R.color.soft)
                val between = left + (place - 0.5f) * pitch
                canvas.drawLine(between, sp(TOP), between, height - sp(22f), paint)
            }
            paint.color = context.getColor(R.color.accent)
            canvas.drawText(context.getString(R.string.bench_start, number + 1), left + place * pitch, height - sp(5f), text)
            for (value in runs) canvas.drawCircle(left + place++ * pitch, y(value), sp(2.2f), paint)
        }
    }

    /** 1, 2 or 5 times a power of ten, so that three to six lines fit. */
    private fun stepOf(most: Double): Double {
        val unit = 10.0.pow(floor(log10(maxOf(most, 1e-6) / 3)))
        return listOf(1.0, 2.0, 5.0, 10.0).map { it * unit }.first { most / it <= 5 }
    }

    private fun named(
        value: Double,
        step: Double,
    ) = value.digits(maxOf(0, ceil(-log10(step) - 1e-9).toInt()))

    private fun sp(value: Float) = TypedValue.applyDimension(TypedValue.COMPLEX_UNIT_SP, value, resources.displayMetrics)

    private companion object {
        /** Room for the unit above the first line. */
        const val TOP = 28f
    }
}
