// The loop: tokens, text states, noise, steps, picture; as unplug.sdk.drawing.device.loop has it.
import { elements, relaid } from "../layout";
import type { Feeds, IOSpec, TensorSpec, Tensors } from "../types";
import { INITIAL, MAX_SEED, normals } from "./noise";
import { isGuided, LORA, NEGATIVE, partsOf, type Pipeline, widthOf } from "./pipeline";
import { advance, guided, rint, samplingTable, scaleAt, type Solver } from "./sampler";

type Floats = Float32Array<ArrayBuffer>;
/** One part, opened: named inputs to named outputs, with the axes of its iospec. */
export type Network = (inputs: Feeds) => Promise<Tensors>;
export const [MAX_STRENGTH, MAX_GUIDANCE] = [10, 50] as const;

/** One plugin with what it follows: RGBA pixels of the pipeline's side. */
export interface Steer {
  plugin: string;
  pixels: Uint8ClampedArray<ArrayBuffer>;
  strength: number;
}

/** What to draw; the ids are those of `Tokenizer.encode`. */
export interface Order {
  prompt: number[];
  negative: number[];
  /** Decimal digits, since 64 bits do not fit a number. */
  seed: string;
  steps: number;
  guidance: number;
  solver: Solver;
  steers: Steer[];
  /** Rows of a variant and of packs, see `openVariants`; none are the bare base. */
  lora: Floats;
}

export interface Seen {
  done: number;
  steps: number;
  /** After the step. */
  latent: Floats;
  /** The latent of the picture that the step points at. */
  data: Floats;
}

export interface Drawn {
  /** RGBA. */
  pixels: Uint8ClampedArray<ArrayBuffer>;
  /** As the decoder gave it: three channels of H x W from 0 to 1. */
  decoded: Floats;
  latent: Floats;
}

/** A part that takes and gives images channels first. */
function plain({ inputs, outputs }: IOSpec, network: Network): Network {
  const own = (spec: TensorSpec): string => (spec.shape.length === 4 ? "NCHW" : spec.layout);
  const channelsFirst = (spec: TensorSpec): number[] => [...own(spec)].map((axis) => spec.shape[spec.layout.indexOf(axis)]!);
  return async (given) => {
    const fed: Feeds = { ...given };
    for (const spec of inputs) {
      const values = given[spec.name];
      if (values instanceof Float32Array) fed[spec.name] = relaid(values, channelsFirst(spec), own(spec), spec.layout);
    }
    const found = await network(fed);
    return Object.fromEntries(outputs.map((spec) => [spec.name, relaid(found[spec.name]!, spec.shape, spec.layout, own(spec))]));
  };
}

/** RGBA pixels as a plugin takes them: channels first, low + (high - low) byte / 255. */
export function conditionInput(pixels: Uint8ClampedArray, range: [number, number] | null): Floats {
  const [low, high] = range ?? [0, 1];
  const count = pixels.length / 4;
  const found = new Float32Array(3 * count);
  for (let place = 0; place < found.length; place++) {
    const unit = Math.fround(pixels[4 * (place % count) + Math.floor(place / count)]! / 255);
    found[place] = Math.fround(unit * (high - low)) + low;
  }
  return found;
}

/** Whether all pixels are of one colour: such a condition steers nowhere. */
export function isEmpty(pixels: Uint8ClampedArray): boolean {
  for (let place = 0; place < pixels.length; place++) {
    if (place % 4 !== 3 && pixels[place] !== pixels[place % 4]) return false;
  }
  return true;
}

/** Numbers from 0 to 1 of three channels, as RGBA: round(255 x), halves to the even neighbour. */
export function toPixels(decoded: Float32Array): Uint8ClampedArray<ArrayBuffer> {
  const count = decoded.length / 3;
  const found = new Uint8ClampedArray(4 * count).fill(255);
  for (let place = 0; place < decoded.length; place++) {
    found[4 * (place % count) + Math.floor(place / count)] = rint(Math.fround(decoded[place]! * 255));
  }
  return found;
}

function check({ guidance, seed, steers }: Order, pipeline: Pipeline): void {
  const side = pipeline.image_size;
  if (!(guidance >= 1 && guidance <= MAX_GUIDANCE)) throw new Error(`Use a guidance of 1 (none) to ${MAX_GUIDANCE}.`);
  if (guidance !== 1 && !isGuided(pipeline)) throw new Error(`${pipeline.name} draws without guidance: its UNet answers for the prompt alone.`);
  if (!/^\d{1,20}$/.test(seed) || BigInt(seed) > MAX_SEED) throw new Error(`Use a seed of 0 to ${MAX_SEED}.`);
  for (const { plugin, pixels, strength } of steers) {
    if (!(strength >= 0 && strength <= MAX_STRENGTH)) throw new Error(`Use a strength of 0 (off) to ${MAX_STRENGTH}.`);
    if (pixels.length !== 4 * side * side) throw new Error(`The condition of ${plugin} must have ${side} by ${side} pixels.`);
    if (isEmpty(pixels)) throw new Error(`The condition of ${plugin} is empty: draw something, or switch it off.`);
  }
}

/** The loop over opened parts. */
export class Loop {
  private readonly networks: Record<string, Network> = {};

  constructor(
    private readonly pipeline: Pipeline,
    networks: Record<string, Network>,
  ) {
    for (const [name, { iospec }] of Object.entries(partsOf(pipeline))) {
      const network = networks[name];
      if (network !== undefined) this.networks[name] = plain(iospec, network);
    }
  }

  /** Draws one picture; `watch` is awaited after every step, and may throw to stop. */
  async draw(order: Order, watch: (seen: Seen) => Promise<void>): Promise<Drawn> {
    const { pipeline, networks } = this;
    check(order, pipeline);
    const table = samplingTable(pipeline.schedule, order.steps, order.solver);
    const more = { ...(await this.residuals(order.steers)), ...this.updates(order.lora) };
    const asked: Tensors = { encoder_hidden_states: await this.states(order.prompt) };
    if (isGuided(pipeline)) asked[NEGATIVE] = await this.states(order.negative);
    let latent = normals(BigInt(order.seed), INITIAL, elements(pipeline.latent_shape));
    let before = new Float32Array(latent.length);
    for (const [step, time] of table.timestep.entries()) {
      const found = await networks["unet"]!({ sample: latent, timestep: Float32Array.of(time), ...asked, ...more });
      const prediction = this.prediction(found, scaleAt(table, step, order.guidance));
      const moved = advance(table, step, latent, prediction, before);
      [latent, before] = [moved.latent, moved.data];
      await watch({ done: step + 1, steps: table.timestep.length, latent, data: before });
    }
    return { ...(await this.decode(latent)), latent };
  }

  /** A latent as a picture. */
  async decode(latent: Floats): Promise<{ pixels: Uint8ClampedArray<ArrayBuffer>; decoded: Floats }> {
    const decoded = (await this.networks["decoder"]!({ latents: latent }))["image"]!;
    return { pixels: toPixels(decoded), decoded };
  }

  private prediction(found: Tensors, scale: number): Floats {
    const own = found["noise_pred"]!;
    return isGuided(this.pipeline) ? guided(own, found["noise_pred_negative"]!, scale) : own;
  }

  private async states(ids: number[]): Promise<Floats> {
    return (await this.networks["text_encoder"]!({ input_ids: Int32Array.from(ids) }))["hidden_states"]!;
  }

  /** The UNet's input of low-rank updates, where it has one: the rows of a variant, and zeros below them. */
  private updates(rows: Floats): Tensors {
    const { lora } = this.pipeline;
    if (lora === undefined) return {};
    const filled = new Float32Array(lora.rank * widthOf(lora));
    filled.set(rows);
    return { [LORA]: filled };
  }

  /** Each residual input of the UNet: the plugins' outputs times their strengths, added up. */
  private async residuals(steers: Steer[]): Promise<Tensors> {
    const { pipeline } = this;
    const specs = pipeline.unet.iospec.inputs;
    const total: Tensors = {};
    for (const name of pipeline.residuals) total[name] = new Float32Array(elements(specs.find((spec) => spec.name === name)!.shape));
    for (const { plugin, pixels, strength } of steers) {
      const range = pipeline.plugins[plugin]!.part.iospec.inputs[0]!.range;
      const made = await this.networks[`plugins.${plugin}`]!({ condition: conditionInput(pixels, range) });
      const factor = Math.fround(strength);
      for (const name of pipeline.residuals) {
        total[name] = total[name]!.map((value, place) => value + Math.fround(factor * made[name]![place]!));
      }
    }
    return total;
  }
}
