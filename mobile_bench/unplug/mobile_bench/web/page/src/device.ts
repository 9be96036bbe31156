// What the browser tells of the device. It tells little, and nothing here asks for more than a report needs.
import type { DeviceFacts } from "./types";

interface HighEntropy {
  mobile?: boolean;
  model?: string;
  platform?: string;
  platformVersion?: string;
  brands?: { brand: string; version: string }[];
}

interface Battery {
  level: number;
  charging: boolean;
}

interface Extended {
  userAgentData?: { getHighEntropyValues(hints: string[]): Promise<HighEntropy> };
  getBattery?: () => Promise<Battery>;
}

const extended = (): Navigator & Extended => navigator;

const clean = (text: string): string => text.replace(/[^\x20-\x7e]+/g, " ").replace(/\s+/g, " ").trim().slice(0, 200);

/** Why WebGPU cannot be used, or null; with its adapter where there is one. */
export async function webgpu(): Promise<{ missing: string | null; adapter: GPUAdapterInfo | null; f16: boolean }> {
  if (!globalThis.isSecureContext) {
    const missing = "WebGPU needs https or localhost, and this page came over plain http (use adb reverse, or https)";
    return { missing, adapter: null, f16: false };
  }
  const gpu = (navigator as { gpu?: GPU }).gpu;
  if (gpu === undefined) return { missing: "this browser has no WebGPU", adapter: null, f16: false };
  try {
    const adapter = await gpu.requestAdapter();
    if (adapter === null) return { missing: "WebGPU finds no adapter here", adapter: null, f16: false };
    return { missing: null, adapter: adapter.info, f16: adapter.features.has("shader-f16") };
  } catch (error) {
    return { missing: clean(`WebGPU does not start: ${String(error)}`), adapter: null, f16: false };
  }
}

/** The smallest step that the clock shows, in milliseconds: browsers coarsen it, less so on isolated pages. */
export function clockStep(): number {
  let least = Infinity;
  const end = performance.now() + 20;
  for (let before = performance.now(); before < end; ) {
    const now = performance.now();
    if (now > before) least = Math.min(least, now - before);
    before = now;
  }
  return Number.isFinite(least) ? least : 20;
}

async function battery(): Promise<Battery | null> {
  try {
    return (await extended().getBattery?.()) ?? null;
  } catch {
    return null;
  }
}

export async function batteryPercent(): Promise<number | null> {
  const found = await battery();
  return found === null ? null : Math.round(100 * found.level);
}

function browserName(hints: HighEntropy): string {
  const brand = hints.brands?.find(({ brand }) => !/not.?a.?brand/i.test(brand.replace(/[^A-Za-z]/g, " ")) && brand !== "Chromium");
  const found = brand ?? hints.brands?.find(({ brand }) => brand === "Chromium");
  if (found !== undefined) return `${found.brand} ${found.version}`;
  const agent = /(Firefox|FxiOS|CriOS|Edg|Chrome)\/(\d+)/.exec(navigator.userAgent) ?? /(Version)\/([\d.]+).*Safari/.exec(navigator.userAgent);
  return agent === null ? "unknown browser" : `${agent[1] === "Version" ? "Safari" : agent[1]} ${agent[2]}`;
}

function names(hints: HighEntropy): { device: string; os: string } {
  const system = /\(([^)]*)\)/.exec(navigator.userAgent)?.[1] ?? "unknown system";
  const platform = hints.platform === undefined ? system : `${hints.platform} ${hints.platformVersion ?? ""}`.trim();
  const kind = hints.mobile === true ? "phone" : hints.mobile === false ? "computer" : "device";
  const model = hints.model || /iPhone|iPad/.exec(navigator.userAgent)?.[0] || `${hints.platform ?? "unknown"} ${kind}`;
  return { device: clean(model), os: clean(`${platform}, ${browserName(hints)}`) };
}

export async function deviceFacts(): Promise<DeviceFacts> {
  const hints = (await extended().userAgentData?.getHighEntropyValues(["model", "platform", "platformVersion"]).catch(() => null)) ?? {};
  const [gpu, power] = await Promise.all([webgpu(), battery()]);
  const info = gpu.adapter;
  const driver = info === null ? "" : clean([info.vendor, info.architecture, info.device, info.description].filter(Boolean).join(" "));
  const software = /swiftshader|llvmpipe|lavapipe|software/i.test(driver);
  return {
    where: software || navigator.webdriver ? "emulated" : "device",
    ...names(hints),
    gpu_driver: driver || null,
    battery_percent: power === null ? null : Math.round(100 * power.level),
    charging: power?.charging ?? null,
    webgpu: gpu.missing,
    software_gpu: software,
    shader_f16: gpu.f16,
    clock_ms: clockStep(),
  };
}
