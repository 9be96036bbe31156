// The page's side of a worker.
import type { Drawn, Order } from "./draw/loop";
import type { Setup } from "./engine";
import type { Answer, Ask, Measure, Measured, OpenPart, Step, Times } from "./messages";
import type { Delegate, Feeds, RuntimeName, Tensors } from "./types";

function start(runtime: RuntimeName, delegate: Delegate): Worker {
  if (runtime === "litert-web") return new Worker(new URL("./workers/litert.ts", import.meta.url));
  if (delegate === "wasm") return new Worker(new URL("./workers/ort-wasm.ts", import.meta.url));
  return new Worker(new URL("./workers/ort-webgpu.ts", import.meta.url));
}

export const runtimesBase = (): string => new URL("runtimes/", document.baseURI).href;

/** One worker and the question that it is at. */
export class Client {
  private readonly worker: Worker;
  private share: (share: number) => void = () => undefined;
  private step: (step: Step) => void = () => undefined;

  constructor(runtime: RuntimeName, delegate: Delegate) {
    this.worker = start(runtime, delegate);
  }

  private ask(ask: Ask, transfer: Transferable[] = []): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }: MessageEvent<Answer>) => {
        if (data.kind === "share") this.share(data.share);
        else if (data.kind === "step") this.step(data);
        else if (data.kind === "error") reject(new Error(data.message));
        else resolve(data);
      };
      this.worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message || "its worker could not be started"));
      };
      this.worker.postMessage(ask, transfer);
    });
  }

  async measure(ask: Omit<Measure, "kind">, share: (share: number) => void): Promise<Measured> {
    this.share = share;
    const answer = await this.ask({ kind: "measure", ...ask });
    if (answer.kind !== "measured") throw new Error("the worker answered something else");
    return answer.measured;
  }

  async open(model: ArrayBuffer, setup: Setup): Promise<number> {
    const answer = await this.ask({ kind: "open", model, setup });
    if (answer.kind !== "opened") throw new Error("the worker answered something else");
    return answer.init_ms;
  }

  async run(inputs: Feeds): Promise<{ outputs: Tensors; latency_ms: number }> {
    const answer = await this.ask({ kind: "run", inputs });
    if (answer.kind !== "ran") throw new Error("the worker answered something else");
    return answer;
  }

  /** Opens one part of a generator; gives the threads that it runs on. */
  async openPart(part: Omit<OpenPart, "kind">): Promise<number> {
    const answer = await this.ask({ kind: "part", ...part }, [part.model]);
    if (answer.kind !== "opened") throw new Error("the worker answered something else");
    return answer.threads;
  }

  /** Draws a picture with the parts that are open; null where `stop` ended it. */
  async draw(order: Order, preview: boolean, step: (step: Step) => void): Promise<{ drawn: Drawn; times: Times } | null> {
    this.step = step;
    const answer = await this.ask({ kind: "draw", order, preview });
    if (answer.kind === "stopped") return null;
    if (answer.kind !== "drawn") throw new Error("the worker answered something else");
    return answer;
  }

  /** Ends a picture after the step that it is at. */
  stop(): void {
    this.worker.postMessage({ kind: "stop" } satisfies Ask);
  }

  close(): void {
    this.worker.terminate();
  }
}
