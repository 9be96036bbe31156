// What travels: the report as Python reads it (unplug-bench/1), the plan, and the work of one cold start.

import type { Member } from "./demo/family";

export interface Summary {
  count: number;
  p50: number;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  mean: number;
  std: number;
  min: number;
  max: number;
}

export interface Window {
  start_s: number;
  end_s: number;
  count: number;
  p50: number;
  p95: number;
  temperature_c: number | null;
}

export interface Repeat {
  started_s: number;
  init_ms: number;
  first_inference_ms: number;
  latencies_ms: number[];
  enqueue_ms: number | null;
  read_back_ms: number | null;
  summary: Summary;
  compared: number;
  parity_db: number | null;
  parity_reason: string | null;
  delegate_got: string | null;
  battery_percent: number | null;
}

export type Status = "ok" | "failed" | "not_run";
export type RuntimeName = "litert-web" | "onnx-web";
export type Delegate = "wasm" | "webgpu";

/** What a job and its row are of. */
interface Subject {
  file: string;
  model_type: string;
  model_sha256: string;
  artifact_sha256: string;
  target: string;
  precision: string;
  inputs_sha256: string;
  parity_reference: "checkpoint" | "first_run";
}

export interface BenchRow extends Subject {
  bytes: number | null;
  where: "device" | "emulated";
  device: string;
  soc: null;
  os: string;
  gpu_driver: string | null;
  runtime: string;
  runtime_version: string | null;
  threads: number;
  delegate_asked: string;
  delegate_got: string | null;
  status: Status;
  valid: boolean;
  reasons: string[];
  warnings: string[];
  mode: "burst" | "sustained";
  warmup: number;
  iterations: number;
  timed_until: "read_back";
  init_ms_cold: number | null;
  first_inference_ms: number | null;
  enqueue_ms: number | null;
  read_back_ms: number | null;
  repeats: Repeat[];
  summary: Summary | null;
  median_ms: number | null;
  median_ci95_ms: [number, number] | null;
  spread: number | null;
  curve: Window[];
  battery_percent: number | null;
  charging: boolean | null;
  interruptions: string[];
  flops: number | null;
}

export interface BenchReport {
  schema: "unplug-bench/1";
  rows: BenchRow[];
  seed: number;
  versions: Record<string, string>;
  git_revision: null;
}

export interface TensorSpec {
  name: string;
  shape: number[];
  dtype: string;
  layout: string;
  range: [number, number] | null;
  colour: string | null;
}

export interface IOSpec {
  inputs: TensorSpec[];
  outputs: TensorSpec[];
}

export interface Plan {
  threads: number;
  warmup: number;
  iterations: number;
  starts: number;
  sustain_s: number | null;
  seed: number;
}

export type Tensors = Record<string, Float32Array<ArrayBuffer>>;

/** What goes into a model: numbers, and token ids, which are whole. */
export type Feeds = Record<string, Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer>>;

/** One test vector: named inputs, and what should come out; no outputs where nothing is expected. */
export interface Sample {
  inputs: Feeds;
  outputs: Tensors | null;
}

/** One artifact on one delegate. */
export interface Job extends Subject {
  number: number;
  bytes: number;
  runtime: RuntimeName;
  delegate: Delegate;
  iospec: IOSpec;
  config: Record<string, unknown>;
  min_psnr_db: number;
  flops: number | null;
  not_run: string | null;
  /** What an earlier visit of the same browser measured. */
  row: BenchRow | null;
  model: () => Promise<ArrayBuffer>;
  samples: () => Promise<Sample[]>;
}

/** What is offered to a page: by a server, or by a bundle that was dropped on it. */
export interface Offer {
  plan: Plan;
  jobs: Job[];
  /** Models of several sizes of which one answers; null where there is one alone. */
  family: Member[] | null;
  /** Lines for the reader: what was checked, and what could not be. */
  notes: string[];
}

export interface DeviceFacts {
  where: "device" | "emulated";
  device: string;
  os: string;
  gpu_driver: string | null;
  battery_percent: number | null;
  charging: boolean | null;
  /** Why there is no WebGPU, or null. */
  webgpu: string | null;
  /** WebGPU on a processor: right, and slow. */
  software_gpu: boolean;
  /** Whether WebGPU computes in half precision, which ONNX Runtime Web needs for fp16 files. */
  shader_f16: boolean;
  clock_ms: number;
}
