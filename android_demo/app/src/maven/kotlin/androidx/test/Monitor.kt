@file:Suppress("PackageDirectoryMismatch", "UNUSED_PARAMETER")

package androidx.test.platform.app

import android.app.Instrumentation
import android.os.Bundle

/** What Robolectric asks of `androidx.test:monitor`, which Maven Central has not; only for `check`. */
object InstrumentationRegistry {
    private var instance: Instrumentation? = null

    @JvmStatic
    fun registerInstance(
        instrumentation: Instrumentation?,
        arguments: Bundle?,
    ) {
        instance = instrumentation
    }

    @JvmStatic
    fun getInstrumentation(): Instrumentation = checkNotNull(instance) { "no instrumentation yet" }
}
