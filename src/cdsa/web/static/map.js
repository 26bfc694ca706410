// Maps of the stations, without tiles, so that nothing is requested from elsewhere.
import { $, colour, percent, svg } from "./dom.js";

const MARGIN = 34, MAX_NAMES = 40;

// Draw the map of the table and, with a result, the map of an explanation.
// `result`: {sites, selected, onSelect(name), explanation}.
export const drawMaps = (table, result = null) => {
  const stations = table.stations.map((station) => ({ ...station, text: `${percent(station.missing)} missing` }));
  const sites = result ? result.sites.map((site) => ({ ...site, missing: 1, isSite: true, text: "no sensor" })) : [];
  const points = [...stations, ...sites].filter((point) => point.lat !== null);
  $("map-caption").textContent = !points.length
    ? "There is no map, because the table has no coordinates. You can enter them below, in the read options."
    : `Stations; the stronger the colour, the more is missing.${result ? " Click one to see its series." : ""}`;
  $("map").toggleAttribute("hidden", !points.length);
  $("explanation-map").parentNode.hidden = !points.length;
  if (!points.length) return;
  drawMap($("map"), points, result, null);
  if (result) drawMap($("explanation-map"), points, result, result.explanation);
};

const drawMap = (map, points, result, explanation) => {
  const hadFocus = map.contains(document.activeElement);  // a redrawn station keeps the focus
  const box = map.getBoundingClientRect(), positions = project(points, box);
  map.replaceChildren(...(explanation ? drawShares(explanation, positions) : []));
  const maxMissing = Math.max(...points.filter((point) => !point.isSite).map((point) => point.missing), 1e-9);
  const circles = points.map((point) =>
    drawPoint(point, positions.get(point.name), Math.min(1, point.missing / maxMissing), result));
  points.forEach((point, number) => {
    const circle = circles[number];
    map.append(circle);
    if (points.length <= MAX_NAMES) map.append(drawName(point, positions.get(point.name), box));
    if (!result) return;
    const select = () => result.onSelect(point.name);
    circle.addEventListener("click", select);
    circle.addEventListener("keydown", (event) => {  // one tab stop; the arrow keys move between stations
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") select();
      else if (move) circles[(number + move + circles.length) % circles.length].focus();
      else return;
      event.preventDefault();
    });
    if (hadFocus && point.name === result.selected) circle.focus();
  });
};

// Positions in the box, by name; degrees of longitude are shorter far from the equator.
const project = (points, box) => {
  const middle = points.reduce((sum, point) => sum + point.lat, 0) / points.length;
  const shrink = Math.max(0.05, Math.cos((middle * Math.PI) / 180));
  const xs = points.map((point) => point.lon * shrink), ys = points.map((point) => point.lat);
  const low = [Math.min(...xs), Math.min(...ys)];
  const size = [Math.max(...xs) - low[0], Math.max(...ys) - low[1]];
  const fit = Math.min((box.width - 2 * MARGIN) / (size[0] || 1e-9), (box.height - 2 * MARGIN) / (size[1] || 1e-9));
  const scale = Number.isFinite(fit) && fit < 1e8 ? fit : 0;
  return new Map(points.map((point) => [point.name, {
    x: box.width / 2 + scale * (point.lon * shrink - low[0] - size[0] / 2),
    y: box.height / 2 - scale * (point.lat - low[1] - size[1] / 2),
  }]));
};

// Lines and circles for the stations that a value comes from, sized by their shares.
const drawShares = (explanation, positions) => {
  const target = positions.get(explanation.location), shares = new Map();
  for (const cell of explanation.cells) shares.set(cell.location, (shares.get(cell.location) || 0) + cell.share);
  return [...shares].filter(([name]) => target && positions.has(name)).flatMap(([name, share]) => {
    const { x, y } = positions.get(name), line = svg("line", { x1: x, y1: y, x2: target.x, y2: target.y });
    line.style.strokeWidth = 1 + 6 * share;
    return [line, svg("circle", { class: "contribution", cx: x, cy: y, r: 8 + 20 * Math.sqrt(share) })];
  });
};

const drawPoint = (point, { x, y }, share, result) => {
  const selected = result && point.name === result.selected;
  const circle = svg("circle", {
    cx: x, cy: y, r: 7, role: result ? "button" : "img",
    class: [selected ? "selected" : "", point.isSite ? "site" : ""].join(" ").trim(),
    "aria-label": `${point.name}, ${point.text}`,
  });
  circle.style.fill = point.isSite ? colour("--paper")
    : `color-mix(in srgb, ${colour("--filled")} ${Math.round(100 * share)}%, ${colour("--paper")})`;
  if (result) circle.setAttribute("tabindex", selected ? 0 : -1);
  circle.append(svg("title", {}));
  circle.firstChild.textContent = `${point.name}: ${point.text}`;
  return circle;
};

const drawName = (point, { x, y }, box) => {
  const left = x > box.width * 0.7;
  const text = svg("text", { x: left ? x - 10 : x + 10, y: y + 4, "text-anchor": left ? "end" : "start" });
  text.textContent = point.name;
  return text;
};
