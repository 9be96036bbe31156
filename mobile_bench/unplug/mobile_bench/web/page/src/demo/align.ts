// A face put where a model expects it, as unplug.sdk.drawing.inference.alignment does, byte for byte; tests/vectors/faces holds it to that.

export interface Frame {
  left: [number, number];
  right: [number, number];
  least_eyes: number;
  least_light: number;
}

export interface Rgb {
  width: number;
  height: number;
  rgb: Uint8Array;
}

export type Point = readonly [number, number];

export const FRAME: Frame = { left: [0.3045, 0.3037], right: [0.6831, 0.3037], least_eyes: 16, least_light: 24 };
const MAX_STEPS = 16;

// The frame in a manifest's preprocessing; null where it says nothing of eyes, an error where what it says does not frame a face.
export function readFrame(preprocessing: unknown): Frame | null {
  const said = (preprocessing ?? {}) as Record<string, unknown>;
  if (!("eyes" in said)) return null;
  const { eyes, least_eyes = FRAME.least_eyes, least_light = FRAME.least_light } = said;
  const isPlace = (eye: unknown): eye is [number, number] => Array.isArray(eye) && eye.length === 2 && eye.every((at) => typeof at === "number" && at >= 0 && at <= 1);
  const [left, right] = Array.isArray(eyes) && eyes.length === 2 ? (eyes as unknown[]) : [];
  const limits = [least_eyes, least_light].every(Number.isFinite);
  if (!isPlace(left) || !isPlace(right) || !limits || Math.hypot(right[0] - left[0], right[1] - left[1]) < 0.05) {
    throw new Error("the bundle's preprocessing does not frame a face. Get another release");
  }
  return { left, right, least_eyes: least_eyes as number, least_light: least_light as number };
}

// Eyes in pixels of the picture (pixel i covers i to i + 1); a side of the result in pixels.
export function align(picture: Rgb, left: Point, right: Point, size: number, frame: Frame = FRAME): Rgb {
  const [leftX, leftY] = [frame.left[0] * size, frame.left[1] * size];
  const [across, down] = [frame.right[0] * size - leftX, frame.right[1] * size - leftY];
  const [wide, high] = [right[0] - left[0], right[1] - left[1]];
  const whole = across * across + down * down;
  const [real, imaginary] = [(wide * across + high * down) / whole, (high * across - wide * down) / whole];
  const scale = Math.sqrt(real * real + imaginary * imaginary);
  if (!(scale > 0 && scale < 1e6)) throw new Error("the face's eyes are in the same place");
  const steps = Math.min(MAX_STEPS, Math.ceil(scale));
  const shiftX = left[0] - (real * leftX - imaginary * leftY);
  const shiftY = left[1] - (imaginary * leftX + real * leftY);
  const made = new Uint8Array(3 * size * size);
  const total = new Float64Array(3);
  for (let at = 0; at < size * size; at++) {
    total.fill(0);
    for (let row = 0; row < steps; row++) {
      const y = Math.floor(at / size) + (row + 0.5) / steps;
      for (let column = 0; column < steps; column++) {
        const x = (at % size) + (column + 0.5) / steps;
        addBilinear(picture, real * x - imaginary * y + shiftX - 0.5, imaginary * x + real * y + shiftY - 0.5, total);
      }
    }
    for (let channel = 0; channel < 3; channel++) made[3 * at + channel] = Math.floor(total[channel]! / (steps * steps) + 0.5);
  }
  return { width: size, height: size, rgb: made };
}

function addBilinear({ width, height, rgb }: Rgb, atX: number, atY: number, total: Float64Array): void {
  const [x, y] = [Math.min(Math.max(atX, 0), width - 1), Math.min(Math.max(atY, 0), height - 1)];
  const [left, top] = [Math.floor(x), Math.floor(y)];
  const [right, below] = [Math.min(left + 1, width - 1), Math.min(top + 1, height - 1)];
  const [across, down] = [x - left, y - top];
  for (let channel = 0; channel < 3; channel++) {
    const read = (column: number, row: number): number => rgb[3 * (row * width + column) + channel]!;
    const upper = read(left, top) * (1 - across) + read(right, top) * across;
    const lower = read(left, below) * (1 - across) + read(right, below) * across;
    total[channel]! += upper * (1 - down) + lower * down;
  }
}

// Mean luma, 0 to 255.
export function light({ width, height, rgb }: Rgb): number {
  let sum = 0;
  for (let at = 0; at < rgb.length; at += 3) sum += 299 * rgb[at]! + 587 * rgb[at + 1]! + 114 * rgb[at + 2]!;
  return sum / (1000 * width * height);
}

// Why a photograph cannot be judged, or null: no face, several, too small, or too dark, in this order.
export function faceProblem(faces: number, left: Point, right: Point, aligned: Rgb, frame: Frame = FRAME): string | null {
  if (faces !== 1) return faces < 1 ? "no face found" : `${faces} faces found`;
  const [wide, high] = [right[0] - left[0], right[1] - left[1]];
  const apart = Math.sqrt(wide * wide + high * high);
  if (apart < frame.least_eyes) return `the face is too small: ${Math.floor(apart)} pixels between the eyes, and ${frame.least_eyes} are needed`;
  return light(aligned) < frame.least_light ? "the face is too dark" : null;
}
