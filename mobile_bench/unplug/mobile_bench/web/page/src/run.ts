// The protocol: cold starts of all jobs in turn, in an order drawn anew for each, one fresh worker each.
import { Client, runtimesBase } from "./client";
import { batteryPercent } from "./device";
import { generator, shuffled } from "./random";
import { type Found, nothingYet, report, row } from "./rows";
import type { BenchReport, BenchRow, DeviceFacts, Job, Offer } from "./types";

const MAX_TRIES = 3;

export interface Events {
  /** A cold start begins, goes on, has ended; `share` is of the whole benchmark. */
  progress(share: number, text: string): void;
  running(job: Job): void;
  row(job: Job, row: BenchRow): Promise<void>;
}

const clean = (text: string): string => text.replace(/[^\x20-\x7e]+/g, " ").slice(0, 300);

/** Notices when a page was hidden: a browser slows hidden pages down. */
class Visibility {
  private hidden = document.hidden;

  constructor() {
    document.addEventListener("visibilitychange", () => (this.hidden ||= document.hidden));
  }

  begin(): void {
    this.hidden = document.hidden;
  }

  get lost(): boolean {
    return this.hidden;
  }

  async back(): Promise<void> {
    while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  }
}

async function keepAwake(): Promise<() => void> {
  let lock: WakeLockSentinel | null = null;
  const take = async (): Promise<void> => {
    if (!document.hidden) lock = (await (navigator as { wakeLock?: WakeLock }).wakeLock?.request("screen").catch(() => null)) ?? null;
  };
  await take();
  document.addEventListener("visibilitychange", take);
  return () => {
    document.removeEventListener("visibilitychange", take);
    void lock?.release();
  };
}

class Run {
  readonly found: Map<Job, Found>;
  private readonly begun = performance.now();
  private readonly visibility = new Visibility();
  private done = 0;

  constructor(
    private readonly offer: Offer,
    private readonly facts: DeviceFacts,
    private readonly events: Events,
  ) {
    this.found = new Map(offer.jobs.map((job) => [job, this.earlier(job)]));
  }

  /** What the same browser measured before it was closed. */
  private earlier(job: Job): Found {
    const known = job.row;
    if (known === null || known.device !== this.facts.device || known.os !== this.facts.os) return nothingYet();
    return { ...nothingYet(), repeats: known.repeats, curve: known.curve, threads: known.threads, interruptions: known.interruptions };
  }

  async all(): Promise<void> {
    const { jobs, plan } = this.offer;
    const draw = generator(plan.seed);
    for (const job of jobs) await this.precheck(job);
    for (let turn = 0; turn < plan.starts; turn++) {
      for (const job of shuffled(jobs, draw)) {
        const found = this.found.get(job)!;
        if (job.not_run === null && found.failure === null && found.repeats.length <= turn) await this.one(job, found);
        this.tell(++this.done, 0, job);
      }
    }
  }

  /** Rows of what cannot run here are told at once. */
  private async precheck(job: Job): Promise<void> {
    const found = this.found.get(job)!;
    const { inputs, outputs } = job.iospec;
    const odd = inputs.find(({ dtype }) => dtype !== "float32" && dtype !== "int32") ?? outputs.find(({ dtype }) => dtype !== "float32");
    if (job.not_run !== null) return this.events.row(job, this.row(job));
    if (job.delegate === "webgpu" && this.facts.webgpu !== null) found.failure = this.facts.webgpu;
    else if (odd !== undefined) found.failure = `${odd.name} is ${odd.dtype}, and only float32, and int32 as an input, goes through a browser's runtime here`;
    if (found.failure !== null) await this.events.row(job, this.row(job));
  }

  private tell(done: number, share: number, job: Job): void {
    this.events.progress((done + share) / (this.offer.jobs.length * this.offer.plan.starts), `${job.file} on ${job.delegate}`);
  }

  private async one(job: Job, found: Found): Promise<void> {
    this.events.running(job);
    this.tell(this.done, 0, job);
    for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
      await this.visibility.back();
      this.visibility.begin();
      try {
        const kept = await this.coldStart(job, found);
        if (kept) break;
        found.interruptions.push(`the page was hidden in cold start ${found.repeats.length + 1}, which was made again`);
        if (attempt === MAX_TRIES) found.failure = `the page was hidden in ${MAX_TRIES} tries of the same cold start`;
      } catch (error) {
        found.failure = clean(error instanceof Error ? error.message : String(error));
        break;
      }
    }
    await this.events.row(job, this.row(job));
  }

  /** Whether it counts: the page was seen all the time. */
  private async coldStart(job: Job, found: Found): Promise<boolean> {
    const { plan } = this.offer;
    const [model, samples, battery] = await Promise.all([job.model(), job.samples(), batteryPercent()]);
    const started = (performance.now() - this.begun) / 1e3;
    const client = new Client(job.runtime, job.delegate);
    try {
      const setup = { base: runtimesBase(), delegate: job.delegate, threads: plan.threads, iospec: job.iospec };
      const { repeat, curve, threads } = await client.measure(
        { model, samples, setup, plan, min_psnr_db: job.min_psnr_db },
        (share) => this.tell(this.done, share, job),
      );
      if (this.visibility.lost) return false;
      found.repeats = [...found.repeats, { started_s: started, battery_percent: battery, ...repeat }];
      found.curve = curve;
      found.threads = threads;
      return true;
    } finally {
      client.close();
    }
  }

  row(job: Job): BenchRow {
    return row(job, this.offer.plan, this.facts, this.found.get(job)!);
  }
}

/** Measures all that is offered, and gives the report. */
export async function runAll(offer: Offer, facts: DeviceFacts, events: Events): Promise<BenchReport> {
  const release = await keepAwake();
  try {
    const run = new Run(offer, facts, events);
    await run.all();
    return report(offer.jobs.map((job) => run.row(job)), offer.plan);
  } finally {
    release();
  }
}
