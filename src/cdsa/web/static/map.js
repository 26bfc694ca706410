// Maps of the stations, as they lie to each other; nobody is asked for tiles.
import { $, colour, percent, svg } from "./nodes.js";

const EDGE = 34, NAMED = 40;

// Both maps: of the table and, when it is filled, of where a value comes from. `live` is what can be
// done then: {places, chosen, choose(name), reasons}.
export const drawMaps = (table, live = null) => {
  const stations = table.stations.map((one) => ({ ...one, words: `${percent(one.missing)} missing` }));
  const places = live ? live.places.map((one) => ({ ...one, missing: 1, place: true, words: "no sensor" })) : [];
  const placed = [...stations, ...places].filter((one) => one.lat !== null);
  $("map-words").textContent = !placed.length
    ? "There are no coordinates: no map can be drawn. They can be given below, as lines of a table."
    : `Stations; the fuller the colour, the more is missing.${live ? " Click one to see its series." : ""}`;
  $("map").toggleAttribute("hidden", !placed.length);
  $("where").parentNode.hidden = !placed.length;
  if (!placed.length) return;
  paint($("map"), placed, live, null);
  if (live) paint($("where"), placed, live, live.reasons);
};

const paint = (map, placed, live, reasons) => {
  const held = map.contains(document.activeElement);  // a station that is redrawn keeps the focus
  const box = map.getBoundingClientRect(), at = projected(placed, box);
  map.replaceChildren(...(reasons ? shares(reasons, at) : []));
  const most = Math.max(...placed.filter((one) => !one.place).map((one) => one.missing), 1e-9);
  const dots = placed.map((one) => dot(one, at.get(one.name), Math.min(1, one.missing / most), live));
  placed.forEach((one, place) => {
    map.append(dots[place]);
    if (placed.length <= NAMED) map.append(name(one, at.get(one.name), box));
    if (!live) return;
    const choose = () => live.choose(one.name);
    dots[place].addEventListener("click", choose);
    dots[place].addEventListener("keydown", (event) => {  // one stop for the tab key, and arrows
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") choose();
      else if (step) dots[(place + step + dots.length) % dots.length].focus();
      else return;
      event.preventDefault();
    });
    if (held && one.name === live.chosen) dots[place].focus();
  });
};

// By name, where stations are in a box: degrees of longitude are shorter far from the equator.
const projected = (placed, box) => {
  const middle = placed.reduce((sum, one) => sum + one.lat, 0) / placed.length;
  const shrink = Math.max(0.05, Math.cos((middle * Math.PI) / 180));
  const xs = placed.map((one) => one.lon * shrink), ys = placed.map((one) => one.lat);
  const low = [Math.min(...xs), Math.min(...ys)];
  const size = [Math.max(...xs) - low[0], Math.max(...ys) - low[1]];
  const scale = Math.min((box.width - 2 * EDGE) / (size[0] || 1e-9), (box.height - 2 * EDGE) / (size[1] || 1e-9));
  const used = Number.isFinite(scale) && scale < 1e8 ? scale : 0;
  return new Map(placed.map((one) => [one.name, {
    x: box.width / 2 + used * (one.lon * shrink - low[0] - size[0] / 2),
    y: box.height / 2 - used * (one.lat - low[1] - size[1] / 2),
  }]));
};

// Lines and circles for the stations that a value comes from, as large as their shares.
const shares = (reasons, at) => {
  const target = at.get(reasons.location), sums = new Map();
  for (const cell of reasons.cells) sums.set(cell.location, (sums.get(cell.location) || 0) + cell.share);
  return [...sums].filter(([station]) => target && at.has(station)).flatMap(([station, share]) => {
    const { x, y } = at.get(station), line = svg("line", { x1: x, y1: y, x2: target.x, y2: target.y });
    line.style.strokeWidth = 1 + 6 * share;
    return [line, svg("circle", { class: "reason", cx: x, cy: y, r: 8 + 20 * Math.sqrt(share) })];
  });
};

const dot = (one, { x, y }, share, live) => {
  const chosen = live && one.name === live.chosen;
  const node = svg("circle", {
    cx: x, cy: y, r: 7, role: live ? "button" : "img",
    class: [chosen ? "chosen" : "", one.place ? "place" : ""].join(" ").trim(),
    "aria-label": `${one.name}, ${one.words}`,
  });
  node.style.fill = one.place ? colour("--paper")
    : `color-mix(in srgb, ${colour("--filled")} ${Math.round(100 * share)}%, ${colour("--paper")})`;
  if (live) node.setAttribute("tabindex", chosen ? 0 : -1);
  node.append(svg("title", {}));
  node.firstChild.textContent = `${one.name}: ${one.words}`;
  return node;
};

const name = (one, { x, y }, box) => {
  const left = x > box.width * 0.7;
  const text = svg("text", { x: left ? x - 10 : x + 10, y: y + 4, "text-anchor": left ? "end" : "start" });
  text.textContent = one.name;
  return text;
};
