// A picture says of itself that a model drew it: IPTC's digital source type as XMP, as `unplug generate` writes it.

const XMP =
  '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>' +
  '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">' +
  '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" ' +
  'Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"/>' +
  '</rdf:RDF></x:xmpmeta><?xpacket end="w"?>';
/** The bytes of the signature and of the first chunk, IHDR, which has one size in every PNG. */
const HEAD = 8 + 25;
const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];

/** CRC-32 as PNG has it, bit by bit: the chunk is short. */
function crc(bytes: Uint8Array): number {
  let left = 0xffffffff;
  for (const byte of bytes) {
    left ^= byte;
    for (let bit = 0; bit < 8; bit += 1) left = left & 1 ? (left >>> 1) ^ 0xedb88320 : left >>> 1;
  }
  return (left ^ 0xffffffff) >>> 0;
}

/** A PNG file with the mark in a chunk after its head; its pixels are the same. */
export function marked(png: Uint8Array): Uint8Array<ArrayBuffer> {
  if (SIGNATURE.some((byte, place) => png[place] !== byte) || png.length < HEAD) throw new Error("this is not a PNG");
  const body = new TextEncoder().encode(`iTXtXML:com.adobe.xmp\0\0\0\0\0${XMP}`);
  const chunk = new Uint8Array(body.length + 8);
  const view = new DataView(chunk.buffer);
  view.setUint32(0, body.length - 4);
  chunk.set(body, 4);
  view.setUint32(body.length + 4, crc(body));
  const made = new Uint8Array(png.length + chunk.length);
  made.set(png.subarray(0, HEAD));
  made.set(chunk, HEAD);
  made.set(png.subarray(HEAD), HEAD + chunk.length);
  return made;
}
