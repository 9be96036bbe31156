// pipeline.json: all that the loop must know. Nothing in it is trusted: names, paths, shapes and numbers are checked first.
import { elements } from "../layout";
import type { IOSpec, TensorSpec } from "../types";
import { isSafePath } from "../zip";
import { hold, standIn, wordsOf } from "./packs";
import { mostSteps, type Schedule, type Solver } from "./sampler";
import { Tokenizer, type TokenizerData } from "./tokenizer";

/** The UNet's input of low-rank updates, where it has one. */
export const LORA = "lora";
export const PIPELINE = "pipeline.json";
/** The UNet's input of the negative prompt's states, which one that draws without guidance lacks. */
export const NEGATIVE = "negative_hidden_states";
const SCHEMA = "unplug-pipeline/1";
const NOISE = "philox4x32-10/box-muller";
export const MAX_PIPELINE_BYTES = 64 * 2 ** 20;
const MAX_ELEMENTS = 2 ** 26;
const MAX_LEVELS = 10_000;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$/;

export interface PartFile {
  target: string;
  precision: string;
  file: string;
  sha256: string;
  bytes: number;
}

export interface Part {
  model_type: string;
  iospec: IOSpec;
  files: PartFile[];
}

export interface Defaults {
  steps: number;
  guidance: number;
  solver: Solver;
}

/** The UNet's input of low-rank updates: rows of all slots' factors; zeros are the bare base. */
export interface LoraSlots {
  rank: number;
  slots: { layer: string; fan_in: number; fan_out: number }[];
}

/** Named weights: rows of that input as float32, little-endian, the first ones only. */
export interface Variant {
  file: string;
  sha256: string;
  bytes: number;
  defaults?: Defaults | null;
  /** The word of a pack, which a prompt with that word switches on; without one the variant acts where it is chosen. */
  word?: string | null;
}

export interface Pipeline {
  schema: string;
  name: string;
  image_size: number;
  latent_shape: [number, number, number];
  tokenizer: TokenizerData;
  schedule: Schedule;
  text_encoder: Part;
  unet: Part;
  decoder: Part;
  plugins: Record<string, { condition: string; part: Part }>;
  residuals: string[];
  scaling_factor: number;
  shift_factor: number;
  defaults: Defaults;
  noise: string;
  versions: Record<string, string>;
  git_revision: string | null;
  lora?: LoraSlots;
  variants?: Record<string, Variant>;
}

const KEYS: Record<Exclude<keyof Pipeline, "lora" | "variants">, string> = {
  schema: "string", name: "string", image_size: "number", latent_shape: "object", tokenizer: "object", schedule: "object",
  text_encoder: "object", unet: "object", decoder: "object", plugins: "object", residuals: "object", scaling_factor: "number",
  shift_factor: "number", defaults: "object", noise: "string", versions: "object", git_revision: "object",
}; // prettier-ignore

/** Keys that a record has only where it needs them. */
const OPTIONAL = ["lora", "variants"];

const refuse = (why: string): never => {
  throw new Error(`pipeline.json does not hold: ${why}.`);
};

const shown = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, 80);

/** The UNet's inputs before its residuals. */
const ASKED = ["sample", "timestep", "encoder_hidden_states", NEGATIVE];

/** Whether the UNet answers for the negative prompt too; without that, a guidance of 1 is the only one. */
export const isGuided = ({ unet }: Pipeline): boolean => unet.iospec.inputs.some(({ name }) => name === NEGATIVE);

/** All parts by name: those of the base, and each plugin as plugins.NAME. */
export function partsOf(pipeline: Pipeline): Record<string, Part> {
  const { text_encoder, unet, decoder, plugins } = pipeline;
  const own = Object.entries(plugins).map(([name, { part }]) => [`plugins.${name}`, part] as const);
  return { text_encoder, unet, decoder, ...Object.fromEntries(own) };
}

/** The tensor with its axes as PyTorch has them, whatever order a phone's file took. */
function plainShape({ shape, layout }: TensorSpec): number[] {
  return [...layout].sort().join("") === "CHNW" ? [..."NCHW"].map((axis) => shape[layout.indexOf(axis)]!) : shape;
}

function checkKeys(value: unknown): Pipeline {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return refuse("it is not a record");
  const given = value as Record<string, unknown>;
  if (given["schema"] !== SCHEMA) refuse(`it is of schema ${shown(given["schema"])}, and this page reads ${SCHEMA}`);
  for (const key of Object.keys(given)) if (!(key in KEYS) && !OPTIONAL.includes(key)) refuse(`it has the unknown key ${shown(key)}`);
  for (const [key, kind] of Object.entries(KEYS)) {
    const own = given[key];
    const fits = key === "git_revision" ? own === null || typeof own === "string" : typeof own === kind && own !== null;
    if (!fits) refuse(`${key} is ${shown(own)}`);
  }
  return given as unknown as Pipeline;
}

function checkSide(name: string, side: TensorSpec[] | undefined): void {
  if (!Array.isArray(side) || side.length === 0) refuse(`its ${name} names no tensors`);
  for (const spec of side!) {
    const plain = Array.isArray(spec?.shape) && spec.shape.every((size) => Number.isInteger(size) && size >= 1);
    if (!plain || elements(spec.shape) > MAX_ELEMENTS || String(spec.layout).length !== spec.shape.length) {
      refuse(`its ${name} gives a tensor an impossible shape`);
    }
    const wanted = spec.name === "input_ids" ? "int32" : "float32";
    if (spec.dtype !== wanted) refuse(`its ${name} has ${shown(spec.name)} of ${shown(spec.dtype)} where ${wanted} is needed`);
  }
}

function checkPart(name: string, part: Part): void {
  if (typeof part !== "object" || part === null || typeof part.iospec !== "object" || !Array.isArray(part.files)) refuse(`its ${name} is ${shown(part)}`);
  checkSide(name, part.iospec.inputs);
  checkSide(name, part.iospec.outputs);
  const kinds = part.files.map(({ target, precision }) => `${target} ${precision}`);
  if (kinds.length === 0 || new Set(kinds).size < kinds.length) refuse(`its ${name} has no files, or two of one target and precision`);
  for (const { file, sha256, bytes } of part.files) {
    if (typeof file !== "string" || !isSafePath(file)) refuse(`its ${name} lies at ${shown(file)}, which is not a plain path inside the folder`);
    if (!/^[0-9a-f]{64}$/.test(sha256) || !Number.isSafeInteger(bytes) || bytes < 0) refuse(`${file} has no SHA-256 and size`);
  }
}

type Shapes = Record<string, number[]>;
const shapes = (specs: TensorSpec[]): Shapes => Object.fromEntries(specs.map((spec) => [spec.name, plainShape(spec)]));
const same = <Item>(one: Item[] | undefined, other: Item[] | undefined): boolean => one?.join() === other?.join();

/** Whether every part takes what the one before gives. */
function checkFit(pipeline: Pipeline): void {
  const { tokenizer, text_encoder, unet, decoder, image_size: side } = pipeline;
  const own: Record<string, Shapes> = {};
  for (const [name, { iospec }] of Object.entries({ text_encoder, unet, decoder })) own[name] = shapes([...iospec.inputs, ...iospec.outputs]);
  const width = own["text_encoder"]!["hidden_states"]?.at(-1) ?? 0;
  const [latent, states] = [[1, ...pipeline.latent_shape], [1, tokenizer.length, width]];
  const wanted: [string, string, number[]][] = [
    ["text_encoder", "input_ids", [1, tokenizer.length]], ["text_encoder", "hidden_states", states],
    ["unet", "sample", latent], ["unet", "timestep", [1]], ["unet", "encoder_hidden_states", states],
    ["unet", "noise_pred", latent], ["decoder", "latents", latent], ["decoder", "image", [1, 3, side, side]],
  ]; // prettier-ignore
  const guided = isGuided(pipeline);
  if (guided) wanted.push(["unet", NEGATIVE, states], ["unet", "noise_pred_negative", latent]);
  else if ("noise_pred_negative" in own["unet"]!) refuse("its unet has an output for a negative prompt, and no input for one");
  for (const [part, tensor, shape] of wanted) {
    const found = own[part]![tensor];
    if (!same(found, shape)) refuse(`its ${part} has ${tensor} of shape ${shown(found)} where ${shown(shape)} is needed`);
  }
  const slots = pipeline.lora === undefined ? [] : [LORA];
  const asked = guided ? ASKED : ASKED.slice(0, -1);
  const taken = unet.iospec.inputs.slice(asked.length, asked.length + pipeline.residuals.length);
  if (!same(unet.iospec.inputs.map(({ name }) => name), [...asked, ...pipeline.residuals, ...slots])) refuse("its residuals are not the inputs of its unet that follow the words");
  for (const [name, { part }] of Object.entries(pipeline.plugins)) checkPlugin(name, part, shapes(taken), side);
}

function checkPlugin(name: string, { iospec }: Part, taken: Shapes, side: number): void {
  if (iospec.inputs.length !== 1 || !same(plainShape(iospec.inputs[0]!), [1, 3, side, side])) refuse(`its plugin ${name} takes no condition of ${side} pixels`);
  const given = shapes(iospec.outputs);
  for (const tensor of new Set([...Object.keys(taken), ...Object.keys(given)])) {
    if (same(given[tensor], taken[tensor])) continue;
    refuse(`its plugin ${name} was made for another base: it gives ${shown(given[tensor])} as ${tensor}, and the unet takes ${shown(taken[tensor])}`);
  }
}

/** Numbers of one row of the low-rank input. */
export const widthOf = ({ slots }: LoraSlots): number => slots.reduce((sum, { fan_in, fan_out }) => sum + fan_in + fan_out, 0);

/** The low-rank input, and what it can be filled with. */
function checkVariants(pipeline: Pipeline): void {
  const { lora, variants = {} } = pipeline;
  if (lora === undefined) {
    if ("variants" in pipeline) refuse("it has variants, and its unet has no slots");
    return;
  }
  const whole = lora.slots.length > 0 && lora.slots.every(({ fan_in, fan_out }) => [fan_in, fan_out].every((size) => Number.isInteger(size) && size >= 1));
  if (!whole || !same(pipeline.unet.iospec.inputs.at(-1)!.shape, [1, lora.rank, widthOf(lora)])) refuse(`its slots of rank ${shown(lora.rank)} do not make the input ${LORA}`);
  const row = 4 * widthOf(lora);
  const said = new Map<string, string>();
  for (const [name, { file, sha256, bytes, defaults, word = null }] of Object.entries(variants)) {
    if (!NAME.test(name)) refuse(`${shown(name)} is not the name of a variant`);
    if (typeof file !== "string" || !isSafePath(file)) refuse(`its variant ${name} lies at ${shown(file)}, which is not a plain path inside the folder`);
    if (!/^[0-9a-f]{64}$/.test(sha256) || !Number.isInteger(bytes / row) || bytes < row || bytes > lora.rank * row) refuse(`its variant ${name} has no SHA-256, or not 1 to ${lora.rank} rows of ${row} bytes`);
    if (defaults !== null && defaults !== undefined) checkDefaults(pipeline, defaults, ` of ${name}`);
    if (word === null) continue;
    if (typeof word !== "string" || !hold(word)) refuse(`its pack ${name} has the word ${shown(word)}, which no prompt says`);
    const [folded, other] = [wordsOf(word).join(" "), said.get(wordsOf(word).join(" "))];
    if (other !== undefined) refuse(`its packs ${other} and ${name} have one word`);
    said.set(folded, name);
  }
}

/** A variant that a prompt's words switch on. */
export interface Pack {
  name: string;
  word: string;
}

/** The packs by their names, in the order in which they act. */
export function packsOf({ variants = {} }: Pipeline): Pack[] {
  const names = Object.keys(variants).sort();
  return names.flatMap((name) => (typeof variants[name]!.word === "string" ? [{ name, word: variants[name]!.word }] : []));
}

/** Those that a prompt asks for. */
export function packsIn(pipeline: Pipeline, prompt: string): Pack[] {
  const read = wordsOf(prompt);
  return packsOf(pipeline).filter(({ word }) => standIn(wordsOf(word), read));
}

/** What fills the UNet's slots: the variant that was chosen, then the packs that the prompt asks for. */
export function variantsFor(pipeline: Pipeline, prompt: string, variant: string | null): string[] {
  const { lora, variants = {} } = pipeline;
  const asked = packsIn(pipeline, prompt).map(({ name }) => name);
  if (variant !== null && !Object.hasOwn(variants, variant)) throw new Error(`This generator has no variant ${variant}.`);
  const word = variant === null ? null : variants[variant]!.word;
  if (typeof word === "string" && !asked.includes(variant!)) throw new Error(`${variant} is a pack, which the prompt switches on by saying “${word}”: say it, or leave the variant out.`);
  const names = [...new Set([...(variant === null ? [] : [variant]), ...asked])];
  const rows = names.reduce((sum, name) => sum + variants[name]!.bytes, 0) / (4 * (lora === undefined ? 1 : widthOf(lora)));
  if (rows > (lora?.rank ?? 0)) throw new Error(`${names.join(" and ")} have ${rows} ranks together, and the base has slots for ${lora?.rank}: ask for fewer of them in one prompt.`);
  return names;
}

/** What suits a variant; null is the bare base. */
export const defaultsOf = ({ defaults, variants }: Pipeline, name: string | null): Defaults => (name === null ? null : variants?.[name]?.defaults) ?? defaults;

function checkDefaults(pipeline: Pipeline, defaults: Defaults, of = ""): void {
  const { steps, guidance, solver } = defaults;
  const known = solver === "ddim" || solver === "dpm++";
  const fits = known && Number.isInteger(steps) && steps >= 1 && steps <= mostSteps(pipeline.schedule, solver);
  if (!fits || !(guidance >= 1 && guidance <= (isGuided(pipeline) ? 50 : 1))) refuse(`its defaults${of} are ${shown(defaults)}`);
}

function checkSchedule({ alphas_cumprod: levels, final_alpha_cumprod: final, prediction, spacing, steps_offset: offset, guidance = "constant" }: Schedule): void {
  const known = ["epsilon", "v_prediction"].includes(prediction) && ["leading", "trailing", "linspace"].includes(spacing);
  const least = prediction === "v_prediction" ? 0 : 1e-8;
  const many = Array.isArray(levels) && levels.length >= 1 && levels.length <= MAX_LEVELS;
  const fall = many && levels.every((level, n) => level >= least && level < 1 && (n === 0 || level < levels[n - 1]!));
  if (!known || !fall) refuse("its schedule has noise levels that do not fall, or an unknown prediction or spacing");
  if (guidance !== "constant" && guidance !== "linear") refuse(`its schedule has the guidance ${shown(guidance)}`);
  if (!(final > 0 && final <= 1) || !Number.isInteger(offset) || offset < 0 || offset >= levels.length) refuse("its schedule ends at a level, or has an offset, out of range");
}

function checkNumbers(pipeline: Pipeline): void {
  checkDefaults(pipeline, pipeline.defaults);
  const range = pipeline.text_encoder.iospec.inputs[0]!.range;
  const tokens = pipeline.tokenizer.vocabulary.length;
  if (!range || range[1] < tokens - 1) refuse(`its tokenizer has ${tokens} tokens, more than its text encoder takes`);
  if (pipeline.noise !== NOISE) refuse(`its noise is ${shown(pipeline.noise)}, and this page draws ${NOISE}`);
}

/** Reads and checks a record; its files are opened by `openPart` alone. */
export function readPipeline(bytes: Uint8Array): { pipeline: Pipeline; tokenizer: Tokenizer } {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    refuse("it is not valid JSON");
  }
  const pipeline = checkKeys(value);
  try {
    for (const [name, part] of Object.entries(partsOf(pipeline))) {
      if (!NAME.test(name.replace(/^plugins\./, ""))) refuse(`${shown(name)} is not the name of a plugin`);
      checkPart(name, part);
    }
    checkSchedule(pipeline.schedule);
    checkFit(pipeline);
    checkVariants(pipeline);
    checkNumbers(pipeline);
    return { pipeline, tokenizer: new Tokenizer(pipeline.tokenizer) };
  } catch (error) {
    if (error instanceof TypeError) refuse("a value in it is of another kind than it must be");
    throw error;
  }
}
