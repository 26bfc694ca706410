// What every part of the page uses: nodes, words for numbers, tables.
export const $ = (id) => document.getElementById(id);

export const made = (tag, text, more = {}) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
  return node;
};

export const svg = (tag, more) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
  return node;
};

export const number = (x, digits = 5) => (
  x === null || x === undefined ? "-" : Number(Number(x).toPrecision(digits)).toString());
export const short = (stamp) => stamp.replace("T", " ").replace(/(:\d\d):00(\.0+)?(?=$|[Z+-])/, "$1");
export const percent = (x) => (x > 0 && x < 0.001 ? "<0.1%" : `${Number((100 * x).toFixed(1))}%`);
export const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What went wrong, where it is seen; nothing if there is no text.
export const problem = (where, text) => {
  where.hidden = !text;
  where.replaceChildren(...(text ? [made("span", text)] : []));
};

// The choices of a select; what was chosen stays so if it is still there.
export const options = (select, names) => {
  const kept = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(kept)) select.value = kept;
};

// A table: columns are [title, class], rows are of `row`.
export const rows = (node, head, body) => {
  const top = made("tr"), thead = made("thead"), tbody = made("tbody");
  top.append(...head.map(([text, kind]) => made("th", text, { scope: "col", class: kind || "" })));
  thead.append(top);
  tbody.append(...body);
  node.replaceChildren(thead, tbody);
};

// A row of it: cells are [text or node, class].
export const row = (cells, more = {}) => {
  const node = made("tr", undefined, more);
  for (const [content, kind] of cells) {
    const cell = made("td", undefined, { class: kind || "" });
    cell.append(content instanceof Node ? content : String(content));
    node.append(cell);
  }
  return node;
};
