// Where a generator's files come from: a folder or a zip that was dropped, or addresses next to the page. Each is checked by its hash.
import { sha256 } from "../sha256";
import { MAX_PIPELINE_BYTES, type PartFile, partsOf, type Pipeline, PIPELINE, readPipeline, variantsFor } from "./pipeline";
import type { Tokenizer } from "./tokenizer";

/** A file that is not there, or not reached. */
export class Missing extends Error {}

/** Reads one file; throws where there is none, or where it is larger than `most`. */
export type ReadFile = (path: string, most: number, sha256?: string) => Promise<Uint8Array<ArrayBuffer>>;

/** A base of exported files that was read, and how its files are read. */
export interface Generator {
  pipeline: Pipeline;
  tokenizer: Tokenizer;
  read: ReadFile;
}

export const isGenerator = (paths: Iterable<string>): boolean => pipelinePath(paths) !== undefined;

/** The one pipeline.json, at the top or in the one folder around everything. */
function pipelinePath(paths: Iterable<string>): string | undefined {
  return [...paths].filter((path) => path === PIPELINE || (path.endsWith(`/${PIPELINE}`) && path.split("/").length === 2)).sort((one, other) => one.length - other.length)[0];
}

export function fromFiles(files: Map<string, Blob>): ReadFile {
  const top = pipelinePath(files.keys())?.slice(0, -PIPELINE.length) ?? "";
  return async (path, most) => {
    const file = files.get(top + path);
    if (file === undefined) throw new Missing(`${path} is missing; drop the whole folder that “unplug export” wrote.`);
    if (file.size > most) throw new Error(`${path} holds ${file.size} bytes where at most ${most} belong.`);
    return new Uint8Array(await file.arrayBuffer());
  };
}

/** Files below an address of the page's own server. */
export function fromAddress(address: string, base: string): ReadFile {
  const root = new URL(address.endsWith("/") ? address : `${address}/`, base);
  if (root.origin !== new URL(base).origin) throw new Error("The generator must lie on the same server as this page.");
  return async (path, most, digest) => {
    const url = new URL(path, root);
    // Under its hash a file never changes: the cache that works offline can keep it.
    if (digest !== undefined) url.searchParams.set("sha256", digest);
    const response = await fetch(url, digest === undefined ? { cache: "no-cache" } : {}).catch(() => null);
    if (response === null) throw new Missing(`${path} was not reached; look at the network and try again.`);
    if (!response.ok || response.headers.get("content-type")?.includes("text/html")) throw new Missing(`${path} is missing at ${root.pathname}.`);
    return bounded(response, path, most);
  };
}

async function bounded(response: Response, path: string, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = response.body!.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) await reader.cancel();
    if (size > most) throw new Error(`${path} holds more than the ${most} bytes that belong.`);
    parts.push(value as Uint8Array<ArrayBuffer>);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export async function openGenerator(read: ReadFile): Promise<Generator> {
  return { ...readPipeline(await read(PIPELINE, MAX_PIPELINE_BYTES)), read };
}

/** What one choice of target and precision needs, or why it cannot be taken. */
export function filesOf(pipeline: Pipeline, target: string, precision: string): Record<string, PartFile> | null {
  const found: Record<string, PartFile> = {};
  for (const [name, part] of Object.entries(partsOf(pipeline))) {
    const file = part.files.find((item) => item.target === target && item.precision === precision);
    if (file === undefined) return null;
    found[name] = file;
  }
  return found;
}

/** Bytes of one part or variant, which are those that pipeline.json says. */
export async function openPart({ read }: Generator, file: Pick<PartFile, "file" | "sha256" | "bytes">): Promise<ArrayBuffer> {
  const bytes = await read(file.file, file.bytes, file.sha256);
  const found = await sha256(bytes);
  if (bytes.length !== file.bytes || found !== file.sha256) {
    throw new Error(`${file.file} is another file than pipeline.json says (SHA-256 ${found.slice(0, 12)}, not ${file.sha256.slice(0, 12)}). Do not use this folder.`);
  }
  return bytes.buffer;
}

/** Rows of a variant and of the packs that a prompt asks for, as the UNet's low-rank input takes them; none for the bare base. */
export async function openVariants(generator: Generator, prompt: string, name: string | null): Promise<Float32Array<ArrayBuffer>> {
  const found: number[] = [];
  for (const one of variantsFor(generator.pipeline, prompt, name)) {
    const variant = generator.pipeline.variants![one]!;
    const view = new DataView(await openPart(generator, variant));
    for (let place = 0; place < view.byteLength; place += 4) found.push(view.getFloat32(place, true));
    if (!found.every(Number.isFinite)) throw new Error(`${variant.file} holds something other than numbers. Do not use this folder.`);
  }
  return Float32Array.from(found);
}

const MAX_CARD_BYTES = 2 ** 20;

/** The files of one choice with their cards, as a benchmark takes them. */
export async function withCards(generator: Generator, target: string, precision: string): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const file of Object.values(filesOf(generator.pipeline, target, precision) ?? {})) {
    files.set(file.file, new Uint8Array(await openPart(generator, file)));
    files.set(`${file.file}.json`, await generator.read(`${file.file}.json`, MAX_CARD_BYTES));
  }
  return files;
}
