// Served by unplug bench, the page has a plan and posts its rows; else it waits for a bundle.
import { bundleOffer, type Files } from "./bundle";
import { Demo, showable } from "./demo/panel";
import { deviceFacts } from "./device";
import { Beat, postReport, postRow, servedOffer } from "./served";
import type { DeviceFacts, Offer, Plan } from "./types";
import { benchPanel, type Sink } from "./ui/bench";
import { byId, el, message } from "./ui/dom";
import { dropZone } from "./ui/drop";
import { type Tabs, tabs } from "./ui/tabs";

const asked = new URLSearchParams(location.search);

function alertLine(text: string | null): void {
  const line = byId("alert");
  line.hidden = text === null;
  line.textContent = text ?? "";
}

function offerDemo(offer: Offer, facts: DeviceFacts, bar: Tabs): void {
  const jobs = showable(offer.jobs, facts.webgpu === null);
  if (jobs.length === 0) return;
  const demo = new Demo(jobs);
  bar.offerDemo();
  bar.onLeaveDemo(() => demo.leave());
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

function dropped(facts: DeviceFacts, bar: Tabs): void {
  byId("lede").textContent = "Every file runs here, in your browser. Nothing is sent anywhere.";
  const take = async (files: Promise<Files>): Promise<void> => {
    alertLine(null);
    try {
      const offer = await bundleOffer(await files, changes());
      benchPanel(byId("bench"), offer, facts, fileSink);
      offerDemo(offer, facts, bar);
    } catch (error) {
      alertLine(message(error));
    }
  };
  byId("bench").replaceChildren(dropZone((files) => void take(files)));
}

async function main(): Promise<void> {
  const bar = tabs();
  byId("bench").replaceChildren(el("p", { class: "soft" }, "Looking at this device …"));
  try {
    const [offer, facts] = await Promise.all([servedOffer(), deviceFacts()]);
    if (offer === null) dropped(facts, bar);
    else await served(offer, facts, bar);
    document.documentElement.dataset["ready"] = "";
  } catch (error) {
    byId("bench").replaceChildren();
    alertLine(message(error));
  }
}

void main();
