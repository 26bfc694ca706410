// The time line of a report: a canvas that can be zoomed and moved by wheel, pointer, keys, buttons.
(() => {
  "use strict";
  const told = JSON.parse(document.getElementById("series-data").textContent);
  const canvas = document.getElementById("timeline");
  const station = document.getElementById("station");
  const measurement = document.getElementById("measurement");
  const here = document.getElementById("here");
  const timeAt = told.times ? (i) => told.times[i] : (i) => told.first + i * told.step;
  const view = { from: 0, to: told.count };
  let series = null, cursor = null;

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
    series = told.series.find(
      (one) => one.location === station.value && one.measurement === measurement.value);
    if (series) unpacked(series);
    draw();
  };

  const plain = (i) => new Date(1000 * timeAt(i)).toISOString().slice(0, 16).replace("T", " ");
  const stamp = (i) => plain(i) + (told.zone ? ` ${told.zone}` : "");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (x) => (Number.isFinite(x) ? Number(x.toPrecision(4)).toString() : "-");

  const draw = () => {
    const box = canvas.getBoundingClientRect(), dots = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * dots);
    canvas.height = Math.round(box.height * dots);
    const pen = canvas.getContext("2d");
    pen.scale(dots, dots);
    const left = 58, right = box.width - 10, top = 10, bottom = box.height - 26;
    pen.clearRect(0, 0, box.width, box.height);
    if (!series) return;
    const first = Math.max(0, Math.floor(view.from)), last = Math.min(told.count, Math.ceil(view.to));
    let low = Infinity, high = -Infinity;
    for (let i = first; i < last; i++) {
      const k = series.at[i];
      for (const v of [series.value[i], k >= 0 && series.lowEnd ? series.lowEnd[k] : NaN,
                       k >= 0 && series.highEnd ? series.highEnd[k] : NaN]) {
        if (v < low) low = v;
        if (v > high) high = v;
      }
    }
    if (!(low < high)) { low = (Number.isFinite(low) ? low : 0) - 1; high = low + 2; }
    const pad = 0.05 * (high - low);
    low -= pad; high += pad;
    const x = (i) => left + ((i - view.from) / (view.to - view.from)) * (right - left);
    const y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const rough = (high - low) / 5, ten = 10 ** Math.floor(Math.log10(rough));
    const gap = ten * ([1, 2, 5, 10].find((n) => n * ten >= rough) || 10);
    for (let v = Math.ceil(low / gap) * gap; v <= high; v += gap) {
      pen.beginPath(); pen.moveTo(left, y(v)); pen.lineTo(right, y(v)); pen.stroke();
      pen.fillText(number(v), left - 6, y(v));
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const labels = Math.max(2, Math.floor((right - left) / 130));
    for (let n = 0; n <= labels; n++) {
      const i = Math.min(told.count - 1, Math.round(view.from + (n / labels) * (view.to - view.from)));
      const wide = timeAt(Math.max(first, last - 1)) - timeAt(first) > 4 * 86400;
      const text = wide ? plain(i).slice(0, 10) : plain(i).slice(5);
      pen.fillText(text, Math.min(right - 34, Math.max(left + 34, x(i))), bottom + 8);
    }
    pen.save();
    pen.beginPath(); pen.rect(left, top, right - left, bottom - top); pen.clip();
    if (series.lowEnd) {
      pen.fillStyle = colour("--band");
      const half = Math.max(0.75, (x(1) - x(0)) / 2);
      for (let i = first; i < last; i++) {
        const k = series.at[i];
        if (k < 0 || !Number.isFinite(series.lowEnd[k])) continue;
        const ends = [series.lowEnd[k], series.highEnd[k]];
        const over = series.turns && ends[0] > ends[1];  // over north: two pieces
        for (const [floor, ceiling] of over ? [[ends[0], 360], [0, ends[1]]] : [ends]) {
          pen.fillRect(x(i) - half, y(ceiling), 2 * half, Math.max(1, y(floor) - y(ceiling)));
        }
      }
    }
    const line = (wanted, style, width) => {  // a piece belongs to the gap if either end is filled
      pen.strokeStyle = pen.fillStyle = style;
      pen.lineWidth = width;
      pen.beginPath();
      for (let i = Math.max(0, first - 1); i < Math.min(last, told.count - 1); i++) {
        const filled = Boolean(series.isFilled[i] || series.isFilled[i + 1]);
        if (filled !== wanted) continue;
        if (!Number.isFinite(series.value[i]) || !Number.isFinite(series.value[i + 1])) continue;
        pen.moveTo(x(i), y(series.value[i]));
        pen.lineTo(x(i + 1), y(series.value[i + 1]));
      }
      pen.stroke();
      for (let i = first; i < last; i++) {  // what has nothing beside it is a dot
        if (Boolean(series.isFilled[i]) !== wanted || !Number.isFinite(series.value[i])) continue;
        if (Number.isFinite(series.value[i - 1]) || Number.isFinite(series.value[i + 1])) continue;
        pen.fillRect(x(i) - 1.5, y(series.value[i]) - 1.5, 3, 3);
      }
    };
    line(false, colour("--ink"), 1.2);
    line(true, colour("--filled"), 1.8);
    if (cursor !== null) {
      pen.strokeStyle = colour("--soft");
      pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(x(cursor), top); pen.lineTo(x(cursor), bottom); pen.stroke();
    }
    pen.restore();
    say();
  };
  const say = () => {
    if (cursor === null || !series) {
      here.textContent = `${stamp(Math.max(0, Math.floor(view.from)))} to ` +
        stamp(Math.min(told.count - 1, Math.ceil(view.to) - 1));
      return;
    }
    const v = series.value[cursor], k = series.at[cursor];
    const ends = k >= 0 && series.lowEnd
      ? ` (${number(series.lowEnd[k])} to ${number(series.highEnd[k])})` : "";
    const what = !Number.isFinite(v) ? "nothing" : k >= 0 ? `filled with ${number(v)}` : `measured ${number(v)}`;
    here.textContent = `${stamp(cursor)}: ${what} ${Number.isFinite(v) ? series.unit : ""}${ends}`;
  };
  const show = (from, to) => {
    const wide = Math.min(told.count, Math.max(6, to - from));
    from = Math.min(Math.max(0, from), told.count - wide);
    view.from = from; view.to = from + wide;
    draw();
  };
  const mark = (i) => {  // the step that is read out; in view
    cursor = Math.min(told.count - 1, Math.max(0, i));
    const wide = view.to - view.from;
    if (cursor < view.from) show(cursor, cursor + wide);
    else if (cursor > view.to - 1) show(cursor + 1 - wide, cursor + 1);
    else draw();
  };
  const zoom = (factor, around) => {
    const middle = around === undefined ? (view.from + view.to) / 2 : around;
    show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  };
  const stepAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - 58) / (box.width - 68);
    return view.from + Math.min(1, Math.max(0, share)) * (view.to - view.from);
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, stepAt(event));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held = { x: event.clientX, from: view.from, to: view.to };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const wide = held.to - held.from;
      const moved = ((held.x - event.clientX) / (canvas.getBoundingClientRect().width - 68)) * wide;
      show(held.from + moved, held.to + moved);
    } else {
      cursor = Math.min(told.count - 1, Math.max(0, Math.round(stepAt(event))));
      draw();
    }
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { held = null; });
  canvas.addEventListener("pointerleave", () => { cursor = null; draw(); });
  canvas.addEventListener("keydown", (event) => {
    const wide = view.to - view.from, by = { PageUp: -0.5, PageDown: 0.5 }[event.key];
    const next = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) show(view.from + by * wide, view.to + by * wide);
    else if (next) mark((cursor === null ? Math.round((view.from + view.to) / 2) : cursor) + next);
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else if (event.key === "0") show(0, told.count);
    else return;
    event.preventDefault();
  });
  document.getElementById("nearer").addEventListener("click", () => zoom(0.6));
  document.getElementById("further").addEventListener("click", () => zoom(1.6));
  document.getElementById("whole").addEventListener("click", () => show(0, told.count));
  station.addEventListener("change", pickStation);
  measurement.addEventListener("change", pick);
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      station.value = button.dataset.location;
      pickStation();
      measurement.value = button.dataset.measurement;
      pick();
      const at = Number(button.dataset.step);
      cursor = at;
      show(at - 60, at + 60);
      canvas.scrollIntoView({ block: "center" });
      canvas.focus();
    });
  }
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  pickStation();
})();
