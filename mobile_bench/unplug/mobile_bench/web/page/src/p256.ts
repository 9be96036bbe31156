// Public keys and signatures of P-256, in the one spelling of each.
import { type Bytes, hex, sha256 } from "./strict";

const P256_HEAD = "3059301306072a8648ce3d020106082a8648ce3d03010703420004";
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** A public key: its DER, and the SHA-256 of its text form in lines of 64. */
export interface PublicKey {
  der: Bytes;
  hint: string;
}

/** A trusted key out of its text form, checked to be P-256's. */
export async function readKey(pem: string): Promise<PublicKey> {
  const body = pem.replace(/-----(?:BEGIN|END) PUBLIC KEY-----/g, "").replace(/\s/g, "");
  const der = Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
  if (der.length !== 91 || !hex(der).startsWith(P256_HEAD)) throw new Error("a trusted key is not a public key of P-256");
  const lines = btoa(String.fromCharCode(...der)).match(/.{1,64}/g)!;
  const text = ["-----BEGIN PUBLIC KEY-----", ...lines, "-----END PUBLIC KEY-----", ""].join("\n");
  return { der, hint: await sha256(new TextEncoder().encode(text)) };
}

/** r and s as 64 bytes, out of strict DER; null for every other spelling, or numbers outside of 1 to the order. */
function fromDer(bytes: Bytes): Bytes | null {
  const raw = new Uint8Array(64);
  if (bytes.length < 8 || bytes.length > 72 || bytes[0] !== 0x30 || bytes[1] !== bytes.length - 2) return null;
  let at = 2;
  for (const half of [0, 1]) {
    const length = bytes[at + 1] ?? 0;
    const number = bytes.subarray(at + 2, at + 2 + length);
    if (bytes[at] !== 2 || length < 1 || number.length !== length || number[0]! & 0x80) return null;
    if (number[0] === 0 && !(length > 1 && number[1]! & 0x80)) return null;
    const plain = number[0] === 0 ? number.subarray(1) : number;
    const value = BigInt(`0x${hex(plain)}`);
    if (plain.length > 32 || value < 1n || value >= ORDER) return null;
    raw.set(plain, 32 * half + 32 - plain.length);
    at += 2 + length;
  }
  return at === bytes.length ? raw : null;
}

/** A key that WebCrypto takes; throws for a point that is not on the curve. */
export const importKey = ({ der }: PublicKey): Promise<CryptoKey> =>
  crypto.subtle.importKey("spki", der, { name: "ECDSA", namedCurve: "P-256" }, false, ["verify"]);

/** Whether a signature in strict DER is the key's over these bytes. */
export async function signedBy(key: CryptoKey, signature: Bytes, bytes: Bytes): Promise<boolean> {
  const raw = fromDer(signature);
  return raw !== null && crypto.subtle.verify({ name: "ECDSA", hash: "SHA-256" }, key, raw, bytes);
}
