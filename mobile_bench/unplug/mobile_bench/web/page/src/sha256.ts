// SHA-256 (FIPS 180-4). crypto.subtle is missing on pages that came over plain http, and a bundle must be checked there too.

const K = new Uint32Array(64);
const START = new Uint32Array(8);

/** The constants are the first bits of the fractions of roots of primes; computing them needs no table. */
function fill(): void {
  let found = 0;
  for (let number = 2; found < 64; number++) {
    let prime = true;
    for (let factor = 2; factor * factor <= number; factor++) if (number % factor === 0) prime = false;
    if (!prime) continue;
    const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) >>> 0;
    if (found < 8) START[found] = fraction(Math.sqrt(number));
    K[found++] = fraction(Math.cbrt(number));
  }
}
fill();

const turn = (value: number, by: number): number => (value >>> by) | (value << (32 - by));
const words = new Int32Array(64);

function block(state: Int32Array, view: DataView, at: number): void {
  for (let t = 0; t < 16; t++) words[t] = view.getInt32(at + 4 * t);
  for (let t = 16; t < 64; t++) {
    const x = words[t - 15]!;
    const y = words[t - 2]!;
    const s0 = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
    const s1 = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
    words[t] = words[t - 16]! + s0 + words[t - 7]! + s1;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let t = 0; t < 64; t++) {
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[t]! + words[t]!) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((value, place) => (state[place] = state[place]! + value));
}

/** SHA-256 as 64 hexadecimal digits, in plain TypeScript. */
export function sha256Slow(bytes: Uint8Array): string {
  const state = Int32Array.from(START);
  const whole = bytes.length - (bytes.length % 64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < whole; at += 64) block(state, view, at);
  const rest = bytes.subarray(whole);
  const tail = new Uint8Array(rest.length < 56 ? 64 : 128);
  tail.set(rest);
  tail[rest.length] = 0x80;
  const end = new DataView(tail.buffer);
  end.setUint32(tail.length - 8, Math.floor(bytes.length / 2 ** 29));
  end.setUint32(tail.length - 4, (bytes.length * 8) >>> 0);
  for (let at = 0; at < tail.length; at += 64) block(state, end, at);
  return [...state].map((value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
}

/** SHA-256 by the browser where it lets us, else by `sha256Slow`. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  if (!globalThis.crypto?.subtle) return sha256Slow(bytes);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((value) => value.toString(16).padStart(2, "0")).join("");
}
