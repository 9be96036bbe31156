// The line under a picture: whether it carries the public mark, where a reader of marks lies among the generator's files.
import { BITS, foundMark, type Picture, PUBLIC_KEY, readingsOf, SIDE } from "../draw/mark";
import { readerJob } from "../draw/mark_reader";
import type { Generator } from "../draw/source";
import { OpenModel } from "../demo/model";
import { relaid } from "../layout";
import type { Job } from "../types";
import { el, message } from "../ui/dom";

export class MarkLine {
  readonly element = el("p", { class: "soft small", id: "mark", role: "status", hidden: true });
  private readonly model = new OpenModel();
  private job: Promise<Job | null> | null = null;
  /** Counts the pictures shown: an answer about an earlier one comes too late. */
  private turn = 0;
  private last: Promise<void> = Promise.resolve();

  constructor(private readonly generator: Generator) {}

  /** No picture is shown. */
  clear(): void {
    this.turn += 1;
    this.element.hidden = true;
    this.element.textContent = "";
  }

  /** Says what a picture carries; a worker is asked one thing at a time. */
  tell(picture: Picture): void {
    this.clear();
    const turn = this.turn;
    this.last = this.last.then(async () => {
      const said = await this.said(picture, turn).catch((error: unknown) => {
        this.job = null;
        return `The mark was not read: ${message(error)}`;
      });
      if (said === null || turn !== this.turn) return;
      this.element.textContent = said;
      this.element.hidden = false;
    });
  }

  private async said(picture: Picture, turn: number): Promise<string | null> {
    const job = await (this.job ??= readerJob(this.generator.read));
    if (job === null) return null;
    const [{ name, layout }, logits] = [job.iospec.inputs[0]!, [] as Float32Array[]];
    for (const seen of readingsOf(picture)) {
      if (turn !== this.turn) return null;
      const { outputs } = await this.model.run(job, { [name]: relaid(seen, [1, 3, SIDE, SIDE], "NCHW", layout) });
      logits.push(outputs[job.iospec.outputs[0]!.name]!);
    }
    const { agree, marked } = foundMark(logits, PUBLIC_KEY);
    return marked ? `This picture carries our public mark: ${agree} of ${BITS} bits.` : "No public mark was found, which proves nothing.";
  }

  /** Memory free; the next picture opens the reader again. */
  close(): void {
    this.turn += 1;
    this.model.close();
    // A worker that was ended never answers what it was asked.
    this.last = Promise.resolve();
  }
}
