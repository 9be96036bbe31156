// The device loop's numbers from docs/device.md alone, in another language: `node tests/vectors/pipeline/port.mjs` checks the vectors.
// It proves that the page says enough; a web page may take these functions as they are.
import { readFileSync } from "node:fs";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const f32 = Math.fround;

/** Halves go to the even neighbour, as in Python. */
export function rint(x) {
  const down = Math.floor(x);
  return x - down === 0.5 ? (down % 2 === 0 ? down : down + 1) : Math.round(x);
}

/** A product of two 32-bit words: its high and its low word. */
function product(a, b) {
  const whole = BigInt(a) * BigInt(b);
  return [Number(whole >> 32n), Number(whole & 0xffffffffn)];
}

export function philox(counter, key) {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [highP, lowP] = product(0xd2511f53, c0);
    const [highQ, lowQ] = product(0xcd9e8d57, c2);
    [c0, c1, c2, c3] = [(highQ ^ c1 ^ k0) >>> 0, lowQ, (highP ^ c3 ^ k1) >>> 0, lowP];
    [k0, k1] = [(k0 + 0x9e3779b9) >>> 0, (k1 + 0xbb67ae85) >>> 0];
  }
  return [c0, c1, c2, c3];
}

/** Word k of a stream; the seed is a BigInt. */
export function word(seed, stream, k) {
  const block = Math.floor(k / 4);
  const key = [Number(seed & 0xffffffffn), Number(seed >> 32n)];
  return philox([block >>> 0, Math.floor(block / 2 ** 32), stream >>> 0, Math.floor(stream / 2 ** 32)], key)[k % 4];
}

export const uniform = (w) => (w + 0.5) / 2 ** 32;

export function normal(seed, stream, k) {
  const first = k - (k % 2);
  const radius = Math.sqrt(-2 * Math.log(uniform(word(seed, stream, first))));
  const angle = 2 * Math.PI * uniform(word(seed, stream, first + 1));
  return f32(radius * (k % 2 ? Math.sin(angle) : Math.cos(angle)));
}

const WHITE = "\\t\\n\\v\\f\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const WORDS = new RegExp(`'s|'t|'re|'ve|'m|'ll|'d|\\p{L}+|\\p{N}|[^${WHITE}\\p{L}\\p{N}]+`, "gu");

function letters() {
  const plain = (b) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(plain(b) ? b : next++));
}

/** Token ids and how many tokens the whole prompt has. */
export function encode(bpe, text) {
  const ids = new Map(bpe.vocabulary.map((token, id) => [token, id]));
  const ranks = new Map(bpe.merges.map((pair, rank) => [pair, rank]));
  const bytes = letters();
  const marks = [bpe.vocabulary[bpe.start], bpe.vocabulary[bpe.end]];
  const found = [];
  const escaped = marks.map((mark) => mark.replace(/[|<>]/g, "\\$&"));
  for (const piece of text.split(new RegExp(`(${escaped.join("|")})`))) {
    if (marks.includes(piece)) {
      found.push(ids.get(piece));
      continue;
    }
    const spaced = piece.normalize("NFC").replace(new RegExp(`[${WHITE}]+`, "gu"), " ");
    const lower = Array.from(spaced, (one) => one.toLowerCase()).join("");
    for (const [word] of lower.matchAll(WORDS)) {
      found.push(...merged(Array.from(new TextEncoder().encode(word), (b) => bytes[b]), ranks).map((token) => ids.get(token)));
    }
  }
  const kept = [bpe.start, ...found.slice(0, bpe.length - 2), bpe.end];
  return { ids: [...kept, ...Array(bpe.length - kept.length).fill(bpe.padding)], tokens: found.length + 2 };
}

function merged(parts, ranks) {
  parts[parts.length - 1] += "</w>";
  for (;;) {
    let best = null;
    for (let at = 0; at + 1 < parts.length; at++) {
      const pair = `${parts[at]} ${parts[at + 1]}`;
      if (ranks.has(pair) && (best === null || ranks.get(pair) < ranks.get(best))) best = pair;
    }
    if (best === null) return parts;
    const [left, right] = best.split(" ");
    const next = [];
    for (let at = 0; at < parts.length; at++) {
      const both = parts[at] === left && parts[at + 1] === right;
      next.push(both ? left + right : parts[at]);
      if (both) at++;
    }
    parts = next;
  }
}

export function timesteps(schedule, steps, solver) {
  const levels = schedule.alphas_cumprod.length;
  const extra = solver === "dpm++" && schedule.spacing !== "trailing" ? 1 : 0;
  return Array.from({ length: steps }, (_, i) => {
    const left = steps - 1 + extra - i;
    const by = {
      leading: () => left * Math.floor(levels / (steps + extra)) + schedule.steps_offset,
      trailing: () => rint(levels - i * (levels / steps)) - 1,
      linspace: () => rint(left * ((levels - 1) / Math.max(1, steps - 1 + extra))),
    };
    return Math.min(by[schedule.spacing](), levels - 1);
  });
}

export function table(schedule, steps, solver) {
  const times = timesteps(schedule, steps, solver);
  const dpm = solver === "dpm++";
  const a = times.map((t) => (dpm ? Math.max(schedule.alphas_cumprod[t], 2 ** -24) : schedule.alphas_cumprod[t]));
  const log = a.map((x) => 0.5 * Math.log(x / (1 - x)));
  const after = times.map((t, i) => {
    if (dpm) return a[i + 1];
    const below = t - Math.floor(schedule.alphas_cumprod.length / steps);
    return below >= 0 ? schedule.alphas_cumprod[below] : schedule.final_alpha_cumprod;
  });
  const last = (i) => dpm && i === steps - 1;
  const keep = a.map((x, i) => (last(i) ? 0 : Math.sqrt((1 - after[i]) / (1 - x))));
  const pull = a.map((_, i) => (last(i) ? 1 : Math.sqrt(after[i]) * -Math.expm1(-(log[i + 1] - log[i]))));
  const previous = a.map((_, i) => {
    if (!dpm || i === 0 || last(i)) return 0;
    return (-0.5 * pull[i] * (log[i + 1] - log[i])) / (log[i] - log[i - 1]);
  });
  const noise = schedule.prediction === "epsilon";
  return {
    timestep: times,
    latent_to_data: a.map((x) => f32(noise ? 1 / Math.sqrt(x) : Math.sqrt(x))),
    prediction_to_data: a.map((x) => f32(noise ? -Math.sqrt(1 - x) / Math.sqrt(x) : -Math.sqrt(1 - x))),
    keep: keep.map(f32),
    data: a.map((x, i) => f32(dpm ? pull[i] - previous[i] : Math.sqrt(after[i]) - Math.sqrt(x) * keep[i])),
    previous: previous.map(f32),
  };
}

/** One step on arrays of float32: the next latent and this step's data. */
export function advance(plan, s, z, p, before) {
  const data = z.map((x, i) => f32(f32(plan.latent_to_data[s] * x) + f32(plan.prediction_to_data[s] * p[i])));
  const moved = z.map((x, i) => f32(f32(f32(plan.keep[s] * x) + f32(plan.data[s] * data[i])) + f32(plan.previous[s] * before[i])));
  return [moved, data];
}

let wrong = 0;
function check(what, got, wanted, relative = 0, absolute = 0) {
  const near = (a, b) => a === b || Math.abs(a - b) <= Math.max(absolute, relative * Math.abs(b));
  const same = got.length === wanted.length && got.every((value, i) => near(value, wanted[i]));
  if (!same) console.log(`differs: ${what}\n  ${got.slice(0, 8)}\n  ${wanted.slice(0, 8)}`);
  wrong += same ? 0 : 1;
}

const bpe = read("tokenizer.json");
for (const { text, times = 1, ids, tokens } of read("tokens.json").prompts) {
  const found = encode(bpe, text.repeat(times));
  check(`ids of ${text.slice(0, 30)}`, [...found.ids, found.tokens], [...ids, tokens]);
}
const noise = read("noise.json");
for (const { counter, key, words } of noise.philox) check("philox", philox(counter, key), words);
for (const { seed, stream, words, uniforms, normals, normal_2047 } of noise.streams) {
  const of = (make) => words.map((_, k) => make(BigInt(seed), stream, k));
  check(`words of ${seed}`, of(word), words);
  check(`uniforms of ${seed}`, words.map(uniform), uniforms);
  check(`normals of ${seed}`, [...of(normal), normal(BigInt(seed), stream, 2047)], [...normals, ...normal_2047], 2 ** -21, 1e-7);
}
const tables = read("tables.json");
for (const row of tables.tables) {
  const found = table(tables.schedules[row.schedule], row.steps, row.solver);
  for (const name of Object.keys(found)) check(`${row.solver} ${row.steps} ${name}`, found[name], row[name], 2e-6, name === "timestep" ? 0 : 1e-6);
}
const sampling = read("sampling.json");
for (const run of sampling.runs) {
  const plan = table(tables.schedules[run.schedule], sampling.steps, run.solver);
  let z = run.latents[0].map((_, k) => normal(BigInt(sampling.seed), 0, k));
  let before = z.map(() => 0);
  run.latents.forEach((wanted, s) => {
    const untold = sampling.negative_predictions[s];
    const told = sampling.predictions[s];
    const p = told.map((x, i) => f32(f32(untold[i]) + f32(sampling.guidance * f32(f32(x) - f32(untold[i])))));
    [z, before] = advance(plan, s, z, p, before);
    check(`latent ${s} of ${run.solver}`, z, wanted, 0, 1e-5 * Math.max(...wanted.map(Math.abs)));
  });
}
const pixels = read("pixels.json");
check("bytes", pixels.decoded.map((x) => Math.min(255, Math.max(0, rint(f32(f32(x) * 255))))), pixels.bytes);
console.log(wrong ? `${wrong} differences` : "all vectors agree");
process.exitCode = wrong ? 1 : 0;
