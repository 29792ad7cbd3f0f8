// Which lanes stand under each other: groups with a head that folds them, and how high each is.

let GUTTER = 148;  // of labels: narrower in narrow windows
const MARGIN = 14, AXIS = 26, HEAD = 22;  // MARGIN: the scroll bar's

function fitGutter() { GUTTER = innerWidth <= 560 ? 84 : innerWidth <= 1200 ? 120 : 148; }
const MOST_COMMANDS = 2000;
const CONTROL = 3, DRAM = 4, NOC = 5;

/** The lanes of the current tab, from the top, with `y` and `height`. */
function layout() {
  const lanes = app.tab === "heat" ? heatLanes() : app.lanesBy === "command" ? [...pathLane(), ...commandLanes(), ...eventLanes()] : [...pathLane(), ...unitLanes(), ...eventLanes()];
  let y = 0;
  for (const lane of lanes) { lane.y = y; y += lane.height; }
  app.lanes = lanes;
  app.tall = y;
}

function group(id, title, lanes, note, folded = false) {
  if (!lanes.length) return [];
  const shut = app.folded.has(id) ? app.folded.get(id) : folded;
  return [{ type: "head", id, label: title, note, shut, height: HEAD }, ...(shut ? [] : lanes)];
}

/** The critical path: what determined the end of the run, cause by cause. */
const pathLane = () => (pathRows().length ? [{ type: "path", label: "Critical path", height: 20 }] : []);

const EVENT_NAMES = { WARN: "warning", ERROR: "error", SRAM_CONFLICT: "bank conflict", MARKER: "marker", TOKEN: "token", TOKEN_COMPLETE: "token end", IRQ_EMIT: "interrupt", DRAM_TX_SUSPEND: "suspended flow", DRAM_TX_RESUME: "resumed flow", POWER_STATE: "power state", HW_COUNTER: "counter reading" };

/** A row for each type of event that the trace has: last and folded, with counts. */
function eventLanes() {
  const lanes = app.points.map((points) => ({ type: "events", label: points.name, points, height: 20 })).filter((lane) => shownPoints(lane.points).length);
  return group("events", "Events", lanes, lanes.map(({ points }) => counted(points.shown.length, EVENT_NAMES[points.name] ?? points.name)).join(", "), true);
}

/** Names without the beginning that all of them have: `pe0 dma` of `sip0.cube0.pe0.pe_dma`, `ch0` of `dram.ch0`. */
function shortNames(names) {
  const steps = names.map((name) => name.split("."));
  let shared = 0;
  while (steps.length && steps.every((one) => one.length > shared + 1 && one[shared] === steps[0][shared])) shared += 1;
  if (steps.length === 1) shared = Math.max(0, steps[0].length - 2);
  return steps.map((one) => one.slice(shared).map((step, i, all) => (i && /^pe\d+$/.test(all[i - 1]) ? step.replace(/^pe_/, "") : step)).join(" "));
}

function unitLanes() {
  const lanes = { job: [], [DRAM]: [], [NOC]: [] };
  app.units.forEach((unit, number) => {
    const depth = app.depth[number];
    const kind = unit.component === "DRAM" ? DRAM : unit.component === "NOC" ? NOC : "job";
    if (depth === 0 && !(kind === "job" && ["DMA", "TE", "VE"].includes(unit.component) && app.unitOk[number] && app.kindOk[app.head.components.indexOf(unit.component)])) return;
    lanes[kind].push({ type: "unit", label: unit.name, unit: number, rows: depth, height: laneHeight(depth, kind) });
  });
  for (const some of Object.values(lanes)) shortNames(some.map((lane) => lane.label)).forEach((text, i) => { some[i].text = text; });
  return [
    ...group("engines", "Engines", lanes.job, "jobs; those that overlap have a row each"),
    ...group("dram", "DRAM flows", lanes[DRAM], "bytes of one transfer on one channel", lanes.job.length > 16),
    ...group("noc", "NoC flows", lanes[NOC], "bytes of one transfer on one link", true),
  ];
}

function laneHeight(depth, kind) {
  if (kind !== "job") return Math.min(Math.max(depth, 1) * 6, 120) + 6;
  return Math.min(Math.max(depth, 1) * (depth <= 1 ? 20 : depth <= 4 ? 14 : 10), 240) + 6;
}

/** A row a command, of those that are at work in what is seen. */
function commandLanes() {
  const found = commandsIn(app.from, app.to), more = found.length - MOST_COMMANDS;
  const opcode = app.commands.texts("cmd_type"), types = app.commands.get("cmd_type"), ids = app.commands.get("cmd_id");
  const lanes = found.slice(0, MOST_COMMANDS).map((command) => ({
    type: "command", command, height: 18, label: ids[command] + " " + (opcode && !Number.isNaN(types[command]) ? opcode[types[command]] : ""),
  }));
  const note = `${grouped(found.length)} at work in what is seen` + (more > 0 ? `, the first ${grouped(MOST_COMMANDS)} shown: zoom in or filter` : "") + "; pale: issued and waiting";
  return group("commands", "Commands", lanes, note);
}

function heatLanes() {
  const made = [];
  for (const heat of app.heat) {
    const texts = shortNames(heat.rows), rows = heat.rows.map((label, row) => ({ type: "heat", heat, row, label, text: texts[row], height: heat.rows.length > 12 ? 14 : 18 }));
    let lanes = rows.filter((lane) => heatShown(heat, lane.label));
    const id = "heat." + heat.name, more = lanes.length - MOST_LINKS;
    if (heat.name === "noc") lanes.sort((a, b) => meanUse(heat, b.row) - meanUse(heat, a.row) || a.row - b.row);
    if (heat.name === "noc" && more > 1) {
      const all = app.folded.get("more." + id);
      if (!all) lanes = lanes.slice(0, MOST_LINKS);
      lanes.push({ type: "more", id: "more." + id, label: all ? `the busiest ${MOST_LINKS} alone` : `${more} more`, height: 18 });
    }
    made.push(...group(id, heat.title, lanes, heat.what));
  }
  return made;
}

const MOST_LINKS = 16;

/** The part of all that a row could do in the whole run. */
function meanUse(heat, row) {
  heat.means ??= heat.rows.map((_, one) => heatCell(heat, one, heat.first, heat.last)?.share ?? 0);
  return heat.means[row];
}

function heatShown(heat, label) {
  const unit = app.units.findIndex((one) => one.name === label);
  const component = unit >= 0 ? app.units[unit].component : "SRAM";
  const place = app.head.components.indexOf(component);
  return (unit < 0 || app.unitOk[unit]) && (place < 0 || app.kindOk[place]);
}

/** Rows of a table of events that the filter lets through, in order of time. */
function shownPoints(points) {
  if (points.stamp === app.stamp) return points.shown;
  const { table, name } = points, ids = table.get("cmd_id"), units = table.get("unit"), times = table.get("t_cycle");
  const own = table.texts("component"), components = table.get("component"), fixed = app.head.point_components[name];
  const byId = app.commandRows, shown = [], { cycles, ids: ranges } = app.filter, jobs = ranges.job && table.get("job_id");
  for (let i = 0; i < table.count; i++) {
    const command = Number.isNaN(ids[i]) ? app.commands.count : byId.get(ids[i]) ?? app.commands.count;
    const component = own && !Number.isNaN(components[i]) ? own[components[i]] : fixed || app.units[units[i]]?.component;
    const place = app.head.components.indexOf(component);
    if (!app.commandOk[command] || (units[i] >= 0 && !app.unitOk[units[i]]) || (place >= 0 && !app.kindOk[place])) continue;
    if (cycles && (times[i] < cycles[0] || times[i] >= cycles[1])) continue;
    if (jobs && !inRanges(ranges.job, jobs[i])) continue;
    shown.push(i);
  }
  points.stamp = app.stamp;
  points.shown = shown;
  points.times = Float64Array.from(shown, (i) => times[i]);
  return shown;
}

/** Scroll and sizes after the lanes have changed. */
function fitScroll() {
  const room = plotSize().height - AXIS;
  byId("tall").style.height = app.tall + "px";
  app.scrollY = Math.max(0, Math.min(app.scrollY, app.tall - room));
  const scroll = byId("scroll");
  scroll.hidden = app.tall <= room;
  if (Math.abs(scroll.scrollTop - app.scrollY) > 1) scroll.scrollTop = app.scrollY;
}

function plotSize() {
  const plot = byId("plot");
  return { width: plot.clientWidth, height: plot.clientHeight, room: Math.max(1, plot.clientWidth - GUTTER - MARGIN) };
}
