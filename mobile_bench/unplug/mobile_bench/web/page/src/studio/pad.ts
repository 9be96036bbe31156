// A square to draw a condition on: lines of a finger over the edges of a photograph, or any picture that was made elsewhere.
import { canny, grey } from "../draw/canny";
import { el } from "../ui/dom";

type Point = [number, number];
/** Least way between two points of a line, in pixels of the condition. */
const NEAR = 0.4;

/** Pixels of the straight line between two places (Bresenham). */
export function line(from: Point, to: Point): Point[] {
  let [x, y] = [Math.floor(from[0]), Math.floor(from[1])];
  const [endX, endY] = [Math.floor(to[0]), Math.floor(to[1])];
  const [wide, high] = [Math.abs(endX - x), -Math.abs(endY - y)];
  const found: Point[] = [];
  let error = wide + high;
  for (;;) {
    found.push([x, y]);
    if (x === endX && y === endY) return found;
    const twice = 2 * error;
    if (twice >= high) [error, x] = [error + high, x + Math.sign(endX - x)];
    if (twice <= wide) [error, y] = [error + wide, y + Math.sign(endY - y)];
  }
}

export class Pad {
  private readonly canvas: HTMLCanvasElement;
  private readonly hint = el("p", { class: "hint" });
  /** What lies below the lines, as RGBA: edges, or a picture. */
  private below: Uint8ClampedArray<ArrayBuffer> | null = null;
  private strokes: Point[][] = [];
  /** Whether a finger draws here. */
  private drawn = true;
  readonly element: HTMLElement;

  constructor(
    private readonly side: number,
    private readonly changed: () => void,
  ) {
    this.canvas = el("canvas", { id: "pad", width: side, height: side, role: "img", tabindex: 0 });
    this.element = el("div", { class: "pad" }, this.canvas, this.hint);
    this.listen();
  }

  /** For edges, a pad to draw on; for another condition, a frame for its picture. */
  set(drawn: boolean, hint: string): void {
    this.drawn = drawn;
    this.hint.textContent = hint;
    this.canvas.setAttribute("aria-label", drawn ? "Sketch pad: draw edges with a finger or a mouse" : "The condition");
    this.canvas.style.touchAction = drawn ? "none" : "auto";
    this.clear();
  }

  private listen(): void {
    let stroke: Point[] | null = null;
    const place = (event: PointerEvent): Point => {
      const box = this.canvas.getBoundingClientRect();
      const inside = (value: number): number => Math.min(Math.max(value, 0), 1 - 1e-6) * this.side;
      return [inside((event.clientX - box.left) / box.width), inside((event.clientY - box.top) / box.height)];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!this.drawn || event.button !== 0) return;
      this.canvas.setPointerCapture(event.pointerId);
      stroke = [place(event)];
      this.strokes.push(stroke);
      this.paint();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (stroke === null) return;
      const all = event.getCoalescedEvents?.() ?? [];
      for (const one of all.length > 0 ? all : [event]) {
        const [next, last] = [place(one), stroke.at(-1)!];
        if (Math.hypot(next[0] - last[0], next[1] - last[1]) >= NEAR) stroke.push(next);
      }
      this.paint();
    });
    const end = (): void => {
      if (stroke === null) return;
      stroke = null;
      this.changed();
    };
    this.canvas.addEventListener("pointerup", end);
    this.canvas.addEventListener("pointercancel", end);
  }

  get empty(): boolean {
    return this.below === null && this.strokes.length === 0;
  }

  undo(): void {
    if (this.strokes.pop() === undefined) this.below = null;
    this.paint();
    this.changed();
  }

  clear(): void {
    [this.strokes, this.below] = [[], null];
    this.paint();
    this.changed();
  }

  /** The edges of a picture's pixels, which replace what was here. */
  trace(pixels: ImageData): void {
    const edges = canny(grey(pixels.data), this.side, this.side);
    const below = new Uint8ClampedArray(4 * edges.length).fill(255);
    edges.forEach((value, place) => below.fill(value, 4 * place, 4 * place + 3));
    if (!edges.some((value) => value > 0)) throw new Error("No edges were found in this picture; take one with more contrast.");
    this.take(below);
  }

  /** A picture that is a condition already. */
  picture(pixels: ImageData): void {
    this.take(new Uint8ClampedArray(pixels.data));
  }

  private take(below: Uint8ClampedArray<ArrayBuffer>): void {
    [this.strokes, this.below] = [[], below];
    this.paint();
    this.changed();
  }

  /** The condition as its plugin takes it: edges are white on black, a pixel wide, as Canny draws them. */
  pixels(): Uint8ClampedArray<ArrayBuffer> {
    const { side } = this;
    const found = this.below?.slice() ?? new Uint8ClampedArray(4 * side * side);
    for (let place = 3; place < found.length; place += 4) found[place] = 255;
    for (const stroke of this.strokes) {
      stroke.forEach((point, number) => {
        for (const [x, y] of line(stroke[Math.max(number - 1, 0)]!, point)) found.fill(255, 4 * (y * side + x), 4 * (y * side + x) + 3);
      });
    }
    return found;
  }

  private paint(): void {
    this.element.dataset["empty"] = String(this.empty);
    this.element.dataset["edges"] = String(this.drawn);
    this.canvas.getContext("2d")!.putImageData(new ImageData(this.pixels(), this.side, this.side), 0, 0);
  }
}
