// The corpus of tests/vectors/updates, every case with the verdict that Python's reader gives it too.
// Run by node: vite build --ssr tests/updates.test.ts, then UNPLUG_UPDATES=FOLDER node --test.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { checkUpdates, type Claim, NotCurrent, type Seen, standing } from "../src/updates";

interface Case {
  what: string;
  verdict: string;
  now: string;
  root: string; // bytes, or the name of one of the files
  files: Record<string, string>;
  pad: Record<string, number>;
  seen: Seen | null;
  bundle: Claim;
  answer?: { seen: Seen; until: string; current: number; stops: string | null };
}

const folder = process.env.UNPLUG_UPDATES;
if (folder === undefined) throw new Error("UNPLUG_UPDATES names no folder");
const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text, "base64"));

function padded(raw: Uint8Array<ArrayBuffer>, size: number): Uint8Array<ArrayBuffer> {
  if (raw.length >= size) return raw;
  const whole = new Uint8Array(size).fill(0x20);
  whole.set(raw);
  return whole;
}

async function judge(item: Case): Promise<{ verdict: string; answer?: unknown }> {
  const files = new Map(Object.entries(item.files).map(([name, text]) => [name, padded(bytes(text), item.pad[name] ?? 0)]));
  try {
    const now = Date.parse(item.now);
    const read = (name: string, most: number) => Promise.resolve(files.get(name)?.slice(0, most + 1) ?? null);
    const updates = await checkUpdates(files.get(item.root) ?? bytes(item.root), read, item.seen, now);
    const { current, stops } = standing(updates, item.bundle, now);
    return { verdict: "valid", answer: { seen: updates.seen, until: updates.until, current, stops } };
  } catch (error) {
    if (error instanceof NotCurrent) return { verdict: error.verdict };
    throw error;
  }
}

const names = readdirSync(folder).filter((name) => name.endsWith(".json")).sort();
test("there is a corpus", () => assert.ok(names.length > 100));
for (const name of names) {
  const item = JSON.parse(readFileSync(`${folder}/${name}`, "utf-8")) as Case;
  test(`${name}: ${item.what}`, async () => {
    const found = await judge(item);
    assert.equal(found.verdict, item.verdict);
    if (item.answer === undefined) return;
    const { stops, until, ...rest } = item.answer;
    assert.deepEqual(found.answer, { ...rest, until: Date.parse(until), stops: stops === null ? null : Date.parse(stops) });
  });
}
