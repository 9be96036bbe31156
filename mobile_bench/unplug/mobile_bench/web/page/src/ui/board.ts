// The jobs: one card each, with its runs as dots on a scale that all cards share.
import { generator } from "../random";
import type { BenchRow, Job } from "../types";
import { bytes, delegateName, el, ms, runtimeName, svg } from "./dom";
import { type Scale, scaleOf } from "./scale";

const MAX_DOTS = 300;

type State = "waiting" | "running" | "ok" | "refused" | "failed" | "not run";

interface Shown {
  card: HTMLElement;
  state: HTMLElement;
  median: HTMLElement;
  strip: HTMLElement;
  note: HTMLElement;
  row: BenchRow | null;
}

const latencies = (row: BenchRow): number[] => [...row.repeats.flatMap((repeat) => repeat.latencies_ms), ...row.curve.map((window) => window.p50)];

function stateOf(row: BenchRow, starts: number): State {
  if (row.status === "not_run") return "not run";
  if (row.repeats.length < starts) return row.reasons.some((reason) => reason.endsWith("the rest is to come")) ? "waiting" : "failed";
  return row.valid ? "ok" : "refused";
}

function strip(row: BenchRow, scale: Scale): SVGSVGElement {
  const all = latencies(row);
  const draw = generator(1);
  const every = Math.max(1, Math.ceil(all.length / MAX_DOTS));
  const dots = all
    .filter((_, number) => number % every === 0)
    .map((value) => svg("circle", { cx: `${scale.place(value).toFixed(2)}%`, cy: (10 + 20 * draw()).toFixed(1), r: 2.5 }));
  const middle = `${scale.place(row.median_ms ?? 0).toFixed(2)}%`;
  const line = row.median_ms === null ? null : svg("line", { class: "median", x1: middle, x2: middle, y1: 3, y2: 37 });
  const grid = scale.ticks.map((tick) => svg("line", { class: "grid", x1: `${scale.place(tick)}%`, x2: `${scale.place(tick)}%`, y1: 0, y2: 40 }));
  return svg("svg", { class: "strip", width: "100%", height: 40, "aria-hidden": "true" }, ...grid, ...dots, line);
}

export class Board {
  readonly element: HTMLElement;
  private readonly shown = new Map<Job, Shown>();
  private readonly axis = el("div", { class: "axis", "aria-hidden": "true" });
  private readonly caption = el("p", { class: "caption", hidden: true });

  constructor(
    jobs: Job[],
    private readonly starts: number,
  ) {
    const list = el("ol", { class: "cards" });
    for (const job of jobs) list.append(this.add(job));
    this.element = el("div", { class: "board" }, list, this.axis, this.caption);
  }

  private add(job: Job): HTMLElement {
    const state = el("span", { class: "state" }, "waiting");
    const median = el("span", { class: "value" }, "");
    const place = el("div", {});
    const note = el("p", { class: "note", hidden: true });
    const facts = `${runtimeName(job.runtime)} · ${bytes(job.bytes)}`;
    const card = el(
      "li",
      { class: "card", "data-state": "waiting", "data-delegate": job.delegate },
      el("div", { class: "row" }, el("h3", {}, job.file), median),
      el("div", { class: "row small" }, el("span", { class: "kind" }, el("b", {}, delegateName(job.delegate)), ` ${facts}`), state),
      place,
      note,
    );
    this.shown.set(job, { card, state, median, strip: place, note, row: null });
    return card;
  }

  private mark(job: Job, state: State): void {
    const shown = this.shown.get(job)!;
    shown.card.dataset["state"] = state;
    shown.state.textContent = state;
  }

  running(job: Job): void {
    this.mark(job, "running");
  }

  update(job: Job, row: BenchRow): void {
    const shown = this.shown.get(job)!;
    shown.row = row;
    const state = stateOf(row, this.starts);
    this.mark(job, state);
    if (state === "waiting") shown.state.textContent = `${row.repeats.length} of ${this.starts}`;
    shown.median.textContent = row.median_ms === null ? "" : ms(row.median_ms);
    const lines = state === "waiting" ? [] : [...row.reasons, ...row.interruptions];
    shown.note.hidden = lines.length === 0;
    shown.note.textContent = lines.join(". ");
    this.draw();
  }

  /** All strips anew: their scale is a common one. */
  private draw(): void {
    const rows = [...this.shown.values()].map(({ row }) => row).filter((row) => row !== null);
    const scale = scaleOf(rows.flatMap(latencies));
    for (const { row, strip: place } of this.shown.values()) {
      place.replaceChildren(...(row !== null && row.repeats.length > 0 ? [strip(row, scale)] : []));
    }
    const ticks = scale.ticks.map((value) => {
      const tick = el("span", {}, value === 0 ? "0" : value >= 1000 ? `${value / 1000} s` : `${Number(value.toPrecision(3))}`);
      tick.style.left = `${scale.place(value)}%`;
      return tick;
    });
    this.axis.replaceChildren(...ticks);
    this.caption.hidden = ticks.length === 0;
    const kind = scale.log ? ", logarithmic scale" : "";
    this.caption.textContent = `Milliseconds a run${kind}. A dot is one run until its outputs were read; the bar is the median.`;
  }
}
