// Three ways in: a plan that unplug bench serves, a generator next to the page (generator/, or ?generator=FOLDER/), or files that are dropped.
import { bundleOffer, unwrapped } from "./bundle";
import { chooseMember, FRAME_MS, timedHere } from "./demo/family";
import { Demo, showable } from "./demo/panel";
import { deviceFacts } from "./device";
import { fromAddress, fromFiles, type Generator, isGenerator, openGenerator, type ReadFile, withCards } from "./draw/source";
import { PIPELINE } from "./draw/pipeline";
import { type Dropped, readAll } from "./dropped";
import { Guard, type Passed, Refusal } from "./guard";
import { offline } from "./offline";
import { Beat, postReport, postRow, servedOffer } from "./served";
import { Studio } from "./studio/studio";
import type { DeviceFacts, Offer, Plan } from "./types";
import { benchPanel, type Sink } from "./ui/bench";
import { byId, el, message } from "./ui/dom";
import { dropZone, SIGNED_ONLY } from "./ui/drop";
import { refusalScreen } from "./ui/refusal";
import { type Tabs, tabs } from "./ui/tabs";
import { readZip } from "./zip";

const asked = new URLSearchParams(location.search);
const MOST_THREADS = 4;
const BESIDE = "generator/";

function alertLine(text: string | null): void {
  const line = byId("alert");
  line.hidden = text === null;
  line.textContent = text ?? "";
}

const wrong = (panel: string, error: unknown): void => byId(panel).replaceChildren(el("p", { class: "alert", role: "alert" }, message(error)));

function offerDemo(offer: Offer, facts: DeviceFacts, bar: Tabs): void {
  const jobs = showable(offer.jobs, facts.webgpu === null);
  if (jobs.length === 0) return;
  let demo: Demo | null = null;
  // Chosen again each time: the benchmark may have changed which member of a family fits.
  bar.onEnter("demo", () => {
    try {
      const member = offer.family && chooseMember(timedHere(offer.family, offer.jobs), FRAME_MS);
      const told = member && `The member ${member.name} answers: the best of its family that takes at most ${FRAME_MS} ms.`;
      if (demo?.member === told) return;
      const own = jobs.filter(({ model_sha256 }) => member === null || model_sha256 === member.checkpoint_sha256);
      if (own.length === 0) throw new Error(`no file of the member ${member?.name} runs here`);
      demo = new Demo(own, told);
    } catch (error) {
      demo = null;
      wrong("demo", error);
    }
  });
  bar.offer("demo");
  bar.onLeave("demo", () => demo?.leave());
}

function serverSink(beat: Beat): Sink {
  return {
    download: false,
    progress: (share, text) => beat.say(share, text),
    row: (job, row) => postRow(job.number, row),
    report: async (report) => {
      beat.stop();
      await postReport(report);
      return "Report sent. You may close this page.";
    },
  };
}

const fileSink: Sink = {
  download: true,
  progress: () => undefined,
  row: () => Promise.resolve(),
  report: () => Promise.resolve("Done. The report stays here until you download it."),
};

async function served(offer: Offer & { auto: boolean }, facts: DeviceFacts, bar: Tabs): Promise<void> {
  const beat = new Beat();
  const run = benchPanel(byId("bench"), offer, facts, serverSink(beat));
  offerDemo(offer, facts, bar);
  if (offer.auto || asked.has("auto")) await run();
}

/** Settings of a plan that a static page takes from its address: ?repeats=3&iterations=20&warmup=2. */
function changes(): Partial<Plan> {
  const whole = (name: string, low: number, high: number): number | undefined => {
    const value = Number(asked.get(name) ?? NaN);
    return Number.isInteger(value) && value >= low && value <= high ? value : undefined;
  };
  const found = { starts: whole("repeats", 1, 100), iterations: whole("iterations", 1, 10_000), warmup: whole("warmup", 0, 1000) };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

const BY_HASH = "every file is checked against its SHA-256 in pipeline.json; no signature was checked.";

/** A generator draws; its parts can be timed one by one. */
async function drawing(read: ReadFile, facts: DeviceFacts, bar: Tabs, notes: string[]): Promise<void> {
  const generator = await openGenerator(read);
  const threads = Math.min(navigator.hardwareConcurrency || 1, MOST_THREADS);
  const [first = "", ...more] = notes;
  const studio = new Studio(byId("draw"), generator, facts, threads, [`${generator.pipeline.name}: ${first}`, ...more]);
  document.documentElement.dataset["page"] = "draw";
  byId("title").textContent = "Draw on this device";
  byId("lede").textContent = "Words in, a picture out. All of it happens here, in your browser: no word and no picture leaves this device.";
  bar.offer("draw");
  bar.select("draw");
  bar.onLeave("draw", () => studio.leave());
  offerParts(generator, studio, facts, bar);
}

function offerParts(generator: Generator, studio: Studio, facts: DeviceFacts, bar: Tabs): void {
  let known = "";
  bar.onEnter("bench", () => {
    const { target, precision } = studio.files;
    if (known === `${target} ${precision}`) return;
    known = `${target} ${precision}`;
    byId("bench").replaceChildren(el("p", { class: "soft" }, "Reading the parts …"));
    void withCards(generator, target, precision)
      .then((files) => bundleOffer(files, changes()))
      .then((offer) => benchPanel(byId("bench"), offer, facts, fileSink))
      .catch((error: unknown) => {
        known = "";
        wrong("bench", error);
      });
  });
}

function dropped(facts: DeviceFacts, bar: Tabs): void {
  byId("lede").textContent = "Every file runs here, in your browser. Nothing is sent anywhere.";
  const take = async (files: Promise<Dropped>): Promise<void> => {
    alertLine(null);
    try {
      const found = await files;
      if (isGenerator(found.keys())) return await drawing(fromFiles(found), facts, bar, [BY_HASH, "Files that were dropped are not kept: drop them again next time."]);
      const offer = await bundleOffer(await readAll(found), changes());
      benchPanel(byId("bench"), offer, facts, fileSink);
      offerDemo(offer, facts, bar);
    } catch (error) {
      alertLine(message(error));
    }
  };
  byId("bench").replaceChildren(dropZone((files) => void take(files)));
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The check that comes again: the page opens anew when the bundle expires. */
function watch({ ends }: Passed): void {
  if (ends !== null) setTimeout(() => location.reload(), Math.min(Math.max(ends - Date.now(), 0), LONGEST_TIMER_MS));
}

/** A page made with --trust: the bundle next to it, or one that is dropped; nothing runs that was not checked. */
function guarded(guard: Guard, facts: DeviceFacts, bar: Tabs): Promise<void> {
  byId("lede").textContent = "Only models that their publisher signed run here, and none that is older than one that ran here before. Nothing is sent anywhere.";
  const panel = byId("bench");
  const drop = (): HTMLElement => dropZone((files) => void take(() => files.then(readAll)), SIGNED_ONLY);
  const take = async (read: () => Promise<Map<string, Uint8Array<ArrayBuffer>>>): Promise<void> => {
    alertLine(null);
    bar.only("bench");
    panel.replaceChildren(el("p", { class: "soft" }, "Checking the signature …"));
    try {
      const passed = await guard.check(unwrapped(await read()));
      watch(passed);
      if (passed.files.has(PIPELINE)) {
        const files = new Map([...passed.files].map(([path, bytes]) => [path, new Blob([bytes])]));
        return await drawing(fromFiles(files), facts, bar, passed.notes);
      }
      const offer = await bundleOffer(passed.files, changes(), passed.notes);
      benchPanel(panel, offer, facts, fileSink);
      offerDemo(offer, facts, bar);
    } catch (error) {
      if (error instanceof Refusal) return refusalScreen(panel, error, () => void take(read), drop());
      panel.replaceChildren(drop());
      alertLine(message(error));
    }
  };
  return guard.bundle().then((bytes) => (bytes === null ? panel.replaceChildren(drop()) : take(() => readZip(bytes))));
}

/** A generator that lies next to the page opens by itself. */
async function besides(): Promise<string | null> {
  const response = await fetch(`${BESIDE}${PIPELINE}`, { cache: "no-cache" }).catch(() => null);
  return response?.ok && response.headers.get("content-type")?.includes("json") ? BESIDE : null;
}

async function start(bar: Tabs): Promise<void> {
  const guard = await Guard.open();
  if (guard !== null) return guarded(guard, await deviceFacts(), bar);
  const given = asked.get("generator");
  const [facts, offer] = await Promise.all([deviceFacts(), given === null ? servedOffer() : null]);
  if (offer !== null) return served(offer, facts, bar);
  const address = given ?? (await besides());
  if (address === null) return dropped(facts, bar);
  byId("bench").replaceChildren(el("p", { class: "soft" }, "Opening the generator …"));
  await drawing(fromAddress(address, document.baseURI), facts, bar, [BY_HASH, await offline(alertLine)]);
}

async function main(): Promise<void> {
  const bar = tabs();
  bar.offer("bench");
  byId("bench").replaceChildren(el("p", { class: "soft" }, "Looking at this device …"));
  try {
    await start(bar);
    document.documentElement.dataset["ready"] = "";
  } catch (error) {
    if (error instanceof Refusal) {
      refusalScreen(byId("bench"), error, null, null);
      document.documentElement.dataset["ready"] = "";
      return;
    }
    byId("bench").replaceChildren();
    alertLine(message(error));
  }
}

void main();
