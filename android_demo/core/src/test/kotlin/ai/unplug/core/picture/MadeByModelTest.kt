package ai.unplug.core.picture

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.awt.image.BufferedImage
import java.io.ByteArrayInputStream
import java.io.ByteArrayOutputStream
import javax.imageio.ImageIO

/** A PNG that says what made it, read by Java's own reader. */
class MadeByModelTest {
    @Test
    fun `its pixels and chunks are as they were, and a reader finds the text`() {
        val one = BufferedImage(1, 1, BufferedImage.TYPE_INT_RGB).apply { setRGB(0, 0, 0x123456) }
        val made = madeByModel(ByteArrayOutputStream().also { ImageIO.write(one, "png", it) }.toByteArray())
        val reader = ImageIO.getImageReadersByFormatName("png").next()
        reader.input = ImageIO.createImageInputStream(ByteArrayInputStream(made))
        val read = reader.readAll(0, null)
        assertEquals(0x123456, (read.renderedImage as BufferedImage).getRGB(0, 0) and 0xffffff)
        val text = read.metadata.getAsTree("javax_imageio_png_1.0").childNodes
        val entry = (0 until text.length).map(text::item).single { it.nodeName == "iTXt" }.firstChild.attributes
        assertEquals("XML:com.adobe.xmp", entry.getNamedItem("keyword").nodeValue)
        assertTrue("digitalsourcetype/trainedAlgorithmicMedia" in entry.getNamedItem("text").nodeValue)
        assertThrows(IllegalArgumentException::class.java) { madeByModel(ByteArray(40)) }
    }
}
