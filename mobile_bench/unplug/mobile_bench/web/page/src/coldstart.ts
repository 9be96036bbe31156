// One cold start in a fresh worker: load, first run, warm-ups, timed runs, and a look at the outputs of every run.
import type { Engine, Runtime } from "./engine";
import type { Measure, Measured } from "./messages";
import { compare, distance, type Parity, worstOf } from "./metrics";
import { median, summarize, windows } from "./statistics";
import type { Sample, Tensors } from "./types";

const SHARE_EVERY_MS = 100;
/** Runs of a sustained cold start: bounds its memory. */
const MAX_RUNS = 5_000_000;

/** Looks at the outputs of every run: a runtime that is right once may be wrong the next time. */
class Watch {
  private readonly first = new Map<number, Tensors>();
  count = 0;
  private worst: { apart: number; sample: number; outputs: Tensors } | null = null;

  look(sample: number, outputs: Tensors): void {
    this.count += 1;
    const known = this.first.get(sample);
    if (known === undefined) {
      this.first.set(sample, outputs);
      return;
    }
    const apart = Math.max(0, ...Object.keys(known).map((name) => distance(known[name]!, outputs[name] ?? new Float32Array())));
    if (apart > (this.worst?.apart ?? 0)) this.worst = { apart, sample, outputs };
  }

  /** The first run on each sample and the one that differed most, against what was expected or else against the first. */
  parity(samples: Sample[], threshold: number): Parity {
    const seen = [...this.first].map(([sample, outputs]) => ({ sample, outputs }));
    if (this.worst !== null) seen.push(this.worst);
    const found = seen.flatMap(({ sample, outputs }) => {
      const wanted = samples[sample]?.outputs ?? this.first.get(sample) ?? {};
      return Object.entries(wanted).map(
        ([name, expected]) => [name, compare(expected, outputs[name] ?? new Float32Array())] as const,
      );
    });
    return worstOf(found, threshold);
  }
}

class Times {
  readonly latency: number[] = [];
  readonly enqueue: number[] = [];
  readonly readBack: number[] = [];
  readonly ends: number[] = [];
}

async function timed(engine: Engine, ask: Measure, watch: Watch, share: (share: number) => void): Promise<Times> {
  const { plan, samples } = ask;
  const times = new Times();
  const begun = performance.now();
  let told = begun;
  for (;;) {
    const index = times.latency.length % samples.length;
    const ran = await engine.run(samples[index]!.inputs);
    const now = performance.now();
    times.latency.push(ran.latency_ms);
    times.enqueue.push(ran.enqueue_ms);
    times.readBack.push(ran.read_back_ms);
    times.ends.push((now - begun) / 1e3);
    watch.look(index, ran.outputs);
    const done = plan.sustain_s === null ? times.latency.length / plan.iterations : (now - begun) / 1e3 / plan.sustain_s;
    if (done >= 1 || times.latency.length >= MAX_RUNS) return times;
    if (now - told > SHARE_EVERY_MS) share(done);
    if (now - told > SHARE_EVERY_MS) told = now;
  }
}

export async function coldStart(runtime: Runtime, ask: Measure, share: (share: number) => void): Promise<Measured> {
  const { plan, samples, setup } = ask;
  await runtime.load(setup);
  const started = performance.now();
  const engine = await runtime.open(ask.model, setup);
  const opened = performance.now();
  const first = await engine.run(samples[0]!.inputs);
  const ran = performance.now();
  const watch = new Watch();
  watch.look(0, first.outputs);
  for (let run = 0; run < plan.warmup; run++) {
    const index = run % samples.length;
    watch.look(index, (await engine.run(samples[index]!.inputs)).outputs);
  }
  const times = await timed(engine, ask, watch, share);
  engine.close();
  const sustained = plan.sustain_s !== null;
  return {
    repeat: {
      init_ms: opened - started,
      first_inference_ms: ran - opened,
      latencies_ms: sustained ? [] : times.latency,
      enqueue_ms: median(times.enqueue),
      read_back_ms: median(times.readBack),
      summary: summarize(times.latency),
      compared: watch.count,
      ...watch.parity(samples, ask.min_psnr_db),
      delegate_got: setup.delegate,
    },
    curve: sustained ? windows(times.ends, times.latency) : [],
    threads: engine.threads,
  };
}
