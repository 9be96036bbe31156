// onnxruntime-web, in one of its builds.
import type * as Ort from "onnxruntime-web/wasm";
import { type Engine, fed, type Ran, type Runtime, type Setup } from "./engine";
import type { Feeds, Tensors } from "./types";

class OrtEngine implements Engine {
  /** Its threads start from a script of their own, which one bundled worker does not have. */
  readonly threads = 1;

  constructor(
    private readonly ort: typeof Ort,
    private readonly session: Ort.InferenceSession,
    private readonly setup: Setup,
  ) {}

  async run(inputs: Feeds): Promise<Ran> {
    const before = performance.now();
    const given: Record<string, Ort.Tensor> = {};
    for (const spec of this.setup.iospec.inputs) {
      const values = fed(inputs, spec);
      given[spec.name] = values instanceof Int32Array ? new this.ort.Tensor("int32", values, spec.shape) : new this.ort.Tensor("float32", values, spec.shape);
    }
    const called = performance.now();
    const results = await this.session.run(given);
    const returned = performance.now();
    const outputs: Tensors = {};
    for (const [name, tensor] of Object.entries(results)) {
      outputs[name] = ((await tensor.getData()) as Float32Array<ArrayBuffer>).slice();
    }
    const read = performance.now();
    for (const tensor of [...Object.values(results), ...Object.values(given)]) tensor.dispose();
    return { outputs, enqueue_ms: called - before, latency_ms: read - called, read_back_ms: read - returned };
  }

  close(): void {
    void this.session.release();
  }
}

/** A runtime over one build of onnxruntime-web; the one for WebAssembly alone is faster without what WebGPU needs. */
export function ortRuntime(ort: typeof Ort): Runtime {
  return {
    async load() {
      ort.env.wasm.numThreads = 1;
      ort.env.logLevel = "error";
      // The runtime compiles its WebAssembly on first use; a model of no operators brings it in before the clock runs.
      await ort.InferenceSession.create(new Uint8Array(EMPTY_MODEL)).catch(() => undefined);
    },

    async open(bytes, setup) {
      const options: Ort.InferenceSession.SessionOptions = { executionProviders: [setup.delegate] };
      if (setup.delegate !== "wasm") options.extra = { session: { disable_cpu_ep_fallback: "1" } };
      return new OrtEngine(ort, await ort.InferenceSession.create(new Uint8Array(bytes), options), setup);
    },
  };
}

/** No model at all: it is refused, after the runtime was loaded. */
const EMPTY_MODEL = [0];
