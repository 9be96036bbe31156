// Which weights a generator draws with: the base's own, or a variant that lies beside its files.
import { type Defaults, defaultsOf, type Pipeline } from "../draw/pipeline";
import { el } from "../ui/dom";
import { select, type Select } from "./fields";

/** What a variant draws with where nobody says otherwise, in words. */
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
    this.names = Object.keys(pipeline.variants ?? {});
    const options = [{ value: "", text: `${pipeline.name} itself` }, ...this.names.map((name) => ({ value: name, text: name }))];
    this.select = select("variant", "Variant", options, () => this.tell());
    this.select.input.setAttribute("aria-describedby", "variant-note");
    this.element = el("div", { class: "variants", hidden: this.names.length === 0 }, this.select.element, this.note);
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
