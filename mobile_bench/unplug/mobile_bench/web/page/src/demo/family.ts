// Models of several sizes that share one head, as a manifest's postprocessing.family lists them, and which of them a device takes.

export interface Member {
  name: string;
  /** Median of one picture, of the device itself where it has measured; null where nobody has. */
  latency_ms: number | null;
}

const isTime = (ms: number): boolean => ms > 0 && ms < Infinity;

/** The best member that fits: the first, best first as they are listed, whose latency is known and at most the budget. */
export function chooseMember(members: readonly Member[], budget_ms: number): Member {
  if (!isTime(budget_ms)) throw new Error(`budget ${budget_ms} ms: it is not a time. Give milliseconds above 0`);
  const known = members.map(({ latency_ms }) => latency_ms).filter((ms) => ms !== null);
  const names = new Set(members.map(({ name }) => name));
  if (members.length === 0 || names.size < members.length || !known.every(isTime)) {
    throw new Error("family: it needs members of different names, and latencies above 0. Get another release");
  }
  const found = members.find(({ latency_ms }) => latency_ms !== null && latency_ms <= budget_ms);
  if (found !== undefined) return found;
  const fastest = known.length === 0 ? "none was timed" : `the fastest takes ${Math.min(...known)} ms`;
  throw new Error(`budget ${budget_ms} ms: no member fits: ${fastest}. Raise the budget`);
}
