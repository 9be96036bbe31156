// LiteRT.js on WebAssembly or WebGPU.
import { loadAndCompile, loadLiteRt, Tensor, type CompiledModel } from "@litertjs/core";
import { type Engine, fed, type Ran, type Runtime, type Setup, threadsHere } from "../engine";
import type { Feeds, Tensors } from "../types";
import { serve } from "./serve";

class LiteRt implements Engine {
  readonly threads: number;

  constructor(
    private readonly model: CompiledModel,
    private readonly setup: Setup,
  ) {
    this.threads = setup.delegate === "wasm" ? threadsHere(setup.threads) : 1;
  }

  async run(inputs: Feeds): Promise<Ran> {
    const before = performance.now();
    const given: Record<string, Tensor> = {};
    for (const spec of this.setup.iospec.inputs) given[spec.name] = new Tensor(fed(inputs, spec), spec.shape);
    const called = performance.now();
    const results = await this.model.run(given);
    const returned = performance.now();
    const outputs: Tensors = {};
    // On a GPU the call returns before the work is done; copying the outputs out waits for it.
    for (const [name, tensor] of Object.entries(results)) {
      const here = this.setup.delegate === "wasm" ? tensor : await tensor.moveTo("wasm");
      outputs[name] = (here.toTypedArray() as Float32Array<ArrayBuffer>).slice();
      here.delete();
    }
    const read = performance.now();
    for (const tensor of Object.values(given)) if (!tensor.deleted) tensor.delete();
    return { outputs, enqueue_ms: called - before, latency_ms: read - called, read_back_ms: read - returned };
  }

  close(): void {
    this.model.delete();
  }
}

const runtime: Runtime = {
  async load({ base, threads, delegate }) {
    const many = delegate === "wasm" && threadsHere(threads) > 1;
    // In a worker its script looks for WebAssembly next to the worker, and its threads for their script.
    const script = `${base}litert/litert_wasm_threaded_internal.js`;
    const found = { locateFile: (name: string) => `${base}litert/${name}`, ...(many ? { mainScriptUrlOrBlob: script } : {}) };
    (self as unknown as { Module: unknown }).Module = found;
    await loadLiteRt(`${base}litert/`, many ? { threads: true } : {});
  },

  async open(bytes, setup) {
    const { delegate } = setup;
    const cpu = { cpuOptions: { numThreads: threadsHere(setup.threads) } };
    const model = await loadAndCompile(new Uint8Array(bytes), { accelerator: delegate, ...(delegate === "wasm" ? cpu : {}) });
    // Without this LiteRT.js goes back to WebAssembly with no more than a line in the console.
    if (delegate !== "wasm" && !model.isFullyAccelerated) throw new Error(`${delegate} does not take all of this file`);
    return new LiteRt(model, setup);
  },
};

serve(runtime);
