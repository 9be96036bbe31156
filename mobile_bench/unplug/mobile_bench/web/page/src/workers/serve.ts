// A worker's side: one cold start, a model that stays open for the demo, or a generator that draws.
import { coldStart } from "../coldstart";
import { Painter, Stopped } from "../draw/painter";
import type { Engine, Runtime } from "../engine";
import type { Answer, Ask } from "../messages";

const answer = (message: Answer): void => self.postMessage(message);

/** Errors of WebAssembly may be numbers or have no message. */
const worded = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").trim().slice(0, 300) || "unknown error";

class Server {
  private engine: Engine | null = null;
  private readonly painter: Painter;

  constructor(private readonly runtime: Runtime) {
    this.painter = new Painter(runtime);
  }

  stop(): void {
    this.painter.stop();
  }

  async reply(ask: Exclude<Ask, { kind: "stop" }>): Promise<Answer> {
    const started = performance.now();
    if (ask.kind === "measure") {
      return { kind: "measured", measured: await coldStart(this.runtime, ask, (share) => answer({ kind: "share", share })) };
    }
    if (ask.kind === "part") return { kind: "opened", threads: await this.painter.open(ask), init_ms: performance.now() - started };
    if (ask.kind === "draw") return { kind: "drawn", ...(await this.painter.draw(ask.order, ask.preview, answer)) };
    if (ask.kind === "open") {
      await this.runtime.load(ask.setup);
      const loaded = performance.now();
      this.engine = await this.runtime.open(ask.model, ask.setup);
      return { kind: "opened", threads: this.engine.threads, init_ms: performance.now() - loaded };
    }
    if (this.engine === null) throw new Error("no model is open");
    const { outputs, latency_ms } = await this.engine.run(ask.inputs);
    return { kind: "ran", outputs, latency_ms };
  }
}

/** Answers the page's messages, one after the other; to stop waits for none. */
export function serve(runtime: Runtime): void {
  const server = new Server(runtime);
  let last: Promise<void> = Promise.resolve();
  self.onmessage = ({ data }: MessageEvent<Ask>) => {
    if (data.kind === "stop") return server.stop();
    last = last.then(async () => {
      try {
        answer(await server.reply(data));
      } catch (error) {
        answer(error instanceof Stopped ? { kind: "stopped" } : { kind: "error", message: worded(error) });
      }
    });
  };
}
