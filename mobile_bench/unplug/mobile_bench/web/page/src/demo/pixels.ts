// A picture as a tensor: centre square, scaled, in the range and the layout that the model's card names.
import type { TensorSpec } from "../types";
import type { Rgb } from "./align";

export const axis = (spec: TensorSpec, name: string): number => spec.shape[spec.layout.indexOf(name)] ?? 1;

export const isImage = (spec: TensorSpec): boolean =>
  spec.shape.length === 4 && [..."NCHW"].every((name) => spec.layout.includes(name)) && axis(spec, "C") === 3;

/** Values of RGBA pixels, channel by channel as the layout has them; alpha is dropped. */
export function toTensor(pixels: ArrayLike<number>, spec: TensorSpec): Float32Array<ArrayBuffer> {
  const [height, width] = [axis(spec, "H"), axis(spec, "W")];
  const [low, high] = spec.range ?? [0, 1];
  const channelsLast = spec.layout.endsWith("C");
  const order = spec.colour === "BGR" ? [2, 1, 0] : [0, 1, 2];
  const found = new Float32Array(3 * height * width);
  for (let place = 0; place < height * width; place++) {
    order.forEach((source, channel) => {
      const value = low + ((pixels[4 * place + source] ?? 0) / 255) * (high - low);
      found[channelsLast ? 3 * place + channel : channel * height * width + place] = value;
    });
  }
  return found;
}

/** Draws the centre square of a picture onto a canvas of the model's size; gives its pixels. */
export function crop(canvas: HTMLCanvasElement, picture: CanvasImageSource, width: number, height: number, spec: TensorSpec): ImageData {
  canvas.width = axis(spec, "W");
  canvas.height = axis(spec, "H");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new Error("this browser has no 2D canvas");
  const side = Math.min(width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, (width - side) / 2, (height - side) / 2, side, side, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** Without alpha, as faces are aligned. */
export function rgbOf({ width, height, data }: ImageData): Rgb {
  const rgb = new Uint8Array(3 * width * height);
  for (let place = 0; place < width * height; place++) rgb.set(data.subarray(4 * place, 4 * place + 3), 3 * place);
  return { width, height, rgb };
}

/** As a canvas takes it. */
export function imageOf({ width, height, rgb }: Rgb): ImageData {
  const found = new ImageData(width, height);
  found.data.forEach((_, at) => (found.data[at] = at % 4 === 3 ? 255 : rgb[3 * (at >> 2) + (at % 4)]!));
  return found;
}
