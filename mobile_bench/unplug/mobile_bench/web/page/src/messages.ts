// Between the page and its workers.
import type { Drawn, Order } from "./draw/loop";
import type { Pipeline } from "./draw/pipeline";
import type { Setup } from "./engine";
import type { Delegate, Feeds, Plan, Repeat, Sample, Tensors, Window } from "./types";

export interface Measure {
  kind: "measure";
  model: ArrayBuffer;
  setup: Setup;
  samples: Sample[];
  plan: Plan;
  min_psnr_db: number;
}

/** One part of a generator, to be opened next to the others. */
export interface OpenPart {
  kind: "part";
  name: string;
  model: ArrayBuffer;
  pipeline: Pipeline;
  base: string;
  delegate: Delegate;
  threads: number;
}

export type Ask =
  | Measure
  | OpenPart
  | { kind: "draw"; order: Order; preview: boolean }
  | { kind: "stop" }
  | { kind: "open"; model: ArrayBuffer; setup: Setup }
  | { kind: "run"; inputs: Feeds };

export interface Measured {
  repeat: Omit<Repeat, "started_s" | "battery_percent">;
  curve: Window[];
  threads: number;
}

/** Milliseconds of one picture: every call of every part, and all of it but the previews. */
export interface Times {
  parts: Record<string, number[]>;
  whole: number;
  previews: number;
}

export interface Step {
  kind: "step";
  done: number;
  steps: number;
  /** Since the first step began, without previews. */
  elapsed_ms: number;
  /** RGBA of the picture that the step points at; null where decoding it would take too long. */
  preview: Uint8ClampedArray<ArrayBuffer> | null;
}

export type Answer =
  | { kind: "share"; share: number }
  | Step
  | { kind: "drawn"; drawn: Drawn; times: Times }
  | { kind: "stopped" }
  | { kind: "measured"; measured: Measured }
  | { kind: "opened"; init_ms: number; threads: number }
  | { kind: "ran"; outputs: Tensors; latency_ms: number }
  | { kind: "error"; message: string };
