// A bundle that was dropped on the page: checked against its manifest, then offered like a server's plan.
import { readFrame } from "./demo/align";
import { readDecision } from "./demo/decision";
import { readFamily } from "./demo/family";
import { relaid } from "./layout";
import precisions from "./precisions.json";
import { generator } from "./random";
import { asKind, once, readVectors, type Vectors } from "./served";
import { sha256 } from "./sha256";
import type { Delegate, Feeds, IOSpec, Job, Offer, Plan, RuntimeName, Sample, Tensors } from "./types";
import { elements } from "./layout";
import { isSafePath } from "./zip";

export type Files = Map<string, Uint8Array<ArrayBuffer>>;

const DEFAULT_PLAN: Plan = { threads: 1, warmup: 5, iterations: 50, starts: 5, sustain_s: null, seed: 0 };
const DELEGATES: Delegate[] = ["wasm", "webgpu"];
const RUNTIME: Record<string, RuntimeName> = { ".tflite": "litert-web", ".onnx": "onnx-web" };
const MAX_ELEMENTS = 2 ** 28;

interface Manifest {
  schema: string;
  iospec: IOSpec;
  files: Record<string, { sha256: string; bytes: number }>;
  preprocessing?: Record<string, unknown>;
  postprocessing?: Record<string, unknown>;
  lineage?: { checkpoint_sha256?: string };
}

interface Card {
  schema: string;
  file: string;
  sha256: string;
  target: string;
  precision: string;
  model_type: string;
  checkpoint_sha256: string;
  iospec: IOSpec;
  config: Record<string, unknown>;
  flops: number | null;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** A record; throws in the words of a user where there is none. */
export function json<T>(bytes: Uint8Array, name: string): T {
  try {
    const value: unknown = JSON.parse(decoder.decode(bytes));
    if (typeof value === "object" && value !== null) return value as T;
  } catch {
    // Told below, in the words of a user.
  }
  throw new Error(`${name} is not valid JSON`);
}

/** Without the one folder that a zip or a dropped folder adds around everything. */
export function unwrapped(files: Files): Files {
  const tops = new Set([...files.keys()].map((path) => (path.includes("/") ? path.slice(0, path.indexOf("/") + 1) : "")));
  const [top] = tops;
  if (files.has("manifest.json") || tops.size !== 1 || !top || top === "artifacts/") return files;
  return new Map([...files].map(([path, bytes]) => [path.slice(top.length), bytes]));
}

async function checkManifest(files: Files): Promise<Manifest | null> {
  const raw = files.get("manifest.json");
  if (raw === undefined) return null;
  const manifest = json<Manifest>(raw, "manifest.json");
  if (!["unplug-bundle/1", "unplug-bundle/2"].includes(manifest.schema)) {
    throw new Error(`manifest.json is of schema ${JSON.stringify(manifest.schema)?.slice(0, 60)}, and this page reads unplug-bundle/2`);
  }
  const listed = Object.entries(manifest.files ?? {});
  if (listed.length === 0) throw new Error("manifest.json lists no files");
  for (const [name, entry] of listed) {
    if (!isSafePath(name)) throw new Error(`manifest.json names an unsafe path ${JSON.stringify(name.slice(0, 80))}`);
    const bytes = files.get(name);
    if (bytes === undefined) throw new Error(`${name} is missing; drop the whole bundle`);
    if (bytes.length !== entry.bytes || (await sha256(bytes)) !== entry.sha256) {
      throw new Error(`${name} was changed: it is not what manifest.json says. Do not use this bundle`);
    }
  }
  const known = new Set([...listed.map(([name]) => name), "manifest.json", "model.sig"]);
  for (const name of files.keys()) if (!known.has(name)) throw new Error(`${name} is not in manifest.json. Do not use this bundle`);
  return manifest;
}

function checkIospec(iospec: IOSpec | undefined, name: string): IOSpec {
  const sides = [iospec?.inputs, iospec?.outputs];
  for (const side of sides) {
    if (!Array.isArray(side) || side.length === 0) throw new Error(`${name} names no tensors`);
    for (const spec of side) {
      const plain = Array.isArray(spec.shape) && spec.shape.every((size) => Number.isInteger(size) && size >= 1);
      if (!plain || elements(spec.shape) > MAX_ELEMENTS || String(spec.layout).length !== spec.shape.length) {
        throw new Error(`${name} gives a tensor an impossible shape`);
      }
    }
  }
  return iospec!;
}

/** The bundle's vectors, with axes as an artifact has them; their outputs are of the bundle's own model, and left out for another. */
function bundleSamples(files: Files, own: IOSpec, wanted: IOSpec, isOwn: boolean): () => Promise<Sample[]> {
  return once(async () => {
    const raw = files.get("test_vectors/vectors.json");
    if (raw === undefined) throw new Error("test_vectors/vectors.json is missing");
    const vectors = json<Vectors>(raw, "vectors.json");
    const samples = await readVectors(vectors, own, (name) => {
      const bytes = files.get(`test_vectors/${name}`);
      if (bytes === undefined) throw new Error(`test_vectors/${String(name).slice(0, 80)} is missing`);
      return Promise.resolve(bytes.slice().buffer);
    });
    const turned = <T extends Feeds>(side: "inputs" | "outputs", tensors: T): T => {
      const pairs = wanted[side].map((spec) => {
        const from = own[side].find(({ name }) => name === spec.name);
        if (from === undefined) throw new Error(`the bundle's model has no tensor ${spec.name}`);
        const values = tensors[spec.name]!;
        return [spec.name, values instanceof Float32Array ? relaid(values, from.shape, from.layout, spec.layout) : values] as const;
      });
      return Object.fromEntries(pairs) as T;
    };
    return samples.map(({ inputs, outputs }) => ({ inputs: turned("inputs", inputs), outputs: isOwn ? outputs && turned<Tensors>("outputs", outputs) : null }));
  });
}

/** Random inputs where there are no test vectors: nothing is then expected but the same outputs every time. */
export function randomSamples(iospec: IOSpec): () => Promise<Sample[]> {
  return once(async () => {
    const draw = generator(0);
    const pairs = iospec.inputs.map((spec) => {
      const [low, high] = spec.range ?? [0, 1];
      return [spec.name, asKind(spec, Float32Array.from({ length: elements(spec.shape) }, () => low + (high - low) * draw()))] as const;
    });
    return [{ inputs: Object.fromEntries(pairs), outputs: null }];
  });
}

/** `unplug.export.digest_inputs`. */
export async function digestInputs(samples: Sample[], iospec: IOSpec): Promise<string> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (const { name, shape, dtype } of [...iospec.inputs].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const whole = [samples.length, ...shape.slice(1)];
    const written = `(${whole.join(", ")}${whole.length === 1 ? "," : ""})`;
    parts.push(new TextEncoder().encode(`${name}\0${dtype === "int32" ? "<i4" : "<f4"}\0${written}\n`));
    for (const { inputs } of samples) parts.push(new Uint8Array(inputs[name]!.buffer));
  }
  return sha256(new Uint8Array(await new Blob(parts).arrayBuffer()));
}

interface Found {
  path: string;
  bytes: Uint8Array<ArrayBuffer>;
  card: Card;
}

async function artifacts(files: Files): Promise<Found[]> {
  const found: Found[] = [];
  for (const [path, bytes] of files) {
    const suffix = Object.keys(RUNTIME).find((item) => path.endsWith(item));
    const raw = files.get(`${path}.json`);
    if (suffix === undefined) continue;
    if (raw === undefined) throw new Error(`${path} has no card ${path}.json next to it`);
    const card = json<Card>(raw, `${path}.json`);
    if (card.schema !== "unplug-artifact/1") throw new Error(`${path}.json is of schema ${JSON.stringify(card.schema)?.slice(0, 60)}`);
    if (card.file !== path.slice(path.lastIndexOf("/") + 1)) throw new Error(`${path}.json belongs to another file`);
    if ((await sha256(bytes)) !== card.sha256) throw new Error(`${path} was changed: it is not what its card says`);
    checkIospec(card.iospec, `${path}.json`);
    found.push({ path, bytes, card });
  }
  return found;
}

function jobOf({ path, bytes, card }: Found, number: number, delegate: Delegate, samples: () => Promise<Sample[]>, digest: string, reference: Job["parity_reference"]): Job {
  const suffix = card.file.slice(card.file.lastIndexOf("."));
  return {
    number, delegate, samples,
    file: path.startsWith("members/") ? path.slice("members/".length) : card.file,
    model_type: card.model_type,
    model_sha256: card.checkpoint_sha256,
    artifact_sha256: card.sha256,
    target: card.target,
    precision: card.precision,
    bytes: bytes.length,
    runtime: RUNTIME[suffix]!,
    iospec: card.iospec,
    config: card.config ?? {},
    min_psnr_db: (precisions as Record<string, number>)[card.precision] ?? 100,
    flops: card.flops ?? null,
    inputs_sha256: digest,
    parity_reference: reference,
    not_run: null,
    row: null,
    model: () => Promise.resolve(bytes.slice().buffer),
  }; // prettier-ignore
}

/**
 * Checks a bundle, or loose artifacts with their cards, and offers what a browser can run.
 *
 * @param signed the lines of a check of the signature; left out where there was none
 */
export async function bundleOffer(dropped: Files, changes: Partial<Plan> = {}, signed: string[] = []): Promise<Offer> {
  const files = unwrapped(dropped);
  const manifest = await checkManifest(files);
  const own = manifest === null ? null : checkIospec(manifest.iospec, "manifest.json");
  const decision = manifest?.postprocessing?.["decision"];
  readDecision(decision, manifest?.postprocessing?.["age_edges"]);
  const family = readFamily(manifest?.postprocessing?.["family"]);
  const preprocessing = manifest?.preprocessing;
  readFrame(preprocessing);
  const found = await artifacts(files);
  if (found.length === 0) throw new Error("there is no .tflite or .onnx file with a card in it; drop a bundle that unplug release wrote");
  const jobs: Job[] = [];
  for (const item of found) {
    const isOwn = own !== null && (family === null || item.card.checkpoint_sha256 === manifest?.lineage?.checkpoint_sha256);
    const samples = own === null ? randomSamples(item.card.iospec) : bundleSamples(files, own, item.card.iospec, isOwn);
    const digest = await digestInputs(await samples(), item.card.iospec);
    for (const delegate of DELEGATES) {
      const job = jobOf(item, jobs.length, delegate, samples, digest, isOwn ? "checkpoint" : "first_run");
      jobs.push({ ...job, config: { ...job.config, ...(decision === undefined ? {} : { decision }), ...(preprocessing === undefined ? {} : { preprocessing }) } });
    }
  }
  const checked = manifest === null
    ? "no manifest; the files agree with their cards, and outputs are compared with the first run's only"
    : `${Object.keys(manifest.files).length} files agree with the manifest (SHA-256)${signed.length > 0 ? "" : "; the signature was not checked"}`;
  return { plan: { ...DEFAULT_PLAN, ...changes }, jobs, family, notes: [...signed, checked] };
}
