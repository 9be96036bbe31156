// What a picture was made of and where its time went: a table on the page, and a record to save.
import type { Order } from "../draw/loop";
import type { Pack, Pipeline } from "../draw/pipeline";
import type { Choice, Session } from "../draw/session";
import { filesOf } from "../draw/source";
import { placeOf } from "../draw/painter";
import type { Times } from "../messages";
import { median } from "../statistics";
import type { DeviceFacts } from "../types";
import { delegateName, el, ms } from "../ui/dom";

declare const LITERT_VERSION: string;
declare const ORT_VERSION: string;

export interface Made {
  prompt: string;
  negative: string;
  variant: string | null;
  packs: Pack[];
  order: Order;
  times: Times;
  session: Session;
}

const version = ({ target }: Choice): string => (target === "litert" ? `LiteRT.js ${LITERT_VERSION}` : `ONNX Runtime Web ${ORT_VERSION}`);

/** `unplug-drawing/1`: the times of one picture, by part, with what is needed to draw it again. */
export function record(pipeline: Pipeline, { prompt, negative, variant, packs, order, times, session }: Made, facts: DeviceFacts): object {
  const { choice } = session;
  const files = filesOf(pipeline, choice.target, choice.precision)!;
  const parts = Object.entries(times.parts).map(([name, runs]) => [
    name,
    { file: files[name]!.file, sha256: files[name]!.sha256, delegate: placeOf(name, choice.delegate), runs_ms: runs, median_ms: median(runs) },
  ]);
  const { seed, steps, guidance, solver } = order;
  return {
    schema: "unplug-drawing/1",
    base: pipeline.name,
    variant: variant === null ? null : { name: variant, sha256: pipeline.variants![variant]!.sha256 },
    ...(packs.length === 0 ? {} : { packs: packs.map(({ name, word }) => ({ word, sha256: pipeline.variants![name]!.sha256 })) }),
    words: { prompt, negative, seed, steps, guidance, solver },
    steers: order.steers.map(({ plugin, strength }) => ({ plugin, strength })),
    ...choice,
    runtime: version(choice),
    threads: session.threads,
    device: { where: facts.where, device: facts.device, os: facts.os, gpu_driver: facts.gpu_driver, clock_ms: facts.clock_ms },
    whole_ms: times.whole,
    previews_ms: times.previews,
    parts: Object.fromEntries(parts),
  };
}

const TITLES: Record<string, string> = { text_encoder: "Text encoder", unet: "UNet", decoder: "Decoder" };
const title = (part: string): string => TITLES[part] ?? part.replace(/^plugins\./, "Plugin ");

export function timesTable({ times, session }: Made): HTMLElement {
  const total = (runs: number[]): number => runs.reduce((sum, value) => sum + value, 0);
  const row = (name: string, delegate: string, runs: string, each: string, all: number): HTMLElement =>
    el("tr", {}, el("th", { scope: "row" }, name, el("br"), el("span", { class: "soft" }, delegate)), ...[runs, each, ms(all), `${((100 * all) / times.whole).toFixed(1)} %`].map((text) => el("td", {}, text)));
  const body = Object.entries(times.parts).map(([name, runs]) =>
    row(title(name), delegateName(placeOf(name, session.choice.delegate)), String(runs.length), ms(median(runs)), total(runs)),
  );
  const rest = times.whole - Object.values(times.parts).reduce((sum, runs) => sum + total(runs), 0);
  const head = el("tr", {}, ...["Part", "Runs", "Median", "All", "Share"].map((text) => el("th", { scope: "col" }, text)));
  body.push(row("Sampler and the rest", "JavaScript", "", "", rest), row("Whole picture", version(session.choice), "", "", times.whole));
  const previews = times.previews > 0 ? ` Previews took ${ms(times.previews)} more.` : "";
  const inner = el("table", { id: "times" }, el("caption", {}, `Times of this picture on this device.${previews}`), el("thead", {}, head), el("tbody", {}, ...body));
  return el("div", { class: "scroll", role: "region", "aria-label": "Where the time went", tabindex: 0 }, inner);
}
