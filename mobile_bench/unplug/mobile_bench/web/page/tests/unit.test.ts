// Run by node: vite build --ssr tests/unit.test.ts, then node --test.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { crc32, deflateRawSync } from "node:zlib";
import { bundleOffer, digestInputs, unwrapped } from "../src/bundle";
import { isEmpty, Loop, toPixels } from "../src/draw/loop";
import { defaultsOf, packsOf, readPipeline, variantsFor } from "../src/draw/pipeline";
import { choicesOf, hindrance, inWords, weight } from "../src/draw/session";
import { readerJob } from "../src/draw/mark_reader";
import { fromAddress, fromFiles, isGenerator, openGenerator, openPart, openVariants } from "../src/draw/source";
import { marked } from "../src/studio/marked";
import { line } from "../src/studio/pad";
import { classNames, groupNames, softmax } from "../src/demo/age";
import { channelMean } from "../src/demo/features";
import { isImage, toTensor } from "../src/demo/pixels";
import { relaid } from "../src/layout";
import { compare, distance, verdict, worstOf } from "../src/metrics";
import { generator, shuffled } from "../src/random";
import { sha256, sha256Slow } from "../src/sha256";
import { percentile, relativeSpread, summarize, typicalLatency, windows } from "../src/statistics";
import type { DeviceFacts, TensorSpec } from "../src/types";
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
  assert.deepEqual(classNames(["cat", "dog"], 2), ["cat", "dog"]);
  assert.deepEqual(classNames(["cat", 3], 2), ["class 1", "class 2"]);
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
    [zip([{ name: "a", data }]).slice(0, 60), /not a zip file, or it is cut off/],
    [new Uint8Array(5), /not a zip file/],
    [new Uint8Array(5000), /not a zip file/],
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

/** The smallest generator that holds: one token a byte, one noise level more than steps. */
function pipeline(): any {
  const letters = Array.from({ length: 256 }, (_, byte) => byte).map((byte) => {
    const plain = [...range(0x21, 0x7f), ...range(0xa1, 0xad), ...range(0xae, 0x100)];
    const others = range(0, 256).filter((one) => !plain.includes(one));
    return String.fromCodePoint(plain.includes(byte) ? byte : 0x100 + others.indexOf(byte));
  });
  const vocabulary = [...letters, ...letters.map((letter) => `${letter}</w>`), "<s>", "<e>"];
  const tensor = (name: string, shape: number[], layout: string, dtype = "float32") => ({ name, shape, layout, dtype, range: name === "input_ids" ? [0, 513] : null, colour: null });
  const latent = [1, 2, 2, 2];
  const file = { target: "litert", precision: "fp32", file: "a/b.tflite", sha256: "0".repeat(64), bytes: 4 };
  const part = (model_type: string, inputs: unknown[], outputs: unknown[]) => ({ model_type, iospec: { inputs, outputs }, files: [file] });
  const states = (name: string) => tensor(name, [1, 4, 3], "NTC");
  const residual = () => tensor("r0", [1, 5, 2, 2], "NCHW");
  return {
    schema: "unplug-pipeline/1", name: "tiny", image_size: 8, latent_shape: [2, 2, 2],
    tokenizer: { vocabulary, merges: [], length: 4, start: 512, end: 513, padding: 513 },
    schedule: { alphas_cumprod: [0.9, 0.5, 0.1], final_alpha_cumprod: 1, prediction: "epsilon", spacing: "leading", steps_offset: 0 },
    text_encoder: part("text_encoder", [tensor("input_ids", [1, 4], "NT", "int32")], [states("hidden_states")]),
    unet: part("guided_unet", [tensor("sample", latent, "NCHW"), tensor("timestep", [1], "N"), states("encoder_hidden_states"), states("negative_hidden_states"), residual()], [tensor("noise_pred", latent, "NCHW"), tensor("noise_pred_negative", latent, "NCHW")]),
    decoder: part("decoder", [tensor("latents", latent, "NCHW")], [tensor("image", [1, 3, 8, 8], "NCHW")]),
    plugins: { canny: { condition: "canny", part: part("plugin", [tensor("condition", [1, 3, 8, 8], "NCHW")], [residual()]) } },
    residuals: ["r0"], scaling_factor: 1, shift_factor: 0, defaults: { steps: 2, guidance: 3, solver: "ddim" },
    noise: "philox4x32-10/box-muller", versions: {}, git_revision: null,
  }; // prettier-ignore
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, place) => from + place);

test("a generator that holds, and those that do not", () => {
  const found = readPipeline(bytes(pipeline()));
  assert.deepEqual(found.tokenizer.encode("A").ids, [512, 256 + 0x61, 513, 513]);
  const word = { id: 65, single_word: false, lstrip: false, rstrip: false, normalized: true };
  const cases: [(item: any) => void, RegExp][] = [
    [(item) => (item.schema = "other/1"), /of schema "other\/1"/],
    [(item) => (item.more = 1), /unknown key "more"/],
    [(item) => delete item.unet, /unet is nothing/],
    [(item) => (item.unet = 7), /unet is 7/],
    [(item) => (item.unet.files = []), /no files, or two/],
    [(item) => item.unet.files.push(item.unet.files[0]), /no files, or two/],
    [(item) => (item.unet.files[0].file = "../x"), /not a plain path/],
    [(item) => (item.unet.files[0].sha256 = "x"), /no SHA-256/],
    [(item) => (item.unet.iospec.inputs[0].shape = [1, 2 ** 30, 9, 9]), /impossible shape/],
    [(item) => (item.unet.iospec.inputs[0].dtype = "float16"), /float32 is needed/],
    [(item) => (item.latent_shape = [3, 2, 2]), /sample of shape/],
    [(item) => (item.residuals = []), /residuals are not the inputs/],
    [(item) => (item.plugins.canny.part.iospec.outputs[0].shape = [1, 6, 2, 2]), /made for another base: it gives \[1,6,2,2\] as r0/],
    [(item) => (item.plugins.canny.part.iospec.inputs[0].shape = [1, 3, 9, 9]), /takes no condition of 8 pixels/],
    [(item) => (item.plugins = { "<b>": item.plugins.canny }), /not the name of a plugin/],
    [(item) => (item.schedule.alphas_cumprod = [0.1, 0.5]), /do not fall/],
    [(item) => (item.schedule.alphas_cumprod = [0.5, 0.5]), /do not fall/],
    [(item) => (item.schedule.alphas_cumprod = [0.5, 0]), /do not fall/],
    [(item) => (item.schedule.alphas_cumprod = null), /do not fall|another kind/],
    [(item) => (item.defaults.steps = 9), /its defaults are/],
    [(item) => (item.defaults.solver = "euler"), /its defaults are/],
    [(item) => item.tokenizer.vocabulary.push("more"), /more than its text encoder takes/],
    [(item) => (item.tokenizer.vocabulary[65] = "B"), /vocabulary of 514 tokens/],
    [(item) => (item.tokenizer.merges = ["x"]), /merge that is not/],
    [(item) => (item.tokenizer.start = 9999), /mark outside/],
    [(item) => (item.tokenizer.added = [{ id: 65 }]), /added tokens of another kind/],
    [(item) => (item.tokenizer.added = [word, word]), /added tokens that are empty or alike/],
    [(item) => (item.noise = "other"), /noise is "other"/],
  ];
  for (const [change, message] of cases) {
    const item = pipeline();
    change(item);
    assert.throws(() => readPipeline(bytes(item)), message, String(message));
  }
  assert.throws(() => readPipeline(new TextEncoder().encode("[]")), /not a record/);
});

/** The same with slots of rank 3 for two layers, six numbers each row, and two variants. */
function slotted(): any {
  const item = pipeline();
  item.unet.iospec.inputs.push({ name: "lora", shape: [1, 3, 6], layout: "NTC", dtype: "float32", range: null, colour: null });
  item.lora = { rank: 3, slots: [{ layer: "a", fan_in: 1, fan_out: 2 }, { layer: "b", fan_in: 2, fan_out: 1 }] };
  const variant = { sha256: "0".repeat(64), defaults: null };
  item.variants = { few: { ...variant, file: "variants/few.lora", bytes: 24, defaults: { steps: 1, guidance: 1, solver: "dpm++" } }, style: { ...variant, file: "variants/style.lora", bytes: 48 } };
  return item;
}

test("variants that hold, and those that do not", () => {
  const { pipeline: own } = readPipeline(bytes(slotted()));
  assert.deepEqual([defaultsOf(own, "few"), defaultsOf(own, "style"), defaultsOf(own, null)], [{ steps: 1, guidance: 1, solver: "dpm++" }, own.defaults, own.defaults]);
  const bare = slotted();
  delete bare.variants;
  assert.equal(defaultsOf(readPipeline(bytes(bare)).pipeline, null).steps, 2);
  const cases: [(item: any) => void, RegExp][] = [
    [(item) => delete item.lora, /residuals are not the inputs/],
    [(item) => (delete item.lora, item.unet.iospec.inputs.pop()), /variants, and its unet has no slots/],
    [(item) => (item.lora = null), /another kind/],
    [(item) => (item.lora.rank = 4), /slots of rank 4 do not make the input/],
    [(item) => (item.lora.slots[0].fan_in = 0), /do not make the input/],
    [(item) => (item.lora.slots = []), /do not make the input/],
    [(item) => (item.unet.iospec.inputs[5].name = "other"), /residuals are not the inputs/],
    [(item) => (item.variants = { "../x": item.variants.few }), /not the name of a variant/],
    [(item) => (item.variants.few.file = "../x"), /variant few lies at/],
    [(item) => (item.variants.few.sha256 = "x"), /no SHA-256/],
    [(item) => (item.variants.few.bytes = 96), /not 1 to 3 rows of 24 bytes/],
    [(item) => (item.variants.few.bytes = 28), /not 1 to 3 rows/],
    [(item) => (item.variants.few.bytes = 0), /not 1 to 3 rows/],
    [(item) => (item.variants.few.defaults.steps = 9), /defaults of few are/],
    [(item) => (item.variants.few.defaults = 7), /defaults of few are 7/],
    [(item) => (item.variants.few = null), /another kind/],
  ];
  for (const [change, message] of cases) {
    const item = slotted();
    change(item);
    assert.throws(() => readPipeline(bytes(item)), message, String(message));
  }
});

/** The same with a pack of one row and one of two. */
function packed(): any {
  const item = slotted();
  item.variants.hat = { ...item.variants.style, file: "variants/hat.lora", bytes: 24, word: "red hat" };
  item.variants["9"] = { ...item.variants.style, file: "variants/9.lora", word: "eye patch" };
  return item;
}

test("packs that a prompt asks for act, and those that do not hold are refused", () => {
  const { pipeline: own } = readPipeline(bytes(packed()));
  assert.deepEqual(packsOf(own).map(({ word }) => word), ["eye patch", "red hat"]);
  const cases: [string, string | null, string[]][] = [
    ["a child", null, []], ["Red Hats, eye-patch", null, ["9", "hat"]], ["a red hat", "style", ["style", "hat"]], ["eye patch", "9", ["9"]],
    ["red hat, eye patch", "hat", ["hat", "9"]],
  ]; // prettier-ignore
  for (const [prompt, variant, names] of cases) assert.deepEqual(variantsFor(own, prompt, variant), names, prompt);
  assert.throws(() => variantsFor(own, "a hat", "hat"), /hat is a pack, .* by saying “red hat”/);
  assert.throws(() => variantsFor(own, "eye patch", "style"), /style and 9 have 4 ranks together, and the base has slots for 3/);
  for (const name of ["other", "toString"]) assert.throws(() => variantsFor(own, "a", name), /no variant/);
  assert.deepEqual(variantsFor(readPipeline(bytes(pipeline())).pipeline, "red hat", null), []);
  const wrong: [unknown, RegExp][] = [["Eye Patches", /packs 9 and hat have one word/], ["red  hat", /which no prompt says/], [7, /which no prompt says/], ["?", /no prompt says/]];
  for (const [word, message] of wrong) {
    const item = packed();
    item.variants.hat.word = word;
    assert.throws(() => readPipeline(bytes(item)), message, String(word));
  }
});

/** The same whose UNet is asked about the prompt alone. */
function unguided(): any {
  const item = pipeline();
  const { inputs, outputs } = item.unet.iospec;
  [inputs, outputs].forEach((side: any[]) => side.splice(side.findIndex(({ name }) => name.includes("negative")), 1));
  item.defaults.guidance = 1;
  return item;
}

test("a UNet without guidance is asked about the prompt alone, and draws without", async () => {
  const { pipeline: own } = readPipeline(bytes(unguided()));
  const asked: string[] = [];
  let texts = 0;
  const networks = {
    text_encoder: async () => (texts++, { hidden_states: new Float32Array(12) }),
    unet: async (given: any) => (asked.push(Object.keys(given).join()), { noise_pred: new Float32Array(8).fill(0.5) }),
    decoder: async () => ({ image: new Float32Array(192) }),
  };
  const order = { prompt: [512, 513, 513, 513], negative: [512, 513, 513, 513], seed: "0", steps: 2, guidance: 1, solver: "ddim" as const, steers: [], lora: new Float32Array(0) };
  await new Loop(own, networks).draw(order, async () => undefined);
  assert.deepEqual([texts, asked], [1, Array(2).fill("sample,timestep,encoder_hidden_states,r0")]);
  await assert.rejects(new Loop(own, networks).draw({ ...order, guidance: 2 }, async () => undefined), /tiny draws without guidance/);
  const cases: [(item: any) => void, RegExp][] = [
    [(item) => (item.defaults.guidance = 3), /its defaults are/],
    [(item) => item.unet.iospec.outputs.push({ ...item.unet.iospec.outputs[0], name: "noise_pred_negative" }), /a negative prompt, and no input/],
    [(item) => item.unet.iospec.inputs.reverse(), /residuals are not the inputs/],
  ];
  for (const [change, message] of cases) {
    const item = unguided();
    change(item);
    assert.throws(() => readPipeline(bytes(item)), message, String(message));
  }
});

test("the UNet gets a variant's rows, and zeros below them or for none", async () => {
  const item = slotted();
  const rows = new Float32Array([1, 2, 3, 4, 5, -6]);
  item.variants.few.sha256 = await sha256(new Uint8Array(rows.buffer));
  const files = new Map([["pipeline.json", new Blob([bytes(item)])], ["variants/few.lora", new Blob([rows])], ["variants/style.lora", new Blob([new Uint8Array(48)])]]);
  const generator = await openGenerator(fromFiles(files));
  const seen: (Float32Array | Int32Array)[] = [];
  const latent = () => new Float32Array(8);
  const networks = {
    text_encoder: async () => ({ hidden_states: new Float32Array(12) }),
    unet: async (given: any) => (seen.push(given.lora), { noise_pred: latent(), noise_pred_negative: latent() }),
    decoder: async () => ({ image: new Float32Array(192) }),
  };
  const order = { prompt: [512, 513, 513, 513], negative: [512, 513, 513, 513], seed: "0", steps: 1, guidance: 1, solver: "ddim" as const, steers: [] };
  for (const name of ["few", null]) await new Loop(generator.pipeline, networks).draw({ ...order, lora: await openVariants(generator, "a", name) }, async () => undefined);
  assert.deepEqual(seen.map((one) => [...one]), [[...rows, ...new Array(12).fill(0)], new Array(18).fill(0)]);
  await assert.rejects(openVariants(generator, "a", "style"), /variants\/style.lora is another file than pipeline.json says/);
  await assert.rejects(openVariants(generator, "a", "other"), /no variant other/);
  const bad = Float32Array.of(1, 2, 3, 4, NaN, 6);
  item.variants.few.sha256 = await sha256(new Uint8Array(bad.buffer));
  const hostile = await openGenerator(fromFiles(new Map([["pipeline.json", new Blob([bytes(item)])], ["variants/few.lora", new Blob([bad])]])));
  await assert.rejects(openVariants(hostile, "a", "few"), /holds something other than numbers/);
});

test("a generator's files are those that it names", async () => {
  const item = pipeline();
  const model = new TextEncoder().encode("file");
  for (const part of [item.text_encoder, item.unet, item.decoder, item.plugins.canny.part]) part.files = [{ ...item.unet.files[0], sha256: await sha256(model) }];
  const files = new Map([["FILES/pipeline.json", new Blob([bytes(item)])], ["FILES/a/b.tflite", new Blob([model])]]);
  assert.ok(isGenerator(files.keys()) && !isGenerator(["a/b/pipeline.json", "pipeline.jsonx"]));
  const generator = await openGenerator(fromFiles(files));
  const own = generator.pipeline.unet.files[0]!;
  assert.deepEqual(new Uint8Array(await openPart(generator, own)), model);
  files.set("FILES/a/b.tflite", new Blob(["eliF"]));
  await assert.rejects(openPart(generator, own), /a\/b.tflite is another file than pipeline.json says/);
  files.set("FILES/a/b.tflite", new Blob(["more than that"]));
  await assert.rejects(openPart(generator, own), /holds 14 bytes where at most 4 belong/);
  files.delete("FILES/a/b.tflite");
  await assert.rejects(openPart(generator, own), /is missing; drop the whole folder/);
  assert.throws(() => fromAddress("https://elsewhere.example/x/", "https://here.example/"), /the same server/);
});

test("files that a device can run", () => {
  const { pipeline: own } = readPipeline(bytes(pipeline()));
  const choices = choicesOf(own);
  assert.deepEqual(choices.map(({ delegate }) => delegate), ["webgpu", "wasm"]);
  assert.equal(weight(own, choices[0]!, ["canny"]), 16);
  const facts = { webgpu: "this browser has no WebGPU", shader_f16: false } as DeviceFacts;
  assert.equal(hindrance(choices[0]!, facts), "this browser has no WebGPU");
  assert.equal(hindrance(choices[1]!, facts), null);
  assert.match(hindrance({ target: "onnx", precision: "fp16", delegate: "webgpu" }, { ...facts, webgpu: null }) ?? "", /half precision/);
  const none = pipeline();
  none.unet.files[0].target = "coreml";
  assert.throws(() => choicesOf(readPipeline(bytes(none)).pipeline), /no LiteRT or ONNX files of every part/);
});

test("too little memory is one clear line", () => {
  for (const text of ["WebAssembly.Memory(): could not allocate memory", "memory access out of bounds", "Aborted(OOM)", "Array buffer allocation failed"]) {
    assert.match(inWords(new RangeError(text), 53, "unet.tflite").message, /^This browser has too little memory for these files \(53 MB of networks\)/);
  }
  assert.equal(inWords(new Error("bad magic"), 53, "unet.tflite").message, "unet.tflite does not open here: bad magic. Choose other files under Settings.");
});

test("lines of a sketch are whole, and pictures are told from nothing", () => {
  assert.deepEqual(line([0.5, 0.5], [3.2, 1.9]), [[0, 0], [1, 0], [2, 1], [3, 1]]);
  for (const [from, to] of [[[5, 5], [0, 0]], [[2, 9], [2, 1]], [[7, 3], [1, 8]]] as [[number, number], [number, number]][]) {
    const found = line(from, to);
    assert.deepEqual([found[0], found.at(-1)], [from, to]);
    assert.ok(found.every(([x, y], place) => place === 0 || Math.max(Math.abs(x - found[place - 1]![0]), Math.abs(y - found[place - 1]![1])) === 1));
  }
  assert.ok(isEmpty(Uint8ClampedArray.of(9, 9, 9, 255, 9, 9, 9, 0)) && !isEmpty(Uint8ClampedArray.of(9, 9, 9, 255, 9, 8, 9, 255)));
  assert.deepEqual([...toPixels(Float32Array.of(0, 0.5, NaN))], [0, 128, 0, 255]);
});

test("a picture says that a model drew it, and its other chunks stay as they were", () => {
  const head = Uint8Array.from([137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 144, 119, 83, 222]);
  const end = Uint8Array.from([0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130]);
  const made = marked(Uint8Array.from([...head, ...end]));
  const [size, body] = [new DataView(made.buffer).getUint32(33), made.subarray(37, -16)];
  assert.deepEqual([...made.subarray(0, 33), ...made.subarray(-12)], [...head, ...end]);
  assert.equal(size, body.length - 4);
  assert.equal(new DataView(made.buffer).getUint32(37 + body.length), crc32(body));
  const text = new TextDecoder().decode(body);
  assert.ok(text.startsWith("iTXtXML:com.adobe.xmp\0\0\0\0\0") && text.includes("digitalsourcetype/trainedAlgorithmicMedia"));
  assert.throws(() => marked(end), /not a PNG/);
});

test("a reader of marks is one by its card", async () => {
  const model = new TextEncoder().encode("reader");
  const spec = (name: string, shape: number[], layout: string) => ({ name, shape, layout, dtype: "float32", range: null, colour: null });
  const card = {
    schema: "unplug-artifact/1", file: "reader.fp32.tflite", sha256: await sha256(model), target: "litert", precision: "fp32", model_type: "mark_reader", config: {},
    iospec: { inputs: [spec("image", [1, 128, 128, 3], "NHWC")], outputs: [spec("bits", [1, 48], "NC")] },
  }; // prettier-ignore
  const found = (changed: object, file = model) =>
    readerJob(fromFiles(new Map([["pipeline.json", new Blob([])], ["mark-reader/card.json", new Blob([JSON.stringify({ ...card, ...changed })])], ["mark-reader/reader.fp32.tflite", new Blob([file])]])));
  assert.equal(await readerJob(fromFiles(new Map([["pipeline.json", new Blob([])]]))), null);
  const job = await found({});
  assert.deepEqual([job!.delegate, job!.runtime, new Uint8Array(await job!.model())], ["wasm", "litert-web", model]);
  const wrong: [object, RegExp][] = [
    [{ file: "../pipeline.json" }, /names no file/],
    [{ file: "other.tflite" }, /other.tflite is missing/],
    [{ sha256: 7 }, /names no file and its SHA-256/],
    [{ sha256: "0".repeat(64) }, /was changed: it is not what its card says/],
    [{ schema: "unplug-artifact/2" }, /is of schema/],
    [{ model_type: "age" }, /reads no marks of 48 bits/],
    [{ iospec: { ...card.iospec, outputs: [spec("bits", [1, 32], "NC")] } }, /reads no marks of 48 bits/],
    [{ iospec: { ...card.iospec, inputs: [spec("image", [1, 3, 64, 64], "NCHW")] } }, /reads no marks of 48 bits/],
  ];
  for (const [changed, message] of wrong) await assert.rejects(found(changed), message, String(message));
  await assert.rejects(found({}, new TextEncoder().encode("redaer")), /was changed/);
  await assert.rejects(readerJob(fromFiles(new Map([["pipeline.json", new Blob([])], ["mark-reader/card.json", new Blob(["{"])]]))), /card.json is not valid JSON/);
  await assert.rejects(readerJob(() => Promise.reject(new Error("too much"))), /too much/);
});
