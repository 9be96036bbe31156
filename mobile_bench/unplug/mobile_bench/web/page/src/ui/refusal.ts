// The screen in the place of a model that must not be used: what is wrong, in words for people, and what to do.
import { InsecurePage, type Known, type Refusal } from "../guard";
import { Refused } from "../signed";
import { el, svg } from "./dom";

interface Words {
  title: string;
  means: string;
  todo: string;
}

const ASK = "Ask the sender of the file for the signed bundle, or open it with the app that it belongs to.";
const NEWEST = "Get the newest release from its publisher.";
const ALTERED: Words = {
  title: "This model was altered",
  means: "It is not what its publisher signed: a file was changed, added or left out, or the signature is damaged.",
  todo: "Do not use it. Download it again; if that does not help, tell its publisher.",
};
const REPLACED: Words = {
  title: "This model has been replaced",
  means: "A newer release took its place and this one no longer works, for example because somebody asked to be forgotten.",
  todo: NEWEST,
};
const UNKNOWN: Words = { title: "Signed by somebody unknown", means: "It was signed with a key that this page does not trust.", todo: ASK };
const WITHDRAWN: Words = { title: "This model was withdrawn", means: "Its publisher took it back and asks that nobody uses it any more.", todo: NEWEST };
const UNSURE: Words = {
  title: "Is this model still current?",
  means: "This page keeps in your browser which releases it saw, and cannot read or write that now.",
  todo: "Let this page keep data in your browser, then check again.",
};

const OF_BUNDLES: Record<string, Words> = {
  unsigned: { title: "This model is not signed", means: "Nobody vouches for it, so this page does not run it.", todo: ASK },
  "unknown-key": UNKNOWN,
  certificate: UNKNOWN,
  "no-bundle": { title: "This is not a bundle", means: "There is no manifest in it that says what it is and who made it.", todo: "Choose the whole folder or zip file of a signed bundle." },
  "another-product": { title: "This is another model", means: "It is signed, but for something else than this page shows.", todo: "Choose the bundle that belongs to this page." },
  expired: { title: "This model has expired", means: "Its publisher set a date until when it may be used, and that date is over.", todo: NEWEST },
  revoked: WITHDRAWN,
  superseded: REPLACED,
  downgraded: REPLACED,
};
const INSECURE: Words = {
  title: "This page cannot check models",
  means: "It was changed after it was made, or it did not come over a safe connection.",
  todo: "Open it over https, or ask its operator to put it up again.",
};

function wordsOf({ why }: Refusal): Words {
  if (why instanceof InsecurePage) return INSECURE;
  return why instanceof Refused ? (OF_BUNDLES[why.verdict] ?? ALTERED) : UNSURE;
}

function verdictOf({ why }: Refusal): string {
  return why instanceof Refused ? why.verdict : why instanceof InsecurePage ? "insecure-page" : "error";
}

const row = (name: string, value: string): HTMLElement => el("div", {}, el("dt", {}, name), el("dd", {}, value));

function details(refusal: Refusal, now: number): HTMLElement {
  const { known } = refusal;
  const rows = [row("Reason", `${refusal.message} (${verdictOf(refusal)})`), ...(known === null ? [] : ofBundle(known)), row("Checked", new Date(now).toLocaleString())];
  return el("details", {}, el("summary", {}, "Details"), el("dl", { class: "facts" }, ...rows));
}

function ofBundle({ publication, id, hint }: Known): HTMLElement[] {
  return [row("Model", `${publication.name}, release ${publication.release}`), row("Bundle", id.slice(0, 16)), row("Key", hint.slice(0, 16))];
}

function barred(): SVGElement {
  const shield = "M16 3.5 27 7.5v8c0 6.4-4.6 10.8-11 13-6.4-2.2-11-6.6-11-13v-8z";
  const stroke = { fill: "none", stroke: "currentColor", "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round" };
  return svg("svg", { viewBox: "0 0 32 32", class: "shield", "aria-hidden": "true" }, svg("path", { d: shield, ...stroke }), svg("path", { d: "m12 12 8 8m0-8-8 8", ...stroke }));
}

/** Shows the refusal in a panel, and nothing else of a model. */
export function refusalScreen(panel: HTMLElement, refusal: Refusal, again: (() => void) | null, another: HTMLElement | null): void {
  const words = wordsOf(refusal);
  const title = el("h2", { tabindex: -1, id: "refused" }, words.title);
  // Storage may be let in again; no check makes a file another one.
  const buttons = again === null || words !== UNSURE ? null : el("button", { class: "button", type: "button", id: "again", click: again }, "Check again");
  panel.replaceChildren(
    el(
      "section",
      { class: "refusal", role: "alert", "data-verdict": verdictOf(refusal) },
      barred(),
      title,
      el("p", {}, words.means),
      el("p", { class: "todo" }, words.todo),
      buttons,
      details(refusal, Date.now()),
    ),
    ...(another === null ? [] : [another]),
  );
  title.focus();
}
