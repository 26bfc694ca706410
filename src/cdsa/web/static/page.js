// The page: upload a table, check what was read, fill or forecast it. The result is in result.js.
import { $, count, element, formatTime, percent, setChoices, showProblem } from "./dom.js";
import { queryString, remove, request, sendJson } from "./api.js";
import { fieldNamedIn, makeOptionsForm, withLabels } from "./options.js";
import { drawMaps } from "./map.js";
import { drawGaps, loadGaps } from "./gaps.js";
import { drawResultMaps, hideResult, isShown, showResult } from "./result.js";

const MAX_FAILURES = 20, POLL_MILLISECONDS = 500;
let table = null, job = null, lastFile = null;
let uploads = 0;  // only the last upload is shown
let tableVersion = 0;  // responses about a replaced table are ignored
let pollers = 0;  // only the last poller may change the page

const isActive = () => job && (job.state === "waiting" || job.state === "running");

const storeInAddress = () => {
  const parts = new URLSearchParams();
  if (table) parts.set("table", table.id);
  if (job) parts.set("job", job.id);
  history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname);
};

// --- 1. upload --------------------------------------------------------------------------------
const loadTable = async (load, status) => {  // the current table stays until the new one is read
  const id = ++uploads;
  showProblem($("problem"), "");
  $("upload-status").textContent = status;
  $("retry-options").hidden = true;
  try {
    const summary = await load();
    if (id !== uploads) return;
    tableVersion++;
    discardJob();
    showProblem($("failure"), "");
    table = summary;
    showSummary();
    storeInAddress();
  } catch (error) {
    if (id !== uploads) return;
    showProblem($("problem"), withLabels(error.message));
    const field = fieldNamedIn(error.message);
    if (lastFile && error.status === 422 && field) offerOptions(field);
  } finally {
    if (id === uploads) $("upload-status").textContent = "";
  }
};

const upload = (file, options) => {
  lastFile = file;
  const query = queryString({ name: file.name, options: options ? JSON.stringify(options) : null });
  return loadTable(async () => {
    await file.slice(0, 1).arrayBuffer().catch(() => {
      throw new Error(`${file.name} has been changed or moved since you chose it. Choose it again`);
    });
    return request(`/api/tables?${query}`, { method: "POST", body: file });
  }, `reading ${file.name} ...`);
};

const showOptionsError = (text) => {
  showProblem($("problem"), withLabels(text));
  $("problem").scrollIntoView({ block: "center" });
};

const offerOptions = (field) => {  // what was not detected can be entered
  const button = element("button", "Enter read options", { type: "button" });
  button.addEventListener("click", () => {
    const empty = { columns: [], options: {} };
    makeOptionsForm($("retry-options"), empty, (options) => upload(lastFile, options));
    $("retry-options").hidden = false;
    button.remove();
    $("retry-options").elements[field].focus();
  });
  $("problem").append(document.createElement("br"), button);
};

$("file").addEventListener("change", () => {
  const file = $("file").files[0];
  $("file").value = "";  // the same file may be chosen again after a correction
  if (file) upload(file);
});
$("example").addEventListener("click", () => {
  lastFile = null;
  loadTable(() => request("/api/tables/example", { method: "POST" }), "reading the example ...");
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
  if (event.dataTransfer.files[0]) upload(event.dataTransfer.files[0]);
});

// --- 2. what was read -------------------------------------------------------------------------
const showSummary = () => {
  $("summary").hidden = $("task").hidden = false;
  const { measurements, stations } = table;
  const nCells = measurements.reduce((sum, measurement) => sum + measurement.cells, 0);
  const nMissing = measurements.reduce((sum, measurement) => sum + measurement.missing, 0);
  const facts = [
    [table.name, table.layout],
    [count(table.steps, "time step"), `of ${table.step}, ${formatTime(table.first)} to ${formatTime(table.last)}`],
    [count(stations.length, "station"), stations[0].lat === null ? "without coordinates" : "with coordinates"],
    [count(measurements.length, "measurement"),
      measurements.map(({ name, units }) => name + (units ? ` (${units})` : "")).join(", ")],
    [`${percent(nMissing / nCells)} missing`,
      `${nMissing.toLocaleString("en")} of ${nCells.toLocaleString("en")} cells`],
  ];
  $("facts").replaceChildren(...facts.map(([head, text]) => {
    const box = element("div");
    box.append(element("b", head), element("span", text, { class: "soft" }));
    return box;
  }));
  $("notes").replaceChildren(...[...table.notes, ...table.warnings].map((text) => element("li", text)));
  const longest = table.longest_gaps.slice(0, 3).map((gap) =>
    `${gap.measurement} at ${gap.location}, ${count(gap.steps, "step")} from ${formatTime(gap.first)}`);
  $("longest-gaps").textContent = longest.length ? `Longest gaps: ${longest.join("; ")}.` : "";
  const names = measurements.map((measurement) => measurement.name);
  $("gap-measurement").replaceChildren(
    new Option("all measurements", ""), ...names.map((name) => new Option(name, name)));
  setChoices($("station"), stations.map((station) => station.name));
  setChoices($("measurement"), names);
  makeOptionsForm($("options"), table, changeOptions);
  drawMaps(table);
  loadGaps(table);
};

const changeOptions = async (options) => {
  const version = tableVersion, before = job;
  showProblem($("problem"), "");
  showProblem($("failure"), "");
  job = null;  // the server removes the job if the table can be read
  pollers++;
  $("cancel").disabled = true;
  allowJobs(false);  // a job that started now would be removed as well
  try {
    const summary = await sendJson(`/api/tables/${table.id}/options`, options, "PUT");
    if (version !== tableVersion) return;
    table = summary;
    discardJob();
    showSummary();
  } catch (error) {
    if (version !== tableVersion) return;
    showOptionsError(error.message);
    job ??= before;
    if (isActive()) poll();
    else setBusy(false);
  }
  storeInAddress();
};

$("gap-measurement").addEventListener("change", () => loadGaps(table));

// --- 3. jobs ----------------------------------------------------------------------------------
const discardJob = () => {
  if (isActive()) remove(`/api/jobs/${job.id}`);
  job = null;
  pollers++;
  hideResult();
  setBusy(false);
};

const startJob = async (task, body) => {
  if (!$("progress").hidden) return;
  const version = tableVersion;
  showProblem($("failure"), "");
  job = null;
  hideResult();
  drawMaps(table);
  $("status").textContent = "starting";
  $("elapsed").textContent = "";
  setBusy(true);
  try {
    const submitted = await sendJson(`/api/tables/${table.id}/${task}`, body);
    if (version !== tableVersion) {  // the table has been replaced meanwhile
      remove(`/api/jobs/${submitted.id}`);
      return;
    }
    job = submitted;
    storeInAddress();
    poll();
  } catch (error) {
    if (version !== tableVersion) return;
    setBusy(false);
    showProblem($("failure"), withLabels(error.message));
  }
};

const commonSettings = () => ({
  minutes: $("minutes").value ? Number($("minutes").value) : null, interval: Number($("interval").value),
});
$("fill-form").addEventListener("submit", (event) => {
  event.preventDefault();
  startJob("fill", { ...commonSettings(), method: $("method").value, at: $("sites").value.trim() || null });
});
$("forecast-form").addEventListener("submit", (event) => {
  event.preventDefault();
  startJob("forecast", {
    ...commonSettings(), method: $("forecaster").value, horizon: Number($("horizon").value),
    known_covariates: $("known-covariates").value.split(",").map((name) => name.trim()).filter(Boolean),
  });
});
$("cancel").addEventListener("click", async () => {
  if (!job) return;
  $("cancel").disabled = true;
  try {
    await request(`/api/jobs/${job.id}`, { method: "DELETE" });
  } catch (error) {
    showProblem($("failure"), error.message);
    $("cancel").disabled = false;
  }
});

const allowJobs = (allowed) => {
  const buttons = document.querySelectorAll("#fill-form button, #forecast-form button");
  for (const button of buttons) button.disabled = !allowed;
};
const setBusy = (busy) => {
  $("progress").hidden = !busy;
  allowJobs(!busy);
  $("cancel").disabled = !job;
};

const elapsedTime = () => {  // with the remaining time, if the progress is known
  if (job.seconds < 1) return "";
  const elapsed = `${Math.round(job.seconds)} s`;
  if (!job.progress || job.progress < 0.03) return elapsed;
  const left = job.seconds * (1 / job.progress - 1);
  return `${elapsed}, about ${left < 90 ? `${Math.ceil(left / 5) * 5} s` : `${Math.ceil(left / 60)} min`} left`;
};

const showStatus = () => {
  const [status, step] = job.status.split(", step ");  // screen readers do not repeat the number
  const text = job.state !== "waiting" ? status
    : job.queue_position ? `waiting: ${count(job.queue_position, "job")} before this one` : "starting";
  if ($("status").textContent !== text) $("status").textContent = text;
  $("elapsed").textContent = [step && `step ${step}`, elapsedTime()].filter(Boolean).join(", ");
  if (job.progress === null) $("progress-bar").removeAttribute("value");
  else $("progress-bar").value = job.progress;
};

const poll = async () => {
  const id = ++pollers;
  let failures = 0;
  setBusy(true);
  while (isActive()) {
    showStatus();
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
    if (id !== pollers) return;
    try {
      const response = await request(`/api/jobs/${job.id}`);
      if (id !== pollers) return;
      job = response;
      failures = 0;
    } catch (error) {
      if (id !== pollers) return;
      if (error.status !== 404 && ++failures < MAX_FAILURES) continue;  // the server may be back soon
      setBusy(false);
      showProblem($("failure"), error.message);
      return;
    }
  }
  setBusy(false);
  if (job.state === "failed") showProblem($("failure"), withLabels(job.error));
  else if (job.state === "cancelled") showProblem($("failure"), "cancelled");
  else showResult(table, job);
  if (document.activeElement === document.body) (isShown() ? $("h-result") : $("fill")).focus({ preventScroll: true });
};

// --- start ------------------------------------------------------------------------------------
const redraw = () => {
  if (!table) return;
  if (isShown()) drawResultMaps();
  else drawMaps(table);
  drawGaps();
};
window.addEventListener("resize", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

const offerMethods = (methods) => {
  const installed = methods.filter((method) => method.installed);
  const option = (method) => new Option(`${method.name}${method.trains ? " (network)" : ""}`, method.name);
  $("method").replaceChildren(new Option("auto: several, combined", "auto"),
    ...installed.filter((method) => method.task.includes("fill")).map(option));
  const forecasters = installed.filter((method) => method.task.includes("forecast"));
  $("forecaster").replaceChildren(...forecasters.map(option));
  if (forecasters.some((method) => method.name === "cdsa")) $("forecaster").value = "cdsa";
};

const resume = async () => {  // a reloaded page continues where it was
  const address = new URLSearchParams(location.hash.slice(1)), version = tableVersion;
  if (!address.get("table")) return;
  try {
    const summary = await request(`/api/tables/${encodeURIComponent(address.get("table"))}`);
    if (version !== tableVersion) return;
    table = summary;
    showSummary();
    if (!address.get("job")) return;
    const response = await request(`/api/jobs/${encodeURIComponent(address.get("job"))}`);
    if (version !== tableVersion) return;
    job = response;
    poll();
  } catch (error) {
    if (version !== tableVersion) return;
    showProblem($("problem"), error.message);
    if (!table) storeInAddress();
  }
};

const start = async () => {
  try {
    const [health, methods] = await Promise.all([request("/api/health"), request("/api/methods")]);
    $("megabytes").textContent = health.megabytes;
    $("keep").textContent = `after ${health.keep_minutes} minutes without use`;
    $("minutes").max = health.training_minutes;
    // of .csv.gz, browsers know .gz only
    $("file").accept = [...new Set(health.suffixes.map((name) => name.slice(name.lastIndexOf("."))))].join(",");
    offerMethods(methods);
  } catch (error) {
    showProblem($("problem"), error.message);
    return;
  }
  await resume();
};
start();
