// The phases as a table, and what was run.

const TINTS = ["#4a78c0", "#dd7a36", "#3d9970"];
const MOST_ROWS = 500;
const COLUMNS = [
  ["spans", "", (sum) => sum.spans, grouped], ["jobs", "", (sum) => sum.jobs, grouped], ["first", "cycle", (sum) => sum.first, grouped], ["last", "cycle", (sum) => sum.last, grouped],
  ["at work", "cycles", (sum) => sum.active, grouped], ["DMA", "job-cycles", (sum) => sum.cycles[0], short], ["TE", "job-cycles", (sum) => sum.cycles[1], short],
  ["VE", "job-cycles", (sum) => sum.cycles[2], short], ["moved", "B", (sum) => sum.bytes, short], ["bandwidth", "B/cycle", (sum) => sum.bytes / sum.active || 0, short],
  ["MACs", "", (sum) => sum.macs, short], ["rate", "MAC/cycle", (sum) => sum.macs / sum.active || 0, short], ["operations", "", (sum) => sum.ops, short],
  ["queued", "cycles", (sum) => sum.queued, short],
];

function columns() {
  return [...COLUMNS, ...app.head.reasons.map((reason, i) => [reason.replace(/_/g, " "), "cycles waited", (sum) => sum.waits[i], short])];
}

/** Totals by the chosen axis; a click on a head sorts, on a name filters. */
function drawPhases() {
  const { rows, all } = groups(app.by), made = axis(app.by), view = byId("view-phases");
  if (!rows.length) { view.replaceChildren(make("div", { className: "empty still" }, make("b", {}, "Nothing to sum up"), make("span", {}, app.count ? "Nothing passes the filters: press X to clear them." : "No job started."))); return; }
  const sort = app.sort ?? null, heads = columns(), shown = [...rows];
  if (sort) shown.sort((a, b) => sort.up * (heads[sort.column][2](a) - heads[sort.column][2](b)) || a.place - b.place);
  const head = make("tr", {}, make("th", {}, AXIS_NAMES[app.by], make("small", {}, `${grouped(rows.length)} in all`)), make("th", {}, "share of job-cycles", make("small", {}, "DMA, TE, VE")),
    ...heads.map(([title, unit], column) => make("th", { "aria-sort": sort?.column === column ? (sort.up > 0 ? "ascending" : "descending") : "none" },
      make("button", { onclick: () => { app.sort = { column, up: sort?.column === column ? -sort.up : -1 }; drawPhases(); } }, title + (sort?.column === column ? (sort.up > 0 ? " \u2191" : " \u2193") : "")), make("small", {}, unit || "\u00a0"))));
  const body = shown.slice(0, MOST_ROWS).map((sum) => phaseRow(sum, made, heads, all));
  const table = make("table", { className: "data" }, make("thead", {}, head), make("tbody", {}, phaseRow(all, made, heads, all), ...body));
  view.replaceChildren(table, ...(shown.length > MOST_ROWS ? [make("p", { className: "pad" }, `${grouped(shown.length - MOST_ROWS)} more rows: filter or sort to see them.`)] : []));
}

function phaseRow(sum, made, heads, all) {
  const own = sum.place >= 0, everything = all.cycles.reduce((a, b) => a + b, 0) || 1;
  const swatch = own && app.by === app.colour ? make("i", { className: "swatch", style: { background: app.colours[sum.place] } }) : null;
  const name = own ? make("button", { onclick: () => { setWanted(app.by, app.filter.axes.get(app.by)?.size === 1 ? null : [sum.label]); } }, swatch, make("span", {}, safe(sum.label, 80))) : "all";
  const bar = make("div", { className: "stack" }, ...sum.cycles.map((cycles, kind) => make("i", { style: { width: (100 * cycles) / everything + "%", background: TINTS[kind] } })));
  return make("tr", { className: own ? "" : "sum" }, make("td", {}, name), make("td", {}, bar), ...heads.map(([, , value, text]) => make("td", {}, text(value(sum)))));
}

/** The first and last line of the file, and the machine. */
function drawRun() {
  const { run } = app.head, lists = [];
  const about = [["program", run.program], ["status", run.status ?? "the file breaks off"], ["cycles", grouped(app.cycles) + ` (${duration(app.cycles)})`], ["clock", run.freq_ghz + " GHz"],
    ["level of the trace", run.level], ["commands", grouped(app.commands.count)], ["spans", grouped(app.count)], ["window of samples", counted(run.window, "cycle")],
    ["run", run.sim_id], ["kernbench", run.sim_version], ["timing model", run.model_version], ["trace schema", run.version], ["program SHA-256", run.program_hash], ["machine SHA-256", run.config_hash]];
  if (run.filter) about.push(["left out when written", JSON.stringify(run.filter)]);
  if (run.broken) about.push(["the file breaks off", run.broken]);
  const events = app.points.map(({ name, table }) => [name, grouped(table.count)]);
  lists.push(make("div", {}, make("h2", {}, "Run"), fieldList(about)), make("div", {}, make("h2", {}, "Events"), events.length ? fieldList(events) : make("p", {}, "none")));
  const { total = 0, ...parts } = run.energy_pj ?? {}, energy = Object.entries(parts).sort(([, a], [, b]) => b - a);
  if (energy.length) lists[1].append(make("h2", {}, "Energy"), fieldList([...energy.map(([name, value]) => [name, joules(value) + (total ? `, ${percent(value / total)}` : "")]), ["total", joules(total)]]));
  const text = (value) => safe(JSON.stringify(value, null, 2).split("\n").join("\u0000"), 200000).split("\\u0000").join("\n");
  const boxes = [["Machine", run.sim_config], ["Counters", run.counters]].filter(([, value]) => value && Object.keys(value).length);
  byId("view-run").replaceChildren(make("div", { className: "pad" }, make("div", { className: "cols" }, ...lists), make("div", { className: "cols" }, ...boxes.map(([title, value]) => make("div", {}, make("h2", {}, title), make("pre", {}, text(value)))))));
}
