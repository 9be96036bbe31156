// All numbers as text: for screen readers, and for those who would rather read.
import type { BenchRow } from "../types";
import { delegateName, el, ms } from "./dom";

const parity = (row: BenchRow): string => {
  const known = row.repeats.map((repeat) => repeat.parity_db).filter((value) => value !== null);
  if (row.repeats.length === 0) return "–";
  return known.length > 0 ? `${Math.min(...known).toFixed(0)} dB` : "exact";
};

const COLUMNS: [string, (row: BenchRow) => string][] = [
  ["Median", (row) => ms(row.median_ms)],
  ["95 %", (row) => (row.median_ci95_ms === null ? "–" : row.median_ci95_ms.map(ms).join(" to "))],
  ["p95", (row) => ms(row.summary?.p95 ?? null)],
  ["First run", (row) => ms(row.first_inference_ms)],
  ["Load", (row) => ms(row.init_ms_cold)],
  ["Parity", parity],
  ["Row", (row) => (row.status === "ok" ? (row.valid ? "valid" : "refused") : row.status.replace("_", " "))],
];

export function table(rows: BenchRow[]): HTMLElement {
  const head = el("tr", {}, el("th", { scope: "col" }, "File"), ...COLUMNS.map(([name]) => el("th", { scope: "col" }, name)));
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, row.file, el("br"), el("span", { class: "soft" }, delegateName(row.delegate_asked))),
      ...COLUMNS.map(([, text]) => el("td", {}, text(row))),
    ),
  );
  const inner = el("table", {}, el("caption", {}, "Times are of this device and this browser."), el("thead", {}, head), el("tbody", {}, ...body));
  const scroller = el("div", { class: "scroll", role: "region", "aria-label": "All numbers", tabindex: 0 }, inner);
  return el("details", { class: "numbers" }, el("summary", {}, "All numbers as a table"), scroller);
}
