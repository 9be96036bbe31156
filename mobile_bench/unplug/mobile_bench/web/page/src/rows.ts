// Measurements to a row of the report. Python works every derived number out again and believes none of these.
import { median, relativeSpread, summarize, typicalLatency } from "./statistics";
import type { BenchReport, BenchRow, DeviceFacts, Job, Plan, Repeat, Window } from "./types";

declare const LITERT_VERSION: string;
declare const ORT_VERSION: string;

/** What has been measured of one job. */
export interface Found {
  repeats: Repeat[];
  curve: Window[];
  threads: number;
  failure: string | null;
  interruptions: string[];
}

export const nothingYet = (): Found => ({ repeats: [], curve: [], threads: 1, failure: null, interruptions: [] });

const middle = (values: (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? median(known) : null;
};

export const runtimeVersion = (job: Job): string => (job.runtime === "litert-web" ? LITERT_VERSION : ORT_VERSION);

function reasons(job: Job, plan: Plan, found: Found): string[] {
  const stopped = job.not_run ?? found.failure;
  const missing = found.repeats.length < plan.starts;
  const own = missing && found.repeats.length > 0 ? `${found.repeats.length} of ${plan.starts} cold starts were timed: ` : "";
  const parity = [...new Set(found.repeats.map((repeat) => repeat.parity_reason).filter((reason) => reason !== null))];
  return [...(missing ? [own + (stopped ?? "the rest is to come")] : []), ...parity.map((reason) => `parity: ${reason}`)];
}

function numbers(found: Found): Partial<BenchRow> {
  const { repeats } = found;
  if (repeats.length === 0) return {};
  const medians = repeats.map((repeat) => repeat.summary.p50);
  const pooled = repeats.flatMap((repeat) => repeat.latencies_ms);
  const typical = typicalLatency(medians);
  return {
    delegate_got: repeats[0]!.delegate_got,
    init_ms_cold: median(repeats.map((repeat) => repeat.init_ms)),
    first_inference_ms: median(repeats.map((repeat) => repeat.first_inference_ms)),
    enqueue_ms: middle(repeats.map((repeat) => repeat.enqueue_ms)),
    read_back_ms: middle(repeats.map((repeat) => repeat.read_back_ms)),
    summary: pooled.length > 0 ? summarize(pooled) : repeats[0]!.summary,
    median_ms: typical?.value ?? null,
    median_ci95_ms: typical?.ends ?? null,
    spread: relativeSpread(medians),
  };
}

export function row(job: Job, plan: Plan, facts: DeviceFacts, found: Found): BenchRow {
  const why = reasons(job, plan, found);
  const complete = found.repeats.length >= plan.starts;
  return {
    file: job.file,
    model_type: job.model_type,
    model_sha256: job.model_sha256,
    artifact_sha256: job.artifact_sha256,
    target: job.target,
    precision: job.precision,
    bytes: job.bytes,
    where: facts.where,
    device: facts.device,
    soc: null,
    os: facts.os,
    gpu_driver: facts.gpu_driver,
    runtime: job.runtime,
    runtime_version: runtimeVersion(job),
    threads: found.threads,
    delegate_asked: job.delegate,
    delegate_got: null,
    status: job.not_run !== null ? "not_run" : complete ? "ok" : "failed",
    valid: why.length === 0,
    reasons: why,
    warnings: found.repeats.length === 1 && plan.sustain_s === null ? ["one cold start says nothing of the spread between them: there is no interval"] : [],
    mode: plan.sustain_s === null ? "burst" : "sustained",
    warmup: plan.warmup,
    iterations: plan.iterations,
    timed_until: "read_back",
    init_ms_cold: null,
    first_inference_ms: null,
    enqueue_ms: null,
    read_back_ms: null,
    repeats: found.repeats,
    summary: null,
    median_ms: null,
    median_ci95_ms: null,
    spread: null,
    curve: found.curve,
    battery_percent: facts.battery_percent,
    charging: facts.charging,
    interruptions: found.interruptions,
    parity_reference: job.parity_reference,
    inputs_sha256: job.inputs_sha256,
    flops: job.flops,
    ...numbers(found),
  };
}

export function report(rows: BenchRow[], plan: Plan): BenchReport {
  const versions: Record<string, string> = {};
  for (const { runtime, runtime_version } of rows) if (runtime_version !== null) versions[runtime] = runtime_version;
  return { schema: "unplug-bench/1", rows, seed: plan.seed, versions, git_revision: null };
}
