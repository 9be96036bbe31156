package dev.unplug.demo

import ai.unplug.core.UnplugError
import android.content.Context
import android.system.ErrnoException
import android.system.OsConstants
import android.view.View
import android.widget.TextView
import java.io.FileNotFoundException
import java.io.IOException
import java.text.NumberFormat
import java.util.Locale

/** What went wrong, as one line for the person who holds the phone. */
fun Context.line(error: Throwable): String =
    when {
        error is UnplugError -> error.message.orEmpty().replaceFirstChar { it.titlecase(Locale.ROOT) }
        isFull(error) -> getString(R.string.storage_full)
        error is FileNotFoundException || error is SecurityException -> getString(R.string.file_gone)
        error is OutOfMemoryError -> getString(R.string.no_memory)
        else -> "${error.javaClass.simpleName}: ${error.message.orEmpty().lineSequence().first().take(200)}"
    }

/** Whether the disk is full, wherever in the chain of causes that stands. */
private fun isFull(error: Throwable): Boolean =
    generateSequence(error) { it.cause }.take(8).any {
        (it is ErrnoException && it.errno == OsConstants.ENOSPC) ||
            (it is IOException && it.message.orEmpty().let { text -> "ENOSPC" in text || "No space left" in text })
    }

/** Shows a line, or takes it away where it is null. */
fun TextView.show(line: String?) {
    text = line
    visibility = if (line == null) View.GONE else View.VISIBLE
}

/** A number with so many digits after the point, as the user's language writes it. */
fun Double.digits(count: Int): String = String.format(Locale.getDefault(), "%.${count}f", this)

/** A number with as few digits as it needs, at most two after the point. */
fun Double.plain(): String = NumberFormat.getInstance().apply { maximumFractionDigits = 2 }.format(this)
