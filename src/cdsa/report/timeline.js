// The timeline of a report: the chart of the chosen series.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("series-data").textContent);
  const canvas = document.getElementById("timeline");
  const station = document.getElementById("station");
  const measurement = document.getElementById("measurement");
  const chart = cdsaChart(canvas, document.getElementById("readout"), data);

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const floats = (text) => {
    const raw = bytes(text), view = new DataView(raw.buffer);
    return Float32Array.from({ length: raw.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  };
  const unpack = (packed) => {
    const value = floats(packed.values), bits = bytes(packed.filled);
    const isFilled = Uint8Array.from(value, (_, i) => (bits[i >> 3] >> (i & 7)) & 1);
    const bound = (text) => {  // only those of filled steps are packed
      if (!text) return null;
      const packedBounds = floats(text);
      let n = 0;
      return Float32Array.from(isFilled, (filled) => (filled ? packedBounds[n++] : NaN));
    };
    const { unit, is_direction: isDirection } = packed;
    return { unit, isDirection, value, isFilled, lower: bound(packed.lower), upper: bound(packed.upper) };
  };
  const unpacked = new Map();
  const setOptions = (select, names) => {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
  };
  const showStation = () => {
    const previous = measurement.value;
    const names = data.series.filter((s) => s.location === station.value).map((s) => s.measurement);
    setOptions(measurement, names);
    if (names.includes(previous)) measurement.value = previous;
    showSeries();
  };
  const showSeries = () => {
    const packed = data.series.find(
      (s) => s.location === station.value && s.measurement === measurement.value);
    if (packed && !unpacked.has(packed)) unpacked.set(packed, unpack(packed));
    chart.draw(packed ? unpacked.get(packed) : null);
  };

  document.getElementById("zoom-in").addEventListener("click", () => chart.zoom(0.6));
  document.getElementById("zoom-out").addEventListener("click", () => chart.zoom(1.6));
  document.getElementById("zoom-reset").addEventListener("click", () => chart.showAll());
  station.addEventListener("change", showStation);
  measurement.addEventListener("change", showSeries);
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      station.value = button.dataset.location;
      showStation();
      measurement.value = button.dataset.measurement;
      showSeries();
      const step = Number(button.dataset.step);
      chart.show(step - 60, step + 60, step);
      canvas.scrollIntoView({ block: "center" });
      canvas.focus();
    });
  }
  setOptions(station, [...new Set(data.series.map((s) => s.location))]);
  showStation();
})();
