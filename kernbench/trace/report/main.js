// The page's beginning: unpack, build, draw; then what tests and other scripts may ask of it.

const TABS = [["timeline", "Timeline"], ["heat", "Heatmaps"], ["phases", "Phases"], ["roofline", "Roofline"], ["run", "Run"]];

/** Show one of the tabs. */
function showTab(name) {
  app.tab = name;
  const time = name === "timeline" || name === "heat";
  byId("view-time").hidden = !time;
  if (name === "run") byId("filters").hidden = true;
  for (const [other] of TABS) { const view = byId("view-" + other); if (view) view.hidden = other !== name; }
  document.querySelectorAll("#tabs button").forEach((button) => button.setAttribute("aria-selected", button.dataset.tab === name));
  showTip(null);
  drawBar();
  if (name === "phases") drawPhases();
  if (name === "roofline") drawRoofline();
  if (name === "run") drawRun();
  if (!time) footer();
  rememberView();
  redraw();
}

function drawTop() {
  const { run } = app.head, status = run.status ?? "cut off", chip = byId("status");
  byId("program").textContent = safe(run.program, 60);
  byId("program").title = safe(run.program, 1000);
  chip.textContent = status;
  chip.classList.add(status === "done" ? "done" : status === "aborted" || status === "interrupted" ? "aborted" : "bad");
  const [first, ...others] = [counted(app.cycles, "cycle"), `${duration(app.cycles)} at ${run.freq_ghz}\u2009GHz`, counted(app.commands.count, "command")];
  byId("facts").replaceChildren(make("span", {}, first), ...others.flatMap((fact) => [" ", make("span", {}, `\u00b7 ${fact}`)]));
  byId("facts").title = byId("facts").textContent;
  byId("tabs").replaceChildren(...TABS.map(([name, title], i) => make("button", { role: "tab", title: `${title} (${i + 1})`, "data-tab": name, "data-title": title, "aria-selected": "false", onclick: () => showTab(name) }, title)));
  const notice = byId("notice");
  notice.hidden = !run.broken;
  notice.textContent = run.broken ? "The trace breaks off at " + safe(run.broken, 300) + ". What is shown is what stands before that." : "";
}

async function begin() {
  const started = performance.now(), head = JSON.parse(byId("head").textContent);
  const bytes = await unpacked(byId("data").textContent);
  byId("data").remove();
  buildModel(head, bytes);
  app.commandRows = new Map(Array.from(app.commands.get("cmd_id"), (id, row) => [id, row]));
  Object.assign(app, { folded: new Map(), selected: -1, range: null, hover: null, pointer: null, scrollY: 0, lanesBy: "engine", colour: head.colour, group: undefined, by: head.colour, tab: "timeline", from: app.first, to: app.last, filter: noFilter() });
  keepTheme();
  setColour(head.colour);
  byId("theme").textContent = themeSign();
  drawTop();
  drawAnswer();
  listenToPlot();
  listenToKeys();
  readAddress();
  drawNow();
  addEventListener("resize", () => { fitGutter(); if (app.tab === "roofline") drawRoofline(); app.layoutStamp = ""; redraw(); });
  addEventListener("hashchange", () => { if (location.hash !== app.ownAddress) readAddress(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
  new ResizeObserver(redraw).observe(byId("plot"));
  byId("loading").hidden = true;
  byId("plot").focus({ preventScroll: true });
  app.loadMs = performance.now() - started;
}

/** The page's own numbers, for tests and the console. */
const report = {
  ready: null,
  counts: () => ({ spans: app.count, shown: app.order.length, commands: app.commands.count, points: Object.fromEntries(app.points.map((one) => [one.name, one.table.count])), loadMs: app.loadMs, drawMs: app.drawMs }),
  view: () => { drawNow(); return { from: app.from, to: app.to, tab: app.tab, selected: app.selected < 0 ? null : spanKey(app.selected), dark: app.dark, lanes: (app.lanes ?? []).map((lane) => lane.label), scroll: app.scrollY }; },
  totals: () => ({ ...groups(app.by).all }),
  groups: (name) => groups(name).rows,
  range: (from, to) => totalsIn(from, to).sum,
  filter: (axes) => { app.filter = { ...noFilter(), axes: new Map(Object.entries(axes).map(([name, labels]) => [name, new Set(labels)])), texts: {} }; refilter(); drawFilters(); drawNow(); },
  fields: (key) => Object.fromEntries(spanFields(spanOf(key)).map(([name, value]) => [name, String(value)])),
  heat: () => app.heat.map((heat) => ({ name: heat.name, rows: heat.rows, bin: heat.bin, parts: Array.from(heat.parts), shares: heat.rows.map((_, row) => Array.from({ length: heat.bins }, (_, bin) => heatCell(heat, row, heat.first + bin * heat.bin, heat.first + bin * heat.bin + 1).share)) })),
  roofline: () => rooflineData(),
  plot: () => plotSize(),
  tab: showTab,
  see,
  seen: () => [app.from, app.to],
  extend: (cycles) => { app.last = Math.max(app.last, app.first + cycles); app.miniKey = ""; redraw(); },
  theme: (name) => { document.documentElement.dataset.theme = name; themeChanged(); },
  place: (key) => { const span = spanOf(key), box = spanBox(span), plot = byId("plot").getBoundingClientRect(); return box && [plot.left + box[0] + box[2] / 2, plot.top + box[1] + box[3] / 2]; },
  drawNow: () => { drawNow(); return app.drawMs; },
  zoom: (factor) => { zoomBy(factor); app.pending = false; drawNow(); return app.drawMs; },
};
window.report = report;

report.ready = begin().then(() => true, (error) => {
  const old = typeof DecompressionStream === "undefined";
  byId("progress").textContent = old ? "This browser is too old: it needs DecompressionStream (Chrome 103, Firefox 113, Safari 16.4)." : "The report cannot be read: " + safe(error, 300);
  console.error(error);
  return false;
});
