// A series on a canvas that can be zoomed and moved by wheel, pointer, keys and buttons.
//
// cdsaChart(canvas, here, told, pick): `told` says when its steps are ({first, step, count, zone} or
// {times, count, zone}); `here` is the element that reads out the step pointed at; `pick(step)` is
// called when a step is clicked, or Enter is pressed on it.
//
// It listens until `end()` is called.
//
// What it draws, with `draw(series)`: {unit, value, isFilled, at, lowEnd, highEnd, turns} of typed
// arrays; `at` is the place of a filled step in lowEnd and highEnd. `marks(list)`: {step, share,
// other} to be highlighted, `other` if they are cells of other series.
const cdsaTicks = (from, to, most) => {  // moments worth a mark between two, and their words
  const HOUR = 3600, DAY = 24 * HOUR;
  const word = (moment, ...part) => new Date(1000 * moment).toISOString().replace("T", " ").slice(...part);
  const each = [1, 5, 15, 30, 60, 300, 900, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY]
    .find((seconds) => (to - from) / seconds <= most);
  const found = [];
  if (each) {
    const part = each < 60 ? [11, 19] : each < DAY ? [5, 16] : [0, 10];
    for (let moment = Math.ceil(from / each) * each; moment <= to; moment += each) {
      found.push([moment, word(moment, ...part)]);
    }
    return found;
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((n) => (to - from) / (n * 30.4 * DAY) <= most) || 600;
  const start = new Date(1000 * from);
  for (let n = 12 * start.getUTCFullYear() + start.getUTCMonth(); ; n++) {
    const moment = Date.UTC(Math.floor(n / 12), n % 12) / 1000;
    if (moment > to) return found;
    if (moment >= from && n % months === 0) found.push([moment, word(moment, 0, months < 12 ? 7 : 4)]);
  }
};
const cdsaChart = (canvas, here, told, pick) => {  // eslint-disable-line no-unused-vars
  "use strict";
  const timeAt = told.times ? (i) => told.times[i] : (i) => told.first + i * told.step;
  const view = { from: 0, to: told.count };
  let series = null, cursor = null, picked = null, marked = [], due = false;
  const life = new AbortController(), { signal } = life;

  const stepOf = (moment) => {  // the step at a moment, or the share of the way to the next one
    if (!told.times) return (moment - told.first) / told.step;
    let low = 0, high = told.count - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (told.times[middle] <= moment) low = middle;
      else high = middle;
    }
    return low + (moment - told.times[low]) / (told.times[high] - told.times[low] || 1);
  };
  const plain = (i) => new Date(1000 * timeAt(i)).toISOString().slice(0, 16).replace("T", " ");
  const stamp = (i) => plain(i) + (told.zone ? ` ${told.zone}` : "");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (x) => (Number.isFinite(x) ? Number(x.toPrecision(5)).toString() : "-");

  const draw = () => {  // once a frame, however often it is asked for
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      if (!signal.aborted) paint();
    });
  };
  const paint = () => {
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
    const ends = [timeAt(first), timeAt(Math.max(first, last - 1))];
    for (const [moment, text] of cdsaTicks(...ends, Math.max(2, Math.floor((right - left) / 80)))) {
      const at = x(stepOf(moment));
      pen.beginPath(); pen.moveTo(at, bottom); pen.lineTo(at, bottom + 4); pen.stroke();
      if (at > left + 20 && at < right - 30) pen.fillText(text, at, bottom + 8);
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
    const crowded = (last - first) / (right - left) > 4;  // steps a dot: lows and highs say it all
    const line = (wanted, style, width) => {  // a piece belongs to the gap if either end is filled
      pen.strokeStyle = pen.fillStyle = style;
      pen.lineWidth = width;
      pen.beginPath();
      let dot = -1, least = 0, most = 0;
      for (let i = Math.max(0, first - 1); i < Math.min(last, told.count - 1); i++) {
        const filled = Boolean(series.isFilled[i] || series.isFilled[i + 1]);
        if (filled !== wanted) continue;
        const one = series.value[i], next = series.value[i + 1];
        if (!Number.isFinite(one) || !Number.isFinite(next)) continue;
        if (!crowded) {
          pen.moveTo(x(i), y(one));
          pen.lineTo(x(i + 1), y(next));
          continue;
        }
        if (Math.floor(x(i)) !== dot) {
          if (dot >= 0) { pen.moveTo(dot, y(least)); pen.lineTo(dot, y(most) - 0.5); }
          dot = Math.floor(x(i));
          least = most = one;
        }
        least = Math.min(least, one, next);
        most = Math.max(most, one, next);
      }
      if (crowded && dot >= 0) { pen.moveTo(dot, y(least)); pen.lineTo(dot, y(most) - 0.5); }
      pen.stroke();
      for (let i = first; i < last; i++) {  // what has nothing beside it is a dot
        if (Boolean(series.isFilled[i]) !== wanted || !Number.isFinite(series.value[i])) continue;
        if (Number.isFinite(series.value[i - 1]) || Number.isFinite(series.value[i + 1])) continue;
        pen.fillRect(x(i) - 1.5, y(series.value[i]) - 1.5, 3, 3);
      }
    };
    line(false, colour("--ink"), 1.2);
    line(true, colour("--filled"), 1.8);
    for (const one of marked) {  // the larger the share, the larger the mark
      const size = 3 + 9 * Math.sqrt(one.share), v = one.other ? low + pad : series.value[one.step];
      if (!Number.isFinite(v)) continue;
      pen.strokeStyle = pen.fillStyle = colour("--accent");
      pen.lineWidth = 1.6;
      pen.beginPath();
      if (one.other) pen.rect(x(one.step) - size / 2, bottom - size - 2, size, size);
      else pen.arc(x(one.step), y(v), size / 2 + 1, 0, 2 * Math.PI);
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
    const word = series.word || "filled with";
    const what = !Number.isFinite(v) ? "nothing" : k >= 0 ? `${word} ${number(v)}` : `measured ${number(v)}`;
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
  canvas.addEventListener("wheel", (event) => {  // a page can be scrolled past it
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, stepAt(event));
  }, { passive: false, signal });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    held = { x: event.clientX, from: view.from, to: view.to, moved: false };
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const wide = held.to - held.from;
      held.moved = held.moved || Math.abs(held.x - event.clientX) > 3;
      const moved = ((held.x - event.clientX) / (canvas.getBoundingClientRect().width - 68)) * wide;
      show(held.from + moved, held.to + moved);
    } else {
      cursor = Math.min(told.count - 1, Math.max(0, Math.round(stepAt(event))));
      draw();
    }
  }, { signal });
  canvas.addEventListener("pointerup", (event) => {
    if (held && !held.moved && series && pick) {
      cursor = Math.min(told.count - 1, Math.max(0, Math.round(stepAt(event))));
      pick(cursor);
    }
    held = null;
  }, { signal });
  canvas.addEventListener("pointercancel", () => { held = null; }, { signal });
  canvas.addEventListener("pointerleave", () => { cursor = null; draw(); }, { signal });
  canvas.addEventListener("keydown", (event) => {
    const wide = view.to - view.from, by = { PageUp: -0.5, PageDown: 0.5 }[event.key];
    const next = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) show(view.from + by * wide, view.to + by * wide);
    else if (next) mark((cursor === null ? Math.round((view.from + view.to) / 2) : cursor) + next);
    else if (event.key === "+" || event.key === "=") zoom(0.7);
    else if (event.key === "-") zoom(1.4);
    else if (event.key === "0") show(0, told.count);
    else if (event.key === "Home") mark(0);
    else if (event.key === "End") mark(told.count - 1);
    else if (event.key === "Enter" && pick && cursor !== null) pick(cursor);
    else return;
    event.preventDefault();
  }, { signal });
  window.addEventListener("resize", draw, { signal });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  return {
    draw: (one) => { series = one; draw(); },
    marks: (list, at) => { marked = list; picked = at === undefined ? null : at; draw(); },
    look: (from, to, at) => { if (at !== undefined) cursor = at; show(from, to); },
    zoom, whole: () => show(0, told.count), end: () => life.abort(),
  };
};
