// Fields of the drawing panel: a slider that shows its number, a seed with a die.
import { MAX_SEED } from "../draw/noise";
import { el, svg } from "../ui/dom";

export interface Slider {
  element: HTMLElement;
  value: number;
}

export function slider(of: { id: string; label: string; low: number; high: number; step: number; value: number }): Slider {
  const { id, label, low, high, step, value } = of;
  const shown = el("output", { for: id }, String(value));
  const input: HTMLInputElement = el("input", { type: "range", id, min: low, max: high, step, value, input: () => (shown.textContent = String(Number(input.value))) });
  const element = el("div", { class: "field slider" }, el("div", { class: "row" }, el("label", { for: id }, label), shown), input);
  return {
    element,
    get value() {
      return Number(input.value);
    },
    set value(given) {
      input.value = String(given);
      shown.textContent = String(Number(input.value));
    },
  };
}

const DOTS: [number, number][] = [[7, 7], [17, 7], [12, 12], [7, 17], [17, 17]];

function die(): SVGSVGElement {
  const dots = DOTS.map(([cx, cy]) => svg("circle", { cx, cy, r: 1.7 }));
  return svg("svg", { class: "die", width: 24, height: 24, viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("rect", { x: 2, y: 2, width: 20, height: 20, rx: 5 }), ...dots);
}

/** A whole number of 64 bits, and a button that draws another one. */
export class Seed {
  private readonly input: HTMLInputElement;
  readonly element: HTMLElement;

  constructor(private readonly changed: (seed: bigint) => void) {
    this.input = el("input", { type: "text", inputmode: "numeric", id: "seed", value: "7", autocomplete: "off", spellcheck: "false", maxlength: 20, input: () => this.tell() });
    const roll = el("button", { type: "button", class: "button plain icon", id: "dice", "aria-label": "Another seed", title: "Another seed", click: () => this.roll() }, die());
    this.element = el("div", { class: "field seed" }, el("label", { for: "seed" }, "Seed"), el("div", { class: "joined" }, this.input, roll));
  }

  private tell(): void {
    const seed = this.read();
    this.input.toggleAttribute("aria-invalid", seed === null);
    if (seed !== null) this.changed(seed);
  }

  private read(): bigint | null {
    const text = this.input.value.trim();
    return /^\d{1,20}$/.test(text) && BigInt(text) <= MAX_SEED ? BigInt(text) : null;
  }

  get value(): bigint {
    const seed = this.read();
    if (seed === null) throw new Error(`The seed must be a whole number from 0 to ${MAX_SEED}.`);
    return seed;
  }

  roll(): void {
    this.input.value = String(crypto.getRandomValues(new Uint32Array(1))[0]);
    this.tell();
  }
}

export interface Select {
  element: HTMLElement;
  readonly input: HTMLSelectElement;
}

export function select(id: string, label: string, options: { value: string; text: string; disabled?: boolean }[], change: () => void): Select {
  const input = el("select", { id, change }, ...options.map(({ value, text, disabled }) => el("option", { value, disabled: disabled ?? false }, text)));
  const first = options.findIndex(({ disabled }) => !disabled);
  input.selectedIndex = Math.max(first, 0);
  return { element: el("div", { class: "field" }, el("label", { for: id }, label), input), input };
}
