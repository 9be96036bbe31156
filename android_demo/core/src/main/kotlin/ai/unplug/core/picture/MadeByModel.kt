package ai.unplug.core.picture

import java.nio.ByteBuffer
import java.util.zip.CRC32

private const val XMP =
    "<?xpacket begin=\"\ufeff\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>" +
        "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">" +
        "<rdf:Description rdf:about=\"\" xmlns:Iptc4xmpExt=\"http://iptc.org/std/Iptc4xmpExt/2008-02-29/\" " +
        "Iptc4xmpExt:DigitalSourceType=\"http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia\"/>" +
        "</rdf:RDF></x:xmpmeta><?xpacket end=\"w\"?>"

/** Bytes of a PNG's signature and of its first chunk, IHDR, which has one size. */
private const val HEAD = 8 + 25

/**
 * A PNG file that says of itself that a model drew it: IPTC's digital source type as XMP, as `unplug generate` writes it, in a chunk
 * after the head. Its pixels are the same. Nothing is signed.
 */
public fun madeByModel(png: ByteArray): ByteArray {
    require(png.size >= HEAD && png.decodeToString(1, 4) == "PNG") { "this is not a PNG" }
    val body = "iTXtXML:com.adobe.xmp\u0000\u0000\u0000\u0000\u0000$XMP".encodeToByteArray()
    val check = CRC32().apply { update(body) }.value.toInt()
    val chunk = ByteBuffer.allocate(body.size + 8).putInt(body.size - 4).put(body).putInt(check)
    return png.copyOf(HEAD) + chunk.array() + png.copyOfRange(HEAD, png.size)
}
