// What came out of a job: its figures and files, and map, time line and table that belong together.
/* global cdsaChart */
import { $, made, number, options, percent, problem, row, rows, short } from "./nodes.js";
import { ask, query } from "./server.js";
import { drawMaps } from "./map.js";
import { inFields } from "./reading.js";

const PAGE_OF_CELLS = 12, AROUND = 60, WIDE = 240;
let table = null, job = null, chart = null, series = null, reasons = null;
let start = 0;  // the first cell of the page that the table shows
let looked = 0, asked = 0;  // answers to a question that is not the last one are not shown any more

export const shown = () => job !== null;

export const hideResult = () => {
  job = series = reasons = null;
  looked++;
  asked++;
  $("announced").textContent = "";
  $("result").hidden = true;
};

export const showResult = (itsTable, itsJob) => {
  table = itsTable;
  job = itsJob;
  start = 0;
  $("result").hidden = false;
  const fills = job.kind === "fill", word = fills ? "filled" : "forecast";
  $("announced").textContent = fills ? "The table is filled." : "The forecast is there.";
  $("key-filled").textContent = word;
  $("h-cells").textContent = fills ? "Filled values" : "Forecast values";
  $("told").replaceChildren(...job.messages.map((text) => made("li", inFields(text))));
  figures(word);
  files(fills);
  options($("station"), [...table.stations, ...job.sites].map((one) => one.name));
  options($("kind"), table.measurements.map((one) => one.name));
  const most = [...job.records].sort((a, b) => b[word] - a[word])[0];
  if (most) $("kind").value = most.measurement;
  const gap = fills && (table.longest_gaps.find((one) => one.measurement === $("kind").value) || table.longest_gaps[0]);
  if (gap) { $("station").value = gap.location; $("kind").value = gap.measurement; }
  if (job.sites.length) $("station").value = job.sites[0].name;
  look();
};

const figures = (word) => {
  const unit = Object.fromEntries(table.measurements.map((one) => [one.name, one.units]));
  rows($("records"),
    [["measurement"], ["method"], [word, "n"], ["error to expect (MAE)", "n"], ["unit"]],
    job.records.map((one) => row([
      [one.measurement], [one.method], [Number(one[word]).toLocaleString("en"), "n"],
      [number(one.expected_mae, 3), "n"], [unit[one.measurement] || ""]])));
};

const files = (fills) => {
  const names = {
    filled: fills ? "Filled table" : "Table carried forward",
    detail: "Detail: one row for each value", report: "Report",
  };
  $("files").replaceChildren(...job.files.map((name) => {
    const link = made("a", names[name], { href: `/api/jobs/${job.id}/files/${name}`, id: `file-${name}` });
    if (name === "report") { link.target = "_blank"; link.rel = "noopener"; } else link.setAttribute("download", "");
    return link;
  }));
};

export const drawPlaces = () => {
  drawMaps(table, {
    places: job.sites, chosen: $("station").value, reasons,
    choose: (name) => { $("station").value = name; turnTo(); },
  });
};

// --- a series: time line and table ------------------------------------------------------------
const here = () => ({ location: $("station").value, measurement: $("kind").value });

const turnTo = () => { start = 0; look(); };

const look = async () => {
  const mine = ++looked;
  asked++;
  reasons = null;
  $("reasons").replaceChildren();
  $("why-words").textContent = job.explainable ? "Click a filled value in the time line, or one in the table."
    : job.kind === "fill" ? "Only values of a network can be explained: fill with cdsa."
      : "Filled values can be explained; a forecast cannot.";
  drawPlaces();
  try {
    const told = await ask(`/api/jobs/${job.id}/series?${query(here())}`);
    if (mine !== looked) return;
    series = told;
    await cells();
  } catch (bad) {
    if (mine === looked) problem($("failure"), bad.message);
    return;
  }
  if (mine === looked) drawSeries();
};

const drawSeries = () => {
  const values = Float64Array.from(series.values, (v) => (v === null ? NaN : v));
  const isFilled = Uint8Array.from(series.source, (s) => (s === "filled" || s === "forecast" ? 1 : 0));
  const at = new Int32Array(values.length).fill(-1), low = [], high = [];
  isFilled.forEach((yes, i) => {
    if (!yes) return;
    at[i] = low.length;
    low.push(series.lower && series.lower[i] !== null ? series.lower[i] : NaN);
    high.push(series.upper && series.upper[i] !== null ? series.upper[i] : NaN);
  });
  const first = !chart || chart.job !== job.id;
  if (first) {
    if (chart) chart.end();
    chart = cdsaChart($("timeline"), $("here"), series.times, why);
    chart.job = job.id;
  }
  $("key-band").hidden = !series.lower;
  chart.marks([]);
  chart.draw({
    unit: series.units, value: values, isFilled, at, turns: series.is_direction,
    lowEnd: series.lower ? low : null, highEnd: series.lower ? high : null,
    word: job.kind === "fill" ? "filled with" : "forecast",
  });
  if (first && isFilled.includes(1)) {
    const wide = Math.min(values.length, WIDE);
    const middle = job.kind === "forecast" ? values.length - wide / 2 : middleOfLongest(isFilled);
    chart.look(middle - wide / 2, middle + wide / 2);
  }
};

const middleOfLongest = (flags) => {
  let best = 0, middle = 0, begin = -1;
  for (let i = 0; i <= flags.length; i++) {
    if (flags[i] && begin < 0) begin = i;
    if (!flags[i] && begin >= 0) {
      if (i - begin > best) { best = i - begin; middle = (i + begin) / 2; }
      begin = -1;
    }
  }
  return middle;
};

const cells = async () => {
  const mine = looked, first = start;
  const told = await ask(`/api/jobs/${job.id}/cells?${query({ ...here(), offset: start, limit: PAGE_OF_CELLS })}`);
  if (mine !== looked || first !== start) return;
  rows($("cells"), [[""], ["time"], ["value", "n"], ["interval"]], told.cells.map((cell) => {
    const button = made("button", "why", { type: "button", "aria-label": `why ${number(cell.value)} at ${cell.time}` });
    button.disabled = !job.explainable;
    button.addEventListener("click", () => why(cell.step));
    return row([[button], [short(cell.time)], [number(cell.value), "n"],
      [cell.lower === null ? "-" : `${number(cell.lower)} to ${number(cell.upper)}`]],
    { "data-step": cell.step });
  }));
  $("cells-words").textContent = told.total
    ? `${start + 1} to ${start + told.cells.length} of ${told.total.toLocaleString("en")}` : "none here";
  $("back").disabled = start === 0;
  $("on").disabled = start + told.cells.length >= told.total;
};

const turnPage = (by) => {
  start = Math.max(0, start + by);
  $("back").disabled = $("on").disabled = true;  // until it is known what is there
  cells().catch((bad) => problem($("failure"), bad.message));
};

// --- a value: where it comes from -------------------------------------------------------------
const why = async (step) => {
  if (!series || !series.source) return;
  if (series.source[step] !== "filled") {
    $("why-words").textContent = series.source[step] === "observed"
      ? "This value was measured." : "Reasons are told of filled values.";
    return;
  }
  if (!job.explainable) return;
  const mine = ++asked, cell = { location: series.location, measurement: series.measurement };
  $("why-words").textContent = "looking ...";
  try {
    const told = await ask(`/api/jobs/${job.id}/explanation?${query({ step, ...cell })}`);
    if (mine !== asked) return;
    reasons = told;
  } catch (bad) {
    if (mine === asked) $("why-words").textContent = bad.message;
    return;
  }
  tellReasons();
  for (const node of $("cells").querySelectorAll("tr[data-step]")) {
    node.toggleAttribute("aria-current", Number(node.dataset.step) === step);
  }
  chart.marks(reasons.cells.map((one) => ({
    step: one.step, share: one.share,
    other: one.location !== series.location || one.measurement !== series.measurement,
  })), step);
  chart.look(step - AROUND, step + AROUND, step);
  drawPlaces();
};

const tellReasons = () => {
  const axes = Object.entries(reasons.axes).map(([name, share]) => `${name} ${percent(share)}`);
  $("why-words").textContent =
    `${reasons.measurement} at ${reasons.location}, ${short(reasons.time)}: ${number(reasons.value)} ${series.units}. ` +
    (reasons.cells.length ? `Comes from: ${axes.join(", ")}.` : "Nothing was measured around it: this is what is usual.");
  const most = Math.max(...reasons.cells.map((cell) => cell.share), 1e-9);
  rows($("reasons"), [["share", "n"], ["", "bars"], ["time"], ["station"], ["measurement"], ["value", "n"]],
    reasons.cells.map((cell) => {
      const bar = made("span", undefined, { class: "share" });
      bar.style.width = `${(3 * cell.share) / most}rem`;
      return row([[percent(cell.share), "n"], [bar, "bars"], [short(cell.time)], [cell.location],
        [cell.measurement], [number(cell.value), "n"]]);
    }));
};

$("station").addEventListener("change", turnTo);
$("kind").addEventListener("change", turnTo);
$("nearer").addEventListener("click", () => chart && chart.zoom(0.6));
$("further").addEventListener("click", () => chart && chart.zoom(1.6));
$("whole").addEventListener("click", () => chart && chart.whole());
$("back").addEventListener("click", () => turnPage(-PAGE_OF_CELLS));
$("on").addEventListener("click", () => turnPage(PAGE_OF_CELLS));
