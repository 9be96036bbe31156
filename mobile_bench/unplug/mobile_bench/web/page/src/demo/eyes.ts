// A photograph and its two eyes: found where the browser finds faces, else shown by the user.
import { el } from "../ui/dom";
import type { Point, Rgb } from "./align";
import { rgbOf } from "./pixels";

const MAX_SIDE = 1600;
/** How far an arrow key moves, and one with the shift key, as a share of the picture's width. */
const [STEP, SMALL_STEP] = [0.01, 0.002];
const ARROWS: Record<string, Point> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The face detector of the Shape Detection API, which few browsers have. */
interface Detected {
  landmarks?: { type: string; locations: { x: number; y: number }[] }[];
}
type Detector = new () => { detect(picture: CanvasImageSource): Promise<Detected[]> };

/** The eyes of every face that the browser finds, in pixels; null where it finds none by itself. */
async function foundBy(canvas: HTMLCanvasElement): Promise<Point[][] | null> {
  const known = (globalThis as { FaceDetector?: Detector }).FaceDetector;
  if (known === undefined) return null;
  try {
    const middle = (at: { x: number; y: number }[]): Point => [at.reduce((sum, { x }) => sum + x, 0) / at.length, at.reduce((sum, { y }) => sum + y, 0) / at.length];
    const eyes = ({ landmarks = [] }: Detected): Point[] => landmarks.filter(({ type, locations }) => type === "eye" && locations.length > 0).map(({ locations }) => middle(locations));
    return (await new known().detect(canvas)).map(eyes);
  } catch {
    // It is there by name only; the user shows the eyes.
    return null;
  }
}

/** What is known of a photograph's eyes: how many faces there are, and once both are placed the eyes of the one. */
export interface Placed {
  faces: number;
  left: Point;
  right: Point;
}

export class Eyes {
  private readonly canvas = el("canvas", { role: "img", "aria-label": "The photograph" });
  private readonly rings = ["left", "right"].map((side) => el("button", { type: "button", class: "ring", "aria-label": `The eye on the ${side}: move it with the arrow keys` }));
  readonly element = el("div", { class: "eyes", hidden: true }, this.canvas, ...this.rings);
  private places: [number, number][] = [];
  private readonly set = new Set<number>();
  private photograph: Rgb | null = null;

  /**
   * @param placed hears of both eyes, again after every move
   * @param ask hears what is still to be done
   */
  constructor(
    private readonly placed: (found: Placed) => void,
    private readonly ask: (text: string) => void,
  ) {
    this.canvas.addEventListener("click", (event) => {
      const place = this.placeOf(event);
      this.move(this.nearest(place), place, true);
    });
    this.rings.forEach((ring, at) => this.follow(ring, at));
  }

  /** The photograph's pixels, once it was asked about. */
  get pixels(): Rgb | null {
    return this.photograph;
  }

  /** Shows a picture and asks for nothing yet: of a camera. */
  preview(picture: CanvasImageSource, width: number, height: number): void {
    const scale = Math.min(1, MAX_SIDE / Math.max(width, height));
    [this.canvas.width, this.canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    const context = this.canvas.getContext("2d", { willReadFrequently: true });
    if (context === null) throw new Error("this browser has no 2D canvas");
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, 0, 0, this.canvas.width, this.canvas.height);
    this.photograph = null;
    this.element.hidden = false;
    this.rings.forEach((ring) => (ring.hidden = true));
  }

  /** Asks for the eyes of what is shown. */
  async find(): Promise<void> {
    const { width, height } = this.canvas;
    this.photograph = rgbOf(this.canvas.getContext("2d")!.getImageData(0, 0, width, height));
    const found = await foundBy(this.canvas);
    this.set.clear();
    if (found !== null && found.length > 1) return this.placed({ faces: found.length, left: [0, 0], right: [1, 0] });
    const [one] = found ?? [];
    const apart = 0.12 * Math.min(width, height);
    const places: Point[] = one?.length === 2 ? one : [[width / 2 - apart, 0.45 * height], [width / 2 + apart, 0.45 * height]];
    places.forEach(([x, y], at) => this.move(at, [x / width, y / height], one?.length === 2));
    this.rings.forEach((ring) => (ring.hidden = false));
    this.element.scrollIntoView({ block: "nearest" });
    if (one?.length !== 2) this.ask("Tap the middle of each eye, or drag the two rings there.");
  }

  hide(): void {
    this.element.hidden = true;
    this.photograph = null;
  }

  private placeOf(event: MouseEvent): Point {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  private nearest([x, y]: Point): number {
    const open = this.rings.map((_, at) => at).filter((at) => this.set.size === 2 || !this.set.has(at));
    const distance = (at: number): number => Math.hypot(this.places[at]![0] - x, this.places[at]![1] - y);
    return open.reduce((best, at) => (distance(at) < distance(best) ? at : best));
  }

  private move(at: number, [x, y]: Point, isMeant: boolean): void {
    const inside = (value: number): number => Math.min(1, Math.max(0, value));
    this.places[at] = [inside(x), inside(y)];
    const ring = this.rings[at]!;
    [ring.style.left, ring.style.top] = this.places[at]!.map((share) => `${100 * share}%`) as [string, string];
    if (isMeant) this.set.add(at);
    ring.classList.toggle("open", !this.set.has(at));
    if (isMeant) this.tell();
  }

  /** Which eye is the left one their places say, not the order of taps. */
  private tell(): void {
    if (this.set.size < 2) return this.ask("Now the other eye.");
    const [left, right] = this.places.map(([x, y]): Point => [x * this.canvas.width, y * this.canvas.height]).sort(([one], [other]) => one - other);
    this.placed({ faces: 1, left: left!, right: right! });
  }

  private follow(ring: HTMLButtonElement, at: number): void {
    ring.addEventListener("pointerdown", (event) => ring.setPointerCapture(event.pointerId));
    ring.addEventListener("pointermove", (event) => {
      if (ring.hasPointerCapture(event.pointerId)) this.move(at, this.placeOf(event), false);
    });
    ring.addEventListener("pointerup", (event) => this.move(at, this.placeOf(event), true));
    ring.addEventListener("keydown", (event) => {
      const way = ARROWS[event.key];
      if (way === undefined && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      const step = event.shiftKey ? SMALL_STEP : STEP;
      const [x, y] = this.places[at]!;
      const [across, down] = way ?? [0, 0];
      this.move(at, [x + across * step, y + (down * step * this.canvas.width) / this.canvas.height], true);
    });
  }
}
