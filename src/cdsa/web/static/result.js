// The result of a job: its figures and files, and a map, a chart and a table that are linked.
/* global cdsaChart */
import { $, element, fillTable, formatNumber, formatTime, percent, setChoices, showProblem, tableRow } from "./dom.js";
import { queryString, request } from "./api.js";
import { drawMaps } from "./map.js";
import { withLabels } from "./options.js";

const CELLS_PER_PAGE = 12, EXPLAINED_STEPS = 60, INITIAL_STEPS = 240;
const CLICK_A_VALUE = "Click a filled value in the chart or in the table.";
let table = null, job = null, chart = null, series = null, explanation = null;
let offset = 0;  // number of the first cell on the page
let seriesRequests = 0, explanationRequests = 0;  // only the response to the last request is shown

export const isShown = () => job !== null;

export const hideResult = () => {
  job = series = explanation = null;
  seriesRequests++;
  explanationRequests++;
  $("announcement").textContent = "";
  $("result").hidden = true;
};

export const showResult = (newTable, newJob) => {
  table = newTable;
  job = newJob;
  offset = 0;
  $("result").hidden = false;
  const isFill = job.kind === "fill", column = isFill ? "filled" : "forecast";
  $("announcement").textContent = isFill ? "The table is filled." : "The forecast is ready.";
  $("key-filled").textContent = column;
  $("h-cells").textContent = isFill ? "Filled values" : "Forecast values";
  $("messages").replaceChildren(...job.messages.map((text) => element("li", withLabels(text))));
  showRecords(column);
  showFiles(isFill);
  setChoices($("station"), [...table.stations, ...job.sites].map((point) => point.name));
  setChoices($("measurement"), table.measurements.map((measurement) => measurement.name));
  selectInitialSeries(column);
  loadSeries();
};

// The series with the longest gap or, for a forecast, the measurement with the most values.
const selectInitialSeries = (column) => {
  const [record] = [...job.records].sort((a, b) => b[column] - a[column]);
  if (record) $("measurement").value = record.measurement;
  const gap = job.kind === "fill" && (
    table.longest_gaps.find((longest) => longest.measurement === $("measurement").value) || table.longest_gaps[0]);
  if (gap) { $("station").value = gap.location; $("measurement").value = gap.measurement; }
  if (job.sites.length) $("station").value = job.sites[0].name;
};

const showRecords = (column) => {
  const units = Object.fromEntries(table.measurements.map((measurement) => [measurement.name, measurement.units]));
  fillTable($("records"),
    [["measurement"], ["method"], [column, "n"], ["expected error (MAE)", "n"], ["units"]],
    job.records.map((record) => tableRow([
      [record.measurement], [record.weights || record.method], [Number(record[column]).toLocaleString("en"), "n"],
      [formatNumber(record.expected_mae, 3), "n"], [units[record.measurement] || ""]])));
};

const showFiles = (isFill) => {
  const labels = {
    filled: isFill ? "Filled table" : "Table with the forecast",
    detail: "Details: one row per value", report: "Report",
  };
  $("files").replaceChildren(...job.files.map((name) => {
    const link = element("a", labels[name] || name, { href: `/api/jobs/${job.id}/files/${name}`, id: `file-${name}` });
    if (name === "report") { link.target = "_blank"; link.rel = "noopener"; } else link.setAttribute("download", "");
    return link;
  }));
};

export const drawResultMaps = () => {
  drawMaps(table, {
    sites: job.sites, selected: $("station").value, explanation,
    onSelect: (name) => { $("station").value = name; selectSeries(); },
  });
};

// --- a series: chart and table ----------------------------------------------------------------
const selection = () => ({ location: $("station").value, measurement: $("measurement").value });

const selectSeries = () => { offset = 0; loadSeries(); };

const loadSeries = async () => {
  const id = ++seriesRequests;
  explanationRequests++;
  explanation = null;
  $("contributions").replaceChildren();
  $("explanation-text").textContent = job.explainable ? CLICK_A_VALUE
    : job.kind === "fill" ? "Only the values of a network can be explained. Fill the table with cdsa."
      : "Filled values can be explained, but forecast values cannot.";
  drawResultMaps();
  try {
    const response = await request(`/api/jobs/${job.id}/series?${queryString(selection())}`);
    if (id !== seriesRequests) return;
    series = response;
    await loadCells();
  } catch (error) {
    if (id === seriesRequests) showProblem($("failure"), error.message);
    return;
  }
  if (id === seriesRequests) drawSeries();
};

const drawSeries = () => {
  const values = Float64Array.from(series.values, (v) => (v === null ? NaN : v));
  const isFilled = Uint8Array.from(series.source, (s) => (s === "filled" || s === "forecast" ? 1 : 0));
  const bound = (bounds) => bounds && Float64Array.from(bounds, (v) => v ?? NaN);
  const isNew = !chart || chart.job !== job.id;
  if (isNew) {
    if (chart) chart.destroy();
    chart = cdsaChart($("timeline"), $("readout"), series.times, explain);
    chart.job = job.id;
  }
  $("key-interval").hidden = !series.lower;
  chart.highlight([]);
  chart.draw({
    unit: series.units, value: values, isFilled, isDirection: series.is_direction,
    lower: bound(series.lower), upper: bound(series.upper),
    word: job.kind === "fill" ? "filled with" : "forecast",
  });
  if (isNew && isFilled.includes(1)) {
    const width = Math.min(values.length, INITIAL_STEPS);
    const middle = job.kind === "forecast" ? values.length - width / 2 : middleOfLongestRun(isFilled);
    chart.show(middle - width / 2, middle + width / 2);
  }
};

const middleOfLongestRun = (flags) => {
  let longest = 0, middle = 0, begin = -1;
  for (let i = 0; i <= flags.length; i++) {
    if (flags[i] && begin < 0) begin = i;
    if (!flags[i] && begin >= 0) {
      if (i - begin > longest) { longest = i - begin; middle = (i + begin) / 2; }
      begin = -1;
    }
  }
  return middle;
};

const loadCells = async () => {
  const id = seriesRequests, first = offset;
  const page = await request(
    `/api/jobs/${job.id}/cells?${queryString({ ...selection(), offset, limit: CELLS_PER_PAGE })}`);
  if (id !== seriesRequests || first !== offset) return;
  fillTable($("cells"), [[""], ["time"], ["value", "n"], ["interval"]], page.cells.map((cell) => {
    const button = element("button", "explain", {
      type: "button", "aria-label": `explain ${formatNumber(cell.value)} at ${cell.time}`,
    });
    button.disabled = !job.explainable;
    button.addEventListener("click", () => explain(cell.step));
    return tableRow([[button], [formatTime(cell.time)], [formatNumber(cell.value), "n"],
      [cell.lower === null ? "-" : `${formatNumber(cell.lower)} to ${formatNumber(cell.upper)}`]],
    { "data-step": cell.step });
  }));
  $("cells-range").textContent = page.total
    ? `${offset + 1} to ${offset + page.cells.length} of ${page.total.toLocaleString("en")}` : "none here";
  $("previous").disabled = offset === 0;
  $("next").disabled = offset + page.cells.length >= page.total;
};

const turnPage = (change) => {
  offset = Math.max(0, offset + change);
  $("previous").disabled = $("next").disabled = true;  // until the page is loaded
  loadCells().catch((error) => showProblem($("failure"), error.message));
};

// --- a value: its explanation -----------------------------------------------------------------
const explain = async (step) => {
  if (!series || !series.source) return;
  if (series.source[step] !== "filled") {
    $("explanation-text").textContent = series.source[step] === "observed"
      ? "This value was measured." : "Only filled values can be explained.";
    return;
  }
  if (!job.explainable) return;
  const id = ++explanationRequests, cell = { location: series.location, measurement: series.measurement };
  $("explanation-text").textContent = "explaining ...";
  try {
    const response = await request(`/api/jobs/${job.id}/explanation?${queryString({ step, ...cell })}`);
    if (id !== explanationRequests) return;
    explanation = response;
  } catch (error) {
    if (id === explanationRequests) $("explanation-text").textContent = error.message;
    return;
  }
  showExplanation();
  for (const row of $("cells").querySelectorAll("tr[data-step]")) {
    row.toggleAttribute("aria-current", Number(row.dataset.step) === step);
  }
  chart.highlight(explanation.cells.map((cell) => ({
    step: cell.step, share: cell.share,
    other: cell.location !== series.location || cell.measurement !== series.measurement,
  })), step);
  chart.show(step - EXPLAINED_STEPS, step + EXPLAINED_STEPS, step);
  drawResultMaps();
};

const showExplanation = () => {
  const { measurement, location, time, value, cells, groups } = explanation;
  const shares = Object.entries(groups).map(([name, share]) => `${name} ${percent(share)}`);
  const { method, weights } = job.records.find((record) => record.measurement === measurement);
  $("explanation-text").textContent =
    `${measurement} at ${location}, ${formatTime(time)}: ${`${formatNumber(value)} ${series.units}`.trim()}` +
    `${weights && weights !== method ? ` by ${method}, which has the largest weight` : ""}. ` +
    (cells.length ? `Comes from: ${shares.join("; ")}.` : "Nothing was measured nearby; this is the climatology.");
  const maxShare = Math.max(...cells.map((cell) => cell.share), 1e-9);
  fillTable($("contributions"),
    [["share", "n"], ["", "bars"], ["time"], ["station"], ["measurement"], ["value", "n"]],
    cells.map((cell) => {
      const bar = element("span", undefined, { class: "share" });
      bar.style.width = `${(3 * cell.share) / maxShare}rem`;
      return tableRow([[percent(cell.share), "n"], [bar, "bars"], [formatTime(cell.time)], [cell.location],
        [cell.measurement], [formatNumber(cell.value), "n"]]);
    }));
};

$("station").addEventListener("change", selectSeries);
$("measurement").addEventListener("change", selectSeries);
$("zoom-in").addEventListener("click", () => chart && chart.zoom(0.6));
$("zoom-out").addEventListener("click", () => chart && chart.zoom(1.6));
$("zoom-reset").addEventListener("click", () => chart && chart.showAll());
$("previous").addEventListener("click", () => turnPage(-CELLS_PER_PAGE));
$("next").addEventListener("click", () => turnPage(CELLS_PER_PAGE));
