// The form in which one says how a table is to be read; what is left empty is recognised.
import { made } from "./nodes.js";

const FIELDS = [
  ["layout", "Layout", ["", "panel", "long", "wide"]], ["time", "Column of times", "column"],
  ["location", "Column of stations", "column"], ["measurement", "Long: column of measurements", "column"],
  ["value", "Long: column of values", "column"], ["lat", "Column of latitudes", "column"],
  ["lon", "Column of longitudes", "column"], ["missing", "What stands for missing: -999,NA", "list"],
  ["step", "Time step: 1h, 5min", "text"], ["tz", "Time zone", "text"],
  ["time_format", "How times are written: %d.%m.%Y %H:%M", "text"],
  ["separator", "Separator of columns: ; tab space", "separator"], ["decimal", "Decimal mark", ["", ".", ","]],
  ["encoding", "Character encoding: latin-1", "text"],
  ["measurements", "Measurements to take: a,b", "list"], ["angles", "Directions in degrees: a,b", "list"],
  ["bounds", "Bounds of what is filled: pm25=0:,rh=0:100", "bounds"],
  ["duplicates", "Cells given twice", ["", "mean", "first"]],
  ["locations", "Where the stations are: lines of a CSV table", "lines"],
];
const SEPARATORS = { tab: "\t", space: " " };
const bound = (text, whole) => {
  const found = text.trim() ? Number(text) : null;
  if (Number.isNaN(found)) throw new Error(`bounds are written as pm25=0:,rh=0:100, but found ${whole}`);
  return found;
};

// How a field of a kind is written, and how what is written in it is read; others are plain text.
const WRITE = {
  list: (value) => value.join(","),
  separator: (value) => Object.keys(SEPARATORS).find((word) => SEPARATORS[word] === value) || value,
  bounds: (value) => Object.entries(value).map(([name, [low, high]]) => `${name}=${low ?? ""}:${high ?? ""}`).join(","),
};
const READ = {
  list: (text) => text.split(",").map((one) => one.trim()).filter(Boolean),
  separator: (text) => SEPARATORS[text] || text,
  bounds: (text) => Object.fromEntries(READ.list(text).map((one) => {
    const [name, ends = "?"] = one.split("="), [low, high = "?"] = ends.split(":");
    return [name.trim(), [bound(low, one), bound(high, one)]];
  })),
};

const ELSEWHERE = { minutes: "Minutes of training" };
const label = (name) => FIELDS.find(([own]) => own === name)?.[1].split(":")[0];
const named = (option) => ({ angle: "angles" }[option] || option.replaceAll("-", "_"));

// The field that a message speaks of, if it names an option of the command line.
export const fieldIn = (text) => [...text.matchAll(/--([a-z-]+)/g)].map(([, name]) => named(name)).find(label);

// The same message with the names that fields have here.
export const inFields = (text) => text.replace(
  /--([a-z-]+)/g, (option, name) => {
    const words = label(named(name)) || ELSEWHERE[name];
    return words ? `“${words}”` : option;
  });

const field = (kind, columns) => {
  if (Array.isArray(kind)) {
    const select = made("select");
    select.append(...kind.map((one) => new Option(one || "recognised", one)));
    return select;
  }
  if (kind === "lines") return made("textarea", undefined, { rows: 3, placeholder: "station,lat,lon", spellcheck: "false" });
  const input = made("input", undefined, { type: "text" });
  if (kind === "column") input.setAttribute("list", columns);
  return input;
};

// `told` is what the server understood: its columns, and how it was read; `done` gets the new reading,
// `wrong` what keeps it from being one.
export const makeReading = (form, told, done, wrong) => {
  const columns = made("datalist", undefined, { id: `${form.id}-columns` });
  columns.append(...told.columns.map((name) => made("option", undefined, { value: name })));
  form.replaceChildren(columns);
  for (const [name, words, kind] of FIELDS) {
    const box = made("label", words, { class: kind === "lines" ? "lines" : "" }), here = field(kind, columns.id);
    const now = told.options[name];
    here.name = name;
    if (now !== null && now !== undefined) here.value = WRITE[kind] ? WRITE[kind](now) : now;
    box.append(here);
    form.append(box);
  }
  form.append(made("button", "Read it so", { type: "submit" }));
  form.onsubmit = (event) => {
    event.preventDefault();
    const reading = { ...told.options };
    try {
      for (const [name, , kind] of FIELDS) {
        const text = form.elements[name].value.trim();
        if (!text) delete reading[name];
        else reading[name] = READ[kind] ? READ[kind](text) : text;
      }
    } catch (bad) {
      wrong(bad.message);
      return;
    }
    done(Object.fromEntries(Object.entries(reading).filter(([, value]) => value !== null)));
  };
};
