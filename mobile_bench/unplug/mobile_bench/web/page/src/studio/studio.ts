// The panel that draws: words and a guide in, a picture out. Nothing of it is sent anywhere.
import type { Drawn, Order } from "../draw/loop";
import { wordsOf } from "../draw/packs";
import { type Defaults, defaultsOf, isGuided, type Pack, packsIn } from "../draw/pipeline";
import type { Solver } from "../draw/sampler";
import { type Choice, choicesOf, hindrance, Session, weight } from "../draw/session";
import { type Generator, openVariants } from "../draw/source";
import { MAX_CHARACTERS } from "../draw/tokenizer";
import type { DeviceFacts } from "../types";
import { byId, bytes, delegateName, el, message, runtimeName } from "../ui/dom";
import { Seed, select, type Select, slider, type Slider } from "./fields";
import { Guide } from "./guide";
import { MarkLine } from "./mark_line";
import { ideas } from "./prompts";
import { type Made, record, timesTable } from "./record";
import { type Kept, Shelf } from "./shelf";
import { Stage, took } from "./stage";
import { Variants } from "./variants";

/** Bases with fewer tokens know few words: one that must be spelled was never learned. */
const FEW_TOKENS = 8192;
const MOST_STEPS = 50;
const SAVED = "A saved picture says in its metadata (XMP) that a model drew it. That is not signed.";

/** What a page around this one hears of a picture, as the event "unplug-drawn" of the document. */
export interface Embedded {
  order: Order;
  drawn: Drawn;
  record: object;
}

export class Studio {
  private readonly stage: Stage;
  private readonly markLine: MarkLine;
  private readonly seed: Seed;
  private readonly guide: Guide;
  private readonly variants: Variants;
  private readonly shelf: Shelf;
  private readonly prompt: HTMLTextAreaElement;
  private readonly negative: HTMLInputElement;
  private readonly steps: Slider;
  private readonly guidance: Slider;
  private readonly solver: Select;
  private readonly choice: Select;
  private readonly previews: HTMLInputElement = el("input", { type: "checkbox", id: "previews", checked: true });
  private readonly go = el("button", { type: "submit", class: "button", id: "go" }, "Draw");
  private readonly note = el("p", { class: "soft small", id: "words-note", role: "status" });
  private readonly wrong = el("p", { class: "alert", role: "alert", id: "draw-alert", hidden: true });
  private readonly save = el("div", { class: "buttons after", hidden: true });
  private readonly times = el("div", { id: "times-box" });
  private readonly choices: Choice[];
  private session: Session | null = null;
  private busy = false;
  private shown: HTMLCanvasElement | null = null;

  constructor(
    panel: HTMLElement,
    private readonly generator: Generator,
    private readonly facts: DeviceFacts,
    private readonly threads: number,
    notes: string[],
  ) {
    const { pipeline, tokenizer } = generator;
    const { steps, guidance, solver } = pipeline.defaults;
    const all = [null, ...Object.keys(pipeline.variants ?? {})].map((name) => defaultsOf(pipeline, name));
    this.choices = choicesOf(pipeline);
    this.stage = new Stage(pipeline);
    this.markLine = new MarkLine(generator);
    this.seed = new Seed((seed) => !this.busy && (this.markLine.clear(), this.stage.noise(seed)));
    this.guide = new Guide(pipeline, () => this.shown, () => undefined);
    this.variants = new Variants(pipeline, (defaults) => this.suit(defaults));
    this.shelf = new Shelf((kept) => !this.busy && this.put(kept));
    const suggested = ideas(tokenizer);
    this.prompt = el("textarea", { id: "prompt", rows: 2, maxlength: MAX_CHARACTERS, spellcheck: "false", autocapitalize: "off", placeholder: "What to draw", "aria-describedby": "words-note", enterkeyhint: "go", input: () => this.tellWords(), keydown: (event) => this.enter(event as KeyboardEvent) });
    this.prompt.value = suggested[0] ?? "";
    this.negative = el("input", { type: "text", id: "negative", maxlength: MAX_CHARACTERS, spellcheck: "false", autocomplete: "off", placeholder: "Nothing" });
    this.steps = slider({ id: "steps", label: "Steps", low: 1, high: Math.max(MOST_STEPS, ...all.map((one) => one.steps)), step: 1, value: steps });
    this.guidance = slider({ id: "guidance", label: "Guidance by words", low: 1, high: Math.max(10, ...all.map((one) => one.guidance)), step: 0.25, value: guidance });
    const others: Solver[] = solver === "ddim" ? ["ddim", "dpm++"] : ["dpm++", "ddim"];
    this.solver = select("solver", "Solver", others.map((name) => ({ value: name, text: name === "ddim" ? "DDIM" : "DPM-Solver++" })), () => undefined);
    this.choice = select("choice", "Runs on", this.choices.map((choice, place) => this.option(choice, place)), () => this.leave());
    // A software GPU draws the same picture a hundred times slower than a processor does.
    if (facts.software_gpu) this.choice.input.value = String(Math.max(0, this.choices.findIndex(({ delegate }) => delegate === "wasm")));
    panel.replaceChildren(this.layout(suggested, notes));
    this.stage.noise(this.seed.value);
    this.tellWords();
  }

  private option(choice: Choice, place: number): { value: string; text: string; disabled: boolean } {
    const { target, precision, delegate } = choice;
    const size = bytes(weight(this.generator.pipeline, choice, []));
    const runtime = runtimeName(target === "litert" ? "litert-web" : "onnx-web");
    return { value: String(place), text: `${delegateName(delegate)} · ${runtime} · ${precision} · ${size}`, disabled: hindrance(choice, this.facts) !== null };
  }

  private layout(suggested: string[], notes: string[]): HTMLElement {
    const chips = suggested.slice(1).map((idea) => el("button", { type: "button", class: "chip", click: () => this.say(idea) }, idea));
    const words = el(
      "div", { class: "words" },
      el("label", { for: "prompt", class: "quiet" }, "Words"), this.prompt, this.note,
      el("div", { class: "chips", role: "group", "aria-label": "Ideas", hidden: chips.length === 0 }, ...chips),
    ); // prettier-ignore
    const { webgpu } = this.facts;
    const without = el("div", { class: "field" }, el("label", { for: "negative" }, "Without"), this.negative);
    const guided = isGuided(this.generator.pipeline);
    const settings = el(
      "details", { class: "settings" }, el("summary", {}, "Settings"),
      el(
        "div", { class: "fields" },
        this.steps.element, ...(guided ? [this.guidance.element] : []), this.solver.element, ...(guided ? [without] : []),
        this.choice.element, el("label", { class: "check", for: "previews" }, this.previews, " Show the picture while it forms"),
      ),
      el("p", { class: "soft small" }, webgpu === null ? `The text encoder always runs on WebAssembly: it runs ${guided ? "twice" : "once"} a picture, and GPUs get its numbers wrong.` : `No WebGPU here: ${webgpu}. Pictures are drawn on WebAssembly.`),
    ); // prettier-ignore
    const form = el(
      "form", { class: "controls", submit: (event) => (event.preventDefault(), void this.press()) },
      words, this.variants.element, el("div", { class: "go" }, this.seed.element, this.go), this.wrong, this.guide.element, settings,
    ); // prettier-ignore
    const facts = el("details", { class: "numbers", id: "numbers", hidden: true }, el("summary", {}, "Where the time went"), this.times);
    const about = el("ul", { class: "notes soft small" }, ...[...notes, SAVED].map((note) => el("li", {}, note)));
    return el("div", { class: "studio" }, el("div", { class: "left" }, this.stage.element, this.markLine.element, this.save, this.shelf.element), el("div", { class: "right" }, form, facts, about));
  }

  /** Enter draws; with Shift it is a new line. */
  private enter(event: KeyboardEvent): void {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.busy) void this.press();
  }

  private say(prompt: string): void {
    this.prompt.value = prompt;
    this.tellWords();
  }

  /** What the base does not read of the words. */
  private tellWords(): void {
    const { pipeline, tokenizer } = this.generator;
    const lines: string[] = [];
    try {
      const { tokens, ids, spelled: all } = tokenizer.encode(this.prompt.value);
      const packs = packsIn(pipeline, this.prompt.value).map(({ word }) => word);
      if (packs.length > 0) lines.push(`Packs: ${packs.join(", ")}.`);
      const taught = packs.flatMap(wordsOf);
      const spelled = all.filter((word) => !wordsOf(word).every((part) => taught.includes(part)));
      if (tokens > ids.length) lines.push(`It has ${tokens} tokens; this base reads the first ${ids.length} only.`);
      const some = spelled.slice(0, 3).map((word) => `“${[...word].slice(0, 20).join("")}”`);
      if (spelled.length > 0 && tokenizer.data.vocabulary.length < FEW_TOKENS) {
        lines.push(`This base was never taught ${some.join(", ")}${spelled.length > 3 ? ` and ${spelled.length - 3} more` : ""}: expect nothing of it.`);
      }
    } catch (error) {
      lines.push(message(error));
    }
    this.note.textContent = lines.join(" ");
  }

  /** What suits a variant. */
  private suit({ steps, guidance, solver }: Defaults): void {
    [this.steps.value, this.guidance.value, this.solver.input.value] = [steps, guidance, solver];
  }

  private order(): Order {
    const { tokenizer } = this.generator;
    const guidance = this.guidance.value;
    if (this.negative.value.trim() !== "" && guidance === 1) throw new Error("“Without” needs a guidance above 1.");
    const [prompt, negative] = [this.prompt.value, this.negative.value].map((text) => tokenizer.encode(text).ids);
    return {
      prompt: prompt!, negative: negative!, seed: this.seed.value.toString(), steps: this.steps.value, guidance,
      solver: this.solver.input.value as Solver, steers: this.guide.steers(), lora: new Float32Array(0),
    }; // prettier-ignore
  }

  private async press(): Promise<void> {
    if (this.busy) return this.session?.stop();
    this.wrong.hidden = true;
    try {
      const [order, prompt, variant] = [this.order(), this.prompt.value, this.variants.value];
      this.mark(true);
      await this.draw({ ...order, lora: await openVariants(this.generator, prompt, variant) }, variant, packsIn(this.generator.pipeline, prompt));
    } catch (error) {
      this.wrong.hidden = false;
      this.wrong.textContent = message(error);
      this.stage.stopped("Nothing was drawn.");
    } finally {
      this.mark(false);
    }
  }

  private mark(busy: boolean): void {
    this.busy = busy;
    this.go.textContent = busy ? "Cancel" : "Draw";
    this.go.classList.toggle("plain", busy);
    this.choice.input.disabled = busy;
  }

  private async draw(order: Order, variant: string | null, packs: Pack[]): Promise<void> {
    const session = (this.session ??= new Session(this.generator, this.files, this.threads));
    await session.open(order.steers.map(({ plugin }) => plugin), (part) => this.stage.opening(part));
    this.stage.begin();
    this.markLine.clear();
    this.save.hidden = true;
    const [prompt, negative] = [this.prompt.value, this.negative.value];
    const found = await session.draw(order, this.previews.checked, (step) => this.stage.step(step));
    if (found === null) return this.stage.stopped("Stopped.");
    const { drawn, times } = found;
    const kept = { pixels: drawn.pixels, prompt, said: [`Seed ${order.seed}`, ...(variant === null ? [] : [variant]), ...(packs.length === 0 ? [] : [`packs: ${packs.map(({ word }) => word).join(", ")}`]), took(times.whole, order.steps)].join(" · ") };
    this.put(kept);
    this.shelf.add(kept, this.generator.pipeline.image_size);
    const made = { prompt, negative, variant, packs, order, times, session };
    const own = record(this.generator.pipeline, made, this.facts);
    this.tellTimes(made, own);
    document.dispatchEvent(new CustomEvent<Embedded>("unplug-drawn", { detail: { order, drawn, record: own } }));
  }

  private put({ pixels, prompt, said }: Kept): void {
    const side = this.generator.pipeline.image_size;
    this.stage.show(pixels, prompt === "" ? "A picture of no words" : `A picture of: ${prompt}`, said);
    this.shown = el("canvas", { width: side, height: side });
    this.shown.getContext("2d")!.putImageData(new ImageData(pixels, side, side), 0, 0);
    this.guide.refresh();
    this.markLine.tell({ width: side, height: side, rgba: pixels });
    void this.offerFile(prompt);
  }

  /** The PNG, to save or to send on where the system takes files. */
  private async offerFile(prompt: string): Promise<void> {
    const blob = await this.stage.png();
    const name = `${prompt.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "picture"}.png`;
    const file = new File([blob], name, { type: "image/png" });
    const links: HTMLElement[] = [el("a", { class: "button plain", id: "download", href: URL.createObjectURL(blob), download: name }, "Download")];
    if (navigator.canShare?.({ files: [file] })) {
      links.push(el("button", { type: "button", class: "button plain", click: () => void navigator.share({ files: [file] }).catch(() => undefined) }, "Send on"));
    }
    links.push(el("button", { type: "button", class: "button plain", id: "again", click: () => this.another() }, "Another seed"));
    for (const old of this.save.querySelectorAll("a")) URL.revokeObjectURL(old.href);
    this.save.replaceChildren(...links);
    this.save.hidden = false;
  }

  private another(): void {
    if (this.busy) return;
    this.seed.roll();
    void this.press();
  }

  private tellTimes(made: Made, own: object): void {
    const text = `${JSON.stringify(own, null, 1)}\n`;
    const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    this.times.replaceChildren(timesTable(made), el("a", { class: "button plain", id: "record", href, download: "drawing.json" }, "Download as JSON"));
    byId("numbers").hidden = false;
  }

  /** The choice of files. */
  get files(): Choice {
    return this.choices[Number(this.choice.input.value)]!;
  }

  /** Memory free; the next picture opens the files again. */
  leave(): void {
    if (!this.busy) this.session?.close();
    if (!this.busy) this.session = null;
    this.markLine.close();
  }
}
