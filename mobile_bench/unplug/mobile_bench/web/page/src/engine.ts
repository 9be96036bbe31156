// What a worker needs of a runtime: open a file, run named inputs, read every output back.
import type { Delegate, Feeds, IOSpec, TensorSpec, Tensors } from "./types";

export interface Ran {
  outputs: Tensors;
  enqueue_ms: number;
  /** From the call until every output has been copied out. */
  latency_ms: number;
  /** The part of it after the call returned. */
  read_back_ms: number;
}

export interface Engine {
  readonly threads: number;
  run(inputs: Feeds): Promise<Ran>;
  close(): void;
}

export interface Setup {
  /** Where the runtimes' WebAssembly lies. */
  base: string;
  delegate: Delegate;
  threads: number;
  iospec: IOSpec;
}

export interface Runtime {
  /** Loads the runtime itself: no part of the time that a model takes to load. */
  load(setup: Setup): Promise<void>;
  open(model: ArrayBuffer, setup: Setup): Promise<Engine>;
}

/** The numbers of one input; throws where they are not there, or of another kind than its iospec says. */
export function fed(inputs: Feeds, { name, dtype }: TensorSpec): Feeds[string] {
  const values = inputs[name];
  if (values === undefined) throw new Error(`the input ${name} is missing`);
  if ((dtype === "int32") !== values instanceof Int32Array) throw new Error(`the input ${name} is not of ${dtype}`);
  return values;
}

/** Threads need shared memory, which a browser gives to isolated pages only. */
export const threadsHere = (asked: number): number => (globalThis.crossOriginIsolated === true ? asked : 1);
