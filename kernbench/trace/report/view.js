// The part of time that is seen, and the address that leads back to it.

const NARROWEST = 4;  // [cycle]

/** See [from, to), inside of the run and not too narrow. */
function see(from, to) {
  const run = app.last - app.first, length = Math.min(Math.max(to - from, Math.min(NARROWEST, run)), run);
  const middle = (from + to) / 2, low = Math.min(Math.max(middle - length / 2, app.first), app.last - length);
  app.from = low;
  app.to = low + length;
  redraw();
}

/** Zoom by a factor about a time: below 1 nearer. */
function zoomBy(factor, about = (app.from + app.to) / 2) {
  const run = app.last - app.first, length = app.to - app.from, wanted = Math.min(Math.max(length * factor, Math.min(NARROWEST, run)), run);
  const from = about - (about - app.from) * (wanted / length);
  see(from, from + wanted);
}

function panBy(part) {
  const step = (app.to - app.from) * part;
  see(app.from + step, app.to + step);
}

const seeAll = () => see(app.first, app.last);

/** See a span, with some time before and after it, and its lane. */
function seeSpan(span) {
  const length = Math.max(app.end[span] - app.start[span], 2), inside = app.start[span] < app.to && app.end[span] > app.from;
  const seen = app.to - app.from;
  if (!inside || length < seen / 200 || length > seen) see(app.start[span] - 3 * length, app.end[span] + 3 * length);
  if (app.tab !== "timeline") showTab("timeline");
  unfold(span);
  layout();
  app.layoutStamp = layoutKey();
  const lane = app.lanes.find((one) => (one.type === "unit" && one.unit === app.unit[span]) || (one.type === "command" && one.command === app.command[span]));
  if (lane) {
    const room = plotSize().height - AXIS;
    if (lane.y < app.scrollY || lane.y + Math.min(lane.height, room) > app.scrollY + room) app.scrollY = Math.max(0, lane.y - room / 3);
  }
  redraw();
}

function unfold(span) {
  if (app.kind[span] === DRAM) app.folded.set("dram", false);
  else if (app.kind[span] === NOC) app.folded.set("noc", false);
  else app.folded.set("engines", false);
  if (app.lanesBy === "command") app.folded.set("commands", false);
}

/** What the address says of the view: a link to it shows the same. */
function viewAddress() {
  const parts = new URLSearchParams();
  if (app.tab !== "timeline") parts.set("tab", app.tab);
  if (app.from !== app.first || app.to !== app.last) parts.set("t", Math.floor(app.from) + "-" + Math.ceil(app.to));
  if (app.selected >= 0) parts.set("span", spanKey(app.selected));
  if (app.range) parts.set("range", app.range.map(Math.round).join("-"));
  if (app.lanesBy !== "engine") parts.set("lanes", app.lanesBy);
  if (app.colour !== app.head.colour) parts.set("colour", app.colour);
  if (app.by !== app.head.colour) parts.set("by", app.by);
  for (const [name, wanted] of app.filter.axes) parts.set("f." + name, JSON.stringify([...wanted]));
  for (const [name, text] of Object.entries(app.filter.texts ?? {})) if (text) parts.set("f." + name, text);
  const text = parts.toString();
  return text ? "#" + text : "";
}

/** Put the view into the address, a moment after the last change. */
function rememberView() {
  clearTimeout(app.remembering);
  app.remembering = setTimeout(() => {
    const wanted = viewAddress();
    if (wanted === location.hash) return;
    app.ownAddress = wanted;
    try { history.replaceState(null, "", wanted || "#"); } catch { /* a browser that allows only so many changes */ }
  }, 250);
}

const cyclesOf = (text, pattern = /^(-?\d+)-(\d+)$/) => { const found = pattern.exec(text ?? ""); return found ? [Number(found[1]), Number(found[2])] : null; };

/** See what the address says; what it says wrongly is passed over. */
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  app.filter = noFilter();
  app.filter.texts = {};
  for (const [key, value] of parts) if (key.startsWith("f.")) readFilter(key.slice(2), value);
  app.lanesBy = parts.get("lanes") === "command" ? "command" : "engine";
  if (app.head.colours.includes(parts.get("colour"))) setColour(parts.get("colour"));
  app.by = parts.get("by") in app.head.axes || ["component", "unit"].includes(parts.get("by")) ? parts.get("by") : app.head.colour;
  applyFilter();
  drawFilters();
  drawBar();
  const seen = cyclesOf(parts.get("t")), range = cyclesOf(parts.get("range"));
  see(...(seen ?? [app.first, app.last]));
  showTab(TABS.some(([name]) => name === parts.get("tab")) ? parts.get("tab") : "timeline");
  const span = parts.has("span") ? spanOf(parts.get("span")) : -1;
  if (span >= 0) { select(span); if (!seen) seeSpan(span); } else if (range) selectRange(...range); else clearSelection();
}

function readFilter(name, value) {
  if (name in IDS) { app.filter.texts[name] = value; app.filter.ids[name] = parseRanges(value) || null; return; }
  if (name === "cycles") { app.filter.texts.cycles = value; app.filter.cycles = cyclesOf(value); return; }
  if (!(name in app.head.axes) && name !== "component" && name !== "unit") return;
  try {
    const wanted = JSON.parse(value);
    if (Array.isArray(wanted)) app.filter.axes.set(name, new Set(wanted.map(String)));
  } catch { /* not of this page */ }
}
