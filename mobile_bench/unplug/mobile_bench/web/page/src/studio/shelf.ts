// Pictures drawn before, small: one goes back on the stage with a press.
import { el } from "../ui/dom";

const MOST = 12;

export interface Kept {
  pixels: Uint8ClampedArray<ArrayBuffer>;
  prompt: string;
  said: string;
}

export class Shelf {
  private readonly list = el("ul", { class: "shelf" });
  readonly element = el("section", { class: "shelf-box", "aria-label": "Drawn before", hidden: true }, this.list);

  constructor(private readonly chosen: (kept: Kept) => void) {}

  add(kept: Kept, side: number): void {
    const canvas = el("canvas", { width: side, height: side });
    canvas.getContext("2d")!.putImageData(new ImageData(kept.pixels, side, side), 0, 0);
    this.list.prepend(el("li", {}, el("button", { type: "button", "aria-label": `Show again: ${kept.prompt.slice(0, 200)}`, title: kept.prompt.slice(0, 200), click: () => this.chosen(kept) }, canvas)));
    while (this.list.children.length > MOST) this.list.lastElementChild!.remove();
    this.element.hidden = this.list.children.length < 2;
  }
}
