// What is selected: one span with all its fields, or a part of time with its totals; and the tooltip.

/** A field's value with its unit. */
function shownField(name, value) {
  const unit = app.head.fields[name]?.unit, count = typeof value === "number";
  if (Array.isArray(value)) return value.slice(0, 40).join(", ") + (value.length > 40 ? `, ... ${value.length - 40} more` : "");
  if (name.endsWith("_addr") && count) return "0x" + value.toString(16);
  if (!count || /(_id|_idx|^token|^channel|^tx_id|irq_line|by_job)$/.test(name)) return value;
  return grouped(value) + (unit ? "\u2009" + unit + (/^(cycle|token)$/.test(unit) && value !== 1 ? "s" : "") : "");
}

/** All fields of a span: its time, those of its events, those of its command. Each name once. */
function spanFields(span) {
  const rows = new Map(), issue = app.spans.get("issue")[span], put = (name, value) => { if (value !== undefined && !rows.has(name)) rows.set(name, value); };
  const job = app.spans.get("job")[span];
  put("unit", app.units[app.unit[span]].name);
  put("job_id", Number.isNaN(job) ? undefined : job);
  put("start", grouped(app.start[span]));
  put("end", grouped(app.end[span]) + (app.spans.get("open")[span] ? " (not ended)" : ""));
  put("length", `${counted(app.end[span] - app.start[span], "cycle")}, ${duration(app.end[span] - app.start[span])}`);
  if (!Number.isNaN(issue)) { put("issue", grouped(issue)); put("queued", counted(app.start[span] - issue, "cycle")); }
  if (app.kind[span] <= 2) app.head.reasons.forEach((reason) => { const cycles = amount("wait." + reason)[span]; if (cycles) put("waited: " + reason, counted(cycles, "cycle")); });
  for (const [name, value] of app.details[app.kind[span]].row(app.detailRow[span])) put(name, shownField(name, value));
  const command = app.command[span];
  if (command >= 0) {
    for (const [name, value] of app.commands.row(command)) {
      if (["t_cycle", "unit"].includes(name)) continue;
      put({ start: "command start", end: "command end", bytes: "command bytes" }[name] ?? name, shownField(name, value));
    }
  }
  return [...rows];
}

/** Select a span, or none (-1). */
function select(span) {
  app.selected = span;
  app.range = null;
  const side = byId("side");
  side.hidden = span < 0;
  if (span >= 0) side.replaceChildren(...spanPanel(span));
  redraw();
}

function spanPanel(span) {
  const command = app.command[span], deps = command >= 0 ? app.commands.value("deps", command) : undefined;
  const rows = spanFields(span).filter(([name]) => name !== "deps" && !constantFields().has(name)), causes = app.kind[span] <= CONTROL ? causesOf(command) : [];
  if (deps?.length) rows.push(["deps", make("span", {}, ...deps.slice(0, 60).map((id) => make("button", { className: "linked", onclick: () => selectCommand(id) }, String(id))))]);
  return [
    make("h2", {}, make("i", { className: "swatch", style: { background: app.colours[app.placeOf(span)] } }), make("span", {}, spanTitle(span)), make("button", { className: "close", title: "Close (Esc)", onclick: clearSelection }, "\u2715")),
    fieldList(mainFields(span), 300),
    make("div", { className: "acts" },
      make("button", { onclick: () => seeSpan(span), title: "F" }, "Zoom to it"), make("button", { onclick: () => step(-1), title: "[" }, "\u2190 before"),
      make("button", { onclick: () => step(1), title: "]" }, "after \u2192"), make("button", { onclick: copyLink }, "Copy link")),
    ...debuggerPanel(span),
    ...(causes.length ? causePanel(causes) : []), ...waitPanel(span),
    make("details", {}, make("summary", {}, "All fields"), fieldList(rows, 10000)),
  ];
}

/** The command that opens the debugger after the first cycle of a span, with a button that copies it. */
function debuggerPanel(span) {
  const line = `${app.head.debugger} --at ${app.start[span] + 1}`;
  return [make("p", { className: "acts" }, make("code", {}, safe(line, 400)), make("button", { onclick: (event) => copyText(event.currentTarget, line), title: "Copy this command, which opens the debugger where the span begins" }, "Copy"))];
}

async function copyText(button, text) {
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
  catch { button.textContent = "Select it to copy"; }
}

function waitPanel(span) {
  const found = waitsOf(span);
  if (!found.length) return [];
  const rows = found.slice(0, 50).map((wait) => {
    const start = app.waits.get("start")[wait], cycles = app.waits.get("cycles")[wait], by = app.waits.value("by_job", wait);
    return [app.head.reasons[app.waits.get("reason")[wait]], `${grouped(start)}, ${counted(cycles, "cycle")}` + (by === undefined ? "" : `, behind job ${by}`)];
  });
  if (found.length > 50) rows.push(["...", `${found.length - 50} more`]);
  return [make("h3", {}, "Waits"), fieldList(rows)];
}

/** Fields of commands that are the same for all of them, with their values: the tab Run has them. */
function constantFields() {
  if (!app.constants) {
    app.constants = new Map();
    for (const name of app.commands.count > 1 ? app.commands.names : []) {
      const told = app.commands.told[name];
      if ("constant" in told && told.constant !== null && !told.items) app.constants.set(name, app.commands.value(name, 0));
    }
  }
  return app.constants;
}

/** Select a command's first job, or whatever of it there is. */
function selectCommand(id) {
  const found = jobOf(app.commandRows.get(id));
  if (found >= 0) { select(found); seeSpan(found); }
}

/** A command's first job, or whatever of it there is; -1: nothing. */
function jobOf(command) {
  let found = -1;
  for (let i = 0; i < app.count; i++) if (app.command[i] === command && (found < 0 || app.kind[i] < app.kind[found])) found = i;
  return found;
}

/** Select the span before or after in its track. */
function step(by) {
  if (app.selected < 0) return;
  const row = app.rows[app.unit[app.selected]][app.row[app.selected]];
  if (!row) return;
  for (let k = row.low; k < row.high; k++) {
    if (app.order[k] !== app.selected) continue;
    if (k + by >= row.low && k + by < row.high) { select(app.order[k + by]); seeSpan(app.selected); }
    return;
  }
}

function clearSelection() {
  app.selected = -1;
  app.range = null;
  byId("side").hidden = true;
  redraw();
}

async function copyLink(event) {
  const link = location.href.split("#")[0] + viewAddress(), button = event.currentTarget;
  try { await navigator.clipboard.writeText(link); button.textContent = "Copied"; }
  catch { location.hash = viewAddress(); button.textContent = "In the address bar"; }
}

/** Select a part of time: its totals, of what passes the filters. */
function selectRange(from, to) {
  app.selected = -1;
  app.range = [Math.max(app.first, Math.min(from, to)), Math.min(app.last, Math.max(from, to))];
  const side = byId("side");
  side.hidden = false;
  side.replaceChildren(...rangePanel(...app.range));
  redraw();
}

function rangePanel(from, to) {
  const { sum, used } = totalsIn(from, to), length = to - from;
  app.rangeTotals = sum;
  const meters = [];
  app.units.forEach((unit, number) => {
    if (!used[number] || !["DMA", "TE", "VE"].includes(unit.component)) return;
    const depth = Math.max(1, app.depth[number]), share = used[number] / (length * depth);
    meters.push(make("div", { className: "meter", title: `${safe(unit.name, 80)}: ${grouped(used[number])} job-cycles` + (depth > 1 ? ` in ${depth} rows` : "") },
      nameOf(unit.name, 80), make("div", { className: "track" }, make("i", { style: { width: 100 * Math.min(1, share) + "%", background: "var(--accent)" } })), make("em", {}, percent(share))));
  });
  return [
    make("h2", {}, make("span", {}, "Selected time"), make("button", { className: "close", title: "Close (Esc)", onclick: clearSelection }, "\u2715")),
    make("p", {}, `${grouped(Math.round(from))} \u2013 ${grouped(Math.round(to))}`), make("p", {}, `${counted(Math.round(length), "cycle")}, ${duration(length)}`),
    make("div", { className: "acts" }, make("button", { onclick: () => see(from, to), title: "F" }, "Zoom to it"), make("button", { onclick: () => filterTime(from, to) }, "Filter by it"), make("button", { onclick: copyLink }, "Copy link")),
    make("h3", {}, "All that reaches into it"), fieldList(totalRows(sum)),
    ...(meters.length ? [make("h3", {}, "Engines at work inside"), ...meters] : []),
  ];
}

/** Totals as rows of a list. */
function totalRows(sum) {
  const cycles = (value) => counted(value, "cycle"), active = sum.active || 0;
  const rows = [["spans", grouped(sum.spans)], ["jobs", grouped(sum.jobs)]];
  if (!sum.spans) return rows;
  rows.push(["at work", cycles(active)], ["DMA jobs", cycles(sum.cycles[0])], ["TE jobs", cycles(sum.cycles[1])], ["VE jobs", cycles(sum.cycles[2])]);
  rows.push(["bytes", `${grouped(sum.bytes)} B`], ["MACs", grouped(sum.macs)], ["operations", grouped(sum.ops)]);
  if (active) rows.push(["bandwidth", `${three(sum.bytes / active)} B/cycle`], ["rate", `${three(sum.macs / active)} MAC/cycle`]);
  rows.push(["queued", cycles(sum.queued)]);
  app.head.reasons.forEach((reason, i) => { if (sum.waits[i]) rows.push([reason, cycles(sum.waits[i])]); });
  return rows;
}

function filterTime(from, to) {
  app.filter.cycles = [Math.floor(from), Math.ceil(to)];
  app.filter.texts = { ...app.filter.texts, cycles: app.filter.cycles.join("-") };
  refilter();
  drawFilters();
}

/** Show the tooltip for what is under the pointer: a span, an event, a cell of a heatmap. */
function showTip(found, x, y) {
  const tip = byId("tip");
  tip.hidden = !found;
  if (!found) return;
  tip.replaceChildren(...found.tip());
  const box = tip.getBoundingClientRect(), left = x + 16 + box.width > innerWidth ? x - box.width - 12 : x + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - box.height - 6)) + "px";
}

/** What a tooltip and the head of the panel say: unit, start to end, length, bytes or MACs, what it waited for. */
function mainFields(span) {
  const length = app.end[span] - app.start[span], detail = app.details[app.kind[span]], row = app.detailRow[span];
  const rows = [["unit", app.units[app.unit[span]].name], ["time", `${grouped(app.start[span])} \u2013 ${grouped(app.end[span])}` + (app.spans.get("open")[span] ? " (not ended)" : "")],
    ["length", `${counted(length, "cycle")}, ${duration(length)}`]];
  const [name, title, unit] = [["mac_count", "MACs", ""], ["op_count", "operations", ""], ["size_bytes", "bytes", "\u2009B"]].find(([one]) => detail.value(one, row) !== undefined) ?? [];
  if (name) rows.push([title, grouped(detail.value(name, row)) + unit]);
  const waited = waitedFor(span);
  if (waited) rows.push(["waited for", waited]);
  return rows;
}

/** Its causes, or where the trace has none its waits, the longest first. */
function waitedFor(span) {
  const causes = app.kind[span] <= CONTROL ? causesOf(app.command[span]).filter((one) => !["work", "transfer", "granularity"].includes(one.cause)) : [];
  const issue = app.spans.get("issue")[span];
  const found = causes.length ? causes.map((one) => [`${causeText(one.cause)} ${one.resource}`, one.cycles])
    : app.kind[span] > 2 ? [] : [...app.head.reasons.map((reason) => [causeText(reason), amount("wait." + reason)[span]]), ["queue", app.start[span] - issue]].filter(([, cycles]) => cycles > 0).sort((a, b) => b[1] - a[1]);
  return found.slice(0, 2).map(([what, cycles]) => `${what}, ${counted(cycles, "cycle")}`).join("; ");
}

function spanTip(span) {
  return [make("h3", {}, make("i", { className: "swatch", style: { background: app.colours[app.placeOf(span)] } }), spanTitle(span)), fieldList(mainFields(span), 160)];
}

function pathTip(one) {
  const swatch = make("i", { className: "swatch " + one.fill });
  swatch.style.setProperty("--hue", hueOf(one.hue));
  return [make("h3", {}, swatch, `${causeText(one.cause)} ${safe(one.resource, 60)}`), fieldList([["cycles", `about ${grouped(one.end - one.start)} from ${grouped(one.start)}`], ["command", one.command >= 0 ? `${app.commands.value("cmd_type", one.command) ?? ""} ${app.commands.get("cmd_id")[one.command]}` : "none"]])];
}

function pointTip(points, rows) {
  const { table } = points, made = [make("h3", {}, points.name + (rows.length > 1 ? ` \u00d7 ${grouped(rows.length)}` : ""))];
  const shown = table.row(rows[0]).map(([name, value]) => [name, name === "unit" ? app.units[value]?.name ?? "" : shownField(name, value)]);
  return [...made, ...(rows.length > 1 ? [make("p", {}, "the first of them:")] : []), fieldList(shown, 300)];
}

function heatTip(heat, label, cell) {
  return [make("h3", {}, safe(label, 80)), make("p", {}, `${heat.title}: ${percent(cell.share)} ${heat.what.replace(/^denied, /, "")}`),
    fieldList([["cycles", `${grouped(cell.start)} \u2013 ${grouped(cell.end)}`], [heat.unit === "B" ? "bytes" : heat.unit + "s", grouped(cell.part)], ["at most", grouped(Math.round(cell.whole))]])];
}
