// The board: three lists that are read once and again whenever the stream of events says that something happened.
const $ = (id) => document.getElementById(id);
const PAGE = 100, SOON = 7, MOST_RELEASES = 8;
let token = sessionStorage.getItem("token") ?? "";
let shown = PAGE, last = "0-0", stages = {}, stop = null;

class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

async function call(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { authorization: `Bearer ${token}`, ...options.headers } });
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, said.detail ?? `the server answered ${answer.status}`);
  }
  return answer;
}

const read = async (path) => (await call(path)).json();
const allowed = async (path, otherwise) => {
  try { return await read(path); } catch (error) {
    if (error.status === 403) return otherwise;
    throw error;
  }
};

function make(kind, text, ...classes) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (classes.length) made.className = classes.join(" ");
  return made;
}

const day = (text) => new Date(`${text}T00:00:00Z`).toLocaleDateString(undefined, { dateStyle: "medium", timeZone: "UTC" });
const moment = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

function requestRow(item) {
  const row = document.createElement("tr");
  const left = item.days_left;
  const name = document.createElement("td");
  name.append(make("span", item.id, "id"));
  const state = document.createElement("td");
  state.append(make("span", item.state, "mark", item.state));
  const days = make("td", undefined, "number");
  if (left === null) days.textContent = "–";
  else if (left < 0) days.append(make("span", `${-left} late`, "mark", "late"));
  else if (left <= SOON) days.append(make("span", String(left), "mark", "soon"));
  else days.textContent = String(left);
  const due = make("td", day(item.due) + (item.extended ? " (extended)" : ""));
  row.append(name, state, make("td", day(item.received)), due, days, make("td", String(item.names), "number"));
  return row;
}

function releaseRow(job) {
  const row = document.createElement("li");
  const top = make("div", undefined, "top");
  const many = job.requests.length;
  top.append(make("span", job.state, "mark", job.state));
  top.append(make("span", many ? `${many} ${many === 1 ? "request" : "requests"}` : "covers what is open when it begins"));
  top.append(make("span", moment(job.finished ?? job.started ?? job.created), "when"));
  row.append(top);
  const stage = stages[job.id];
  if (job.state === "running") {
    const bar = document.createElement("progress");
    if (stage) { bar.max = stage.total; bar.value = stage.done; }
    row.append(bar, make("p", stage ? stage.stage : "it begins", "more"));
  }
  if (job.error) row.append(make("p", job.error, "more"));
  row.append(make("p", [job.id, ...job.files].join(" · "), "more", "id"));
  return row;
}

async function waiting() {
  const page = await read(`/deadlines?within=3660`);
  return { items: page.requests, more: page.waiting > page.requests.length };
}

async function all() {
  const page = await read(`/requests?limit=${Math.min(shown, 500)}`);
  return { items: page.requests, more: page.next !== null && shown < 500 };
}

async function refresh() {
  const [due, jobs, models, list] = await Promise.all([
    read(`/deadlines?within=${SOON}`), read(`/releases?limit=${MOST_RELEASES}`), allowed("/models", { models: [] }),
    $("which").value === "all" ? all() : waiting(),
  ]);
  const soon = due.soon - due.late;
  $("late").textContent = due.late;
  $("late").parentElement.classList.toggle("alarm", due.late > 0);
  $("soon").textContent = soon;
  $("waiting").textContent = due.waiting;
  const model = models.models[0];
  $("model").textContent = model?.name ?? "–";
  $("model-more").textContent = model ? `${model.sha256.slice(0, 12)} answers since ${moment(model.since)}` : "no model is served";
  $("requests").replaceChildren(...list.items.slice(0, shown).map(requestRow));
  $("none").hidden = list.items.length > 0;
  $("more").hidden = !(list.more || list.items.length > shown);
  $("releases").replaceChildren(...(jobs.jobs.length ? jobs.jobs.map(releaseRow) : [make("li", "No release yet.", "more")]));
  $("start").disabled = jobs.jobs.some((job) => job.state === "queued");
  $("state").textContent = `as of ${new Date().toLocaleTimeString()}`;
}

// EventSource sends no Authorization header; the form of its stream is simple enough to read.
async function follow(signal) {
  const answer = await call("/events", { headers: { "last-event-id": last }, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    let news = false;
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s)));
      if (!fields.data) continue;
      last = fields.id;
      const data = JSON.parse(fields.data);
      if (fields.event === "progress") stages[data.job] = data;
      news = true;
    }
    if (news) await refresh();
  }
}

const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function live() {
  const mine = stop = new AbortController();
  while (!mine.signal.aborted) {
    try {
      await refresh();
      await follow(mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.status === 401) return signOut("This token is not valid.");
      $("state").textContent = `${error.status ? error.message : "the server cannot be reached"}; trying again`;
      await pause(3);
    }
  }
}

function signOut(why = "") {
  stop?.abort();
  sessionStorage.removeItem("token");
  token = "";
  $("board").hidden = $("out").hidden = true;
  $("sign-in").hidden = false;
  $("refused").textContent = why;
  $("refused").hidden = !why;
  $("state").textContent = "not signed in";
}

async function signIn() {
  try {
    await refresh();
  } catch (error) {
    return signOut(error.status === 401 ? "This token is not valid." : error.message);
  }
  sessionStorage.setItem("token", token);
  $("sign-in").hidden = true;
  $("board").hidden = $("out").hidden = false;
  live();
}

$("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  signIn();
});
$("out").addEventListener("click", () => signOut());
$("which").addEventListener("change", () => { shown = PAGE; refresh(); });
$("more").addEventListener("click", () => { shown += PAGE; refresh(); });
$("start").addEventListener("click", async () => {
  try {
    await call("/releases", { method: "POST" });
    $("start-said").textContent = "";
  } catch (error) { $("start-said").textContent = error.message; }
  await refresh();
});
setInterval(() => { if (token && !$("board").hidden) refresh().catch(() => {}); }, 15000);
if (token) signIn();
