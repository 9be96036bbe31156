// Over, under or unsure at an age: P(age >= T) out of the age groups, and the rule that a bundle's manifest carries.
const SCHEMA = "unplug-decision/1";

export type Answered = "over" | "under" | "unsure";

/** "over" from over_from on, "under" up to under_to, unsure between; the limits hold for people like those it was fitted on. */
export interface Decision {
  age: number;
  over_from: number;
  under_to: number;
  max_fpr: number;
  max_fnr: number;
  /** SHA-256 of the checkpoints and files that it was fitted on: about others it decides nothing. */
  models: string[];
}

/** p = sum over groups g of softmax(logits)_g * clip((high_g - T) / (high_g - low_g), 0, 1), in double precision. */
export function overProbability(logits: ArrayLike<number>, edges: number[], age: number): number {
  if (logits.length !== edges.length - 1) throw new Error(`${logits.length} logits for ${edges.length} borders of age groups`);
  const all = Array.from(logits);
  const top = Math.max(...all);
  let [above, total] = [0, 0];
  for (const [group, logit] of all.entries()) {
    const [low, high] = [edges[group]!, edges[group + 1]!];
    const weight = Math.exp(logit - top);
    total += weight;
    above += weight * Math.min(1, Math.max(0, (high - age) / (high - low)));
  }
  return above / total;
}

/** Anything but a number is unsure. */
export function answered(rule: Pick<Decision, "over_from" | "under_to">, over: number): Answered {
  return over >= rule.over_from ? "over" : over <= rule.under_to ? "under" : "unsure";
}

/** The rule of a manifest whose model has these groups; null where it carries none, an error where it is not to be used. */
export function readDecision(value: unknown, edges: unknown): Decision | null {
  if (value === undefined || value === null) return null;
  const said = value as Record<string, unknown>;
  const refuse = (why: string): never => {
    throw new Error(`the bundle's decision ${why}. Get another release`);
  };
  if (said["schema"] !== SCHEMA) refuse(`is not of version ${SCHEMA}`);
  const names = ["age", "over_from", "under_to", "max_fpr", "max_fnr"] as const;
  for (const name of names) if (typeof said[name] !== "number") refuse(`has no number ${name}`);
  const models = Array.isArray(said["models"]) ? (said["models"] as unknown[]).map((model) => (model as Record<string, unknown> | null)?.["sha256"]) : [null];
  if (!models.every((sha256) => typeof sha256 === "string")) refuse("names no models by their hashes");
  const rule = { ...Object.fromEntries(names.map((name) => [name, said[name]])), models } as Decision;
  if (!(rule.under_to < rule.over_from)) refuse("has ends that cross");
  if (!Array.isArray(edges) || !(edges[0] < rule.age && rule.age < edges[edges.length - 1])) refuse("is about an age of which no group speaks");
  return rule;
}
