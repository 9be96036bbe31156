// The benchmark's panel: facts, start, progress, cards, and what becomes of the report.
import { runAll } from "../run";
import type { BenchReport, BenchRow, DeviceFacts, Job, Offer } from "../types";
import { Board } from "./board";
import { byId, el, message } from "./dom";
import { factsList, planText } from "./facts";
import { Progress } from "./progress";
import { table } from "./table";

/** What is done with results: posted to a server, or kept for a download. */
export interface Sink {
  row(job: Job, row: BenchRow): Promise<void>;
  progress(share: number, text: string): void;
  /** Takes the report; gives the line that tells what became of it. */
  report(report: BenchReport): Promise<string>;
  /** Whether the reader may save the report. */
  download: boolean;
}

function save(report: BenchReport): HTMLElement {
  const text = `${JSON.stringify(report, null, 1)}\n`;
  const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  return el("a", { class: "button", href, download: "bench.json", id: "download" }, "Download report (JSON)");
}

/** Said, and no reason to stop: all rows go with the report. */
function unsent(error: unknown): void {
  byId("alert").hidden = false;
  byId("alert").textContent = `A row could not be sent (${message(error)}). It goes with the report.`;
}

export function benchPanel(panel: HTMLElement, offer: Offer, facts: DeviceFacts, sink: Sink): () => Promise<void> {
  const board = new Board(offer.jobs, offer.plan.starts);
  for (const job of offer.jobs) if (job.row !== null) board.update(job, job.row);
  const progress = new Progress();
  const end = el("div", { class: "end" });
  const start = el("button", { class: "button", id: "start", type: "button" }, "Start the benchmark");
  const more: [string, string][] = [["Plan", planText(offer.plan)], ...offer.notes.map((note): [string, string] => ["Bundle", note])];
  panel.replaceChildren(
    factsList(facts, more), start, progress.element, el("h2", { class: "quiet" }, "Results"), board.element, end,
  ); // prettier-ignore

  const run = async (): Promise<void> => {
    start.remove();
    try {
      const report = await runAll(offer, facts, {
        progress: (share, text) => (progress.say(share, text), sink.progress(share, text)),
        running: (job) => board.running(job),
        row: (job, row) => {
          job.row = row;
          board.update(job, row);
          return sink.row(job, row).catch(unsent);
        },
      });
      end.append(table(report.rows));
      const said = await sink.report(report).catch((error: unknown) => `The report was not taken: ${message(error)}. Download it instead.`);
      progress.end(said);
      if (sink.download || !said.startsWith("Report sent")) end.append(save(report));
      document.documentElement.dataset["state"] = "done";
    } catch (error) {
      progress.end(`It stopped: ${message(error)}`);
      document.documentElement.dataset["state"] = "stopped";
    }
  };
  start.addEventListener("click", () => void run());
  return run;
}
