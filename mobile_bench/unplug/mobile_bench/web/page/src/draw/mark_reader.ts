// The network that reads marks, where `unplug page --mark-reader` put one among the generator's files.
import { bundleOffer, json } from "../bundle";
import { elements } from "../layout";
import type { Job } from "../types";
import { isSafePath } from "../zip";
import { BITS, SIDE } from "./mark";
import { Missing, type ReadFile } from "./source";

const [FOLDER, CARD] = ["mark-reader/", "mark-reader/card.json"];
const [MAX_CARD_BYTES, MAX_READER_BYTES] = [2 ** 20, 2 ** 24];

/** The reader as a job on WebAssembly, checked by its card; null where there is none. */
export async function readerJob(read: ReadFile): Promise<Job | null> {
  const raw = await read(CARD, MAX_CARD_BYTES).catch((error: unknown) => {
    if (error instanceof Missing) return null;
    throw error;
  });
  if (raw === null) return null;
  const { file, sha256 } = json<{ file: unknown; sha256: unknown }>(raw, CARD);
  if (typeof file !== "string" || !isSafePath(file) || file.includes("/") || !/^[0-9a-f]{64}$/.test(String(sha256))) throw new Error(`${CARD} names no file and its SHA-256`);
  const bytes = await read(FOLDER + file, MAX_READER_BYTES, String(sha256));
  const { jobs } = await bundleOffer(new Map([[file, bytes], [`${file}.json`, raw]]));
  const job = jobs.find(({ delegate, model_type }) => delegate === "wasm" && model_type === "mark_reader");
  const { inputs = [], outputs = [] } = job?.iospec ?? {};
  const fits = inputs.length === 1 && outputs.length === 1 && [...inputs[0]!.layout].sort().join("") === "CHNW" && elements(inputs[0]!.shape) === 3 * SIDE * SIDE && elements(outputs[0]!.shape) === BITS;
  if (job === undefined || !fits) throw new Error(`${file} reads no marks of ${BITS} bits`);
  return job;
}
