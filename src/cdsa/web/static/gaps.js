// When each station is missing: a row for each, the fuller the colour the more is missing.
import { $, colour, problem } from "./nodes.js";
import { ask, query } from "./server.js";

const NAMED = 16, TOP = 8, BELOW = 22;
let told = null, last = "", asked = 0, at = () => ({});

// Ask for the gaps of what is chosen, and draw them.
export const drawGaps = async (table) => {
  const mine = ++asked;
  try {
    const found = await ask(`/api/tables/${table.id}/gaps?${query({ measurement: $("gap-kind").value || null })}`);
    if (mine !== asked) return;
    told = found;
    last = table.last;
  } catch (bad) {
    if (mine === asked) problem($("problem"), bad.message);
    return;
  }
  paintGaps();
};

export const paintGaps = () => {
  if (!told) return;
  const canvas = $("gaps"), box = canvas.getBoundingClientRect(), dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * dots);
  canvas.height = Math.round(box.height * dots);
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  pen.clearRect(0, 0, box.width, box.height);
  pen.font = "12px system-ui, sans-serif";
  const rows = told.stations.length, parts = told.first.length, named = rows <= NAMED;
  const left = named ? Math.min(110, 10 + Math.max(...told.stations.map((n) => pen.measureText(n).width))) : 8;
  const bottom = box.height - BELOW, wide = (box.width - left - 8) / parts, high = (bottom - TOP) / rows;
  at = (event) => {
    const now = canvas.getBoundingClientRect();
    return {
      part: Math.floor((event.clientX - now.left - left) / wide),
      row: Math.floor((event.clientY - now.top - TOP) / high),
    };
  };
  const full = colour("--filled"), none = colour("--line"), soft = colour("--soft");
  const shade = (share) => (share  // the root, so that little is seen and much stands out
    ? `color-mix(in srgb, ${full} ${Math.max(12, 10 * Math.sqrt(share))}%, ${none})` : none);
  told.missing.forEach((shares, row) => {
    shares.forEach((share, part) => {
      pen.fillStyle = shade(share);
      pen.fillRect(left + part * wide, TOP + row * high, Math.ceil(wide), Math.max(1, high - (named ? 2 : 0)));
    });
    if (!named) return;
    pen.fillStyle = soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(told.stations[row], left - 6, TOP + (row + 0.5) * high, left - 8);
  });
  pen.fillStyle = soft;
  pen.textBaseline = "top";
  pen.textAlign = "left";
  pen.fillText(told.first[0].slice(0, 10), left, bottom + 6);
  pen.textAlign = "right";
  pen.fillText(last.slice(0, 10), box.width - 8, bottom + 6);
};

// One part of a row is read out: the one that is pointed at, or that arrows came to.
let here = { part: 0, row: 0 };
const say = () => {
  const share = told && told.missing[here.row] && told.missing[here.row][here.part];
  $("gap-here").textContent = share === undefined || share === null ? ""
    : `${told.stations[here.row]} from ${told.first[here.part]}: ${share}% missing`;
};
$("gaps").addEventListener("pointermove", (event) => {
  here = at(event);
  say();
});
$("gaps").addEventListener("keydown", (event) => {
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!move || !told) return;
  event.preventDefault();
  const within = (n, most) => Math.min(most - 1, Math.max(0, n || 0));
  here = { part: within(here.part + move[0], told.first.length), row: within(here.row + move[1], told.stations.length) };
  say();
});
