// Images with their axes in another order: NCHW as PyTorch has them, NHWC as phones do.

/** The same values with the axes of `to`; shapes are those of `from`. */
export function relaid(data: Float32Array<ArrayBuffer>, shape: number[], from: string, to: string): Float32Array<ArrayBuffer> {
  if (from === to) return data;
  if ([...from].sort().join() !== [...to].sort().join()) throw new Error(`${to} has other axes than ${from}`);
  const order = [...to].map((axis) => from.indexOf(axis));
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  const sizes = order.map((axis) => shape[axis] ?? 1);
  const steps = order.map((axis) => strides[axis] ?? 0);
  const found = new Float32Array(data.length);
  const place = sizes.map(() => 0);
  let source = 0;
  for (let target = 0; target < found.length; target++) {
    found[target] = data[source] ?? 0;
    for (let axis = sizes.length - 1; axis >= 0; axis--) {
      place[axis] = (place[axis] ?? 0) + 1;
      source += steps[axis] ?? 0;
      if ((place[axis] ?? 0) < (sizes[axis] ?? 1)) break;
      source -= (steps[axis] ?? 0) * (sizes[axis] ?? 1);
      place[axis] = 0;
    }
  }
  return found;
}

export const elements = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
