// One bar for the whole benchmark.
import { el } from "./dom";

export class Progress {
  private readonly fill = el("div", { class: "fill" });
  private readonly bar = el(
    "div",
    { class: "bar", role: "progressbar", "aria-label": "Benchmark", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 },
    this.fill,
  );
  private readonly text = el("p", { class: "doing" });
  /** Spoken, and therefore told only now and then. */
  private readonly spoken = el("p", { class: "quiet", "aria-live": "polite" });
  private lastSpoken = -1;
  readonly element = el("div", { class: "progress", hidden: true }, this.bar, this.text, this.spoken);

  say(share: number, text: string): void {
    this.element.hidden = false;
    const percent = Math.round(100 * Math.min(Math.max(share, 0), 1));
    this.fill.style.transform = `scaleX(${percent / 100})`;
    this.bar.setAttribute("aria-valuenow", String(percent));
    this.text.textContent = `${percent} % · ${text}`;
    if (percent - this.lastSpoken >= 25) {
      this.lastSpoken = percent;
      this.spoken.textContent = `${percent} percent`;
    }
  }

  end(text: string): void {
    this.bar.hidden = true;
    this.text.hidden = true;
    this.spoken.textContent = text;
    this.spoken.className = "outcome";
  }
}
