// The page's talk with `unplug bench --on web`: the plan comes, rows and the report go back.
import { elements } from "./layout";
import type { BenchReport, BenchRow, Feeds, IOSpec, Job, Offer, Plan, Sample, TensorSpec, Tensors } from "./types";

const SCHEMA = "unplug-bench-plan/1";
const BEAT_MS = 5000;

type ServedJob = Omit<Job, "model" | "samples"> & { model_url: string; vectors_url: string };

interface ServedPlan {
  schema: string;
  plan: Plan;
  jobs: ServedJob[];
  auto: boolean;
}

interface VectorTensor {
  file: string;
  shape: number[];
  dtype: string;
}

export interface Vectors {
  schema: string;
  samples: { inputs: Record<string, VectorTensor>; outputs: Record<string, VectorTensor> }[];
}

/** Numbers of a raw little-endian file, which is what every browser's machine has. */
export function floats(bytes: ArrayBuffer, what: string, shape: number[]): Float32Array<ArrayBuffer> {
  if (bytes.byteLength !== 4 * elements(shape)) throw new Error(`${what} holds ${bytes.byteLength} bytes, not ${4 * elements(shape)}`);
  return new Float32Array<ArrayBuffer>(bytes);
}

/** Test vectors travel as float32; a model that takes whole numbers gets them as such. */
export const asKind = ({ dtype }: TensorSpec, values: Float32Array<ArrayBuffer>): Feeds[string] => (dtype === "int32" ? Int32Array.from(values) : values);

/** Reads test vectors; `fetchFile` gets the bytes of one file. */
export async function readVectors(
  vectors: Vectors,
  iospec: IOSpec,
  fetchFile: (name: string) => Promise<ArrayBuffer>,
): Promise<Sample[]> {
  if (vectors.schema !== "unplug-vectors/1") throw new Error(`the test vectors are of schema ${JSON.stringify(vectors.schema)}`);
  const side = async (specs: IOSpec["inputs"], tensors: Record<string, VectorTensor>): Promise<Tensors> => {
    const found: Tensors = {};
    for (const { name, shape } of specs) {
      const tensor = tensors[name];
      if (tensor === undefined) throw new Error(`the test vectors have no ${name}`);
      found[name] = floats(await fetchFile(tensor.file), tensor.file, shape);
    }
    return found;
  };
  const samples: Sample[] = [];
  for (const { inputs, outputs } of vectors.samples) {
    const given = await side(iospec.inputs, inputs);
    const fed = Object.fromEntries(iospec.inputs.map((spec) => [spec.name, asKind(spec, given[spec.name]!)]));
    samples.push({ inputs: fed, outputs: await side(iospec.outputs, outputs) });
  }
  if (samples.length === 0) throw new Error("there are no test vectors");
  return samples;
}

async function get(url: string): Promise<ArrayBuffer> {
  const response = await fetch(url, { cache: "no-store" });
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  return response.arrayBuffer();
}

/** What is fetched once; kept so that no download runs during a timed run. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let known: Promise<T> | null = null;
  return () => (known ??= make());
}

const shared = new Map<string, () => Promise<unknown>>();

/** `once`, over all that ask for the same address: delegates share a model, models share test vectors. */
function onceAt<T>(url: string, make: () => Promise<T>): () => Promise<T> {
  const known = shared.get(url) ?? once(make);
  shared.set(url, known);
  return known as () => Promise<T>;
}

const json = <T>(bytes: ArrayBuffer): T => JSON.parse(new TextDecoder().decode(bytes)) as T;

function asJob(served: ServedJob): Job {
  const { model_url, vectors_url, ...job } = served;
  const samples = async (): Promise<Sample[]> => {
    const vectors = json<Vectors>(await get(`${vectors_url}/vectors.json`));
    return readVectors(vectors, job.iospec, (name) => get(`${vectors_url}/${encodeURIComponent(name)}`));
  };
  return { ...job, model: onceAt(model_url, () => get(model_url)), samples: onceAt(vectors_url, samples) };
}

/** The server's plan; null where the page is a plain static one. */
export async function servedOffer(): Promise<(Offer & { auto: boolean }) | null> {
  const response = await fetch("plan.json", { cache: "no-store" }).catch(() => null);
  if (response?.status === 410) throw new Error("this address has been used; run unplug bench again for a new one");
  if (response === null || !response.ok || !response.headers.get("content-type")?.includes("json")) return null;
  const { schema, plan, jobs, auto } = (await response.json()) as ServedPlan;
  if (schema !== SCHEMA) throw new Error(`the server speaks ${JSON.stringify(schema)}, and this page ${SCHEMA}; load it again`);
  return { plan, jobs: jobs.map(asJob), family: null, notes: [], auto };
}

const TRIES = 3;
const PAUSE_MS = 1500;

/** Again, where a phone's network is away for a moment. */
async function patiently<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = TRIES - 1; left > 0; left--) {
    try {
      return await attempt();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
  return attempt();
}

/** Posts JSON; what the server says against it is the error. */
async function post(path: string, value: unknown): Promise<void> {
  const body = JSON.stringify(value);
  const response = await patiently(() => fetch(path, { method: "POST", body, headers: { "Content-Type": "application/json" } }));
  if (response.ok) return;
  const why = (await response.json().catch(() => null)) as { error?: string } | null;
  throw new Error(why?.error ?? `the server answered ${response.status}`);
}

export const postRow = (number: number, row: BenchRow): Promise<void> => post(`row/${number}`, row);
export const postReport = (report: BenchReport): Promise<void> => post("report", report);

/** Tells the server how far the page is, also while nothing changes: silence means that the browser is gone. */
export class Beat {
  private last = { share: 0, text: "" };
  private sent = 0;
  private readonly timer = setInterval(() => this.send(), BEAT_MS);

  say(share: number, text: string): void {
    this.last = { share, text };
    if (performance.now() - this.sent > 1000) this.send();
  }

  private send(): void {
    this.sent = performance.now();
    // The report carries all that matters; a lost beat is made good by the next.
    post("progress", this.last).catch(() => undefined);
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
