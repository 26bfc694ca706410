// The gaps of a table: one row per station; the stronger the colour, the more is missing.
import { $, colour, showProblem } from "./dom.js";
import { queryString, request } from "./api.js";

const MAX_NAMES = 16, TOP = 8, AXIS_HEIGHT = 22;
let gaps = null, lastTime = "", requests = 0, locate = () => ({});

// Request the gaps of the chosen measurement, and draw them.
export const loadGaps = async (table) => {
  const id = ++requests;
  try {
    const query = queryString({ measurement: $("gap-measurement").value || null });
    const response = await request(`/api/tables/${table.id}/gaps?${query}`);
    if (id !== requests) return;
    gaps = response;
    lastTime = table.last;
  } catch (error) {
    if (id === requests) showProblem($("problem"), error.message);
    return;
  }
  drawGaps();
};

export const drawGaps = () => {
  if (!gaps) return;
  const canvas = $("gaps"), box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, box.width, box.height);
  context.font = "12px system-ui, sans-serif";
  const nRows = gaps.stations.length, nPeriods = gaps.first.length, named = nRows <= MAX_NAMES;
  const left = named ? Math.min(110, 10 + Math.max(...gaps.stations.map((n) => context.measureText(n).width))) : 8;
  const bottom = box.height - AXIS_HEIGHT, width = (box.width - left - 8) / nPeriods, height = (bottom - TOP) / nRows;
  locate = (event) => {
    const now = canvas.getBoundingClientRect();
    return {
      period: Math.floor((event.clientX - now.left - left) / width),
      row: Math.floor((event.clientY - now.top - TOP) / height),
    };
  };
  const missing = colour("--filled"), measured = colour("--line"), soft = colour("--soft");
  const shade = (share) => (share  // the square root makes small shares visible
    ? `color-mix(in srgb, ${missing} ${Math.max(12, 10 * Math.sqrt(share))}%, ${measured})` : measured);
  gaps.missing.forEach((shares, row) => {
    shares.forEach((share, period) => {
      context.fillStyle = shade(share);
      context.fillRect(
        left + period * width, TOP + row * height, Math.ceil(width), Math.max(1, height - (named ? 2 : 0)));
    });
    if (!named) return;
    context.fillStyle = soft;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(gaps.stations[row], left - 6, TOP + (row + 0.5) * height, left - 8);
  });
  context.fillStyle = soft;
  context.textBaseline = "top";
  context.textAlign = "left";
  context.fillText(gaps.first[0].slice(0, 10), left, bottom + 6);
  context.textAlign = "right";
  context.fillText(lastTime.slice(0, 10), box.width - 8, bottom + 6);
};

// The period under the pointer, or the one that the arrow keys have reached, is read out.
let current = { period: 0, row: 0 };
const readOut = () => {
  const share = gaps?.missing[current.row]?.[current.period];
  $("gap-readout").textContent = share === undefined ? ""
    : `${gaps.stations[current.row]} from ${gaps.first[current.period]}: ${share}% missing`;
};
$("gaps").addEventListener("pointermove", (event) => {
  current = locate(event);
  readOut();
});
$("gaps").addEventListener("keydown", (event) => {
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!move || !gaps) return;
  event.preventDefault();
  const clamp = (n, length) => Math.min(length - 1, Math.max(0, n || 0));
  current = {
    period: clamp(current.period + move[0], gaps.first.length), row: clamp(current.row + move[1], gaps.stations.length),
  };
  readOut();
});
