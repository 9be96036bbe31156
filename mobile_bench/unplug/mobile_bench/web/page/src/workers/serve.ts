// A worker's side: one cold start, or a model that stays open for the demo.
import { coldStart } from "../coldstart";
import type { Engine, Runtime } from "../engine";
import type { Answer, Ask } from "../messages";

const answer = (message: Answer): void => self.postMessage(message);

/** Errors of WebAssembly may be numbers or have no message. */
const worded = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(/\s+/g, " ").trim().slice(0, 300) || "unknown error";

async function reply(runtime: Runtime, ask: Ask, open: Engine | null): Promise<Engine | null> {
  if (ask.kind === "measure") {
    const measured = await coldStart(runtime, ask, (share) => answer({ kind: "share", share }));
    answer({ kind: "measured", measured });
    return open;
  }
  if (ask.kind === "open") {
    await runtime.load(ask.setup);
    const started = performance.now();
    const engine = await runtime.open(ask.model, ask.setup);
    answer({ kind: "opened", init_ms: performance.now() - started });
    return engine;
  }
  if (open === null) throw new Error("no model is open");
  const { outputs, latency_ms } = await open.run(ask.inputs);
  answer({ kind: "ran", outputs, latency_ms });
  return open;
}

/** Answers the page's messages, one after the other. */
export function serve(runtime: Runtime): void {
  let open: Promise<Engine | null> = Promise.resolve(null);
  self.onmessage = ({ data }: MessageEvent<Ask>) => {
    open = open.then(async (engine) => {
      try {
        return await reply(runtime, data, engine);
      } catch (error) {
        answer({ kind: "error", message: worded(error) });
        return engine;
      }
    });
  };
}
