// The keyboard, the search field, and the page that lists the keys.

const KEYS = [
  ["W S, + \u2212", "zoom in, out"], ["A D, \u2190 \u2192", "pan"], ["\u2191 \u2193, PgUp PgDn", "scroll"], ["0, Home", "see the whole run"],
  ["F", "zoom to the selection"], ["R", "select what is seen"], ["[ ]", "the span before, after in its track"], ["Esc", "close, clear the selection"],
  ["/", "find: a command or job id, an opcode, phase, model or marker; Enter and Shift+Enter go on"], ["1 \u2013 5", "timeline, heatmaps, phases, roofline, run"],
  ["L", "lanes by engine or command"], ["C", "colour by the next axis"], ["X", "clear the filters"], ["B", "show or hide the filters"], ["T", "light or dark"], ["?", "this page"],
];

const ACTIONS = {
  w: () => zoomBy(1 / 1.5), "+": () => zoomBy(1 / 1.5), "=": () => zoomBy(1 / 1.5), s: () => zoomBy(1.5), "-": () => zoomBy(1.5),
  a: () => panBy(-0.15), ArrowLeft: () => panBy(-0.15), d: () => panBy(0.15), ArrowRight: () => panBy(0.15),
  ArrowUp: () => scrollLanes(-40), ArrowDown: () => scrollLanes(40), PageUp: () => scrollLanes(-300), PageDown: () => scrollLanes(300),
  0: seeAll, Home: seeAll, f: () => (app.selected >= 0 ? seeClose(app.selected) : app.range && see(...app.range)), r: () => selectRange(app.from, app.to),
  "[": () => step(-1), "]": () => step(1), Escape: () => clearSelection(), "/": () => byId("find").focus(),
  l: () => setLanes(app.lanesBy === "engine" ? "command" : "engine"), c: nextColour, x: clearFilters, b: toggleFilters, t: toggleTheme, "?": showKeys,
};

function scrollLanes(pixels) {
  if (["timeline", "heat"].includes(app.tab)) { app.scrollY += pixels; redraw(); } else byId("view-" + app.tab).scrollBy(0, pixels);
}

function seeClose(span) {
  const length = Math.max(app.end[span] - app.start[span], 2);
  see(app.start[span] - length / 2, app.end[span] + length / 2);
  seeSpan(span);
}

function nextColour() {
  const names = app.head.colours;
  setColour(names[(names.indexOf(app.colour) + 1) % names.length]);
  drawFilters();
  drawBar();
  drawAnswer();
  redraw();
}

function toggleFilters() {
  if (app.tab === "run") return;
  byId("filters").hidden = !byId("filters").hidden;
  drawBar();
  redraw();
}

function toggleTheme() {
  if (report.themed) { report.themed(); return; }  // the page around this one has the switch
  switchTheme();
  themeChanged();
}

function themeChanged() {
  readColours();
  byId("theme").textContent = themeSign();
  drawAnswer();
  drawFilters();
  drawBar();
  showTab(app.tab);
  redraw();
}

function showKeys() {
  const list = make("dl", { className: "fields" });
  for (const [keys, what] of KEYS) {
    const parts = keys.split(/( |, )/).map((part) => (/^( |, |\u2013)$/.test(part) ? part : make("kbd", {}, part)));
    list.append(make("dt", {}, ...parts), make("dd", {}, what));
  }
  byId("keys").replaceChildren(make("h2", {}, "Keys"), list, make("h2", { style: { marginTop: "14px" } }, "Mouse"),
    fieldList([["drag", "pan"], ["wheel", "scroll, or zoom where all lanes are seen"], ["ctrl+wheel", "zoom"], ["shift+drag, or drag on the axis", "select time"], ["double click", "zoom to a span"]]));
  if (!byId("keys").open) byId("keys").showModal();
}

function listenToKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox") { if (event.key === "Escape") event.target.blur(); return; }
    const tab = TABS[Number(event.key) - 1];
    const action = tab ? () => showTab(tab[0]) : ACTIONS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || byId("keys").open) return;
    event.preventDefault();
    action();
  });
  byId("keys").addEventListener("click", () => byId("keys").close());
  byId("help").onclick = showKeys;
  byId("theme").onclick = toggleTheme;
  const find = byId("find");
  find.oninput = () => { app.finds = null; byId("found").textContent = ""; };
  find.onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); findNext(event.shiftKey ? -1 : 1); } };
}

/** Spans whose command or job id, opcode, phase, model or marker has what is looked for, in order of time. */
function findAll(text) {
  const wanted = text.trim().toLowerCase(), commands = new Set(), number = /^\d+$/.test(wanted) ? Number(wanted) : NaN;
  if (!wanted) return [];
  const ids = app.commands.get("cmd_id");
  for (let i = 0; i < ids.length; i++) if (ids[i] === number) commands.add(i);
  for (const name of ["cmd_type", "phase", "model_name", "precision"]) {
    const texts = app.commands.texts(name);
    if (!texts) continue;
    const hits = texts.map((one) => one.toLowerCase().includes(wanted)), values = app.commands.get(name);
    if (hits.some(Boolean)) for (let i = 0; i < values.length; i++) if (hits[values[i]]) commands.add(i);
  }
  for (const { name, table } of app.points) {
    if (name !== "MARKER") continue;
    for (let i = 0; i < table.count; i++) if (String(table.value("marker", i)).toLowerCase().includes(wanted)) commands.add(app.commandRows.get(table.get("cmd_id")[i]));
  }
  const job = app.spans.get("job"), found = [];
  for (const span of app.order) if (commands.has(app.command[span]) || (job[span] === number && app.kind[span] <= 2)) found.push(span);
  const jobs = found.filter((span) => app.kind[span] <= CONTROL);
  return (jobs.length ? jobs : found).sort((a, b) => app.start[a] - app.start[b] || a - b);
}

function findNext(by) {
  const text = byId("find").value;
  if (!app.finds) app.finds = { spans: findAll(text), at: by > 0 ? -1 : 0 };
  const { spans } = app.finds;
  if (!spans.length) { byId("found").textContent = text.trim() ? "none" : ""; return; }
  app.finds.at = (app.finds.at + by + spans.length) % spans.length;
  byId("found").textContent = `${grouped(app.finds.at + 1)} / ${short(spans.length)}`;
  select(spans[app.finds.at]);
  seeSpan(app.selected);
}
