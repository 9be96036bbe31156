// The demo's panel: a picture in, the model's answer out. Nothing of it is sent anywhere.
import type { Job, Tensors } from "../types";
import { byId, delegateName, el, message, ms } from "../ui/dom";
import { ageResult, classResult } from "./age";
import { align, faceProblem, type Frame, readFrame } from "./align";
import { Camera } from "./camera";
import { Eyes, type Placed } from "./eyes";
import { featureResult } from "./features";
import { OpenModel } from "./model";
import { axis, crop, imageOf, isImage, toTensor } from "./pixels";

const SHOWS: Record<string, (job: Job, outputs: Tensors) => HTMLElement> = { age: ageResult, classes: classResult, plugin: featureResult };

/** Jobs that the demo can show; a plan's not_run is about the benchmark and no matter here. */
export function showable(jobs: Job[], webgpu: boolean): Job[] {
  return jobs.filter((job) => {
    const [input] = job.iospec.inputs;
    const plain = job.iospec.inputs.length === 1 && input !== undefined && isImage(input) && input.dtype === "float32";
    return plain && job.model_type in SHOWS && job.not_run === null && (webgpu || job.delegate !== "webgpu");
  });
}

const MODEL_TEXT: Record<string, string> = {
  age: "A face, cropped to a square, and the age that the model expects.",
  eyes: "A photograph of one face, and the age that the model expects. It is turned and scaled until its eyes lie where the model wants them.",
  classes: "A picture, cropped to a square, and the label that the model finds likeliest.",
  plugin: "A condition image (face lines, depth, edges), and what the plugin adds to each level of the diffusion model.",
};

export class Demo {
  private readonly open = new OpenModel();
  private readonly canvas = el("canvas", { class: "picture", width: 64, height: 64, role: "img", "aria-label": "What the model sees" });
  private readonly video = el("video", { muted: true, playsinline: true, class: "quiet", tabindex: -1, "aria-hidden": "true" });
  private readonly answer = el("div", { class: "answer" });
  private readonly status = el("p", { class: "doing", role: "status" });
  private readonly choice = el("select", { id: "demo-model" });
  private readonly eyes = new Eyes((found) => void this.judge(found), (text) => this.wait(text));
  private readonly camera = new Camera(this.video, () => this.look(this.video, this.video.videoWidth, this.video.videoHeight));
  private readonly cameraButton = el("button", { type: "button", id: "demo-camera", class: "button plain", click: () => void this.toggleCamera() }, "Use the camera");

  /** @param member the line that says which member of a family answers; null where there is no family. */
  constructor(
    private readonly jobs: Job[],
    readonly member: string | null,
  ) {
    for (const job of jobs) {
      const text = `${job.file} · ${delegateName(job.delegate)}`;
      this.choice.append(el("option", { value: job.number }, text));
    }
    this.choice.addEventListener("change", () => void this.again());
    const missing = Camera.missing();
    this.cameraButton.disabled = missing !== null;
    const file: HTMLInputElement = el("input", { type: "file", accept: "image/*", class: "quiet", id: "demo-file", change: () => void this.file(file) });
    byId("demo").replaceChildren(
      el("p", { class: "soft" }, MODEL_TEXT[this.frame === null ? (jobs[0]?.model_type ?? "") : "eyes"] ?? ""),
      ...(member === null ? [] : [el("p", { class: "soft", id: "member" }, member)]),
      el("div", { class: "field" }, el("label", { for: "demo-model" }, "Model"), this.choice),
      el("div", { class: "buttons" }, el("label", { class: "button" }, "Choose a picture", file), this.cameraButton),
      el("p", { class: "soft small" }, `Pictures stay on this device: they are neither sent nor stored.${missing === null ? "" : ` ${missing}`}`),
      this.status,
      this.eyes.element,
      el("div", { class: "seen" }, this.canvas, this.answer),
      this.video,
    );
    document.addEventListener("visibilitychange", () => document.hidden && this.leave());
  }

  /** Camera off and memory free. */
  leave(): void {
    this.camera.stop();
    this.open.close();
    this.cameraButton.textContent = "Use the camera";
  }

  private get job(): Job {
    return this.jobs.find((job) => String(job.number) === this.choice.value) ?? this.jobs[0]!;
  }

  /** Where the eyes of a face go; null where the bundle says nothing of them. */
  private get frame(): Frame | null {
    return this.job.model_type === "age" ? readFrame(this.job.config["preprocessing"]) : null;
  }

  private cameraOff(): void {
    this.camera.stop();
    this.cameraButton.textContent = "Use the camera";
  }

  private async toggleCamera(): Promise<void> {
    if (this.camera.on && this.frame !== null) {
      this.cameraOff();
      return this.eyes.find();
    }
    if (this.camera.on) return this.leave();
    this.clear();
    try {
      await this.camera.start();
      this.cameraButton.textContent = this.frame === null ? "Stop the camera" : "Take the picture";
    } catch (error) {
      this.status.textContent = `The camera does not start: ${message(error)}`;
    }
  }

  private async file(input: HTMLInputElement): Promise<void> {
    const [chosen] = input.files ?? [];
    input.value = "";
    if (chosen === undefined) return;
    this.cameraOff();
    this.clear();
    try {
      const picture = await createImageBitmap(chosen);
      await this.look(picture, picture.width, picture.height);
      picture.close();
    } catch (error) {
      this.status.textContent = `${chosen.name.slice(0, 80)} is not a picture that this browser can read (${message(error)})`;
    }
  }

  private last: ImageData | null = null;
  private placed: Placed | null = null;

  /** Nothing of the picture before stays next to another one. */
  private clear(): void {
    [this.last, this.placed] = [null, null];
    this.eyes.hide();
    this.canvas.classList.remove("full");
    this.answer.replaceChildren();
  }

  private wait(text: string): void {
    this.status.textContent = text;
  }

  private async look(picture: CanvasImageSource, width: number, height: number): Promise<void> {
    if (width === 0) return;
    if (this.frame !== null) {
      this.eyes.preview(picture, width, height);
      return this.camera.on ? this.wait("Look into the camera, from the front.") : this.eyes.find();
    }
    this.last = crop(this.canvas, picture, width, height, this.job.iospec.inputs[0]!);
    this.canvas.classList.add("full");
    await this.show(this.last);
  }

  /** The face with its eyes in their places, or why nothing is said of it. */
  private async judge(placed: Placed): Promise<void> {
    const [photograph, frame] = [this.eyes.pixels, this.frame];
    if (photograph === null || frame === null) return;
    this.placed = placed;
    const size = axis(this.job.iospec.inputs[0]!, "H");
    try {
      const { faces, left, right } = placed;
      const aligned = align(photograph, left, right, size, frame);
      const problem = faceProblem(faces, left, right, aligned, frame);
      if (problem !== null) throw new Error(problem);
      this.last = imageOf(aligned);
    } catch (error) {
      this.canvas.classList.remove("full");
      this.wait("No answer.");
      this.answer.replaceChildren(el("p", { class: "alert", role: "alert", id: "unjudged" }, `Photograph: ${message(error)}. Choose one of a single face, near and well lit.`));
      return;
    }
    [this.canvas.width, this.canvas.height] = [size, size];
    this.canvas.getContext("2d")?.putImageData(this.last, 0, 0);
    this.canvas.classList.add("full");
    await this.show(this.last);
  }

  /** The same picture on the model that was chosen now. */
  private async again(): Promise<void> {
    if (this.placed !== null) return this.judge(this.placed);
    const spec = this.job.iospec.inputs[0]!;
    if (this.last?.width === axis(spec, "W") && this.last?.height === axis(spec, "H")) await this.show(this.last!);
  }

  private async show(pixels: ImageData): Promise<void> {
    const job = this.job;
    const [spec] = job.iospec.inputs;
    if (!this.camera.on) this.status.textContent = "Running …";
    try {
      const { outputs, latency_ms } = await this.open.run(job, { [spec!.name]: toTensor(pixels.data, spec!) });
      // Another picture was chosen meanwhile: no answer may stand next to it that is not its own.
      if (pixels !== this.last) return;
      this.answer.replaceChildren(SHOWS[job.model_type]!(job, outputs));
      this.status.textContent = `${ms(latency_ms)} on ${delegateName(job.delegate)}`;
    } catch (error) {
      this.camera.stop();
      this.status.textContent = `It does not run: ${message(error)}`;
    }
  }
}
