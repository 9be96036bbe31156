// SHA-256. crypto.subtle is missing on pages that came over plain http, and a bundle must be checked there too.
import { sha256 as digest } from "@noble/hashes/sha2.js";
import { hex } from "./strict";

/** SHA-256 as 64 hexadecimal digits, without the browser's help. */
export const sha256Slow = (bytes: Uint8Array): string => hex(digest(bytes));

/** SHA-256 by the browser where it lets us, else by `sha256Slow`. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  if (!globalThis.crypto?.subtle) return sha256Slow(bytes);
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}
