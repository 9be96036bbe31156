@file:Suppress("PackageDirectoryMismatch", "UNUSED_PARAMETER")

package androidx.test.platform.app

import android.app.Instrumentation
import android.os.Bundle

/** What Robolectric asks of `androidx.test:monitor`, which Maven Central has not; only for `check`. */
object InstrumentationRegistry {
    private var instance: Instrumentation? = null
    private var given = Bundle()

    @JvmStatic
    fun registerInstance(
        instrumentation: Instrumentation?,
        arguments: Bundle?,
    ) {
        instance = instrumentation
        given = arguments ?: Bundle()
    }

    @JvmStatic
    fun getArguments(): Bundle = given

    @JvmStatic
    fun getInstrumentation(): Instrumentation = checkNotNull(instance) { "no instrumentation yet" }
}
