// What the browser tells of the device.
import type { DeviceFacts, Plan } from "../types";
import { el } from "./dom";

function clock(step: number): string {
  return step < 0.05 ? `${Math.round(step * 1000)} µs steps` : `${Number(step.toPrecision(2))} ms steps`;
}

export function factsList(facts: DeviceFacts, more: [string, string][]): HTMLElement {
  const battery = facts.battery_percent === null ? null : `${facts.battery_percent} %${facts.charging ? ", charging" : ""}`;
  const pairs: [string, string | null][] = [
    ["Device", facts.device + (facts.where === "emulated" ? " (emulated)" : "")],
    ["System", facts.os],
    ["GPU", facts.webgpu ?? facts.gpu_driver ?? "not told"],
    ["Battery", battery],
    ["Clock", clock(facts.clock_ms)],
    ...more,
  ];
  const items = pairs.flatMap(([name, value]) => (value === null ? [] : [el("div", {}, el("dt", {}, name), el("dd", {}, value))]));
  return el("dl", { class: "facts" }, ...items);
}

export function planText({ starts, iterations, warmup, sustain_s }: Plan): string {
  if (sustain_s !== null) return `one cold start each, ${sustain_s} s at full load`;
  return `${starts} cold starts × ${iterations} runs, each after ${warmup} to warm up`;
}
