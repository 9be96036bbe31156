@file:Suppress("PackageDirectoryMismatch", "UNUSED_PARAMETER")

package androidx.test.runner.intent

import android.app.Instrumentation
import android.content.Intent

fun interface IntentStubber {
    fun getActivityResultForIntent(intent: Intent): Instrumentation.ActivityResult?
}

interface IntentMonitor

object IntentMonitorRegistry {
    @JvmStatic
    fun registerInstance(monitor: IntentMonitor?) = Unit
}

object IntentStubberRegistry {
    @JvmStatic
    fun isLoaded(): Boolean = false

    @JvmStatic
    fun getInstance(): IntentStubber = error("no stubber is loaded")
}
