// Run by node: vite build --ssr tests/unit.test.ts, then node --test.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { bundleOffer, digestInputs, unwrapped } from "../src/bundle";
import { groupNames, softmax } from "../src/demo/age";
import { channelMean } from "../src/demo/features";
import { isImage, toTensor } from "../src/demo/pixels";
import { relaid } from "../src/layout";
import { compare, distance, verdict, worstOf } from "../src/metrics";
import { generator, shuffled } from "../src/random";
import { sha256, sha256Slow } from "../src/sha256";
import { percentile, relativeSpread, summarize, typicalLatency, windows } from "../src/statistics";
import type { TensorSpec } from "../src/types";
import { scaleOf } from "../src/ui/scale";
import { isSafePath, readZip } from "../src/zip";

const near = (value: number | null, wanted: number): void => assert.ok(Math.abs((value ?? NaN) - wanted) < 1e-6, `${value} is not ${wanted}`);
const spec = (shape: number[], layout: string, more: Partial<TensorSpec> = {}): TensorSpec => ({
  name: "image", shape, layout, dtype: "float32", range: [-1, 1], colour: "RGB", ...more,
}); // prettier-ignore

test("PSNR and its verdict", () => {
  near(compare(Float32Array.of(0, 10), Float32Array.of(1, 11)).psnr_db, 20);
  assert.equal(compare(Float32Array.of(1, 2), Float32Array.of(1, 2)).exact, true);
  assert.match(compare(Float32Array.of(1), Float32Array.of(NaN)).reason ?? "", /NaN/);
  assert.match(compare(Float32Array.of(0), Float32Array.of(1)).reason ?? "", /zero everywhere/);
  assert.match(compare(Float32Array.of(0), Float32Array.of(1, 2)).reason ?? "", /2 values/);
  assert.equal(verdict(compare(Float32Array.of(0, 10), Float32Array.of(1, 11)), 100), "20.0 dB is below 100 dB");
  const pairs = [["a", compare(Float32Array.of(1), Float32Array.of(1))], ["b", compare(Float32Array.of(0, 10), Float32Array.of(1, 11))]] as const;
  assert.deepEqual(worstOf(pairs, 10), { parity_db: compare(Float32Array.of(0, 10), Float32Array.of(1, 11)).psnr_db, parity_reason: null });
  assert.equal(distance(Float32Array.of(1, 5), Float32Array.of(1, 2)), 3);
  assert.equal(distance(Float32Array.of(1), Float32Array.of(Infinity)), Infinity);
});

test("statistics are Python's", () => {
  assert.equal(percentile([1, 2, 3, 4], 50), 2.5);
  assert.deepEqual(summarize([3, 1, 2]), { count: 3, p50: 2, p90: 2.8, p95: 2.9, p99: null, mean: 2, std: 1, min: 1, max: 3 });
  assert.deepEqual(windows([1, 2, 3, 4], [5, 5, 7, 7], 2).map(({ p50 }) => p50), [5, 7]);
  assert.deepEqual(windows([], []), []);
  const typical = typicalLatency([1, 2, 4]);
  near(typical?.value ?? null, 2);
  assert.ok(typical?.ends && typical.ends[0] < 1 && typical.ends[1] > 4);
  assert.equal(typicalLatency([0, 1]), null);
  assert.equal(typicalLatency([3])?.ends, null);
  assert.equal(relativeSpread([2, 2.5, 3]), 0.5);
});

test("an order can be drawn again", () => {
  const once = shuffled([1, 2, 3, 4, 5, 6, 7, 8], generator(7));
  assert.deepEqual(once, shuffled([1, 2, 3, 4, 5, 6, 7, 8], generator(7)));
  assert.notDeepEqual(once, shuffled([1, 2, 3, 4, 5, 6, 7, 8], generator(8)));
  assert.deepEqual([...once].sort(), [1, 2, 3, 4, 5, 6, 7, 8]);
});

test("SHA-256 without crypto.subtle", async () => {
  for (const size of [0, 1, 55, 56, 63, 64, 65, 1000]) {
    const bytes = Uint8Array.from({ length: size }, (_, place) => (place * 31) & 255);
    const wanted = createHash("sha256").update(bytes).digest("hex");
    assert.equal(sha256Slow(bytes), wanted);
    assert.equal(await sha256(bytes), wanted);
  }
});

test("axes in another order", () => {
  const nchw = Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  const nhwc = relaid(nchw, [1, 2, 2, 2], "NCHW", "NHWC");
  assert.deepEqual([...nhwc], [1, 5, 2, 6, 3, 7, 4, 8]);
  assert.deepEqual(relaid(nhwc, [1, 2, 2, 2], "NHWC", "NCHW"), nchw);
  assert.throws(() => relaid(nchw, [1, 8], "NC", "NX"), /other axes/);
});

test("pixels in a model's range and layout", () => {
  const pixels = [255, 0, 0, 255, 0, 255, 0, 255];
  assert.deepEqual([...toTensor(pixels, spec([1, 3, 1, 2], "NCHW"))], [1, -1, -1, 1, -1, -1]);
  assert.deepEqual([...toTensor(pixels, spec([1, 1, 2, 3], "NHWC", { range: [0, 1] }))], [1, 0, 0, 0, 1, 0]);
  assert.deepEqual([...toTensor(pixels, spec([1, 3, 1, 2], "NCHW", { colour: "BGR", range: [0, 1] }))], [0, 0, 0, 1, 1, 0]);
  assert.equal(isImage(spec([1, 10], "NC")), false);
});

test("answers of the models", () => {
  near(softmax([0, 0])[0] ?? null, 0.5);
  assert.deepEqual(groupNames([0, 5, 6, 100], 3), ["0–4", "5", "6 and over"]);
  assert.deepEqual(groupNames(undefined, 2), ["group 1", "group 2"]);
  assert.deepEqual([...channelMean(Float32Array.of(1, 2, 3, 4), spec([1, 2, 1, 2], "NCHW")).values], [2, 3]);
});

test("scales", () => {
  const linear = scaleOf([1, 2, 4]);
  assert.equal(linear.log, false);
  assert.ok(linear.place(1) < linear.place(4) && linear.place(4) <= 98);
  const log = scaleOf([0.2, 300]);
  assert.ok(log.log && log.ticks.length >= 2 && log.place(0.2) >= 2 && log.place(300) <= 98);
  assert.deepEqual(scaleOf([]).ticks, []);
});

interface Packed {
  name: string;
  data: Uint8Array;
  stored?: boolean;
  size?: number;
  flags?: number;
}

function zip(files: Packed[]): Uint8Array<ArrayBuffer> {
  const parts: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const { name, data, stored, size, flags } of files) {
    const packed = stored ? Buffer.from(data) : deflateRawSync(data);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(flags ?? 0, 8);
    entry.writeUInt16LE(stored ? 0 : 8, 10);
    entry.writeUInt32LE(packed.length, 20);
    entry.writeUInt32LE(size ?? data.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    central.push(entry, Buffer.from(name));
    parts.push(local, Buffer.from(name), packed);
    offset += 30 + name.length + packed.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(offset, 16);
  return new Uint8Array(Buffer.concat([...parts, ...central, end]));
}

const data = new TextEncoder().encode("hello hello hello hello");

test("zip files", async () => {
  const files = await readZip(zip([{ name: "a/b.txt", data }, { name: "c.bin", data, stored: true }]));
  assert.deepEqual([...files.keys()], ["a/b.txt", "c.bin"]);
  assert.deepEqual(files.get("a/b.txt"), data);
  assert.deepEqual(files.get("c.bin"), data);
});

test("hostile zip files", async () => {
  const cases: [Uint8Array<ArrayBuffer>, RegExp][] = [
    [zip([{ name: "../etc/passwd", data }]), /unsafe path/],
    [zip([{ name: "/root", data }]), /unsafe path/],
    [zip([{ name: "a\\..\\b", data }]), /unsafe path/],
    [zip([{ name: "a", data }, { name: "a", data }]), /twice/],
    [zip([{ name: "a", data, size: 3 }]), /larger than it says/],
    [zip([{ name: "a", data, size: 99 }]), /smaller than it says/],
    [zip([{ name: "a", data, size: 2 ** 30 }]), /more than 512 MB/],
    [zip([{ name: "a", data, flags: 1 }]), /encrypted/],
    [zip([{ name: "a", data }]).slice(0, 60), /no zip file, or it is cut off/],
    [new Uint8Array(5), /no zip file/],
    [new Uint8Array(5000), /no zip file/],
  ];
  for (const [bytes, message] of cases) await assert.rejects(readZip(bytes), message);
  const broken = zip([{ name: "a", data }]);
  broken.fill(255, 31, 40);
  await assert.rejects(readZip(broken), /damaged|than it says/);
  assert.equal(isSafePath("artifacts/age.fp32.tflite"), true);
  assert.equal(isSafePath("a//b"), false);
});

const bytes = (value: unknown): Uint8Array<ArrayBuffer> => new TextEncoder().encode(JSON.stringify(value));

test("hostile bundles", async () => {
  const entry = { sha256: await sha256(data), bytes: data.length };
  const manifest = (files: unknown, schema = "unplug-bundle/1") => bytes({ schema, iospec: {}, files });
  const cases: [Map<string, Uint8Array<ArrayBuffer>>, RegExp][] = [
    [new Map([["manifest.json", new Uint8Array([123, 255])]]), /not valid JSON/],
    [new Map([["manifest.json", manifest({}, "unplug-bundle/9")]]), /of schema "unplug-bundle\/9"/],
    [new Map([["manifest.json", manifest({})]]), /lists no files/],
    [new Map([["manifest.json", manifest({ "../x": entry })]]), /unsafe path/],
    [new Map([["manifest.json", manifest({ x: entry })]]), /x is missing/],
    [new Map([["manifest.json", manifest({ x: entry })], ["x", new Uint8Array(data.length)]]), /x was changed/],
    [new Map([["manifest.json", manifest({ x: entry })], ["x", data], ["y", data]]), /y is not in manifest/],
    [new Map([["manifest.json", manifest({ x: entry })], ["x", data]]), /names no tensors/],
    [new Map([["a.onnx", data]]), /no card/],
    [new Map([["a.onnx", data], ["a.onnx.json", bytes({ schema: "other/1" })]]), /of schema "other\/1"/],
    [new Map([["a.txt", data]]), /no .tflite or .onnx file/],
  ];
  for (const [files, message] of cases) await assert.rejects(bundleOffer(files), message);
  assert.deepEqual([...unwrapped(new Map([["top/manifest.json", data], ["top/a/b", data]])).keys()], ["manifest.json", "a/b"]);
});

test("inputs have Python's digest", async () => {
  const image = spec([1, 3, 1, 2], "NCHW");
  const sample = { inputs: { image: Float32Array.of(0, 1, 2, 3, 4, 5) }, outputs: null };
  const digest = createHash("sha256").update("image\0<f4\0(2, 3, 1, 2)\n").update(new Uint8Array(sample.inputs.image.buffer));
  const wanted = digest.update(new Uint8Array(sample.inputs.image.buffer)).digest("hex");
  assert.equal(await digestInputs([sample, sample], { inputs: [image], outputs: [] }), wanted);
});
