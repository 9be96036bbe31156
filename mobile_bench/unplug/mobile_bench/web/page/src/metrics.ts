// How near outputs are to what was expected; as unplug.export.metrics.

export interface Difference {
  exact: boolean;
  psnr_db: number | null;
  reason: string | null;
}

/** PSNR = 20 log10(max|reference| / rms(output - reference)). */
export function compare(reference: Float32Array, output: Float32Array): Difference {
  const wrong = (reason: string): Difference => ({ exact: false, psnr_db: null, reason });
  if (reference.length !== output.length) return wrong(`${output.length} values where the reference has ${reference.length}`);
  let squares = 0;
  let peak = 0;
  for (let place = 0; place < output.length; place++) {
    const wanted = reference[place] ?? NaN;
    const got = output[place] ?? NaN;
    if (!Number.isFinite(got)) return wrong("the output holds NaN or infinity");
    if (!Number.isFinite(wanted)) return wrong("the reference holds NaN or infinity");
    squares += (got - wanted) ** 2;
    peak = Math.max(peak, Math.abs(wanted));
  }
  if (squares === 0) return { exact: true, psnr_db: null, reason: null };
  if (peak === 0) return wrong("the reference is zero everywhere and the output is not");
  return { exact: false, psnr_db: 20 * Math.log10(peak / Math.sqrt(squares / output.length)), reason: null };
}

/** Why a difference is too large, or null. */
export function verdict(difference: Difference, threshold: number): string | null {
  if (difference.exact) return null;
  if (difference.psnr_db === null) return difference.reason;
  return difference.psnr_db < threshold ? `${difference.psnr_db.toFixed(1)} dB is below ${threshold} dB` : null;
}

/** Largest absolute difference; infinite where a value is not finite, 0 where every bit pattern is the same. */
export function distance(known: Float32Array, value: Float32Array): number {
  if (known.length !== value.length) return Infinity;
  let largest = 0;
  for (let place = 0; place < value.length; place++) {
    const apart = Math.abs((value[place] ?? NaN) - (known[place] ?? NaN));
    if (!(apart <= Number.MAX_VALUE)) return Infinity;
    if (apart > largest) largest = apart;
  }
  return largest;
}

export interface Parity {
  parity_db: number | null;
  parity_reason: string | null;
}

/** The worst of some differences, each under the name of its output. */
export function worstOf(found: Iterable<readonly [string, Difference]>, threshold: number): Parity {
  const reasons = new Map<string, string>();
  let least: number | null = null;
  for (const [name, difference] of found) {
    const reason = verdict(difference, threshold);
    if (reason !== null) reasons.set(name, reason);
    if (difference.psnr_db !== null && (least === null || difference.psnr_db < least)) least = difference.psnr_db;
  }
  const text = [...reasons].map(([name, reason]) => `${name}: ${reason}`).join("; ");
  return { parity_db: least, parity_reason: text === "" ? null : text };
}
