// The form of read options; what is left empty is detected automatically.
import { element } from "./dom.js";

const FIELDS = [  // name, label, kind or choices, example
  ["layout", "Layout", ["", "panel", "long", "wide"]], ["time", "Time column", "column"],
  ["location", "Station column", "column"], ["measurement", "Measurement column (long layout)", "column"],
  ["value", "Value column (long layout)", "column"], ["lat", "Latitude column", "column"],
  ["lon", "Longitude column", "column"], ["missing", "Codes for missing values", "list", "-999,NA"],
  ["step", "Time step", "text", "1h, 5min"], ["tz", "Time zone", "text"],
  ["time_format", "Time format", "text", "%d.%m.%Y %H:%M"],
  ["separator", "Column separator", "separator", "; tab space"], ["decimal", "Decimal mark", ["", ".", ","]],
  ["encoding", "Character encoding", "text", "latin-1"],
  ["skip_rows", "Lines to skip", "rows", "4 or 1,3-4"],
  ["column_pattern", "Names of columns", "text", "{station}_{measurement}"],
  ["measurements", "Measurements to read", "list", "a,b"], ["directions", "Directions in degrees", "list", "a,b"],
  ["bounds", "Bounds of filled values", "bounds", "pm25=0:,rh=0:100"],
  ["digits", "Decimals of filled values", "units", "pm25=1"],
  ["units", "Units", "units", "pm25=ug/m3"], ["coordinates", "Use the coordinates", ["", "true", "false"]],
  ["duplicates", "Duplicate rows", ["", "mean", "first"]],
  ["locations", "Station coordinates", "lines", "lines of a CSV table"],
];
const OTHER_LABELS = { minutes: "Training minutes", known: "Known covariates", at: "Sites without a sensor" };
const SEPARATORS = { tab: "\t", space: " " };

// How the value of a field is shown, by the kind of the field; the server parses the text.
const FORMAT = {
  list: (value) => value.join(","),
  rows: (value) => (value.length === value.at(-1) ? `${value.length}` : value.map((line) => `${line}-${line}`).join(",")),
  separator: (value) => Object.keys(SEPARATORS).find((word) => SEPARATORS[word] === value) || value,
  units: (value) => Object.entries(value).map(([name, unit]) => `${name}=${unit}`).join(","),
  bounds: (value) => Object.entries(value).map(([name, [low, high]]) => `${name}=${low ?? ""}:${high ?? ""}`).join(","),
};

const labelOf = (field) => FIELDS.find(([name]) => name === field)?.[1];
const fieldOf = (option) => ({ direction: "directions" }[option] || option.replaceAll("-", "_"));

// The field that a message is about, if it names an option of the command line.
export const fieldNamedIn = (text) => (
  [...text.matchAll(/--([a-z-]+)/g)].map(([, option]) => fieldOf(option)).find(labelOf));

// The same message with the labels of this page in place of the options of the command line.
export const withLabels = (text) => text.replace(/--([a-z-]+)/g, (option, name) => {
  const label = labelOf(fieldOf(name)) || OTHER_LABELS[name];
  return label ? `“${label}”` : option;
});

const makeInput = (kind, columnsId) => {
  if (Array.isArray(kind)) {
    const select = element("select");
    select.append(...kind.map((choice) => new Option(choice || "automatic", choice)));
    return select;
  }
  if (kind === "lines") {
    return element("textarea", undefined, { rows: 3, placeholder: "station,lat,lon", spellcheck: "false" });
  }
  const input = element("input", undefined, { type: "text" });
  if (kind === "column") input.setAttribute("list", columnsId);
  return input;
};

// Fill the form with the columns and options of a table. `onSubmit` gets the new options.
export const makeOptionsForm = (form, table, onSubmit) => {
  const columns = element("datalist", undefined, { id: `${form.id}-columns` });
  columns.append(...table.columns.map((name) => element("option", undefined, { value: name })));
  form.replaceChildren(columns);
  for (const [name, text, kind, example] of FIELDS) {
    const label = element("label", example ? `${text}: ${example}` : text, { class: kind === "lines" ? "lines" : "" });
    const input = makeInput(kind, columns.id), value = table.options[name];
    input.name = name;
    if (value !== null && value !== undefined) input.value = FORMAT[kind] ? FORMAT[kind](value) : value;
    label.append(input);
    form.append(label);
  }
  form.append(element("button", "Read the table again", { type: "submit" }));
  form.onsubmit = (event) => {
    event.preventDefault();
    const options = { ...table.options };
    for (const [name] of FIELDS) {
      const text = form.elements[name].value.trim();
      if (text) options[name] = text;
      else delete options[name];
    }
    onSubmit(Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null)));
  };
};
