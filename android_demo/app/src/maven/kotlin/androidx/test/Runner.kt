@file:Suppress("PackageDirectoryMismatch")

package androidx.test.ext.junit.runners

import org.robolectric.RobolectricTestRunner

/** The runner that device tests name, for `check` to compile them. */
class AndroidJUnit4(
    test: Class<*>,
) : RobolectricTestRunner(test)
