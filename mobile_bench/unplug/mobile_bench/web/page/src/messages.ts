// Between the page and its workers.
import type { Setup } from "./engine";
import type { Plan, Repeat, Sample, Tensors, Window } from "./types";

export interface Measure {
  kind: "measure";
  model: ArrayBuffer;
  setup: Setup;
  samples: Sample[];
  plan: Plan;
  min_psnr_db: number;
}

export type Ask =
  | Measure
  | { kind: "open"; model: ArrayBuffer; setup: Setup }
  | { kind: "run"; inputs: Tensors };

export interface Measured {
  repeat: Omit<Repeat, "started_s" | "battery_percent">;
  curve: Window[];
  threads: number;
}

export type Answer =
  | { kind: "share"; share: number }
  | { kind: "measured"; measured: Measured }
  | { kind: "opened"; init_ms: number }
  | { kind: "ran"; outputs: Tensors; latency_ms: number }
  | { kind: "error"; message: string };
