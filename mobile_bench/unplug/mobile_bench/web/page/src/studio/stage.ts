// Where the picture appears: the noise it begins with, what each step points at, and the picture.
import { INITIAL, normals } from "../draw/noise";
import type { Pipeline } from "../draw/pipeline";
import type { Step } from "../messages";
import { el, ms } from "../ui/dom";
import { marked } from "./marked";

const [GREY, CONTRAST] = [128, 46];

export class Stage {
  private readonly canvas: HTMLCanvasElement;
  private readonly fill = el("div", { class: "fill" });
  private readonly bar = el(
    "div",
    { class: "bar", role: "progressbar", "aria-label": "Picture", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 },
    this.fill,
  );
  private readonly line = el("p", { class: "doing", id: "doing" });
  /** Spoken, and therefore told at both ends only. */
  private readonly spoken = el("p", { class: "quiet", role: "status" });
  private readonly frame: HTMLElement;
  readonly element: HTMLElement;

  constructor(private readonly pipeline: Pipeline) {
    this.canvas = el("canvas", { id: "picture", width: pipeline.image_size, height: pipeline.image_size, role: "img", "aria-label": "The picture" });
    this.frame = el("div", { class: "frame", "data-state": "noise" }, this.canvas);
    this.element = el("div", { class: "stage" }, this.frame, this.bar, this.line, this.spoken);
  }

  private put(pixels: Uint8ClampedArray<ArrayBuffer>, side: { width: number; height: number }): void {
    [this.canvas.width, this.canvas.height] = [side.width, side.height];
    this.canvas.getContext("2d")!.putImageData(new ImageData(pixels, side.width, side.height), 0, 0);
  }

  private get side(): { width: number; height: number } {
    return { width: this.pipeline.image_size, height: this.pipeline.image_size };
  }

  private share(share: number): void {
    this.fill.style.transform = `scaleX(${share})`;
    this.bar.setAttribute("aria-valuenow", String(Math.round(100 * share)));
  }

  /** The first channels of the latent that a seed begins with, as colours. */
  noise(seed: bigint): void {
    const [channels, height, width] = this.pipeline.latent_shape;
    const drawn = normals(seed, INITIAL, channels * height * width);
    const pixels = new Uint8ClampedArray(4 * height * width).fill(255);
    for (let place = 0; place < height * width; place++) {
      for (let colour = 0; colour < 3; colour++) {
        pixels[4 * place + colour] = GREY + CONTRAST * drawn[Math.min(colour, channels - 1) * height * width + place]!;
      }
    }
    this.put(pixels, { width, height });
    this.frame.dataset["state"] = "noise";
    this.canvas.setAttribute("aria-label", `The noise of seed ${seed}, from which a picture is drawn`);
    this.share(0);
    this.line.textContent = `The noise of seed ${seed}. Every picture begins as noise.`;
  }

  opening(part: string): void {
    this.frame.dataset["state"] = "opening";
    this.line.textContent = `Opening the ${part} …`;
  }

  begin(): void {
    this.frame.dataset["state"] = "drawing";
    this.share(0);
    this.line.textContent = "Reading the words …";
    // On a small screen the button lies below the picture.
    if (this.element.getBoundingClientRect().top < 0) this.element.scrollIntoView({ block: "start", behavior: "smooth" });
    this.spoken.textContent = "Drawing";
  }

  step({ done, steps, elapsed_ms, preview }: Step): void {
    if (preview !== null) this.put(preview, this.side);
    this.share(done / steps);
    const left = (elapsed_ms / done) * (steps - done);
    this.line.textContent = `Step ${done} of ${steps}${done > 1 && left >= 500 ? ` · ${Math.ceil(left / 1000)} s left` : ""}`;
  }

  show(pixels: Uint8ClampedArray<ArrayBuffer>, what: string, said: string): void {
    this.put(pixels, this.side);
    this.frame.dataset["state"] = "done";
    this.canvas.setAttribute("aria-label", what);
    this.share(1);
    this.line.textContent = said;
    this.spoken.textContent = said;
  }

  stopped(said: string): void {
    if (this.frame.dataset["state"] !== "noise") this.frame.dataset["state"] = "stopped";
    this.share(0);
    this.line.textContent = said;
    this.spoken.textContent = said;
  }

  /** The picture as a PNG file that says that a model drew it. */
  async png(): Promise<Blob> {
    const blob = await new Promise<Blob | null>((resolve) => this.canvas.toBlob(resolve, "image/png"));
    if (blob === null) throw new Error("this browser writes no PNG");
    return new Blob([marked(new Uint8Array(await blob.arrayBuffer()))], { type: "image/png" });
  }
}

export const took = (whole: number, steps: number): string => `${ms(whole)} · ${ms(whole / steps)} a step`;
