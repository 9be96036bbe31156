// The service worker: the page's own files at once, runtimes and a generator's files when they are first used.
// BUILD and SHELL are put in by the build.
const [PAGE, FILES] = [`page-${BUILD}`, "generator"];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(PAGE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith("page-") && name !== PAGE;
  const clean = caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name))));
  event.waitUntil(clean.then(() => self.clients.claim()));
});

/** Keeps an answer; the page is told where there is no room. */
async function keep(cache, key, response) {
  try {
    await cache.put(key, response);
  } catch {
    for (const client of await self.clients.matchAll()) client.postMessage("no room");
  }
}

/** Forgets files next to a pipeline.json, or to the card of a reader of marks, which it does not name any more. */
async function prune(cache, address, text) {
  const folder = new URL(".", address).href;
  const other = `${folder}mark-reader/`;
  for (const request of await cache.keys()) {
    const digest = new URL(request.url).searchParams.get("sha256");
    if (request.url.startsWith(folder) && !request.url.startsWith(other) && digest !== null && !text.includes(digest)) await cache.delete(request);
  }
}

/** The network first: what may change under its address. */
async function fresh(request, name, key) {
  const cache = await caches.open(name);
  try {
    const response = await fetch(request);
    if (response.ok) await keep(cache, key, response.clone());
    if (response.ok && name === FILES) await prune(cache, key, await response.clone().text());
    return response;
  } catch (error) {
    const kept = await cache.match(key);
    if (kept !== undefined) return kept;
    throw error;
  }
}

/** The cache first: what has a hash in its address, or belongs to this build. */
async function kept(request, name) {
  const cache = await caches.open(name);
  const known = await cache.match(request);
  if (known !== undefined) return known;
  const response = await fetch(request);
  if (response.ok) await keep(cache, request, response.clone());
  return response;
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  const scope = new URL(self.registration.scope);
  if (request.method !== "GET" || url.origin !== scope.origin || !url.pathname.startsWith(scope.pathname)) return;
  const path = url.pathname.slice(scope.pathname.length);
  if (url.searchParams.has("sha256")) event.respondWith(kept(request, FILES));
  else if (path === "" || path === "index.html") event.respondWith(fresh(request, PAGE, scope.href));
  else if (/(pipeline|mark-reader\/card)\.json$/.test(path)) event.respondWith(fresh(request, FILES, url.href));
  else if (/^(assets|runtimes)\//.test(path) || path === "icon.svg") event.respondWith(kept(request, PAGE));
});
