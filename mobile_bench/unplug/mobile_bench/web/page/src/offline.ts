// A service worker keeps the page and a generator's files, where the browser has one: then they need no network.

/** Sets it up before files are fetched, so that they pass through it; gives the line that tells the reader. */
export async function offline(noRoom: (line: string) => void): Promise<string> {
  if (!globalThis.isSecureContext) return "Without a network this page does not open again: browsers keep pages for that over https or localhost only.";
  const workers = (navigator as { serviceWorker?: ServiceWorkerContainer }).serviceWorker;
  if (workers === undefined) return "Without a network this page does not open again: this browser keeps no pages for that.";
  try {
    workers.addEventListener("message", () => noRoom("The browser has no room to keep these files: without a network this page will not draw."));
    workers.startMessages();
    await workers.register("sw.js");
    await workers.ready;
    if (workers.controller === null) await new Promise((resolve) => workers.addEventListener("controllerchange", resolve, { once: true }));
    return "This page and the files that were opened work without a network from now on.";
  } catch {
    return "Without a network this page does not open again: the browser refused to keep it.";
  }
}
