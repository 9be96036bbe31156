// Edges as OpenCV's Canny detector draws them (aperture 3, |gx| + |gy|), bit by bit, for pixels of a canvas.
// Reference: Canny, "A Computational Approach to Edge Detection", IEEE TPAMI 8(6), 1986; OpenCV's fixed-point form of it.

export const [LOW, HIGH] = [100, 200] as const;
/** tan 22.5 degrees with 15 binary places. */
const TAN = 13573;

/** Luminance of RGBA pixels with OpenCV's weights, of 15 binary places. */
export function grey(rgba: ArrayLike<number>): Uint8Array {
  const found = new Uint8Array(rgba.length / 4);
  for (let place = 0; place < found.length; place++) {
    const [red, green, blue] = [rgba[4 * place]!, rgba[4 * place + 1]!, rgba[4 * place + 2]!];
    found[place] = (9798 * red + 19235 * green + 3735 * blue + 16384) >> 15;
  }
  return found;
}

interface Gradient {
  dx: Int32Array;
  dy: Int32Array;
  /** |dx| + |dy|, with a border of one zero on every side. */
  size: Int32Array;
}

/** Sobel's 3x3 gradients; the border repeats. */
function gradient(image: Uint8Array, width: number, height: number): Gradient {
  const [dx, dy] = [new Int32Array(width * height), new Int32Array(width * height)];
  const size = new Int32Array((width + 2) * (height + 2));
  for (let y = 0; y < height; y++) {
    const [up, own, down] = [Math.max(y - 1, 0) * width, y * width, Math.min(y + 1, height - 1) * width];
    for (let x = 0; x < width; x++) {
      const [left, right] = [Math.max(x - 1, 0), Math.min(x + 1, width - 1)];
      const [a, b, c] = [image[up + left]!, image[up + x]!, image[up + right]!];
      const [d, e] = [image[own + left]!, image[own + right]!];
      const [f, g, h] = [image[down + left]!, image[down + x]!, image[down + right]!];
      dx[own + x] = c - a + 2 * (e - d) + h - f;
      dy[own + x] = f - a + 2 * (g - b) + h - c;
      size[(y + 1) * (width + 2) + x + 1] = Math.abs(dx[own + x]!) + Math.abs(dy[own + x]!);
    }
  }
  return { dx, dy, size };
}

/** Whether a gradient is the largest across its edge; ties go to one side, as in OpenCV. */
function ridge(size: Int32Array, at: number, stride: number, dx: number, dy: number): boolean {
  const own = size[at]!;
  const [x, y] = [Math.abs(dx), Math.abs(dy) * 2 ** 15];
  const flat = x * TAN;
  if (y < flat) return own > size[at - 1]! && own >= size[at + 1]!;
  if (y > flat + x * 2 ** 16) return own > size[at - stride]! && own >= size[at + stride]!;
  const slant = (dx ^ dy) < 0 ? -1 : 1;
  return own > size[at - stride - slant]! && own > size[at + stride + slant]!;
}

/** 255 on edges and 0 elsewhere: ridges above `high`, and those above `low` that are connected to one. */
export function canny(image: Uint8Array, width: number, height: number, low: number = LOW, high: number = HIGH): Uint8Array {
  const { dx, dy, size } = gradient(image, width, height);
  const stride = width + 2;
  const weak = new Uint8Array(size.length);
  const edges = new Uint8Array(width * height);
  const strong: number[] = [];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = (y + 1) * stride + x + 1;
      if (size[at]! <= low || !ridge(size, at, stride, dx[y * width + x]!, dy[y * width + x]!)) continue;
      weak[at] = 1;
      if (size[at]! > high) strong.push(at);
    }
  }
  for (const at of strong) weak[at] = 0;
  while (strong.length > 0) {
    const at = strong.pop()!;
    edges[(Math.floor(at / stride) - 1) * width + (at % stride) - 1] = 255;
    for (const near of [-stride - 1, -stride, -stride + 1, -1, 1, stride - 1, stride, stride + 1]) {
      if (weak[at + near] === 0) continue;
      weak[at + near] = 0;
      strong.push(at + near);
    }
  }
  return edges;
}
