// The time line of a report: which series its chart shows.
(() => {
  "use strict";
  const told = JSON.parse(document.getElementById("series-data").textContent);
  const canvas = document.getElementById("timeline");
  const station = document.getElementById("station");
  const measurement = document.getElementById("measurement");
  const here = document.getElementById("here");
  const chart = cdsaChart(canvas, here, told);

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const numbers = (text) => {
    const raw = bytes(text), view = new DataView(raw.buffer);
    return Float32Array.from({ length: raw.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  };
  const unpacked = (one) => {
    if (one.value) return one;
    one.value = numbers(one.values);
    const bits = bytes(one.filled);
    one.isFilled = Uint8Array.from(one.value, (_, i) => (bits[i >> 3] >> (i & 7)) & 1);
    one.at = new Int32Array(told.count);
    let n = 0;
    for (let i = 0; i < told.count; i++) one.at[i] = one.isFilled[i] ? n++ : -1;
    one.lowEnd = one.lower ? numbers(one.lower) : null;
    one.highEnd = one.upper ? numbers(one.upper) : null;
    return one;
  };
  const options = (select, names) => {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
  };
  const stations = [...new Set(told.series.map((one) => one.location))];
  options(station, stations);
  const pickStation = () => {
    const kept = measurement.value;
    const names = told.series.filter((o) => o.location === station.value).map((o) => o.measurement);
    options(measurement, names);
    if (names.includes(kept)) measurement.value = kept;
    pick();
  };
  const pick = () => {
    const series = told.series.find(
      (one) => one.location === station.value && one.measurement === measurement.value);
    chart.draw(series ? unpacked(series) : null);
  };

  document.getElementById("nearer").addEventListener("click", () => chart.zoom(0.6));
  document.getElementById("further").addEventListener("click", () => chart.zoom(1.6));
  document.getElementById("whole").addEventListener("click", () => chart.whole());
  station.addEventListener("change", pickStation);
  measurement.addEventListener("change", pick);
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      station.value = button.dataset.location;
      pickStation();
      measurement.value = button.dataset.measurement;
      pick();
      const at = Number(button.dataset.step);
      chart.look(at - 60, at + 60, at);
      canvas.scrollIntoView({ block: "center" });
      canvas.focus();
    });
  }
  pickStation();
})();
