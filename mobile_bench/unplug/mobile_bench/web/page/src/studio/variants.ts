// Which weights a generator draws with: the base's own, or a variant that lies next to its files; and which packs the words can switch on.
import { type Defaults, defaultsOf, packsOf, type Pipeline } from "../draw/pipeline";
import { el } from "../ui/dom";
import { select, type Select } from "./fields";

/** The settings that a variant uses by default, in words. */
function told({ steps, guidance }: Defaults): string {
  return `Made for ${steps} ${steps === 1 ? "step" : "steps"}, ${guidance === 1 ? "without guidance by words" : `with a guidance of ${guidance}`}.`;
}

export class Variants {
  private readonly names: string[];
  private readonly select: Select;
  private readonly note = el("p", { class: "soft small", id: "variant-note" });
  readonly element: HTMLElement;

  /** `changed` hears the defaults of what was chosen. */
  constructor(
    private readonly pipeline: Pipeline,
    private readonly changed: (defaults: Defaults) => void,
  ) {
    const packs = packsOf(pipeline);
    this.names = Object.keys(pipeline.variants ?? {}).filter((name) => !packs.some((pack) => pack.name === name));
    const options = [{ value: "", text: `${pipeline.name} itself` }, ...this.names.map((name) => ({ value: name, text: name }))];
    this.select = select("variant", "Variant", options, () => this.tell());
    this.select.input.setAttribute("aria-describedby", "variant-note");
    const chosen = this.names.length === 0 ? [] : [this.select.element, this.note];
    const said = packs.length === 0 ? [] : [el("p", { class: "soft small", id: "packs" }, `Packs, used when your words name them: ${packs.map(({ word }) => word).join(", ")}.`)];
    this.element = el("div", { class: "variants", hidden: chosen.length + said.length === 0 }, ...chosen, ...said);
    this.note.textContent = told(this.defaults);
  }

  /** The name that was chosen; null is the base itself. */
  get value(): string | null {
    return this.select.input.value || null;
  }

  private get defaults(): Defaults {
    return defaultsOf(this.pipeline, this.value);
  }

  private tell(): void {
    this.note.textContent = told(this.defaults);
    this.changed(this.defaults);
  }
}
