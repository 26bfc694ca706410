// The page: send a table, see what it is, fill or forecast it, see where values come from.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const made = (tag, text, more = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
    return node;
  };
  const svg = (tag, more) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
    return node;
  };
  const number = (x, digits = 5) => (
    x === null || x === undefined ? "-" : Number(Number(x).toPrecision(digits)).toString());
  const short = (stamp) => stamp.replace("T", " ").replace(/(:\d\d):00(\.0+)?(?=$|[Z+-])/, "$1");
  const percent = (x) => (x > 0 && x < 0.001 ? "<0.1%" : `${Number((100 * x).toFixed(1))}%`);
  const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  let table = null, job = null, lastFile = null, chart = null, shown = null, start = 0, gapsTold = null;
  let reasonsTold = null;
  let turn = 0, looked = 0;  // answers to a question that is not the last one are not shown any more
  const PAGE_OF_CELLS = 12, PATIENCE = 20;
  const goes = () => job && (job.state === "waiting" || job.state === "running");
  const forgetJob = () => {  // a job that nobody will look at any more
    if (goes()) ask(`/api/jobs/${job.id}`, { method: "DELETE" }).catch(() => {});
    job = reasonsTold = null;
    busy(false);
  };

  // --- asking the server ------------------------------------------------------------------------
  const ask = async (path, options = {}) => {
    let reply;
    try {
      reply = await fetch(path, options);
    } catch {
      throw new Error("the server cannot be reached. Is it still running?");
    }
    if (reply.status === 204) return null;
    const told = await reply.json().catch(() => ({ detail: `the server answered with ${reply.status}` }));
    if (!reply.ok) throw Object.assign(new Error(told.detail), { status: reply.status });
    return told;
  };
  const sent = (path, body, method = "POST") => ask(path, {
    method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  const query = (given) => new URLSearchParams(
    Object.entries(given).filter(([, value]) => value !== null && value !== undefined)).toString();
  const problem = (where, text) => {
    where.hidden = !text;
    where.replaceChildren(...(text ? [made("span", text)] : []));
  };
  const remember = () => {
    const parts = new URLSearchParams();
    if (table) parts.set("table", table.id);
    if (job) parts.set("job", job.id);
    history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname);
  };

  // --- 1. sending -------------------------------------------------------------------------------
  const receive = async (work, words) => {
    const mine = ++turn;
    problem($("problem"), "");
    $("sending").textContent = words;
    for (const id of ["understood", "ask", "result", "again"]) $(id).hidden = true;
    problem($("failure"), "");
    forgetJob();
    table = null;
    try {
      const told = await work();
      if (mine !== turn) return;
      table = told;
      understood();
    } catch (bad) {
      if (mine !== turn) return;
      problem($("problem"), bad.message);
      if (lastFile && bad.status === 422) offerReading();
    } finally {
      if (mine === turn) {
        $("sending").textContent = "";
        remember();
      }
    }
  };
  const send = (file, reading) => {
    lastFile = file;
    const given = query({ name: file.name, reading: reading ? JSON.stringify(reading) : null });
    return receive(async () => {
      await file.slice(0, 1).arrayBuffer().catch(() => {
        throw new Error(`${file.name} has changed or gone since it was chosen. Choose it again`);
      });
      return ask(`/api/tables?${given}`, { method: "POST", body: file });
    }, `reading ${file.name} ...`);
  };
  const offerReading = () => {  // what could not be understood can be said
    const button = made("button", "Say how it is to be read", { type: "button" });
    button.addEventListener("click", () => {
      makeReading($("again"), { columns: [], reading: {} }, (reading) => send(lastFile, reading));
      $("again").hidden = false;
      button.remove();
      $("again").elements[0].focus();
    });
    $("problem").append(document.createElement("br"), button);
  };
  $("file").addEventListener("change", () => {
    const file = $("file").files[0];
    $("file").value = "";  // the same one, mended, may be chosen again
    if (file) send(file);
  });
  $("example").addEventListener("click", () => {
    lastFile = null;
    receive(() => ask("/api/tables/example", { method: "POST" }), "reading the example ...");
  });
  const drop = $("drop");
  for (const name of ["dragover", "dragenter"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  });

  // --- 2. what it is ----------------------------------------------------------------------------
  const understood = () => {
    $("understood").hidden = $("ask").hidden = false;
    const cells = table.measurements.reduce((sum, one) => sum + one.cells, 0);
    const missing = table.measurements.reduce((sum, one) => sum + one.missing, 0);
    const facts = [
      [table.name, table.layout],
      [count(table.steps, "time step"), `of ${table.step}, ${short(table.first)} to ${short(table.last)}`],
      [count(table.stations.length, "station"), table.stations[0].lat === null ? "without coordinates" : "with coordinates"],
      [count(table.measurements.length, "measurement"),
        table.measurements.map((one) => one.name + (one.unit ? ` (${one.unit})` : "")).join(", ")],
      [`${percent(missing / cells)} missing`, `${missing.toLocaleString("en")} of ${cells.toLocaleString("en")} cells`],
    ];
    $("facts").replaceChildren(...facts.map(([head, more]) => {
      const box = made("div");
      box.append(made("b", head), made("span", more, { class: "soft" }));
      return box;
    }));
    $("notes").replaceChildren(...[...table.notes, ...table.doubts].map((text) => made("li", text)));
    $("longest").textContent = table.longest.length ? `Longest gaps: ${table.longest.slice(0, 3).map((gap) =>
      `${gap.measurement} at ${gap.location}, ${count(gap.steps, "step")} from ${short(gap.first)}`).join("; ")}.` : "";
    const kinds = table.measurements.map((one) => one.name);
    $("gap-kind").replaceChildren(new Option("all measurements", ""), ...kinds.map((name) => new Option(name, name)));
    options($("station"), table.stations.map((one) => one.name));
    options($("kind"), kinds);
    makeReading($("reading"), table, async (reading) => {
      problem($("problem"), "");
      mayBegin(false);
      try {
        const mine = turn, told = await sent(`/api/tables/${table.id}/reading`, reading, "PUT");
        if (mine !== turn) return;
        table = told;
        forgetJob();
        $("result").hidden = true;
        understood();
      } catch (bad) {
        problem($("problem"), bad.message);
        $("problem").scrollIntoView({ block: "center" });
        busy(Boolean(goes()));
      }
      remember();
    });
    drawMap();
    drawGaps();
  };
  const options = (select, names) => {
    const kept = select.value;
    select.replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(kept)) select.value = kept;
  };

  const READING = [
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
  ];
  const SEPARATORS = { tab: "\t", space: " " };
  const bound = (text) => (text === undefined || !text.trim() ? null : Number(text));
  // how a field is written, and what is written in it, read
  const WRITE = {
    list: (value) => value.join(","),
    separator: (value) => Object.keys(SEPARATORS).find((word) => SEPARATORS[word] === value) || value,
    bounds: (value) => Object.entries(value).map(([name, [low, high]]) => `${name}=${low ?? ""}:${high ?? ""}`).join(","),
  };
  const READ = {
    list: (text) => text.split(",").map((one) => one.trim()).filter(Boolean),
    separator: (text) => SEPARATORS[text] || text,
    bounds: (text) => Object.fromEntries(READ.list(text).map((one) => {
      const [name, ends = ""] = one.split("="), [low, high] = ends.split(":").map(bound);
      return [name.trim(), [low ?? null, high ?? null]];
    })),
  };
  const makeReading = (form, told, done) => {
    form.replaceChildren();
    const prefix = form.id;
    const names = made("datalist", undefined, { id: `${prefix}-columns` });
    names.append(...told.columns.map((name) => made("option", undefined, { value: name })));
    form.append(names);
    for (const [name, words, kind] of READING) {
      const label = made("label", words);
      const field = Array.isArray(kind) ? made("select") : made("input", undefined, { type: "text" });
      if (Array.isArray(kind)) field.append(...kind.map((one) => new Option(one || "recognised", one)));
      if (kind === "column") field.setAttribute("list", `${prefix}-columns`);
      field.name = name;
      const now = told.reading[name];
      if (now !== null && now !== undefined) field.value = WRITE[kind] ? WRITE[kind](now) : now;
      label.append(field);
      form.append(label);
    }
    form.append(made("button", "Read it so", { type: "submit" }));
    form.onsubmit = (event) => {
      event.preventDefault();
      const reading = { ...told.reading };
      for (const [name, , kind] of READING) {
        const text = form.elements[name].value.trim();
        if (!text) delete reading[name];
        else reading[name] = READ[kind] ? READ[kind](text) : text;
      }
      for (const [name, value] of Object.entries(reading)) if (value === null) delete reading[name];
      done(reading);
    };
  };

  // places as they lie to each other: degrees of longitude are shorter far from the equator
  const drawMap = () => {
    const placed = table.stations.filter((one) => one.lat !== null);
    $("map-words").textContent = !placed.length ? "There are no coordinates: no map can be drawn."
      : `Stations; the fuller the colour, the more is missing.${job && job.state === "done" ? " Click one to see its series." : ""}`;
    $("map").toggleAttribute("hidden", !placed.length);
    $("where").parentNode.hidden = !placed.length;
    if (!placed.length) return;
    paintMap($("map"), placed, null);
    if (!$("result").hidden) paintMap($("where"), placed, reasonsTold);
  };
  const paintMap = (map, placed, reasons) => {
    const held = map.contains(document.activeElement);  // a station that is redrawn keeps the focus
    map.replaceChildren();
    const box = map.getBoundingClientRect(), edge = 34;
    const middle = placed.reduce((sum, one) => sum + one.lat, 0) / placed.length;
    const shrink = Math.max(0.05, Math.cos((middle * Math.PI) / 180));
    const xs = placed.map((one) => one.lon * shrink), ys = placed.map((one) => one.lat);
    const low = [Math.min(...xs), Math.min(...ys)];
    const size = [Math.max(...xs) - low[0], Math.max(...ys) - low[1]];
    const scale = Math.min((box.width - 2 * edge) / (size[0] || 1e-9), (box.height - 2 * edge) / (size[1] || 1e-9));
    const used = Number.isFinite(scale) && scale < 1e8 ? scale : 0;
    const at = (one) => ({
      x: box.width / 2 + used * (one.lon * shrink - low[0] - size[0] / 2),
      y: box.height / 2 - used * (one.lat - low[1] - size[1] / 2),
    });
    const by = Object.fromEntries(placed.map((one) => [one.name, at(one)]));
    if (reasons && by[reasons.location]) {
      const sums = {};
      for (const cell of reasons.cells) sums[cell.location] = (sums[cell.location] || 0) + cell.share;
      const target = by[reasons.location];
      for (const [name, share] of Object.entries(sums)) {
        if (!by[name]) continue;
        const line = svg("line", { x1: by[name].x, y1: by[name].y, x2: target.x, y2: target.y });
        line.style.strokeWidth = 1 + 6 * share;
        map.append(line, svg("circle", { class: "reason", cx: by[name].x, cy: by[name].y, r: 8 + 20 * Math.sqrt(share) }));
      }
    }
    const most = Math.max(...placed.map((one) => one.missing), 1e-9);
    const live = job && job.state === "done", dots = [];
    for (const one of placed) {
      const { x, y } = by[one.name], chosen = live && one.name === $("station").value;
      const dot = svg("circle", {
        cx: x, cy: y, r: 7, role: live ? "button" : "img", class: chosen ? "chosen" : "",
        "aria-label": `${one.name}, ${percent(one.missing)} missing`,
      });
      dot.style.fill = `color-mix(in srgb, ${colour("--filled")} ${Math.round(100 * one.missing / most)}%, ${colour("--paper")})`;
      if (live) {  // one stop for the tab key; arrows go from station to station
        const choose = () => { $("station").value = one.name; start = 0; look(); };
        const place = dots.push(dot) - 1;
        dot.setAttribute("tabindex", chosen ? 0 : -1);
        dot.addEventListener("click", choose);
        dot.addEventListener("keydown", (event) => {
          const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
          if (event.key === "Enter" || event.key === " ") choose();
          else if (step) dots[(place + step + dots.length) % dots.length].focus();
          else return;
          event.preventDefault();
        });
      }
      dot.append(svg("title", {}));
      dot.firstChild.textContent = `${one.name}: ${percent(one.missing)} missing`;
      map.append(dot);
      if (chosen && held) dot.focus();
      if (placed.length <= 40) {
        const left = x > box.width * 0.7;
        const text = svg("text", { x: left ? x - 10 : x + 10, y: y + 4, "text-anchor": left ? "end" : "start" });
        text.textContent = one.name;
        map.append(text);
      }
    }
  };

  const drawGaps = async () => {
    const mine = turn, kind = $("gap-kind").value;
    try {
      const told = await ask(`/api/tables/${table.id}/gaps?${query({ measurement: kind || null })}`);
      if (mine !== turn || kind !== $("gap-kind").value) return;
      gapsTold = told;
    } catch (bad) {
      problem($("problem"), bad.message);
      return;
    }
    paintGaps();
  };
  const paintGaps = () => {
    if (!gapsTold) return;
    const canvas = $("gaps"), box = canvas.getBoundingClientRect(), dots = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * dots);
    canvas.height = Math.round(box.height * dots);
    const pen = canvas.getContext("2d");
    pen.scale(dots, dots);
    pen.clearRect(0, 0, box.width, box.height);
    const rows = gapsTold.stations.length, parts = gapsTold.first.length;
    pen.font = "12px system-ui, sans-serif";
    const named = rows <= 16;
    const left = named ? Math.min(110, 10 + Math.max(...gapsTold.stations.map((n) => pen.measureText(n).width))) : 8;
    const bottom = box.height - 22, wide = (box.width - left - 8) / parts, high = (bottom - 8) / rows;
    gapsTold.at = (event) => {
      const part = Math.floor((event.clientX - box.left - left) / wide);
      const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top - 8) / high);
      return { part, row };
    };
    const full = colour("--filled"), none = colour("--line");
    for (let row = 0; row < rows; row++) {
      for (let part = 0; part < parts; part++) {
        const share = gapsTold.missing[row][part];
        pen.fillStyle = share ? `color-mix(in srgb, ${full} ${Math.max(12, share)}%, ${none})` : none;
        pen.fillRect(left + part * wide, 8 + row * high, Math.ceil(wide), Math.max(1, high - (named ? 2 : 0)));
      }
      if (named) {
        pen.fillStyle = colour("--soft");
        pen.textAlign = "right";
        pen.textBaseline = "middle";
        pen.fillText(gapsTold.stations[row], left - 6, 8 + (row + 0.5) * high, left - 8);
      }
    }
    pen.fillStyle = colour("--soft");
    pen.textBaseline = "top";
    pen.textAlign = "left";
    pen.fillText(gapsTold.first[0].slice(0, 10), left, bottom + 6);
    pen.textAlign = "right";
    pen.fillText(table.last.slice(0, 10), box.width - 8, bottom + 6);
  };
  $("gaps").addEventListener("pointermove", (event) => {
    if (!gapsTold || !gapsTold.at) return;
    const { part, row } = gapsTold.at(event);
    const share = gapsTold.missing[row] && gapsTold.missing[row][part];
    $("gap-here").textContent = share === undefined ? ""
      : `${gapsTold.stations[row]} from ${gapsTold.first[part]}: ${share}% missing`;
  });
  $("gap-kind").addEventListener("change", drawGaps);

  // --- 3. what to do ----------------------------------------------------------------------------
  const startJob = async (path, body) => {
    if (!$("progress").hidden) return;
    const mine = turn;
    problem($("failure"), "");
    $("result").hidden = true;
    job = reasonsTold = null;
    $("doing").textContent = "beginning";
    $("elapsed").textContent = "";
    busy(true);
    try {
      const told = await sent(`/api/tables/${table.id}/${path}`, body);
      if (mine !== turn) return;  // its table was left, and is forgotten in time
      job = told;
      remember();
      follow();
    } catch (bad) {
      if (mine !== turn) return;
      busy(false);
      problem($("failure"), bad.message);
    }
  };
  const minutes = () => ($("minutes").value ? Number($("minutes").value) : null);
  $("do").addEventListener("submit", (event) => {
    event.preventDefault();
    startJob("fill", { method: $("method").value, minutes: minutes(), interval: Number($("interval").value) });
  });
  $("ahead").addEventListener("submit", (event) => {
    event.preventDefault();
    startJob("forecast", {
      steps: Number($("steps").value), method: $("forecaster").value, minutes: minutes(),
      interval: Number($("interval").value),
    });
  });
  $("cancel").addEventListener("click", async () => {
    $("cancel").disabled = true;
    try {
      await ask(`/api/jobs/${job.id}`, { method: "DELETE" });
    } catch (bad) {
      problem($("failure"), bad.message);
      $("cancel").disabled = false;
    }
  });
  const mayBegin = (yes) => {
    for (const button of document.querySelectorAll("#do button, #ahead button")) button.disabled = !yes;
  };
  const busy = (on) => {
    $("progress").hidden = !on;
    mayBegin(!on);
    $("cancel").disabled = !job;
  };
  const follow = async () => {
    const mine = job.id;
    let failures = 0;
    busy(true);
    while (goes()) {
      $("doing").textContent = job.state === "waiting"
        ? (job.ahead ? `waiting: ${count(job.ahead, "job")} before this one` : "beginning") : job.doing;
      $("elapsed").textContent = job.seconds >= 1 ? `${Math.round(job.seconds)} s` : "";
      if (job.share === null) $("bar").removeAttribute("value");
      else $("bar").value = job.share;
      await new Promise((done) => setTimeout(done, 500));
      let told = null;
      try {
        told = await ask(`/api/jobs/${mine}`);
        failures = 0;
      } catch (bad) {
        if (!job || job.id !== mine) return;
        if (bad.status !== 404 && ++failures < PATIENCE) continue;  // it may be back in a moment
        busy(false);
        problem($("failure"), bad.message);
        return;
      }
      if (!job || job.id !== mine) return;
      job = told;
    }
    busy(false);
    if (job.state === "failed") problem($("failure"), job.error);
    else if (job.state === "cancelled") problem($("failure"), "cancelled");
    else results();
  };

  // --- 4. what came out -------------------------------------------------------------------------
  const rows = (node, head, body) => {
    const top = made("tr");
    top.append(...head.map(([text, kind]) => made("th", text, { scope: "col", class: kind || "" })));
    const thead = made("thead"), tbody = made("tbody");
    thead.append(top);
    tbody.append(...body);
    node.replaceChildren(thead, tbody);
  };
  const row = (cells, more = {}) => {
    const node = made("tr", undefined, more);
    for (const [content, kind] of cells) {
      const cell = made("td", undefined, { class: kind || "" });
      cell.append(content instanceof Node ? content : String(content));
      node.append(cell);
    }
    return node;
  };
  const results = () => {
    $("result").hidden = false;
    $("announced").textContent = job.kind === "fill" ? "The table is filled." : "The forecast is there.";
    const fills = job.kind === "fill", word = fills ? "filled" : "forecast";
    $("key-filled").textContent = word;
    $("told").replaceChildren(...job.told.map((text) => made("li", text)));
    const unit = Object.fromEntries(table.measurements.map((one) => [one.name, one.unit]));
    rows($("records"),
      [["measurement"], ["method"], [word, "n"], ["error to expect (MAE)", "n"], ["unit"]],
      job.records.map((one) => row([
        [one.measurement], [one.method], [Number(one[word]).toLocaleString("en"), "n"],
        [number(one.expected_mae, 3), "n"], [unit[one.measurement] || ""]])));
    const names = { filled: fills ? "Filled table" : "Table carried forward", detail: "Detail: every value with its interval", report: "Report" };
    $("files").replaceChildren(...job.files.map((name) => {
      const link = made("a", names[name], { href: `/api/jobs/${job.id}/files/${name}`, id: `file-${name}` });
      if (name === "report") { link.target = "_blank"; link.rel = "noopener"; } else link.setAttribute("download", "");
      return link;
    }));
    const most = [...job.records].sort((a, b) => b[word] - a[word])[0];
    if (most) $("kind").value = most.measurement;
    if (fills) {
      const gap = table.longest.find((one) => one.measurement === $("kind").value) || table.longest[0];
      if (gap) { $("station").value = gap.location; $("kind").value = gap.measurement; }
    }
    start = 0;
    $("why-words").textContent = job.explains
      ? "Click a filled value in the time line, or one in the table."
      : "Only values of a network can be explained: fill with cdsa.";
    $("reasons").replaceChildren();
    look();
  };
  const look = async () => {
    drawMap();
    if (!job || job.state !== "done") return;
    const mine = ++looked, given = { location: $("station").value, measurement: $("kind").value };
    reasonsTold = null;
    try {
      const told = await ask(`/api/jobs/${job.id}/series?${query(given)}`);
      if (mine !== looked) return;
      shown = told;
      await cells();
    } catch (bad) {
      if (mine === looked) problem($("failure"), bad.message);
      return;
    }
    if (mine !== looked) return;
    const values = Float64Array.from(shown.values, (v) => (v === null ? NaN : v));
    const isFilled = Uint8Array.from(shown.source, (s) => (s === "filled" || s === "forecast" ? 1 : 0));
    const at = new Int32Array(values.length).fill(-1), low = [], high = [];
    isFilled.forEach((yes, i) => {
      if (!yes) return;
      at[i] = low.length;
      low.push(shown.lower && shown.lower[i] !== null ? shown.lower[i] : NaN);
      high.push(shown.upper && shown.upper[i] !== null ? shown.upper[i] : NaN);
    });
    if (!chart || chart.job !== job.id) {
      const old = $("timeline"), fresh = old.cloneNode();
      old.replaceWith(fresh);  // its listeners go with it
      chart = cdsaChart(fresh, $("here"), shown.times, (step) => why(step));
      chart.job = job.id;
    }
    chart.marks([]);
    chart.draw({
      unit: shown.unit, value: values, isFilled, at, turns: shown.turns,
      lowEnd: shown.lower ? low : null, highEnd: shown.lower ? high : null,
      word: job.kind === "fill" ? "filled with" : "foreseen:",
    });
    const first = isFilled.indexOf(1), wide = Math.min(values.length, 240);
    if (first >= 0 && !chart.looked) {
      const longest = table.longest.find((g) => g.location === shown.location && g.measurement === shown.measurement);
      const middle = job.kind === "forecast" ? values.length - wide / 2 : longest ? longestStep(isFilled) : first;
      chart.look(middle - wide / 2, middle + wide / 2);
    }
    chart.looked = true;
  };
  const longestStep = (flags) => {  // the middle of the longest gap
    let best = 0, middle = 0, begin = -1;
    for (let i = 0; i <= flags.length; i++) {
      if (flags[i] && begin < 0) begin = i;
      if (!flags[i] && begin >= 0) {
        if (i - begin > best) { best = i - begin; middle = (i + begin) / 2; }
        begin = -1;
      }
    }
    return middle;
  };
  const cells = async () => {
    const mine = looked, first = start;
    const told = await ask(`/api/jobs/${job.id}/cells?${query({
      location: $("station").value, measurement: $("kind").value, start, most: PAGE_OF_CELLS })}`);
    if (mine !== looked || first !== start) return;
    rows($("cells"), [[""], ["time"], ["value", "n"], ["interval"]], told.cells.map((cell) => {
      const button = made("button", "why", { type: "button", "aria-label": `why ${number(cell.value)} at ${cell.time}` });
      button.disabled = !job.explains;
      button.addEventListener("click", () => why(cell.step));
      return row([[button], [short(cell.time)], [number(cell.value), "n"],
        [cell.lower === null ? "-" : `${number(cell.lower, 4)} to ${number(cell.upper, 4)}`]],
      { "data-step": cell.step });
    }));
    $("cells-words").textContent = told.total
      ? `${start + 1} to ${start + told.cells.length} of ${told.total.toLocaleString("en")}` : "none here";
    $("back").disabled = start === 0;
    $("on").disabled = start + told.cells.length >= told.total;
  };
  const why = async (step) => {
    if (!shown || !shown.source) return;
    if (shown.source[step] !== "filled") {
      $("why-words").textContent = shown.source[step] === "observed"
        ? "This value was measured." : "Reasons are told of filled values.";
      return;
    }
    if (!job.explains) return;
    $("why-words").textContent = "looking ...";
    const here = { location: shown.location, measurement: shown.measurement };
    try {
      const time = await stampOf(step);
      reasonsTold = await ask(`/api/jobs/${job.id}/reasons?${query({ time, ...here })}`);
    } catch (bad) {
      $("why-words").textContent = bad.message;
      return;
    }
    const axes = Object.entries(reasonsTold.axes).map(([name, share]) => `${name} ${percent(share)}`);
    $("why-words").textContent =
      `${here.measurement} at ${here.location}, ${short(reasonsTold.time)}: ${number(reasonsTold.value)} ${shown.unit}. ` +
      (reasonsTold.cells.length ? `Comes from: ${axes.join(", ")}.` : "Nothing was measured around it: this is what is usual.");
    const most = Math.max(...reasonsTold.cells.map((cell) => cell.share), 1e-9);
    rows($("reasons"), [["share", "n"], [""], ["time"], ["station"], ["measurement"], ["value", "n"]],
      reasonsTold.cells.map((cell) => {
        const bar = made("span", undefined, { class: "share" });
        bar.style.width = `${(3 * cell.share) / most}rem`;
        return row([[percent(cell.share), "n"], [bar], [short(cell.time)], [cell.location], [cell.measurement], [number(cell.value), "n"]]);
      }));
    for (const node of $("cells").querySelectorAll("tr[data-step]")) {
      node.setAttribute("aria-selected", String(Number(node.dataset.step) === step));
    }
    chart.marks(reasonsTold.cells.map((cell) => ({
      step: cell.step, share: cell.share,
      other: cell.location !== shown.location || cell.measurement !== shown.measurement,
    })), step);
    chart.look(step - 60, step + 60, step);
    drawMap();
  };
  const stampOf = async (step) => {
    const told = shown.times.times ? shown.times.times[step] : shown.times.first + step * shown.times.step;
    return new Date(1000 * told).toISOString().slice(0, 19);
  };
  $("station").addEventListener("change", () => { start = 0; look(); });
  $("kind").addEventListener("change", () => { start = 0; look(); });
  $("nearer").addEventListener("click", () => chart && chart.zoom(0.6));
  $("further").addEventListener("click", () => chart && chart.zoom(1.6));
  $("whole").addEventListener("click", () => chart && chart.whole());
  const turnPage = (by) => {
    start = Math.max(0, start + by);
    $("back").disabled = $("on").disabled = true;  // until it is known what is there
    cells().catch((bad) => problem($("failure"), bad.message));
  };
  $("back").addEventListener("click", () => turnPage(-PAGE_OF_CELLS));
  $("on").addEventListener("click", () => turnPage(PAGE_OF_CELLS));

  // --- beginning --------------------------------------------------------------------------------
  const redraw = () => { if (table) { drawMap(); paintGaps(); } };
  window.addEventListener("resize", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const begin = async () => {
    try {
      const [health, methods] = await Promise.all([ask("/api/health"), ask("/api/methods")]);
      $("megabytes").textContent = health.megabytes;
      $("keep").textContent = `${health.keep_minutes} minutes`;
      $("minutes").max = health.training_minutes;
      const there = methods.filter((one) => one.installed);
      const option = (one) => new Option(`${one.name}${one.trains ? " (network)" : ""}`, one.name);
      $("method").replaceChildren(new Option("auto: whichever is best", "auto"),
        ...there.filter((one) => one.task.includes("fill")).map(option));
      const ahead = there.filter((one) => one.task.includes("forecast"));
      $("forecaster").replaceChildren(...ahead.map(option));
      if (ahead.some((one) => one.name === "cdsa")) $("forecaster").value = "cdsa";
    } catch (bad) {
      problem($("problem"), bad.message);
      return;
    }
    const before = new URLSearchParams(location.hash.slice(1));
    if (!before.get("table")) return;
    try {  // a page that was reloaded goes on where it was
      table = await ask(`/api/tables/${encodeURIComponent(before.get("table"))}`);
      understood();
      if (before.get("job")) {
        job = await ask(`/api/jobs/${encodeURIComponent(before.get("job"))}`);
        follow();
      }
    } catch (bad) {
      problem($("problem"), bad.message);
      if (!table) remember();
    }
  };
  begin();
})();
