// Files from a picker, a drop or a zip, into one map of paths; bounded before anything is read, and read when somebody wants them.
import type { Files } from "./bundle";
import { readZip } from "./zip";

const MAX_FILES = 4096;
const MAX_BYTES = 512 * 2 ** 20;
/** What file managers leave in folders. */
const LITTER = /(^|\/)(\.DS_Store|Thumbs\.db|desktop\.ini|__MACOSX\/.*)$/;

/** What was dropped, by path; unread. */
export type Dropped = Map<string, Blob>;

interface Named {
  path: string;
  file: File;
}

async function bytesOf(file: Blob): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await file.arrayBuffer());
}

async function collect(named: Named[]): Promise<Dropped> {
  const kept = named.filter(({ path }) => !LITTER.test(path));
  if (kept.length === 0) throw new Error("nothing was dropped");
  if (kept.length > MAX_FILES) throw new Error(`these are more than ${MAX_FILES} files`);
  if (kept.reduce((sum, { file }) => sum + file.size, 0) > MAX_BYTES) throw new Error(`these are more than ${MAX_BYTES / 2 ** 20} MB`);
  const [first] = kept;
  if (kept.length === 1 && /\.(zip|unplug)$/i.test(first!.path)) {
    return new Map([...(await readZip(await bytesOf(first!.file)))].map(([path, bytes]) => [path, new Blob([bytes])]));
  }
  const files: Dropped = new Map();
  for (const { path, file } of kept) {
    if (files.has(path)) throw new Error(`${path} is there twice`);
    files.set(path, file);
  }
  return files;
}

/** All of them, in memory. */
export async function readAll(dropped: Dropped): Promise<Files> {
  const files: Files = new Map();
  for (const [path, file] of dropped) files.set(path, await bytesOf(file));
  return files;
}

/** The files of an input element: several files, or a folder. */
export function filesOfInput(list: FileList): Promise<Dropped> {
  return collect([...list].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

async function inside(entry: FileSystemEntry, found: Named[]): Promise<void> {
  if (found.length > MAX_FILES) throw new Error(`these are more than ${MAX_FILES} files`);
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path: entry.fullPath.replace(/^\//, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const item of some) await inside(item, found);
  }
}

/** The files of a drop: files and folders. */
export async function filesOfDrop(data: DataTransfer): Promise<Dropped> {
  // Entries are gone after the first await.
  const entries = [...data.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const plain = [...data.files].map((file) => ({ path: file.name, file }));
  const found: Named[] = [];
  for (const entry of entries) await inside(entry, found);
  return collect(found.length > 0 ? found : plain);
}
