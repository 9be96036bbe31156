// The corpus of tests/vectors/bundles, every bundle with the verdict that Python's verifier gives it too.
// Run by node: vite build --ssr tests/bundles.test.ts, then UNPLUG_BUNDLES=FOLDER node --test.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Refused, verify, type Trust } from "../src/signed";
import { canonical, strictJson } from "../src/strict";
import { readZip } from "../src/zip";

interface Case {
  what: string;
  verdict: string;
  now: string;
  schema?: string;
  trust: Trust;
  files?: Record<string, string>;
  links?: string[];
  zip?: string;
}

const folder = process.env.UNPLUG_BUNDLES;
if (folder === undefined) throw new Error("UNPLUG_BUNDLES names no folder");
const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text, "base64"));

async function verdict(item: Case): Promise<string> {
  try {
    const files = item.zip === undefined
      ? new Map(Object.entries(item.files!).map(([name, text]) => [name, bytes(text)]))
      : await readZip(bytes(item.zip)).catch((error: unknown) => { throw new Refused("archive", String(error)); });
    const found = await verify(files, item.trust, Date.parse(item.now), item.schema);
    assert.equal(found.files, files, "the bytes verified are the bytes used");
    return "valid";
  } catch (error) {
    if (error instanceof Refused) return error.verdict;
    throw error;
  }
}

const names = readdirSync(folder).filter((name) => name.endsWith(".json")).sort();
test("there is a corpus", () => assert.ok(names.length > 60));
for (const name of names) {
  const item = JSON.parse(readFileSync(`${folder}/${name}`, "utf-8")) as Case;
  // What a browser is given has no links; a folder on a disk may.
  if (item.links === undefined) test(`${name}: ${item.what}`, async () => assert.equal(await verdict(item), item.verdict));
}

test("RFC 8785's own example", () => {
  const text = '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}';
  const wanted = '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}';
  assert.equal(canonical(JSON.parse(text)), wanted);
  assert.throws(() => strictJson(new TextEncoder().encode('{"a":1,"\\u0061":2}')), /twice/);
});
