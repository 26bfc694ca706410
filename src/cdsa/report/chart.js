// A time series on a canvas that can be zoomed and panned with wheel, pointer, keys and buttons.
//
// cdsaChart(canvas, readout, grid, onPick)
//   grid     times of the steps: {first, step, count, zone} or {times, count, zone}, in seconds
//   readout  element that shows the value at the cursor
//   onPick   called with a step when it is clicked, or Enter is pressed on it
// returns
//   draw(series)            series: {unit, value, isFilled, lower, upper, isDirection, word}; the
//                           bounds are arrays like `value`, or null without intervals
//   highlight(cells, step)  mark the cells {step, share, other} that explain the value at a step;
//                           `other` if they belong to another series
//   show(from, to, step), showAll(), zoom(factor), destroy()
const cdsaTicks = (from, to, maxTicks) => {  // [time, label] of round times between two
  const HOUR = 3600, DAY = 24 * HOUR;
  const label = (time, ...range) => new Date(1000 * time).toISOString().replace("T", " ").slice(...range);
  const interval = [1, 5, 15, 30, 60, 300, 900, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY]
    .find((seconds) => (to - from) / seconds <= maxTicks);
  const ticks = [];
  if (interval) {
    const range = interval < 60 ? [11, 19] : interval < DAY ? [5, 16] : [0, 10];
    for (let time = Math.ceil(from / interval) * interval; time <= to; time += interval) {
      ticks.push([time, label(time, ...range)]);
    }
    return ticks;
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((n) => (to - from) / (n * 30.4 * DAY) <= maxTicks) || 600;
  const start = new Date(1000 * from);
  for (let n = 12 * start.getUTCFullYear() + start.getUTCMonth(); ; n++) {
    const time = Date.UTC(Math.floor(n / 12), n % 12) / 1000;
    if (time > to) return ticks;
    if (time >= from && n % months === 0) ticks.push([time, label(time, 0, months < 12 ? 7 : 4)]);
  }
};
const cdsaChart = (canvas, readout, grid, onPick) => {  // eslint-disable-line no-unused-vars
  "use strict";
  const LEFT = 58, RIGHT = 10;  // margins
  const timeAt = grid.times ? (i) => grid.times[i] : (i) => grid.first + i * grid.step;
  const view = { from: 0, to: grid.count };
  let series = null, cursor = null, picked = null, highlighted = [], scheduled = false;
  const listeners = new AbortController(), { signal } = listeners;

  const stepOf = (time) => {  // fractional between two steps
    if (!grid.times) return (time - grid.first) / grid.step;
    let low = 0, high = grid.count - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (grid.times[middle] <= time) low = middle;
      else high = middle;
    }
    return low + (time - grid.times[low]) / (grid.times[high] - grid.times[low] || 1);
  };
  const clamp = (i) => Math.min(grid.count - 1, Math.max(0, i));
  const formatTime = (i) =>
    new Date(1000 * timeAt(i)).toISOString().slice(0, 16).replace("T", " ") + (grid.zone ? ` ${grid.zone}` : "");
  const formatNumber = (x) => (Number.isFinite(x) ? Number(x.toPrecision(5)).toString() : "-");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const draw = () => {  // at most once per frame
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      if (!signal.aborted) paint();
    });
  };
  const paint = () => {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const left = LEFT, right = box.width - RIGHT, top = 10, bottom = box.height - 26;
    pen.clearRect(0, 0, box.width, box.height);
    if (!series) return;
    const first = Math.max(0, Math.floor(view.from)), last = Math.min(grid.count, Math.ceil(view.to));
    const hasInterval = (i) => series.lower && series.isFilled[i] && Number.isFinite(series.lower[i]);
    let low = Infinity, high = -Infinity;
    for (let i = first; i < last; i++) {
      for (const v of hasInterval(i) ? [series.value[i], series.lower[i], series.upper[i]] : [series.value[i]]) {
        if (v < low) low = v;
        if (v > high) high = v;
      }
    }
    if (!(low < high)) { low = (Number.isFinite(low) ? low : 0) - 1; high = low + 2; }
    const padding = 0.05 * (high - low);
    low -= padding; high += padding;
    const x = (i) => left + ((i - view.from) / (view.to - view.from)) * (right - left);
    const y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const fifth = (high - low) / 5, power = 10 ** Math.floor(Math.log10(fifth));
    const spacing = power * ([1, 2, 5, 10].find((n) => n * power >= fifth) || 10);
    for (let v = Math.ceil(low / spacing) * spacing; v <= high; v += spacing) {
      pen.beginPath(); pen.moveTo(left, y(v)); pen.lineTo(right, y(v)); pen.stroke();
      pen.fillText(formatNumber(v), left - 6, y(v));
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const maxTicks = Math.max(2, Math.floor((right - left) / 80));
    for (const [time, text] of cdsaTicks(timeAt(first), timeAt(Math.max(first, last - 1)), maxTicks)) {
      const tick = x(stepOf(time));
      pen.beginPath(); pen.moveTo(tick, bottom); pen.lineTo(tick, bottom + 4); pen.stroke();
      if (tick > left + 20 && tick < right - 30) pen.fillText(text, tick, bottom + 8);
    }
    pen.save();
    pen.beginPath(); pen.rect(left, top, right - left, bottom - top); pen.clip();
    pen.fillStyle = colour("--band");
    const half = Math.max(0.75, (x(1) - x(0)) / 2);
    for (let i = first; i < last; i++) {
      if (!hasInterval(i)) continue;
      const lower = series.lower[i], upper = series.upper[i];
      const crossesNorth = series.isDirection && lower > upper;
      for (const [floor, ceiling] of crossesNorth ? [[lower, 360], [0, upper]] : [[lower, upper]]) {
        pen.fillRect(x(i) - half, y(ceiling), 2 * half, Math.max(1, y(floor) - y(ceiling)));
      }
    }
    const dense = (last - first) / (right - left) > 4;  // steps per pixel: minimum and maximum suffice
    const line = (filled, style, width) => {  // a segment is filled if either end is
      pen.strokeStyle = pen.fillStyle = style;
      pen.lineWidth = width;
      pen.beginPath();
      let pixel = -1, min = 0, max = 0;
      for (let i = Math.max(0, first - 1); i < Math.min(last, grid.count - 1); i++) {
        if (Boolean(series.isFilled[i] || series.isFilled[i + 1]) !== filled) continue;
        const value = series.value[i], next = series.value[i + 1];
        if (!Number.isFinite(value) || !Number.isFinite(next)) continue;
        if (!dense) {
          pen.moveTo(x(i), y(value));
          pen.lineTo(x(i + 1), y(next));
          continue;
        }
        if (Math.floor(x(i)) !== pixel) {
          if (pixel >= 0) { pen.moveTo(pixel, y(min)); pen.lineTo(pixel, y(max) - 0.5); }
          pixel = Math.floor(x(i));
          min = max = value;
        }
        min = Math.min(min, value, next);
        max = Math.max(max, value, next);
      }
      if (dense && pixel >= 0) { pen.moveTo(pixel, y(min)); pen.lineTo(pixel, y(max) - 0.5); }
      pen.stroke();
      for (let i = first; i < last; i++) {  // an isolated value is a dot
        if (Boolean(series.isFilled[i]) !== filled || !Number.isFinite(series.value[i])) continue;
        if (Number.isFinite(series.value[i - 1]) || Number.isFinite(series.value[i + 1])) continue;
        pen.fillRect(x(i) - 1.5, y(series.value[i]) - 1.5, 3, 3);
      }
    };
    line(false, colour("--ink"), 1.2);
    line(true, colour("--filled"), 1.8);
    for (const cell of highlighted) {  // the size shows the share
      const size = 3 + 9 * Math.sqrt(cell.share), v = cell.other ? low + padding : series.value[cell.step];
      if (!Number.isFinite(v)) continue;
      pen.strokeStyle = pen.fillStyle = colour("--accent");
      pen.lineWidth = 1.6;
      pen.beginPath();
      if (cell.other) pen.rect(x(cell.step) - size / 2, bottom - size - 2, size, size);
      else pen.arc(x(cell.step), y(v), size / 2 + 1, 0, 2 * Math.PI);
      pen.globalAlpha = 0.35;
      pen.fill();
      pen.globalAlpha = 1;
      pen.stroke();
    }
    if (picked !== null && Number.isFinite(series.value[picked])) {
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x(picked), y(series.value[picked]), 6, 0, 2 * Math.PI);
      pen.stroke();
    }
    if (cursor !== null) {
      pen.strokeStyle = colour("--soft");
      pen.lineWidth = 1;
      pen.beginPath(); pen.moveTo(x(cursor), top); pen.lineTo(x(cursor), bottom); pen.stroke();
    }
    pen.restore();
    updateReadout();
  };
  const updateReadout = () => {
    if (cursor === null || !series) {
      readout.textContent = `${formatTime(clamp(Math.floor(view.from)))} to ${formatTime(clamp(Math.ceil(view.to) - 1))}`;
      return;
    }
    const value = series.value[cursor], filled = series.isFilled[cursor];
    if (!Number.isFinite(value)) {
      readout.textContent = `${formatTime(cursor)}: missing`;
      return;
    }
    const interval = filled && series.lower
      ? ` (${formatNumber(series.lower[cursor])} to ${formatNumber(series.upper[cursor])})` : "";
    const word = filled ? series.word || "filled with" : "measured";
    readout.textContent = `${formatTime(cursor)}: ${word} ${formatNumber(value)} ${series.unit}${interval}`;
  };
  const show = (from, to) => {
    const width = Math.min(grid.count, Math.max(6, to - from));
    from = Math.min(Math.max(0, from), grid.count - width);
    view.from = from; view.to = from + width;
    draw();
  };
  const moveCursor = (i) => {  // and keep it in view
    cursor = clamp(i);
    const width = view.to - view.from;
    if (cursor < view.from) show(cursor, cursor + width);
    else if (cursor > view.to - 1) show(cursor + 1 - width, cursor + 1);
    else draw();
  };
  const zoom = (factor, center) => {
    const middle = center === undefined ? (view.from + view.to) / 2 : center;
    show(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  };
  const stepAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    return view.from + Math.min(1, Math.max(0, share)) * (view.to - view.from);
  };
  canvas.addEventListener("wheel", (event) => {  // the page can still be scrolled past the chart
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, stepAt(event));
  }, { passive: false, signal });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, from: view.from, to: view.to, moved: false };
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const width = canvas.getBoundingClientRect().width - LEFT - RIGHT;
      const offset = ((drag.x - event.clientX) / width) * (drag.to - drag.from);
      drag.moved = drag.moved || Math.abs(drag.x - event.clientX) > 3;
      show(drag.from + offset, drag.to + offset);
    } else {
      cursor = clamp(Math.round(stepAt(event)));
      draw();
    }
  }, { signal });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved && series && onPick) {
      cursor = clamp(Math.round(stepAt(event)));
      onPick(cursor);
    }
    drag = null;
  }, { signal });
  canvas.addEventListener("pointercancel", () => { drag = null; }, { signal });
  canvas.addEventListener("pointerleave", () => { cursor = null; draw(); }, { signal });
  canvas.addEventListener("keydown", (event) => {
    const width = view.to - view.from, pages = { PageUp: -0.5, PageDown: 0.5 }[event.key];
    const next = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (pages) show(view.from + pages * width, view.to + pages * width);
    else if (next) moveCursor((cursor === null ? Math.round((view.from + view.to) / 2) : cursor) + next);
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else if (event.key === "0") show(0, grid.count);
    else if (event.key === "Home") moveCursor(0);
    else if (event.key === "End") moveCursor(grid.count - 1);
    else if (event.key === "Enter" && onPick && cursor !== null) onPick(cursor);
    else return;
    event.preventDefault();
  }, { signal });
  window.addEventListener("resize", draw, { signal });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  return {
    draw: (newSeries) => { series = newSeries; draw(); },
    highlight: (cells, step) => { highlighted = cells; picked = step === undefined ? null : step; draw(); },
    show: (from, to, step) => { if (step !== undefined) cursor = step; show(from, to); },
    showAll: () => show(0, grid.count), zoom, destroy: () => listeners.abort(),
  };
};
