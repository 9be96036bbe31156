// The portable noise stream of docs/formats.md: Philox4x32-10 to words, to uniforms, to normals.

const ROUNDS = 10;
/** The stream of a picture's first latent. */
export const INITIAL = 0n;
export const MAX_SEED = 2n ** 64n - 1n;

/** The high word of a product of two words of 32 bits, by halves: no product leaves the exact integers of a double. */
function high(a: number, b: number): number {
  const [aHigh, aLow, bHigh, bLow] = [a >>> 16, a & 0xffff, b >>> 16, b & 0xffff];
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const carry = (middle & 0xffff) + aLow * bHigh;
  return (aHigh * bHigh + Math.floor(middle / 2 ** 16) + Math.floor(carry / 2 ** 16)) >>> 0;
}

type Block = [number, number, number, number];

/** Four random words of one counter, least significant word first (Salmon et al., 2011). */
export function philox(counter: Block, key: [number, number]): Block {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const [highP, lowP] = [high(0xd2511f53, c0), Math.imul(0xd2511f53, c0) >>> 0];
    const [highQ, lowQ] = [high(0xcd9e8d57, c2), Math.imul(0xcd9e8d57, c2) >>> 0];
    [c0, c1, c2, c3] = [(highQ ^ c1 ^ k0) >>> 0, lowQ, (highP ^ c3 ^ k1) >>> 0, lowP];
    [k0, k1] = [(k0 + 0x9e3779b9) >>> 0, (k1 + 0xbb67ae85) >>> 0];
  }
  return [c0, c1, c2, c3];
}

const low = (value: bigint): number => Number(value & 0xffffffffn);

/** The first words of a stream: word k is word k mod 4 of block floor(k / 4). */
export function words(seed: bigint, stream: bigint, count: number): Uint32Array {
  const found = new Uint32Array(4 * Math.ceil(count / 4));
  const key: [number, number] = [low(seed), low(seed >> 32n)];
  for (let block = 0; 4 * block < count; block++) {
    found.set(philox([block >>> 0, Math.floor(block / 2 ** 32), low(stream), low(stream >> 32n)], key), 4 * block);
  }
  return found.subarray(0, count);
}

/** A number in (0, 1): neither end is ever drawn. */
export const uniform = (word: number): number => (word + 0.5) / 2 ** 32;

/** The first standard normals of a stream, by Box and Muller in float64, rounded to float32 at the end. */
export function normals(seed: bigint, stream: bigint, count: number): Float32Array<ArrayBuffer> {
  const drawn = words(seed, stream, count + (count % 2));
  const found = new Float32Array(drawn.length);
  for (let place = 0; place < drawn.length; place += 2) {
    const radius = Math.sqrt(-2 * Math.log(uniform(drawn[place]!)));
    const angle = 2 * Math.PI * uniform(drawn[place + 1]!);
    found[place] = radius * Math.cos(angle);
    found[place + 1] = radius * Math.sin(angle);
  }
  return found.slice(0, count);
}
