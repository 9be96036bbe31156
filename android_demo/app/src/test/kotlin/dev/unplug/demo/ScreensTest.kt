package dev.unplug.demo

import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import org.robolectric.annotation.GraphicsMode

@RunWith(RobolectricTestRunner::class)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
@Config(sdk = [35], qualifiers = "w411dp-h891dp-xhdpi")
class ScreensTest {
    @Test
    fun `the first screen says that no bundle is here`() {
        val screen = open(MainActivity::class.java).get()
        screen.shot("main-empty")
        assertTrue(screen.words().toString(), "No bundle yet" in screen.words())
    }
}
