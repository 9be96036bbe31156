// Drives a real Chromium over the page: node tests/browser.mjs '{"url": ..., "chromium": ..., "flags": [...], "steps": [...]}'.
// Each step is [name, ...arguments]; what it finds is printed as one JSON object, by the step's place.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const asked = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: asked.chromium, args: asked.flags, chromiumSandbox: false });
const context = await browser.newContext({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, ...asked.context });
if (asked.init) await context.addInitScript(asked.init);
const page = await context.newPage();
page.setDefaultTimeout(asked.timeout_ms ?? 60_000);

const origin = new URL(asked.url).origin;
const strangers = [];
const errors = [];
page.on("request", (request) => {
  const url = new URL(request.url());
  if (url.origin !== origin && !["blob:", "data:"].includes(url.protocol)) strangers.push(request.url());
});
page.on("pageerror", (error) => errors.push(String(error)));
page.on("console", (message) => message.type() === "error" && errors.push(message.text()));

const steps = {
  open: (path = "") => page.goto(asked.url + path).then(() => page.waitForSelector("html[data-ready], #alert:not([hidden])")),
  files: (selector, files) => page.setInputFiles(selector, files),
  click: (selector) => page.click(selector),
  fill: (selector, text) => page.fill(selector, text),
  choose: (selector, value) => page.selectOption(selector, value).then(() => null),
  offline: (on) => context.setOffline(on).then(() => null),
  // A line of the mouse over an element, in fractions of its sides.
  stroke: async (selector, points) => {
    await page.locator(selector).scrollIntoViewIfNeeded();
    const box = await page.locator(selector).boundingBox();
    const [first, ...rest] = points.map(([x, y]) => [box.x + x * box.width, box.y + y * box.height]);
    await page.mouse.move(...first);
    await page.mouse.down();
    for (const place of rest) await page.mouse.move(...place, { steps: 8 });
    await page.mouse.up();
  },
  press: (key) => page.keyboard.press(key),
  wait: (selector) => page.waitForSelector(selector, { state: "attached" }).then(() => null),
  until: (text) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), text).then(() => null),
  text: (selector) => page.innerText(selector),
  texts: (selector) => page.locator(selector).allInnerTexts(),
  evaluate: (code) => page.evaluate(code),
  scheme: (colorScheme) => page.emulateMedia({ colorScheme }).then(() => null),
  size: (width, height) => page.setViewportSize({ width, height }),
  top: () => page.evaluate(() => scrollTo(0, 0)),
  shot: (path, fullPage = false) => page.screenshot({ path, fullPage }).then(() => null),
  // Wider than the window: something would be cut off, or scroll sideways.
  overflow: () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
  axe: async () => {
    await page.evaluate(axe);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
  },
  download: async (selector, path) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
    await download.saveAs(path);
  },
};

const found = [];
const seconds = [];
try {
  for (const [name, ...given] of asked.steps) {
    const started = performance.now();
    const result = await steps[name](...given);
    seconds.push((performance.now() - started) / 1e3);
    found.push(result === undefined || typeof result?.status === "function" ? null : result);
  }
  console.log(JSON.stringify({ found, seconds, strangers, errors }));
} catch (error) {
  const text = await page.innerText("body").catch(() => "");
  console.log(JSON.stringify({ found, seconds, strangers, errors, failed: `${error.message}\nThe page says:\n${text.slice(0, 2000)}` }));
} finally {
  await browser.close();
}
