// The phases as a table, and what was run.

const MOST_ROWS = 500;
const COLUMNS = [
  ["jobs", "", (sum) => sum.jobs, grouped], ["at work", "cycles", (sum) => sum.active, short], ["moved", "B", (sum) => sum.bytes, short],
  ["bandwidth", "B/cycle", (sum) => sum.bytes / sum.active || 0, short], ["MACs", "", (sum) => sum.macs, short], ["rate", "MAC/cycle", (sum) => sum.macs / sum.active || 0, short],
  ["queued", "job-cycles", (sum) => sum.queued, short], ["bank conflict", "job-cycles", (sum) => sum.waits[app.head.reasons.indexOf("bank_conflict")] ?? 0, short],
  ["first", "cycle", (sum) => sum.first, grouped], ["last", "cycle", (sum) => sum.last, grouped], ["DMA", "job-cycles", (sum) => sum.cycles[0], short],
  ["TE", "job-cycles", (sum) => sum.cycles[1], short], ["VE", "job-cycles", (sum) => sum.cycles[2], short], ["operations", "", (sum) => sum.ops, short], ["spans", "", (sum) => sum.spans, grouped],
];
const SEEN = 8;  // columns that are there from the beginning
const SHARE = -1;

const shareOf = (sum) => sum.cycles.reduce((a, b) => a + b, 0);

function columns() {
  const rest = app.head.reasons.map((reason, i) => [reason.replace(/_/g, " "), "job-cycles", (sum) => sum.waits[i], short]).filter(([name]) => name !== "bank conflict");
  return [...COLUMNS, ...rest];
}

const seenColumns = () => (app.columnsSeen ??= new Set(columns().slice(0, innerWidth <= 700 ? 1 : innerWidth <= 1200 ? 6 : SEEN).map(([name]) => name)));

/** Which columns the table of phases has. */
function columnChooser() {
  const seen = seenColumns(), list = make("div", { hidden: true }, ...columns().map(([name]) => make("label", {}, make("input", { type: "checkbox", checked: seen.has(name), onchange: (event) => { if (event.target.checked) seen.add(name); else seen.delete(name); drawPhases(); } }), name)));
  return make("div", { id: "columns" }, make("button", { className: "framed", onclick: () => { list.hidden = !list.hidden; } }, "Columns"), list);
}

/** Totals by the chosen axis, the largest share first; a click on a head sorts, on a name filters. */
function drawPhases() {
  const { rows, all } = groups(app.by), made = axis(app.by), view = byId("view-phases");
  if (!rows.length) { view.replaceChildren(make("div", { className: "empty still" }, make("b", {}, "Nothing to sum up"), make("span", {}, app.count ? "Nothing passes the filters: press X to clear them." : "No job started."))); return; }
  const heads = columns().filter(([name]) => seenColumns().has(name)), sort = app.sort && (app.sort.name === "share" || heads.some(([name]) => name === app.sort.name)) ? app.sort : { name: "share", up: -1 };
  const value = sort.name === "share" ? shareOf : heads.find(([name]) => name === sort.name)[2], shown = [...rows].sort((a, b) => sort.up * (value(a) - value(b)) || a.place - b.place);
  const arrow = (name) => (sort.name === name ? (sort.up > 0 ? " \u2191" : " \u2193") : "");
  const headOf = (name, title, unit) => make("th", { "aria-sort": sort.name === name ? (sort.up > 0 ? "ascending" : "descending") : "none" }, make("button", { onclick: () => { app.sort = { name, up: sort.name === name ? -sort.up : -1 }; drawPhases(); } }, title + arrow(name)), make("small", {}, unit || "\u00a0"));
  const head = make("tr", {}, make("th", {}, AXIS_NAMES[app.by], make("small", {}, `${grouped(rows.length)} in all`)), headOf("share", "share", "of job-cycles"), ...heads.map(([title, unit]) => headOf(title, title, unit)));
  const most = Math.max(...rows.map(shareOf)) || 1, colours = labelColours(made);
  const body = shown.slice(0, MOST_ROWS).map((sum) => phaseRow(sum, heads, all, most, colours));
  const table = make("table", { className: "data" }, make("thead", {}, head), make("tbody", {}, phaseRow(all, heads, all, most, colours), ...body));
  view.replaceChildren(make("div", { className: "card scroll" }, table, ...(shown.length > MOST_ROWS ? [make("p", { className: "pad" }, `${grouped(shown.length - MOST_ROWS)} more rows: filter or sort to see them.`)] : [])));
}

function phaseRow(sum, heads, all, most, colours) {
  const own = sum.place >= 0, share = shareOf(sum) / (shareOf(all) || 1), fill = own ? (app.by === app.colour ? app.colours : colours)[sum.place] : "transparent";
  const name = own ? make("button", { onclick: () => { setWanted(app.by, app.filter.axes.get(app.by)?.size === 1 ? null : [sum.label]); } }, make("i", { className: "swatch", style: { background: fill } }), make("span", {}, safe(sum.label, 80))) : "all";
  const bar = make("div", { className: "stack" }, make("i", { style: { width: own ? (100 * shareOf(sum)) / most + "%" : "0", background: fill } }));
  return make("tr", { className: own ? "" : "sum" }, make("td", {}, name), make("td", {}, make("div", { className: "shared" }, own ? bar : null, make("span", {}, percent(share)))), ...heads.map(([, , value, text]) => { const number = value(sum); return make("td", { className: number ? "" : "zero" }, text(number)); }));
}

/** The first and last line of the file, and the machine. */
function drawRun() {
  const { run } = app.head, lists = [];
  const about = [["program", run.program], ["status", run.status ?? "the file breaks off"], ["cycles", grouped(app.cycles) + ` (${duration(app.cycles)})`], ["clock", run.freq_ghz + " GHz"],
    ["trace level", run.level], ["commands", grouped(app.commands.count)], ["spans", grouped(app.count)], ["window of samples", counted(run.window, "cycle")],
    ["run", run.sim_id], ["kernbench", run.sim_version], ["timing model", run.model_version], ["trace schema", run.version], ["program SHA-256", run.program_hash], ["machine SHA-256", run.config_hash]];
  if (run.filter) about.push(["left out when written", JSON.stringify(run.filter)]);
  if (run.broken) about.push(["the file breaks off", run.broken]);
  const events = app.points.map(({ name, table }) => [name, grouped(table.count)]);
  lists.push(make("div", {}, make("h2", {}, "Run"), fieldList(about)), make("div", {}, make("h2", {}, "Events"), events.length ? fieldList(events) : make("p", {}, "none")));
  const { total = 0, ...parts } = run.energy_pj ?? {}, energy = Object.entries(parts).sort(([, a], [, b]) => b - a);
  if (energy.length) lists[1].append(make("h2", {}, "Energy"), fieldList([...energy.map(([name, value]) => [name, joules(value) + (total ? `, ${percent(value / total)}` : "")]), ["total", joules(total)]]));
  if (constantFields().size) lists[0].append(make("h2", {}, "Equal for all commands"), fieldList([...constantFields()].map(([name, value]) => [name, shownField(name, value)])));
  const boxes = [["Machine", run.sim_config], ["Counters", run.counters]].filter(([, value]) => value && Object.keys(value).length);
  const cards = [lists.map((one) => { one.className = "card"; return one; }), boxes.map(keyTable).reverse()];  // the longer tables go below the shorter lists
  byId("view-run").replaceChildren(make("div", { className: "pad" }, make("div", { className: "cols" }, ...lists.map((_, i) => make("div", {}, ...cards.map((row) => row[i]).filter(Boolean))))));
}

/** A value of many keys as a table, a row a key; its JSON behind a button. */
function keyTable([title, value]) {
  const rows = [], walk = (one, path) => {
    if (one && typeof one === "object" && !Array.isArray(one) && Object.keys(one).length) for (const [name, inner] of Object.entries(one)) walk(inner, path ? path + "." + name : name);
    else rows.push([path, Array.isArray(one) ? one.map((item) => (item && typeof item === "object" ? JSON.stringify(item) : item)).join(", ") : one && typeof one === "object" ? "none" : one]);
  };
  walk(value, "");
  const shown = (one) => (typeof one === "number" ? grouped(one) : one === null ? "none" : String(one));
  const table = make("table", { className: "data keys-of" }, make("tbody", {}, ...rows.slice(0, 2000).map(([name, one]) => make("tr", {}, make("td", {}, safe(name, 120)), make("td", {}, safe(shown(one), 400))))));
  const text = make("pre", { hidden: true }), button = make("button", { className: "framed", onclick: () => {
    text.hidden = !text.hidden;
    table.hidden = !text.hidden;
    if (!text.textContent) text.textContent = safe(JSON.stringify(value, null, 2).split("\n").join("\u0000"), 200000).split("\\u0000").join("\n");
  } }, "JSON");
  return make("div", { className: "card" }, make("div", { className: "headed" }, make("h2", {}, title), button), table, text);
}
