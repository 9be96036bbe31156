// The page's side of drawing: one worker with the parts of one choice open, and what stops it in the words of a user.
import { Client, runtimesBase } from "../client";
import type { Step, Times } from "../messages";
import type { Delegate, DeviceFacts, RuntimeName } from "../types";
import type { Drawn, Order } from "./loop";
import type { Pipeline } from "./pipeline";
import { filesOf, type Generator, openPart } from "./source";

/** Which files run, and where. */
export interface Choice {
  target: "litert" | "onnx";
  precision: string;
  delegate: Delegate;
}

const RUNTIME: Record<Choice["target"], RuntimeName> = { litert: "litert-web", onnx: "onnx-web" };
const BASE = ["text_encoder", "unet", "decoder"];
/** A processor turns fp16 weights into fp32 again in every run: there they cost time and save only the way here. */
const FIRST: Record<Delegate, string[]> = { webgpu: ["fp16", "fp32"], wasm: ["fp32", "fp16"] };

/** What a pipeline offers to a browser, the most promising first: LiteRT before ONNX, precisions as `FIRST` has them. */
export function choicesOf(pipeline: Pipeline): Choice[] {
  const found: Choice[] = [];
  for (const delegate of ["webgpu", "wasm"] as const) {
    const place = (precision: string): number => FIRST[delegate].indexOf(precision) + 1 || 9;
    const precisions = [...new Set(pipeline.unet.files.map(({ precision }) => precision))].sort((one, other) => place(one) - place(other));
    for (const target of ["litert", "onnx"] as const) {
      for (const precision of precisions) if (filesOf(pipeline, target, precision) !== null) found.push({ target, precision, delegate });
    }
  }
  if (found.length === 0) throw new Error("There are no LiteRT or ONNX files of every part; export it with --to litert,onnx.");
  return found;
}

/** Why a choice does not run on this device, or null. */
export function hindrance({ target, precision, delegate }: Choice, facts: DeviceFacts): string | null {
  if (delegate !== "webgpu") return null;
  if (facts.webgpu !== null) return facts.webgpu;
  return target === "onnx" && precision === "fp16" && !facts.shader_f16 ? "this GPU does not compute in half precision" : null;
}

/** Bytes of the files that a choice and some plugins need. */
export function weight(pipeline: Pipeline, { target, precision }: Choice, plugins: string[]): number {
  const files = filesOf(pipeline, target, precision)!;
  return [...BASE, ...plugins.map((name) => `plugins.${name}`)].reduce((sum, name) => sum + files[name]!.bytes, 0);
}

const NO_MEMORY = /out of memory|allocation failed|memory access out of bounds|cannot enlarge memory|bad_alloc|Aborted\(OOM\)|could not allocate|std::bad/i;

/** Memory is what small devices lack; their errors say it in many ways. */
export function inWords(error: unknown, megabytes: number, file = ""): Error {
  const text = error instanceof Error ? error.message : String(error);
  if (!NO_MEMORY.test(text)) return new Error(file === "" || text.startsWith(file) ? text : `${file} does not open here: ${text}. Choose other files under Settings.`);
  return new Error(`This browser has too little memory for these files (${megabytes.toFixed(0)} MB of networks). Close other tabs, or choose other files under Settings.`);
}

export class Session {
  private client: Client | null = null;
  private opened = new Set<string>();
  private readonly files;
  threads = 1;

  constructor(
    private readonly generator: Generator,
    readonly choice: Choice,
    private readonly wantedThreads: number,
  ) {
    this.files = filesOf(generator.pipeline, choice.target, choice.precision)!;
  }

  /** Opens what is not open yet; `say` hears which file is being opened. */
  async open(plugins: string[], say: (part: string) => void): Promise<void> {
    const wanted = [...BASE, ...plugins.map((name) => `plugins.${name}`)].filter((name) => !this.opened.has(name));
    const { choice, generator } = this;
    this.client ??= new Client(RUNTIME[choice.target], choice.delegate);
    for (const name of wanted) {
      say(name.replace(/^plugins\./, "plugin ").replace("_", " "));
      try {
        const model = await openPart(generator, this.files[name]!);
        const part = { name, model, pipeline: generator.pipeline, base: runtimesBase(), delegate: choice.delegate, threads: this.wantedThreads };
        this.threads = Math.max(this.threads, await this.client.openPart(part));
      } catch (error) {
        this.close();
        throw inWords(error, weight(generator.pipeline, choice, plugins) / 2 ** 20, this.files[name]!.file);
      }
      this.opened.add(name);
    }
  }

  /** One picture, or null where `stop` ended it. */
  async draw(order: Order, preview: boolean, step: (step: Step) => void): Promise<{ drawn: Drawn; times: Times } | null> {
    const plugins = order.steers.map(({ plugin }) => plugin);
    try {
      return await this.client!.draw(order, preview, step);
    } catch (error) {
      throw inWords(error, weight(this.generator.pipeline, this.choice, plugins) / 2 ** 20);
    }
  }

  stop(): void {
    this.client?.stop();
  }

  close(): void {
    this.client?.close();
    this.client = null;
    this.opened = new Set();
  }
}
