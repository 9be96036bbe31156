// The worker's side of drawing: parts that stay open, one picture at a time, previews where they are cheap, and a way to stop.
import type { Engine, Runtime } from "../engine";
import type { OpenPart, Step, Times } from "../messages";
import type { Delegate } from "../types";
import { type Drawn, Loop, type Network, type Order, type Seen } from "./loop";
import { partsOf, type Pipeline } from "./pipeline";

/** The largest share of the time of the steps that goes into previews. */
const PREVIEW_SHARE = 0.25;

export class Stopped extends Error {}

/** The text encoder runs once a picture, and GPU delegates are wrong or refuse it (docs/device.md): it stays on the CPU. */
export const placeOf = (part: string, delegate: Delegate): Delegate => (part === "text_encoder" ? "wasm" : delegate);

/** Lets messages in between two steps: a promise alone does not. */
const breathe = (): Promise<void> =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

export class Painter {
  private readonly engines = new Map<string, Engine>();
  private times: Times = { parts: {}, whole: 0, previews: 0 };
  private stopped = false;
  private previews = 0;
  private pipeline: Pipeline | null = null;

  constructor(private readonly runtime: Runtime) {}

  /** Opens one part; the runtime itself comes with the first. */
  async open({ name, model, pipeline, base, delegate, threads }: OpenPart): Promise<number> {
    const setup = { base, delegate: placeOf(name, delegate), threads, iospec: partsOf(pipeline)[name]!.iospec };
    if (this.pipeline === null) await this.runtime.load({ ...setup, delegate });
    this.pipeline = pipeline;
    const engine = await this.runtime.open(model, setup);
    this.engines.set(name, engine);
    return engine.threads;
  }

  stop(): void {
    this.stopped = true;
  }

  async draw(order: Order, preview: boolean, tell: (step: Step) => void): Promise<{ drawn: Drawn; times: Times }> {
    if (this.pipeline === null) throw new Error("no generator is open");
    [this.stopped, this.previews] = [false, 0];
    this.times = { parts: {}, whole: 0, previews: 0 };
    const loop = new Loop(this.pipeline, Object.fromEntries([...this.engines.keys()].map((name) => [name, this.network(name)])));
    const started = performance.now();
    const drawn = await loop.draw(order, async (seen) => {
      const elapsed = performance.now() - started - this.times.previews;
      tell({ kind: "step", done: seen.done, steps: seen.steps, elapsed_ms: elapsed, preview: preview ? await this.preview(loop, seen, elapsed) : null });
      await breathe();
      if (this.stopped) throw new Stopped();
    });
    this.times.whole = performance.now() - started - this.times.previews;
    return { drawn, times: this.times };
  }

  /** The picture that a step points at, where the time that previews took so far allows another. */
  private async preview(loop: Loop, { done, steps, data }: Seen, elapsed: number): Promise<Step["preview"]> {
    const spent = this.times.previews;
    const shown = this.previews;
    const cost = shown === 0 ? 0 : spent / shown;
    if (done === steps || (shown > 0 && spent + cost > PREVIEW_SHARE * elapsed)) return null;
    const [before, calls] = [performance.now(), this.times.parts["decoder"]];
    const { pixels } = await loop.decode(data);
    // The first one also warms the decoder up; a picture's own times have no previews in them.
    if (calls === undefined) delete this.times.parts["decoder"];
    else calls.pop();
    this.previews += 1;
    this.times.previews += performance.now() - before;
    return pixels;
  }

  private network(name: string): Network {
    return async (inputs) => {
      const ran = await this.engines.get(name)!.run(inputs);
      (this.times.parts[name] ??= []).push(ran.enqueue_ms + ran.latency_ms);
      return ran.outputs;
    };
  }
}
