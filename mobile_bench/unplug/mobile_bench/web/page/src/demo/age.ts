// What predictors answer: an age and a bar for each age group, or a label and a bar for each class.
import type { Job, Tensors } from "../types";
import { el } from "../ui/dom";
import { answered, overProbability, readDecision } from "./decision";

export function softmax(logits: ArrayLike<number>): number[] {
  const all = Array.from(logits);
  const top = Math.max(...all);
  const powers = all.map((value) => Math.exp(value - top));
  const sum = powers.reduce((total, value) => total + value, 0);
  return powers.map((value) => value / sum);
}

/** Names of the groups between borders: [0, 5, 13] is "0–4" and "5 and over". */
export function groupNames(edges: unknown, count: number): string[] {
  const known = Array.isArray(edges) && edges.length === count + 1 && edges.every((edge) => Number.isFinite(edge)) ? (edges as number[]) : null;
  return Array.from({ length: count }, (_, group) => {
    if (known === null) return `group ${group + 1}`;
    if (group === count - 1) return `${known[group]} and over`;
    const last = (known[group + 1] ?? 0) - 1;
    return last <= (known[group] ?? 0) ? `${known[group]}` : `${known[group]}–${last}`;
  });
}

/** What is decided, and what that holds, or why nothing is; nothing where the bundle carries no rule. */
function decided(job: Job, logits: ArrayLike<number>): HTMLElement | null {
  const rule = readDecision(job.config["decision"], job.config["age_edges"]);
  if (rule === null) return null;
  if (!rule.models.includes(job.artifact_sha256)) {
    return el("p", { class: "decision", id: "undecided" }, "No decision: the limits in this bundle were fitted on other model files than the one used here.");
  }
  const over = overProbability(logits, job.config["age_edges"] as number[], rule.age);
  const answer = answered(rule, over);
  const text = answer === "unsure" ? `Unsure whether over ${rule.age}` : `${answer === "over" ? "Over" : "Under"} ${rule.age}`;
  const percent = (share: number): number => Math.round(1e4 * share) / 100;
  const holds = `For people like those it was fitted on: at most ${percent(rule.max_fpr)} % of minors are called over ${rule.age}, and at most ${percent(rule.max_fnr)} % of adults under ${rule.age}.`;
  return el("p", { class: "decision" }, el("strong", { id: "decision" }, text), el("span", { class: "small" }, holds));
}

/** Names of classes; what no bundle of ours names is numbered. */
export function classNames(classes: unknown, count: number): string[] {
  const known = Array.isArray(classes) && classes.length === count && classes.every((name) => typeof name === "string") ? (classes as string[]) : null;
  return Array.from({ length: count }, (_, place) => known?.[place]?.slice(0, 100) ?? `class ${place + 1}`);
}

function bars(names: string[], shares: number[], label: string): HTMLElement {
  const best = Math.max(...shares);
  const rows = shares.map((share, place) => {
    const fill = el("span", { class: "fill" });
    fill.style.width = `${(100 * share).toFixed(1)}%`;
    const attributes = share === best ? { class: "best" } : {};
    return el("li", attributes, el("span", {}, names[place] ?? ""), el("span", { class: "track" }, fill), el("span", { class: "number" }, percent(share)));
  });
  return el("ul", { class: "groups", "aria-label": label }, ...rows);
}

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

/** The likeliest class with its probability, and the five likeliest. */
export function classResult(job: Job, outputs: Tensors): HTMLElement {
  const shares = softmax(outputs["logits"] ?? []);
  const names = classNames(job.config["classes"], shares.length);
  const order = shares.map((_, place) => place).sort((one, other) => shares[other]! - shares[one]!).slice(0, 5);
  const [first] = order;
  const said = first === undefined || !Number.isFinite(shares[first]) ? ["–", ""] : [names[first] ?? "", ` ${percent(shares[first]!)}`];
  return el(
    "div",
    { class: "age" },
    el("p", { class: "years" }, el("strong", { id: "label" }, said[0]!), said[1]!),
    bars(order.map((place) => names[place] ?? ""), order.map((place) => shares[place]!), "Probability of the likeliest classes"),
  );
}

export function ageResult(job: Job, outputs: Tensors): HTMLElement {
  const age = outputs["expected_age"]?.[0];
  const shares = softmax(outputs["age_logits"] ?? []);
  const names = groupNames(job.config["age_edges"], shares.length);
  const shown = age === undefined || !Number.isFinite(age) ? "–" : age.toFixed(0);
  return el(
    "div",
    { class: "age" },
    el("p", { class: "years" }, el("strong", { id: "age" }, shown), " years"),
    decided(job, outputs["age_logits"] ?? []),
    "eyes" in ((job.config["preprocessing"] ?? {}) as object) ? null : el("p", { class: "soft small square" }, "This bundle does not say where the eyes belong, so the model saw the centre square."),
    bars(names, shares, "Probability of each age group"),
  );
}
