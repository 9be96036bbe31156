// The mark that a decoder leaves in its pictures: how one is laid before its reader, and what the reader's bits say; as unplug.sdk.drawing.device.mark has it.
import { rint } from "./sampler";

export const [BITS, SIDE, LEAST_SIDE] = [48, 128, 64] as const;
/** Shares of the reader's side that a picture is laid on: as a whole, and as a crop of a whole. */
export const READINGS = [1, 0.8];
/** A picture without a mark is called marked no more often than this. */
export const CHANCE = 1e-6;
/** The public demonstration key: any other is a secret, and has no place on a page. */
export const PUBLIC_KEY = "db7b91574e94";
/** Pillow's fixed point: weights are whole multiples of 2^-22. */
const ONE = 2 ** 22;

export interface Picture {
  width: number;
  height: number;
  rgba: ArrayLike<number>;
}

/** Bytes side by side, three a pixel. */
interface Grid {
  width: number;
  height: number;
  rgb: Uint8Array;
}

interface Tap {
  from: number;
  weights: number[];
}

/** What each pixel of a shorter or longer side is made of: a triangle as wide as two of the larger pixels. */
function taps(size: number, wanted: number): Tap[] {
  const scale = size / wanted;
  const wide = Math.max(1, scale);
  return Array.from({ length: wanted }, (_, place) => {
    const centre = (place + 0.5) * scale;
    const from = Math.max(0, Math.trunc(centre - wide + 0.5));
    const to = Math.min(size, Math.trunc(centre + wide + 0.5));
    const raw = Array.from({ length: to - from }, (_, at) => Math.max(0, 1 - Math.abs((from + at - centre + 0.5) / wide)));
    const sum = raw.reduce((all, weight) => all + weight, 0);
    return { from, weights: raw.map((weight) => Math.floor((weight / sum) * ONE + 0.5)) };
  });
}

/** The same lines with another width; rounded to bytes, as Pillow does between its two passes. */
function narrowed({ width, height, rgb }: Grid, wanted: number): Grid {
  const found = new Uint8Array(3 * wanted * height);
  for (const [x, { from, weights }] of taps(width, wanted).entries()) {
    for (let y = 0; y < height; y++) {
      for (let colour = 0; colour < 3; colour++) {
        let sum = ONE / 2;
        for (let at = 0; at < weights.length; at++) sum += weights[at]! * rgb[3 * (y * width + from + at) + colour]!;
        found[3 * (y * wanted + x) + colour] = Math.min(255, Math.floor(sum / ONE));
      }
    }
  }
  return { width: wanted, height, rgb: found };
}

/** Lines as columns. */
function turned({ width, height, rgb }: Grid): Grid {
  const found = new Uint8Array(rgb.length);
  for (let place = 0; place < width * height; place++) {
    const other = (place % width) * height + Math.floor(place / width);
    for (let colour = 0; colour < 3; colour++) found[3 * other + colour] = rgb[3 * place + colour]!;
  }
  return { width: height, height: width, rgb: found };
}

/** Where a place before or after `size` pixels falls back into them: the edge is seen twice. */
export function mirrored(place: number, size: number): number {
  const within = ((place % (2 * size)) + 2 * size) % (2 * size);
  return within < size ? within : 2 * size - 1 - within;
}

function laid(picture: Grid, longest: number): Float32Array<ArrayBuffer> {
  const scale = longest / Math.max(picture.width, picture.height);
  const [width, height] = [picture.width, picture.height].map((side) => Math.max(1, rint(scale * side))) as [number, number];
  const { rgb } = turned(narrowed(turned(narrowed(picture, width)), height));
  const [left, top] = [Math.floor((SIDE - width) / 2), Math.floor((SIDE - height) / 2)];
  const found = new Float32Array(3 * SIDE * SIDE);
  for (let place = 0; place < SIDE * SIDE; place++) {
    const [x, y] = [mirrored((place % SIDE) - left, width), mirrored(Math.floor(place / SIDE) - top, height)];
    for (let colour = 0; colour < 3; colour++) found[colour * SIDE * SIDE + place] = rgb[3 * (y * width + x) + colour]! / 255;
  }
  return found;
}

/** A picture as the reader sees it, channels first from 0 to 1, once a share of `READINGS`; what is missing is mirrored. */
export function readingsOf({ width, height, rgba }: Picture): Float32Array<ArrayBuffer>[] {
  if (Math.min(width, height) < LEAST_SIDE) throw new Error(`A mark is read from ${LEAST_SIDE} pixels a side on, and this picture has ${width}x${height}.`);
  const rgb = Uint8Array.from({ length: 3 * width * height }, (_, at) => rgba[4 * Math.floor(at / 3) + (at % 3)]!);
  return READINGS.map((share) => laid({ width, height, rgb }, rint(share * SIDE)));
}

/** The bits of a key, the first digit's highest first. */
export function keyBits(key: string): number[] {
  if (!/^[0-9a-f]{12}$/.test(key)) throw new Error("A mark's key is 12 hexadecimal digits.");
  return [...key].flatMap((digit) => [8, 4, 2, 1].map((bit) => (parseInt(digit, 16) & bit ? 1 : 0)));
}

/** How rarely so many of 48 tossed bits agree in one of the readings, at most. */
export function chanceOf(agree: number, readings = READINGS.length): number {
  let [ways, tail] = [1, 0];
  for (let count = BITS; count >= agree; count--) {
    tail += ways;
    ways = (ways * count) / (BITS - count + 1);
  }
  return Math.min(1, (readings * tail) / 2 ** BITS);
}

export interface FoundMark {
  /** Bits of the best reading that are those of the key. */
  agree: number;
  chance: number;
  marked: boolean;
}

/** What the reader's logits, once a reading, say of a key; a bit is 1 where its logit is above 0. */
export function foundMark(logits: ArrayLike<number>[], key: string): FoundMark {
  const wanted = keyBits(key);
  const agree = Math.max(...logits.map((reading) => wanted.filter((bit, place) => bit === (reading[place]! > 0 ? 1 : 0)).length));
  const chance = chanceOf(agree);
  return { agree, chance, marked: chance <= CHANCE };
}
