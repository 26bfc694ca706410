// The page: send a table, see what it is, fill or forecast it. What came out is in result.js.
import { $, count, made, options, percent, problem, short } from "./nodes.js";
import { ask, query, sent } from "./server.js";
import { fieldIn, inFields, makeReading } from "./reading.js";
import { drawMaps } from "./map.js";
import { drawGaps, paintGaps } from "./gaps.js";
import { drawPlaces, hideResult, showResult, shown } from "./result.js";

const PATIENCE = 20, BETWEEN = 500;  // questions without an answer, and milliseconds between two
let table = null, job = null, lastFile = null;
let sendings = 0;  // only the last table that was sent is shown
let turn = 0;  // answers about a table that was left are not shown any more
let followed = 0;  // nor those about a job that is not followed any more

const goes = () => job && (job.state === "waiting" || job.state === "running");

const remember = () => {
  const parts = new URLSearchParams();
  if (table) parts.set("table", table.id);
  if (job) parts.set("job", job.id);
  history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname);
};

// --- 1. sending -------------------------------------------------------------------------------
const receive = async (work, words) => {  // what there was stays until another table is understood
  const mine = ++sendings;
  problem($("problem"), "");
  $("sending").textContent = words;
  $("again").hidden = true;
  try {
    const told = await work();
    if (mine !== sendings) return;
    turn++;
    forgetJob();
    problem($("failure"), "");
    table = told;
    understood();
    remember();
  } catch (bad) {
    if (mine !== sendings) return;
    problem($("problem"), inFields(bad.message));
    if (lastFile && bad.status === 422 && fieldIn(bad.message)) offerReading(fieldIn(bad.message));
  } finally {
    if (mine === sendings) $("sending").textContent = "";
  }
};

const send = (file, reading) => {
  lastFile = file;
  const given = query({ name: file.name, options: reading ? JSON.stringify(reading) : null });
  return receive(async () => {
    await file.slice(0, 1).arrayBuffer().catch(() => {
      throw new Error(`${file.name} has changed or gone since it was chosen. Choose it again`);
    });
    return ask(`/api/tables?${given}`, { method: "POST", body: file });
  }, `reading ${file.name} ...`);
};

const tellWrong = (text) => {
  problem($("problem"), inFields(text));
  $("problem").scrollIntoView({ block: "center" });
};

const offerReading = (field) => {  // what could not be understood can be said
  const button = made("button", "Say how it is to be read", { type: "button" });
  button.addEventListener("click", () => {
    makeReading($("again"), { columns: [], options: {} }, (reading) => send(lastFile, reading), tellWrong);
    $("again").hidden = false;
    button.remove();
    $("again").elements[field].focus();
  });
  $("problem").append(document.createElement("br"), button);
};

$("file").addEventListener("change", () => {
  const file = $("file").files[0];
  $("file").value = "";  // the same one, mended, may be chosen again
  if (file) send(file);
});
$("example").addEventListener("click", () => {
  lastFile = null;
  receive(() => ask("/api/tables/example", { method: "POST" }), "reading the example ...");
});
for (const name of ["dragover", "dragenter"]) {
  $("drop").addEventListener(name, (event) => { event.preventDefault(); $("drop").classList.add("over"); });
}
$("drop").addEventListener("dragleave", () => $("drop").classList.remove("over"));
for (const name of ["dragover", "drop"]) {  // a file that misses the box does not replace the page
  document.addEventListener(name, (event) => event.preventDefault());
}
$("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
  if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
});

// --- 2. what it is ----------------------------------------------------------------------------
const understood = () => {
  $("understood").hidden = $("ask").hidden = false;
  const cells = table.measurements.reduce((sum, one) => sum + one.cells, 0);
  const missing = table.measurements.reduce((sum, one) => sum + one.missing, 0);
  const facts = [
    [table.name, table.layout],
    [count(table.steps, "time step"), `of ${table.step}, ${short(table.first)} to ${short(table.last)}`],
    [count(table.stations.length, "station"), table.stations[0].lat === null ? "without coordinates" : "with coordinates"],
    [count(table.measurements.length, "measurement"),
      table.measurements.map((one) => one.name + (one.units ? ` (${one.units})` : "")).join(", ")],
    [`${percent(missing / cells)} missing`, `${missing.toLocaleString("en")} of ${cells.toLocaleString("en")} cells`],
  ];
  $("facts").replaceChildren(...facts.map(([head, more]) => {
    const box = made("div");
    box.append(made("b", head), made("span", more, { class: "soft" }));
    return box;
  }));
  $("notes").replaceChildren(...[...table.notes, ...table.warnings].map((text) => made("li", text)));
  $("longest").textContent = table.longest_gaps.length ? `Longest gaps: ${table.longest_gaps.slice(0, 3).map((gap) =>
    `${gap.measurement} at ${gap.location}, ${count(gap.steps, "step")} from ${short(gap.first)}`).join("; ")}.` : "";
  const kinds = table.measurements.map((one) => one.name);
  $("gap-kind").replaceChildren(new Option("all measurements", ""), ...kinds.map((name) => new Option(name, name)));
  options($("station"), table.stations.map((one) => one.name));
  options($("kind"), kinds);
  makeReading($("reading"), table, readAgain, tellWrong);
  drawMaps(table);
  drawGaps(table);
};

const readAgain = async (reading) => {
  const mine = turn, before = job;
  problem($("problem"), "");
  problem($("failure"), "");
  job = null;  // if it can be read so, the job goes with the old reading
  followed++;
  $("cancel").disabled = true;
  mayBegin(false);  // and so would what is begun now
  try {
    const told = await sent(`/api/tables/${table.id}/options`, reading, "PUT");
    if (mine !== turn) return;
    table = told;
    forgetJob();
    understood();
  } catch (bad) {
    if (mine !== turn) return;
    tellWrong(bad.message);
    job ??= before;
    if (goes()) follow();
    else busy(false);
  }
  remember();
};

$("gap-kind").addEventListener("change", () => drawGaps(table));

// --- 3. what to do ----------------------------------------------------------------------------
const forgetJob = () => {  // one that nobody will look at any more
  if (goes()) ask(`/api/jobs/${job.id}`, { method: "DELETE" }).catch(() => {});
  job = null;
  followed++;
  hideResult();
  busy(false);
};

const startJob = async (path, body) => {
  if (!$("progress").hidden) return;
  const mine = turn;
  problem($("failure"), "");
  job = null;
  hideResult();
  drawMaps(table);
  $("doing").textContent = "beginning";
  $("elapsed").textContent = "";
  busy(true);
  try {
    const told = await sent(`/api/tables/${table.id}/${path}`, body);
    if (mine !== turn) {  // its table was left
      ask(`/api/jobs/${told.id}`, { method: "DELETE" }).catch(() => {});
      return;
    }
    job = told;
    remember();
    follow();
  } catch (bad) {
    if (mine !== turn) return;
    busy(false);
    problem($("failure"), inFields(bad.message));
  }
};

const asked = () => ({
  minutes: $("minutes").value ? Number($("minutes").value) : null, interval: Number($("interval").value),
});
$("do").addEventListener("submit", (event) => {
  event.preventDefault();
  startJob("fill", { ...asked(), method: $("method").value, at: $("at").value.trim() || null });
});
$("ahead").addEventListener("submit", (event) => {
  event.preventDefault();
  const known = $("known").value.split(",").map((name) => name.trim()).filter(Boolean);
  startJob("forecast", { ...asked(), method: $("forecaster").value, horizon: Number($("steps").value), known_covariates: known });
});
$("cancel").addEventListener("click", async () => {
  if (!job) return;
  $("cancel").disabled = true;
  try {
    await ask(`/api/jobs/${job.id}`, { method: "DELETE" });
  } catch (bad) {
    problem($("failure"), bad.message);
    $("cancel").disabled = false;
  }
});

const mayBegin = (yes) => {
  for (const button of document.querySelectorAll("#do button, #ahead button")) button.disabled = !yes;
};
const busy = (on) => {
  $("progress").hidden = !on;
  mayBegin(!on);
  $("cancel").disabled = !job;
};

const elapsed = () => {  // how long it has been, and how long the training will still be
  if (job.seconds < 1) return "";
  const now = `${Math.round(job.seconds)} s`;
  if (!job.progress || job.progress < 0.03) return now;
  const left = job.seconds * (1 / job.progress - 1);
  return `${now}, ${left < 90 ? `about ${Math.ceil(left / 5) * 5} s` : `about ${Math.ceil(left / 60)} min`} left`;
};

const follow = async () => {
  const mine = ++followed, { id } = job;
  let failures = 0;
  busy(true);
  while (goes()) {
    const [what, step] = job.status.split(", step ");  // numbers are not read out again and again
    const words = job.state !== "waiting" ? what
      : job.queue_position ? `waiting: ${count(job.queue_position, "job")} before this one` : "beginning";
    if ($("doing").textContent !== words) $("doing").textContent = words;
    $("elapsed").textContent = [step && `step ${step}`, elapsed()].filter(Boolean).join(", ");
    if (job.progress === null) $("bar").removeAttribute("value");
    else $("bar").value = job.progress;
    await new Promise((done) => setTimeout(done, BETWEEN));
    if (mine !== followed) return;
    let told = null;
    try {
      told = await ask(`/api/jobs/${id}`);
      failures = 0;
    } catch (bad) {
      if (mine !== followed) return;
      if (bad.status !== 404 && ++failures < PATIENCE) continue;  // it may be back in a moment
      busy(false);
      problem($("failure"), bad.message);
      return;
    }
    if (mine !== followed) return;
    job = told;
  }
  busy(false);
  if (job.state === "failed") problem($("failure"), inFields(job.error));
  else if (job.state === "cancelled") problem($("failure"), "cancelled");
  else showResult(table, job);
  if (document.activeElement === document.body) (shown() ? $("h-result") : $("fill")).focus({ preventScroll: true });
};

// --- beginning --------------------------------------------------------------------------------
const redraw = () => {
  if (!table) return;
  if (shown()) drawPlaces();
  else drawMaps(table);
  paintGaps();
};
window.addEventListener("resize", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

const offerMethods = (methods) => {
  const there = methods.filter((one) => one.installed);
  const option = (one) => new Option(`${one.name}${one.trains ? " (network)" : ""}`, one.name);
  $("method").replaceChildren(new Option("auto: whichever is best", "auto"),
    ...there.filter((one) => one.task.includes("fill")).map(option));
  const ahead = there.filter((one) => one.task.includes("forecast"));
  $("forecaster").replaceChildren(...ahead.map(option));
  if (ahead.some((one) => one.name === "cdsa")) $("forecaster").value = "cdsa";
};

const begin = async () => {
  try {
    const [health, methods] = await Promise.all([ask("/api/health"), ask("/api/methods")]);
    $("megabytes").textContent = health.megabytes;
    $("keep").textContent = `${health.keep_minutes} minutes`;
    $("minutes").max = health.training_minutes;
    offerMethods(methods);
  } catch (bad) {
    problem($("problem"), bad.message);
    return;
  }
  const before = new URLSearchParams(location.hash.slice(1)), mine = turn;
  if (!before.get("table")) return;
  try {  // a page that was reloaded goes on where it was
    const told = await ask(`/api/tables/${encodeURIComponent(before.get("table"))}`);
    if (mine !== turn) return;
    table = told;
    understood();
    if (!before.get("job")) return;
    const under = await ask(`/api/jobs/${encodeURIComponent(before.get("job"))}`);
    if (mine !== turn) return;
    job = under;
    follow();
  } catch (bad) {
    if (mine !== turn) return;
    problem($("problem"), bad.message);
    if (!table) remember();
  }
};
begin();
