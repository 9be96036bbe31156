// What steers a picture besides its words: a plugin, its condition on a pad, and its strength.
import type { Steer } from "../draw/loop";
import type { Pipeline } from "../draw/pipeline";
import { el, message } from "../ui/dom";
import { crop } from "../demo/pixels";
import { slider, type Slider } from "./fields";
import { Pad } from "./pad";

const NAMES: Record<string, string> = { canny: "Edges", face_landmark: "Face lines", holistic: "Body lines", depth: "Depth" };
const HINTS: Record<string, string> = {
  canny: "Draw the outline of a face here, or take one from a photograph",
  face_landmark: "Choose a picture of face lines: “unplug condition face_landmark” draws one from a photograph",
  holistic: "Choose a picture of body lines: “unplug condition holistic” draws one from a photograph",
  depth: "Choose a depth picture: near is bright",
};
const OFF = "";

export class Guide {
  private readonly pad: Pad;
  private plugin = OFF;
  private readonly strength: Slider = slider({ id: "strength", label: "Strength", low: 0, high: 2, step: 0.05, value: 1 });
  private readonly said = el("p", { class: "soft small", role: "status" });
  private readonly file: HTMLInputElement = el("input", { type: "file", accept: "image/*", class: "quiet", id: "guide-file", change: () => void this.chosen() });
  private readonly fileLabel = el("span", {}, "");
  private readonly tools: HTMLElement;
  private readonly body: HTMLElement;
  private readonly own: HTMLButtonElement;
  readonly element: HTMLElement;

  /** `current` is the canvas with the picture that was drawn last, or null. */
  constructor(
    private readonly pipeline: Pipeline,
    private readonly current: () => HTMLCanvasElement | null,
    changed: () => void,
  ) {
    this.pad = new Pad(pipeline.image_size, () => {
      this.said.textContent = "";
      changed();
    });
    const button = (id: string, text: string, act: () => void): HTMLButtonElement => el("button", { type: "button", class: "button plain", id, click: act }, text);
    this.own = button("guide-own", "Trace the picture", () => this.fromCurrent());
    this.tools = el("div", { class: "tools" }, button("guide-undo", "Undo", () => this.pad.undo()), button("guide-clear", "Clear", () => this.pad.clear()), this.own);
    this.body = el(
      "div",
      { class: "guide-body", hidden: true },
      this.pad.element,
      el("div", { class: "guide-side" }, el("label", { class: "button plain" }, this.fileLabel, this.file), this.tools, this.strength.element, this.said),
    );
    const names = Object.keys(pipeline.plugins);
    const options = [OFF, ...names].map((name) => this.option(name));
    const choice = el("div", { class: "segments", role: "radiogroup", "aria-label": "What steers the picture" }, ...options);
    this.element = el("section", { class: "guide", "aria-label": "Guide", hidden: names.length === 0 }, el("h2", {}, "Guide"), choice, this.body);
  }

  private option(name: string): HTMLElement {
    const input = el("input", { type: "radio", name: "guide", value: name, class: "quiet", id: `guide-${name || "off"}`, checked: name === OFF, change: () => this.pick(name) });
    const kind = this.pipeline.plugins[name]?.condition ?? "";
    const text = name === OFF ? "Words only" : (NAMES[kind] ?? name);
    return el("label", { class: "segment" }, input, el("span", {}, text));
  }

  private pick(name: string): void {
    this.plugin = name;
    this.body.hidden = name === OFF;
    const kind = this.pipeline.plugins[name]?.condition ?? "";
    const edges = kind === "canny";
    this.pad.set(edges, HINTS[kind] ?? `Choose a picture of the condition ${kind}`);
    this.fileLabel.textContent = edges ? "From a photograph" : "Choose a picture";
    this.tools.hidden = !edges;
    this.refresh();
  }

  /** After a picture was drawn: its edges may be taken. */
  refresh(): void {
    this.own.hidden = this.current() === null;
  }

  private scaled(picture: CanvasImageSource, width: number, height: number): ImageData {
    return crop(el("canvas"), picture, width, height, this.pipeline.plugins[this.plugin]!.part.iospec.inputs[0]!);
  }

  private fromCurrent(): void {
    const picture = this.current();
    if (picture !== null) this.take(() => this.pad.trace(this.scaled(picture, picture.width, picture.height)));
  }

  private take(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.said.textContent = message(error);
    }
  }

  private async chosen(): Promise<void> {
    const [file] = this.file.files ?? [];
    this.file.value = "";
    if (file === undefined) return;
    const picture = await createImageBitmap(file).catch(() => null);
    if (picture === null) {
      this.said.textContent = `${file.name.slice(0, 80)} is not a picture that this browser can read.`;
      return;
    }
    const pixels = this.scaled(picture, picture.width, picture.height);
    picture.close();
    this.take(() => (this.pipeline.plugins[this.plugin]?.condition === "canny" ? this.pad.trace(pixels) : this.pad.picture(pixels)));
  }

  /** What steers, or nothing; throws where a guide was chosen and shows nothing. */
  steers(): Steer[] {
    if (this.plugin === OFF) return [];
    if (this.pad.empty) throw new Error("The guide is empty: draw something on it, choose a picture, or take “Words only”.");
    return [{ plugin: this.plugin, pixels: this.pad.pixels(), strength: this.strength.value }];
  }
}
