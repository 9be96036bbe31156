// A small zip reader for hostile files: stored and deflated entries, everything bounded, no path leads out.

const MAX_ENTRIES = 4096;
const MAX_BYTES = 512 * 2 ** 20;
const END = 0x06054b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;

class ZipError extends Error {}

interface Entry {
  name: string;
  method: number;
  packed: number;
  size: number;
  offset: number;
}

/** A path with plain parts only. */
export function isSafePath(path: string): boolean {
  return path.length <= 400 && path.split("/").every((part) => /^[A-Za-z0-9_][A-Za-z0-9_.+ -]{0,199}$/.test(part));
}

function endOf(view: DataView): number {
  const at = view.byteLength - 22; // a comment after it could hold a second directory
  if (view.getUint32(at, true) === END) return at;
  throw new ZipError("this is not a zip file, or it is cut off");
}

function entries(view: DataView): Entry[] {
  const end = endOf(view);
  const count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  if (count > MAX_ENTRIES || at === 0xffffffff) throw new ZipError(`the zip file has more than ${MAX_ENTRIES} entries`);
  const found: Entry[] = [];
  let total = 0;
  for (let number = 0; number < count; number++) {
    if (at + 46 > view.byteLength || view.getUint32(at, true) !== CENTRAL) throw new ZipError("the zip file is damaged");
    const [nameLength, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true)) as [number, number, number];
    const entry: Entry = {
      name: text(view, at + 46, nameLength),
      method: view.getUint16(at + 10, true),
      packed: view.getUint32(at + 20, true),
      size: view.getUint32(at + 24, true),
      offset: view.getUint32(at + 42, true),
    };
    if (view.getUint16(at + 8, true) & 1) throw new ZipError("the zip file is encrypted");
    total += entry.size;
    if (total > MAX_BYTES) throw new ZipError(`the zip file unpacks to more than ${MAX_BYTES / 2 ** 20} MB`);
    if (!entry.name.endsWith("/")) found.push(entry);
    at += 46 + nameLength + extra + comment;
  }
  return found;
}

function text(view: DataView, at: number, length: number): string {
  if (at + length > view.byteLength) throw new ZipError("the zip file is damaged");
  return new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + at, length));
}

/** The unpacked bytes; more or fewer than the directory says is an error, found before the rest is unpacked. */
async function inflate(packed: Uint8Array<ArrayBuffer>, size: number): Promise<Uint8Array<ArrayBuffer>> {
  const whole = new Uint8Array(size);
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (filled + value.length > size) {
      await reader.cancel();
      throw new ZipError("an entry of the zip file is larger than it says");
    }
    whole.set(value, filled);
    filled += value.length;
  }
  if (filled !== size) throw new ZipError("an entry of the zip file is smaller than it says");
  return whole;
}

/** Every file of a zip archive, by its path. */
export async function readZip(bytes: Uint8Array<ArrayBuffer>): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  if (bytes.length < 22) throw new ZipError("this is not a zip file, or it is cut off");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const entry of entries(view)) {
    if (!isSafePath(entry.name)) throw new ZipError(`the zip file names an unsafe path ${JSON.stringify(entry.name.slice(0, 80))}`);
    if (files.has(entry.name)) throw new ZipError(`the zip file holds ${entry.name} twice`);
    if (entry.offset + 30 > bytes.length || view.getUint32(entry.offset, true) !== LOCAL) throw new ZipError("the zip file is damaged");
    const start = entry.offset + 30 + view.getUint16(entry.offset + 26, true) + view.getUint16(entry.offset + 28, true);
    if (start + entry.packed > bytes.length) throw new ZipError("the zip file is cut off");
    const packed = bytes.slice(start, start + entry.packed);
    if (entry.method === 0) {
      if (entry.packed !== entry.size) throw new ZipError("the zip file is damaged");
      files.set(entry.name, packed);
    } else if (entry.method === 8) {
      files.set(entry.name, await inflate(packed, entry.size).catch(asDamage));
    } else throw new ZipError(`the zip file uses the unknown compression method ${entry.method}`);
  }
  return files;
}

function asDamage(error: unknown): never {
  throw error instanceof ZipError ? error : new ZipError("the zip file is damaged");
}
