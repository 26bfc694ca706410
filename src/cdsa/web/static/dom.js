// Shared helpers: elements, numbers as text, tables.
export const $ = (id) => document.getElementById(id);

export const element = (tag, text, attributes = {}) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

export const svg = (tag, attributes) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

export const formatNumber = (x, digits = 5) => (
  x === null || x === undefined ? "-" : Number(Number(x).toPrecision(digits)).toString());
export const formatTime = (time) => time.replace("T", " ").replace(/(:\d\d):00(\.0+)?(?=$|[Z+-])/, "$1");
export const percent = (x) => (x > 0 && x < 0.001 ? "<0.1%" : `${Number((100 * x).toFixed(1))}%`);
export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Show an error message in a box; without a text, the box is hidden.
export const showProblem = (box, text) => {
  box.hidden = !text;
  box.replaceChildren(...(text ? [element("span", text)] : []));
};

// Replace the choices of a select; the current one stays selected if it still exists.
export const setChoices = (select, names) => {
  const selected = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(selected)) select.value = selected;
};

// Fill a table: columns are [title, class], rows come from `tableRow`.
export const fillTable = (table, columns, rows) => {
  const header = element("tr"), thead = element("thead"), tbody = element("tbody");
  header.append(...columns.map(([title, kind]) => element("th", title, { scope: "col", class: kind || "" })));
  thead.append(header);
  tbody.append(...rows);
  table.replaceChildren(thead, tbody);
};

// A row of a table: cells are [text or element, class].
export const tableRow = (cells, attributes = {}) => {
  const row = element("tr", undefined, attributes);
  for (const [content, kind] of cells) {
    const cell = element("td", undefined, { class: kind || "" });
    cell.append(content instanceof Node ? content : String(content));
    row.append(cell);
  }
  return row;
};
