// Sampling as a table, as unplug.sdk.drawing.device.sampler has it: timesteps, shares of guidance, and five coefficients a step.

export type Solver = "ddim" | "dpm++";

export interface Schedule {
  alphas_cumprod: number[];
  final_alpha_cumprod: number;
  prediction: "epsilon" | "v_prediction";
  spacing: "leading" | "trailing" | "linspace";
  steps_offset: number;
  /** How guidance weighs at each level; absent where it is the same at all. */
  guidance?: "constant" | "linear";
}

export interface SamplingTable {
  timestep: number[];
  latent_to_data: Float32Array;
  prediction_to_data: Float32Array;
  keep: Float32Array;
  data: Float32Array;
  previous: Float32Array;
  /** What each step takes of the scale of guidance above 1; 1 in the mean. */
  guidance: Float64Array;
}

/** What DPM-Solver++ takes for a level of nothing but noise, whose logarithm is infinite. */
const LEAST_ALPHA = 2 ** -24;

/** Rounds; halves go to the even neighbour, as in Python. */
export function rint(value: number): number {
  const down = Math.floor(value);
  return value - down === 0.5 ? down + (down % 2 === 0 ? 0 : 1) : Math.round(value);
}

const unseen = (solver: Solver, schedule: Schedule): number => (solver === "dpm++" && schedule.spacing !== "trailing" ? 1 : 0);

/** Most steps that a schedule has for a solver. */
export const mostSteps = (schedule: Schedule, solver: Solver): number => schedule.alphas_cumprod.length - unseen(solver, schedule);

export function timesteps(schedule: Schedule, steps: number, solver: Solver): number[] {
  const levels = schedule.alphas_cumprod.length;
  const extra = unseen(solver, schedule);
  if (!Number.isInteger(steps) || steps < 1 || steps > levels - extra) throw new Error(`Use 1 to ${levels - extra} steps for this base and ${solver}.`);
  return Array.from({ length: steps }, (_, i) => {
    const left = steps - 1 + extra - i;
    const by = {
      leading: () => left * Math.floor(levels / (steps + extra)) + schedule.steps_offset,
      trailing: () => rint(levels - i * (levels / steps)) - 1,
      linspace: () => rint(left * ((levels - 1) / Math.max(1, steps - 1 + extra))),
    };
    return Math.min(by[schedule.spacing](), levels - 1);
  });
}

type Moves = Pick<Record<keyof SamplingTable, number[]>, "keep" | "data" | "previous">;

/** Song et al., 2021, equation 12 with sigma = 0. */
function ddim(schedule: Schedule, times: number[], alpha: number[]): Moves {
  const stride = Math.floor(schedule.alphas_cumprod.length / times.length);
  const after = times.map((time) => schedule.alphas_cumprod[time - stride] ?? schedule.final_alpha_cumprod);
  const keep = alpha.map((own, s) => Math.sqrt((1 - after[s]!) / (1 - own)));
  return { keep, data: alpha.map((own, s) => Math.sqrt(after[s]!) - Math.sqrt(own) * keep[s]!), previous: alpha.map(() => 0) };
}

/** Lu et al., 2022, algorithm 2: second order but for the first step and the last, which ends without noise. */
function dpm(alpha: number[]): Moves {
  const last = alpha.length - 1;
  const log = alpha.map((own) => 0.5 * Math.log(own / (1 - own)));
  const step = (s: number): number => log[s + 1]! - log[s]!;
  const keep = alpha.map((own, s) => (s === last ? 0 : Math.sqrt((1 - alpha[s + 1]!) / (1 - own))));
  const pull = alpha.map((_, s) => (s === last ? 1 : Math.sqrt(alpha[s + 1]!) * -Math.expm1(-step(s))));
  const previous = alpha.map((_, s) => (s === 0 || s === last ? 0 : (-0.5 * pull[s]! * step(s)) / step(s - 1)));
  return { keep, data: pull.map((own, s) => own - previous[s]!), previous };
}

/** Computed in float64, rounded to float32 once. */
export function samplingTable(schedule: Schedule, steps: number, solver: Solver): SamplingTable {
  const timestep = timesteps(schedule, steps, solver);
  const alpha = timestep.map((time) => Math.max(schedule.alphas_cumprod[time]!, solver === "dpm++" ? LEAST_ALPHA : 0));
  const noise = schedule.prediction === "epsilon";
  const moves = solver === "dpm++" ? dpm(alpha) : ddim(schedule, timestep, alpha);
  return {
    timestep,
    latent_to_data: Float32Array.from(alpha, (own) => (noise ? 1 / Math.sqrt(own) : Math.sqrt(own))),
    prediction_to_data: Float32Array.from(alpha, (own) => (noise ? -Math.sqrt(1 - own) / Math.sqrt(own) : -Math.sqrt(1 - own))),
    keep: Float32Array.from(moves.keep),
    data: Float32Array.from(moves.data),
    previous: Float32Array.from(moves.previous),
    guidance: Float64Array.from(timestep, (time) => (schedule.guidance === "linear" ? 2 * (1 - time / schedule.alphas_cumprod.length) : 1)),
  };
}

/** The scale of guidance at a step (Wang et al., 2024, section 4: linear). */
export const scaleAt = (table: SamplingTable, s: number, guidance: number): number => 1 + (guidance - 1) * table.guidance[s]!;

const f32 = Math.fround;

/** negative + guidance (prediction - negative), in float32 (Ho and Salimans, 2022, equation 6). */
export function guided(prediction: Float32Array, negative: Float32Array, guidance: number): Float32Array<ArrayBuffer> {
  const scale = f32(guidance);
  return Float32Array.from(prediction, (told, i) => f32(negative[i]! + f32(scale * f32(told - negative[i]!))));
}

/** One step in float32: the next latent, and this step's data. */
export function advance(
  table: SamplingTable, s: number, latent: Float32Array, prediction: Float32Array, before: Float32Array,
): { latent: Float32Array<ArrayBuffer>; data: Float32Array<ArrayBuffer> } {
  const [toData, fromPrediction] = [table.latent_to_data[s]!, table.prediction_to_data[s]!];
  const [keep, pull, previous] = [table.keep[s]!, table.data[s]!, table.previous[s]!];
  const data = Float32Array.from(latent, (z, i) => f32(f32(toData * z) + f32(fromPrediction * prediction[i]!)));
  const next = Float32Array.from(latent, (z, i) => f32(f32(f32(keep * z) + f32(pull * data[i]!)) + f32(previous * before[i]!)));
  return { latent: next, data };
} // prettier-ignore
