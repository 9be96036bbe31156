package dev.unplug.demo

import android.app.Activity
import android.os.Bundle
import android.view.MenuItem

/**
 * A screen whose state outlives a rotation: the model is handed from one activity to the next, and what must outlive the process is in
 * the saved state.
 */
abstract class Screen<M : Any> : Activity() {
    /** What the screen shows. */
    protected lateinit var model: M
        private set

    protected val app: DemoApp get() = application as DemoApp

    /** The state of a screen that is new, or whose process was ended: of that, [saved] is left. */
    protected abstract fun begin(saved: Bundle?): M

    @Deprecated("Deprecated in Java")
    @Suppress("DEPRECATION", "UNCHECKED_CAST")
    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        model = (lastNonConfigurationInstance as M?) ?: begin(saved)
        actionBar?.setDisplayHomeAsUpEnabled(parentActivityIntent != null)
        actionBar?.elevation = 0f
    }

    @Suppress("OVERRIDE_DEPRECATION")
    override fun onRetainNonConfigurationInstance(): Any = model

    override fun onOptionsItemSelected(item: MenuItem): Boolean {
        if (item.itemId != android.R.id.home) return super.onOptionsItemSelected(item)
        finish()
        return true
    }
}

/** State that one screen at a time looks at. */
open class Watched {
    private var watcher: (() -> Unit)? = null

    /** Calls [shown] now and after every change, until [leave]. */
    fun watch(shown: () -> Unit) {
        watcher = shown
        shown()
    }

    fun leave() {
        watcher = null
    }

    protected fun changed() {
        watcher?.invoke()
    }
}
