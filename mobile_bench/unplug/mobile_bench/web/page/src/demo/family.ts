// Models of several sizes that share one head, as a manifest's postprocessing.family lists them, and which of them a device takes.

import type { Job } from "../types";

/** The budget: one frame of a preview of 30 pictures a second. */
export const FRAME_MS = 33;

export interface Member {
  name: string;
  checkpoint_sha256: string;
  /** Median of one picture, of the device itself where it has measured; null where nobody has. */
  latency_ms: number | null;
}

const isTime = (ms: number): boolean => Number.isFinite(ms) && ms > 0;
const NO_FAMILY = "family: it needs members of different names, and latencies above 0. Get another release";

/** The members of a manifest's family; null where it carries none, an error where it is not to be used. */
export function readFamily(value: unknown): Member[] | null {
  const family = (value ?? null) as { schema?: unknown; members?: Member[] } | null;
  if (family === null) return null;
  const { schema, members } = family;
  if (schema === "unplug-family/1" && Array.isArray(members) && members.every((item) => item instanceof Object)) return members;
  throw new Error(NO_FAMILY);
}

/** The members, with what this device has measured of the fastest of their files. */
export const timedHere = (members: readonly Member[], jobs: readonly Job[]): Member[] =>
  members.map((member) => {
    const here = jobs.flatMap(({ model_sha256, row }) => (model_sha256 === member.checkpoint_sha256 && row?.valid ? (row.median_ms ?? []) : []));
    return here.length > 0 ? { ...member, latency_ms: Math.min(...here) } : member;
  });

/** The best member that fits: the first, best first as they are listed, whose latency is known and at most the budget. */
export function chooseMember(members: readonly Member[], budget_ms: number): Member {
  const budget = `budget ${budget_ms} ms`;
  if (!isTime(budget_ms)) throw new Error(`${budget}: it is not a time. Give milliseconds above 0`);
  const known = members.flatMap(({ latency_ms }) => latency_ms ?? []);
  const names = new Set(members.map(({ name }) => name));
  if (members.length === 0 || names.size < members.length || !known.every(isTime)) throw new Error(NO_FAMILY);
  const found = members.find(({ latency_ms }) => (latency_ms ?? Infinity) <= budget_ms);
  if (found !== undefined) return found;
  const fastest = known.length === 0 ? "none was timed" : `the fastest takes ${Math.min(...known)} ms`;
  throw new Error(`${budget}: no member fits: ${fastest}. Time its files in the benchmark`);
}
