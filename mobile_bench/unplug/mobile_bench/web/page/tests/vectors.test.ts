// The port of the device loop against tests/vectors/pipeline, whose folder UNPLUG_VECTORS names; within the tolerances that it states.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { inflateRawSync } from "node:zlib";
import { bundleOffer } from "../src/bundle";
import { align, faceProblem, type Frame, light, readFrame } from "../src/demo/align";
import { answered, overProbability, readDecision } from "../src/demo/decision";
import { chooseMember, FRAME_MS, type Member, readFamily, timedHere } from "../src/demo/family";
import { canny, grey } from "../src/draw/canny";
import { conditionInput, toPixels } from "../src/draw/loop";
import { chanceOf, CHANCE, type FoundMark, foundMark, keyBits, PUBLIC_KEY, READINGS, readingsOf, SIDE } from "../src/draw/mark";
import { normals, philox, uniform, words } from "../src/draw/noise";
import { hold, standIn, wordsOf } from "../src/draw/packs";
import { advance, guided, samplingTable, scaleAt, type SamplingTable, type Schedule, type Solver } from "../src/draw/sampler";
import { type AddedToken, Tokenizer, type TokenizerData } from "../src/draw/tokenizer";
import type { BenchRow } from "../src/types";

const folder = process.env["UNPLUG_VECTORS"] ?? "";
const read = <T>(name: string): T => JSON.parse(readFileSync(join(folder, name), "utf8")) as T;

function near(what: string, got: ArrayLike<number>, wanted: ArrayLike<number>, relative = 0, absolute = 0): void {
  assert.equal(got.length, wanted.length, what);
  for (let at = 0; at < wanted.length; at++) {
    const apart = Math.abs(got[at]! - wanted[at]!);
    assert.ok(got[at] === wanted[at] || apart <= Math.max(absolute, relative * Math.abs(wanted[at]!)), `${what}[${at}]: ${got[at]} is not ${wanted[at]}`);
  }
}

interface Learned {
  words: string[];
  added: AddedToken[];
  prompts: { text: string; ids: number[]; tokens: number; spelled: string[] }[];
}

test("token ids of the golden prompts", () => {
  const bpe = new Tokenizer(read<TokenizerData>("tokenizer.json"));
  const { prompts } = read<{ prompts: { text: string; times?: number; ids: number[]; tokens: number }[] }>("tokens.json");
  for (const { text, times = 1, ids, tokens } of prompts) {
    const found = bpe.encode(text.repeat(times));
    assert.deepEqual([found.ids, found.tokens], [ids, tokens], text.slice(0, 40));
  }
  const { words, added, prompts: others } = read<{ learned: Learned }>("tokens.json").learned;
  const data = read<TokenizerData>("tokenizer.json");
  const learned = new Tokenizer({ ...data, vocabulary: [...data.vocabulary, ...words], added });
  for (const { text, ...wanted } of others) assert.deepEqual({ ...learned.encode(text) }, wanted, text);
  assert.deepEqual(bpe.encode("a xylophone").spelled, ["xylophone"]);
  assert.throws(() => bpe.encode("a".repeat(65_537)), /more than 65536 characters/);
});

test("prompts ask for packs by their words", () => {
  const { prompts, words: known, none } = read<{ prompts: string[]; words: Record<string, number[]>; none: string[] }>("packs.json");
  const folded = prompts.map(wordsOf);
  for (const [word, wanted] of Object.entries(known)) {
    assert.ok(hold(word), word);
    assert.deepEqual(folded.flatMap((prompt, place) => (standIn(wordsOf(word), prompt) ? [place] : [])), wanted, word);
  }
  for (const word of none) assert.ok(!hold(word), word);
  assert.ok(hold("\u{1d552}".repeat(64)));
});

interface Noise {
  philox: { counter: [number, number, number, number]; key: [number, number]; words: number[] }[];
  streams: { seed: string; stream: number; words: number[]; uniforms: number[]; normals: number[]; normal_2047: number[] }[];
}

test("the noise stream", () => {
  const noise = read<Noise>("noise.json");
  for (const { counter, key, words: wanted } of noise.philox) near("philox", philox(counter, key), wanted);
  for (const { seed, stream, words: wanted, ...numbers } of noise.streams) {
    const own = [BigInt(seed), BigInt(stream)] as const;
    near("words", words(...own, wanted.length), wanted);
    near("uniforms", wanted.map(uniform), numbers.uniforms);
    near("normals", normals(...own, wanted.length), numbers.normals, 2 ** -21, 1e-7);
    near("normal 2047", normals(...own, 2048).slice(2047), numbers.normal_2047, 2 ** -21, 1e-7);
  }
});

interface Tables {
  schedules: Record<string, Schedule>;
  tables: ({ schedule: string; solver: Solver; steps: number } & Record<keyof SamplingTable, number[]>)[];
}

test("timesteps and coefficients", () => {
  const { schedules, tables } = read<Tables>("tables.json");
  for (const row of tables) {
    const found = samplingTable(schedules[row.schedule]!, row.steps, row.solver);
    const name = `${row.schedule} ${row.solver} ${row.steps}`;
    near(name, found.timestep, row.timestep);
    for (const key of ["latent_to_data", "prediction_to_data", "keep", "data", "previous", "guidance"] as const) near(`${name} ${key}`, found[key], row[key], 2e-6, 1e-6);
  }
  assert.throws(() => samplingTable(schedules["epsilon"]!, 1000, "dpm++"), /1 to 999 steps/);
});

interface Sampling {
  seed: number;
  guidance: number;
  steps: number;
  predictions: number[][];
  negative_predictions: number[][];
  runs: { schedule: string; solver: Solver; latents: number[][] }[];
}

test("latents of a recorded problem", () => {
  const { schedules } = read<Tables>("tables.json");
  const sampling = read<Sampling>("sampling.json");
  for (const run of sampling.runs) {
    const table = samplingTable(schedules[run.schedule]!, sampling.steps, run.solver);
    let latent = normals(BigInt(sampling.seed), 0n, run.latents[0]!.length);
    let before = new Float32Array(latent.length);
    for (const [step, wanted] of run.latents.entries()) {
      const [told, untold] = [sampling.predictions[step]!, sampling.negative_predictions[step]!].map((item) => Float32Array.from(item));
      const moved = advance(table, step, latent, guided(told!, untold!, scaleAt(table, step, sampling.guidance)), before);
      [latent, before] = [moved.latent, moved.data];
      near(`${run.schedule} ${run.solver} ${step}`, latent, wanted, 0, 1e-5 * Math.max(...wanted.map(Math.abs)));
    }
  }
});

test("pixels at both ends", () => {
  const known = read<Record<"decoded" | "bytes" | "condition" | "range_0_1" | "range_-1_1", number[]>>("pixels.json");
  const decoded = Float32Array.from([...known.decoded, ...known.decoded, ...known.decoded]);
  near("bytes", toPixels(decoded).filter((_, place) => place % 4 === 1), known.bytes);
  const pixels = Uint8ClampedArray.from(known.condition.flatMap((value) => [value, value, value, 255]));
  for (const range of [[0, 1], [-1, 1]] as [number, number][]) {
    const wanted = known[range[0] === 0 ? "range_0_1" : "range_-1_1"];
    near("condition", conditionInput(pixels, range), [...wanted, ...wanted, ...wanted], 0, 1e-7);
  }
});

test("edges are OpenCV's", () => {
  const { cases } = read<{ cases: { width: number; height: number; low: number; high: number; rgb: string; edges: string }[] }>("canny.json");
  assert.ok(cases.length > 3);
  for (const { width, height, low, high, rgb, edges } of cases) {
    const bytes = Buffer.from(rgb, "base64");
    const rgba = Array.from({ length: 4 * width * height }, (_, place) => (place % 4 === 3 ? 255 : bytes[3 * (place >> 2) + (place % 4)]!));
    const found = canny(grey(rgba), width, height, low, high);
    const bits = Buffer.from(edges, "base64");
    const wanted = Uint8Array.from(found, (_, place) => ((bits[place >> 3]! >> (7 - (place & 7))) & 1) * 255);
    assert.ok(wanted.some((value) => value === 255));
    assert.deepEqual(found, wanted, `${width} x ${height}, ${low} to ${high}`);
  }
});

interface Faces {
  align: { width: number; height: number; rgb: string; left: [number, number]; right: [number, number]; size: number; frame: Frame; aligned: string; light: number }[];
  problems: { faces: number; apart: number; colour: number; problem: string | null }[];
  manifests: { what: string; preprocessing: unknown; refused: boolean; frame: Frame | null }[];
}

test("faces are put in their frame as in Python", () => {
  const { align: cases, problems, manifests } = read<Faces>("../faces/faces.json");
  const bytes = (text: string): Uint8Array => new Uint8Array(inflateRawSync(Buffer.from(text, "base64")));
  assert.equal(cases.length, 8);
  for (const { width, height, rgb, left, right, size, frame, aligned, light: wanted } of cases) {
    const found = align({ width, height, rgb: bytes(rgb) }, left, right, size, frame);
    assert.deepEqual(found.rgb, bytes(aligned), `${width} x ${height} to ${size}`);
    assert.equal(light(found), wanted);
  }
  assert.equal(problems.length, 9);
  for (const { faces, apart, colour, problem } of problems) {
    const shown = { width: 4, height: 4, rgb: new Uint8Array(48).fill(colour) };
    assert.equal(faceProblem(faces, [10, 10], [10 + apart, 10], shown), problem);
  }
  assert.throws(() => align({ width: 1, height: 1, rgb: new Uint8Array(3) }, [5, 5], [5, 5], 8), /in the same place/);
  assert.equal(manifests.length, 18);
  for (const { what, preprocessing, refused, frame } of manifests) {
    if (refused) assert.throws(() => readFrame(preprocessing), /not frame a face/, what);
    else assert.deepEqual(readFrame(preprocessing), frame, what);
  }
  assert.equal(readFrame(undefined), null);
});

interface Decisions {
  tolerance: number;
  cases: { what: string; edges: number[]; age_logits: number[]; age: number; over_from: number; under_to: number; over: number; answer: string }[];
  record: { edges: number[]; decision: unknown };
  refused: { what: string; edges: number[]; decision: unknown }[];
  models: { what: string; decision: unknown; sha256: string; fitted: boolean }[];
}

test("over, under or unsure at an age", () => {
  const { tolerance, cases, record, refused, models } = read<Decisions>("../decision/decision.json");
  assert.equal(cases.length, 54);
  for (const { what, edges, age_logits, age, over, answer, ...ends } of cases) {
    const found = overProbability(age_logits, edges, age);
    near(what, [found], [over], 0, tolerance);
    assert.equal(answered(ends, found), answer, what);
  }
  assert.deepEqual(readDecision(record.decision, record.edges), { age: 18, over_from: 0.92, under_to: 0.31, max_fpr: 0.01, max_fnr: 0.05, models: ["1".repeat(64)] });
  assert.equal(readDecision(undefined, record.edges), null);
  assert.equal(refused.length, 16);
  for (const { what, edges, decision } of refused) assert.throws(() => readDecision(decision, edges), /the bundle's decision/, what);
  assert.equal(models.length, 6);
  for (const { what, decision, sha256, fitted } of models) assert.equal(readDecision(decision, record.edges)?.models.includes(sha256), fitted, what);
  assert.equal(answered({ over_from: 0.9, under_to: 0.1 }, NaN), "unsure");
});

/** A case of tests/vectors/family-choice.json. */
interface Family {
  what: string;
  members: Member[];
  budget_ms: number;
  fits: string | null;
}

test("of a family the best member that fits", () => {
  const { frame_ms, cases, refused } = read<{ frame_ms: number; cases: Family[]; refused: Family[] }>("../family-choice.json");
  assert.equal(FRAME_MS, frame_ms);
  for (const { what, members, budget_ms, fits } of cases) {
    if (fits === null) assert.throws(() => chooseMember(members, budget_ms), /no member fits/, what);
    else assert.equal(chooseMember(members, budget_ms).name, fits, what);
  }
  const none = /it is not a time|it needs members/;
  for (const { what, members, budget_ms } of refused) assert.throws(() => chooseMember(members, budget_ms), none, what);
  for (const budget of [NaN, Infinity]) assert.throws(() => chooseMember([{ name: "a", checkpoint_sha256: "", latency_ms: 1 }], budget), none);
});

/** The bundle of tests/vectors/app/bundle.json. */
test("a bundle of a family, and what this device measured of it", async () => {
  const { files } = read<{ files: Record<string, string> }>("../app/bundle.json");
  const { family, jobs } = await bundleOffer(new Map(Object.entries(files).map(([name, text]) => [name, new Uint8Array(Buffer.from(text, "base64"))])));
  assert.deepEqual(jobs.map(({ file, parity_reference }) => [file, parity_reference]), [
    ...Array(2).fill(["age.fp32.onnx", "checkpoint"]), ...Array(2).fill(["nano/age.fp32.onnx", "first_run"]),
  ]); // prettier-ignore
  assert.deepEqual((await jobs[2]!.samples()).map(({ outputs }) => outputs), [null, null]);
  const chosen = (): string => chooseMember(timedHere(family ?? [], jobs), FRAME_MS).name;
  assert.equal(chosen(), "nano", "the other takes longer than a frame where it was released");
  for (const [valid, taken] of [[false, "nano"], [true, "small"]] as const) {
    jobs[0]!.row = { valid, median_ms: 9 } as BenchRow;
    assert.equal(chosen(), taken);
  }
  assert.equal(readFamily(undefined), null);
  for (const broken of [{}, [], { schema: "unplug-family/1", members: [1] }]) {
    assert.throws(() => readFamily(broken), /it needs members/);
  }
});

/** What tests/vectors/mark.json holds. */
interface Marks {
  tolerance: number;
  every: number;
  side: number;
  shares: number[];
  threshold: number;
  readings: { width: number; height: number; divided: number; bytes: string[] }[];
  refused: [number, number];
  public_key: string;
  keys: Record<string, number[]>;
  bad_keys: string[];
  chances: number[][];
  verdicts: (FoundMark & { key: string; logits: number[][] })[];
}

const painted = (width: number, height: number, divided: number): number[] =>
  Array.from({ length: 4 * width * height }, (_, at) => {
    const [x, y, colour] = [(at >> 2) % width, Math.floor((at >> 2) / width), at % 4];
    return colour === 3 ? 255 : Math.floor((x * x * (colour + 3) + 5 * x * y + 7 * y * y * (colour + 1)) / divided) % 256;
  });

test("a mark is read as in Python", () => {
  const marks = read<Marks>("../mark.json");
  assert.deepEqual([SIDE, READINGS, CHANCE, PUBLIC_KEY], [marks.side, marks.shares, marks.threshold, marks.public_key]);
  assert.equal(marks.readings.length, 5);
  for (const { width, height, divided, bytes } of marks.readings) {
    const seen = readingsOf({ width, height, rgba: painted(width, height, divided) });
    assert.deepEqual(seen.map(({ length }) => length), bytes.map(() => 3 * SIDE * SIDE));
    for (const [place, text] of bytes.entries()) {
      const wanted = Array.from(Buffer.from(text, "base64"), (byte) => byte / 255);
      near(`${width} x ${height}, ${place}`, seen[place]!.filter((_, at) => at % marks.every === 0), wanted, 0, marks.tolerance + 1e-7);
    }
  }
  const [width, height] = marks.refused;
  assert.throws(() => readingsOf({ width, height, rgba: painted(width, height, 1) }), /from 64 pixels a side on/);
  for (const [key, bits] of Object.entries(marks.keys)) assert.deepEqual(keyBits(key), bits, key);
  for (const key of marks.bad_keys) assert.throws(() => keyBits(key), /12 hexadecimal digits/, key);
  for (const [place, row] of marks.chances.entries()) near("chance", row.map((_, agree) => chanceOf(agree, place + 1)), row, 1e-15);
  for (const { key, logits, ...wanted } of marks.verdicts) assert.deepEqual(foundMark(logits, key), wanted);
});
