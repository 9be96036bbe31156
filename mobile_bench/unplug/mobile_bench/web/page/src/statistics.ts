// As unplug.mobile_bench.statistics and .sustained compute it; a test compares both.
import type { Summary, Window } from "./types";

const MIN_SAMPLES_P99 = 1000;
const WINDOWS = 60;
/** Student's t at 97.5 %, for 1 to 30 degrees of freedom. */
const T_975 = [
  12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.306, 2.26216, 2.22814, 2.20099, 2.17881, 2.16037, 2.14479,
  2.13145, 2.11991, 2.10982, 2.10092, 2.09302, 2.08596, 2.07961, 2.07387, 2.06866, 2.0639, 2.05954, 2.05553, 2.05183, 2.04841,
  2.04523, 2.04227,
];

/** Percentile of ascending numbers, by linear interpolation between order statistics (type 7). */
export function percentile(sorted: ArrayLike<number>, percent: number): number {
  const place = ((sorted.length - 1) * percent) / 100;
  const below = Math.floor(place);
  const low = sorted[below] ?? NaN;
  const high = sorted[Math.min(below + 1, sorted.length - 1)] ?? NaN;
  return low + (place - below) * (high - low);
}

export function median(values: ArrayLike<number>): number {
  return percentile(Float64Array.from(values).sort(), 50);
}

export function summarize(latencies: ArrayLike<number>): Summary {
  const sorted = Float64Array.from(latencies).sort();
  const count = sorted.length;
  if (count === 0) throw new Error("no samples to summarize");
  const mean = sorted.reduce((sum, value) => sum + value, 0) / count;
  const squares = sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    count,
    p50: percentile(sorted, 50),
    p90: percentile(sorted, 90),
    p95: percentile(sorted, 95),
    p99: count >= MIN_SAMPLES_P99 ? percentile(sorted, 99) : null,
    mean,
    std: count > 1 ? Math.sqrt(squares / (count - 1)) : 0,
    min: sorted[0] ?? NaN,
    max: sorted[count - 1] ?? NaN,
  };
}

/** A sustained run in windows of equal length; those in which no run ended are left out. */
export function windows(ends: ArrayLike<number>, latencies: ArrayLike<number>, count = WINDOWS): Window[] {
  const last = ends[ends.length - 1];
  if (last === undefined) return [];
  const places = new Map<number, number[]>();
  for (let run = 0; run < ends.length; run++) {
    const place = Math.min(Math.max(Math.ceil(((ends[run] ?? 0) / last) * count), 1), count) - 1;
    const own = places.get(place) ?? [];
    own.push(latencies[run] ?? NaN);
    places.set(place, own);
  }
  return [...places].map(([place, own]) => {
    const sorted = Float64Array.from(own).sort();
    return {
      start_s: (place * last) / count,
      end_s: ((place + 1) * last) / count,
      count: own.length,
      p50: percentile(sorted, 50),
      p95: percentile(sorted, 95),
      temperature_c: null,
    };
  });
}

/** Geometric mean of the cold starts' medians, with Student's interval on their logarithms. */
export function typicalLatency(medians: number[]): { value: number; ends: [number, number] | null } | null {
  if (medians.length === 0 || Math.min(...medians) <= 0) return null;
  const logs = medians.map(Math.log);
  const mean = logs.reduce((sum, value) => sum + value, 0) / logs.length;
  const value = Math.exp(mean);
  const freedom = logs.length - 1;
  if (freedom < 1) return { value, ends: null };
  const deviation = Math.sqrt(logs.reduce((sum, item) => sum + (item - mean) ** 2, 0) / freedom);
  const half = ((T_975[freedom - 1] ?? 1.96) * deviation) / Math.sqrt(logs.length);
  return { value, ends: [Math.exp(mean - half), Math.exp(mean + half)] };
}

/** (largest - smallest) / smallest, or null where a coarse clock says zero. */
export function relativeSpread(medians: number[]): number | null {
  const least = Math.min(...medians);
  return least > 0 ? (Math.max(...medians) - least) / least : null;
}
