// A conditioning plugin's residuals: one small heat map a level, the mean over channels.
import type { Job, TensorSpec, Tensors } from "../types";
import { el } from "../ui/dom";

/** Mean over channels of one output, as height x width values. */
export function channelMean(values: Float32Array, spec: TensorSpec): { values: Float32Array; height: number; width: number } {
  const size = (name: string): number => spec.shape[spec.layout.indexOf(name)] ?? 1;
  const [channels, height, width] = [size("C"), size("H"), size("W")];
  const last = spec.layout.endsWith("C");
  const found = new Float32Array(height * width);
  for (let place = 0; place < found.length; place++) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel++) {
      sum += values[last ? place * channels + channel : channel * height * width + place] ?? 0;
    }
    found[place] = sum / channels;
  }
  return { values: found, height, width };
}

/** Dark blue over teal to pale yellow: readable without red and green. */
function colour(share: number): [number, number, number] {
  const stops = [[24, 20, 60], [35, 80, 130], [40, 150, 140], [150, 205, 110], [252, 240, 170]] as const;
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = stops[Math.min(Math.floor(place), stops.length - 2)]!;
  const high = stops[Math.min(Math.floor(place), stops.length - 2) + 1]!;
  const part = place - Math.min(Math.floor(place), stops.length - 2);
  return [0, 1, 2].map((channel) => low[channel]! + part * (high[channel]! - low[channel]!)) as [number, number, number];
}

function heatMap(name: string, output: Float32Array, spec: TensorSpec): HTMLElement {
  const { values, height, width } = channelMean(output, spec);
  const canvas = el("canvas", { width, height, role: "img", "aria-label": `${name}: mean over its channels` });
  const context = canvas.getContext("2d");
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  if (context !== null) {
    const image = context.createImageData(width, height);
    values.forEach((value, place) => image.data.set([...colour(high > low ? (value - low) / (high - low) : 0), 255], 4 * place));
    context.putImageData(image, 0, 0);
  }
  return el("figure", {}, canvas, el("figcaption", {}, name.replace("adapter_res_samples_", "level "), el("span", { class: "soft" }, ` ${spec.shape.join("×")}`)));
}

export function featureResult(job: Job, outputs: Tensors): HTMLElement {
  const maps = job.iospec.outputs.map((spec) => heatMap(spec.name, outputs[spec.name] ?? new Float32Array(), spec));
  return el("div", { class: "features" }, ...maps);
}
