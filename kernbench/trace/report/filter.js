// Which spans are shown. A filter is, per axis, the set of wanted labels (absent: all); ids and cycles are ranges.

const IDS = { cmd: "Command ids", job: "Job and transfer ids" };

/** Ranges out of "3, 10-20"; null where the text is empty, false where it is no list of ranges. */
function parseRanges(text) {
  if (!text.trim()) return null;
  const made = [];
  for (const part of text.split(",")) {
    const match = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part);
    if (!match) return false;
    made.push([Number(match[1]), Number(match[2] ?? match[1])]);
  }
  return made;
}

const inRanges = (ranges, value) => ranges.some(([low, high]) => value >= low && value <= high);

/** The empty filter. */
function noFilter() {
  return { axes: new Map(), ids: {}, cycles: null };
}

/** Make the list of shown spans anew, and what is read off it: rows, and lengths added up. */
function applyFilter() {
  const { axes, ids, cycles } = app.filter;
  const commandOk = new Uint8Array(app.commands.count + 1).fill(1);  // the last: spans without a command
  const kindOk = new Uint8Array(8).fill(1), unitOk = new Uint8Array(app.units.length + 1).fill(1);
  for (const [name, wanted] of axes) {
    const made = axis(name), ok = made.labels.map((label) => wanted.has(label));
    if (name === "component") kindOk.forEach((_, i) => { kindOk[i] = ok[i] ? 1 : 0; });
    else if (name === "unit") unitOk.forEach((_, i) => { unitOk[i] = ok[i] ? 1 : 0; });
    else {
      for (let i = 0; i < app.commands.count; i++) if (!ok[made.ofCommand[i]]) commandOk[i] = 0;
      if (!ok[made.none]) commandOk[app.commands.count] = 0;
    }
  }
  if (ids.cmd) {
    const values = app.commands.get("cmd_id");
    for (let i = 0; i < values.length; i++) if (!inRanges(ids.cmd, values[i])) commandOk[i] = 0;
    commandOk[app.commands.count] = 0;
  }
  const job = ids.job ? app.spans.get("job") : null;
  const order = new Int32Array(app.count);
  let shown = 0;
  for (let i = 0; i < app.count; i++) {
    const command = app.command[i];
    if (!kindOk[app.kind[i]] || !unitOk[app.unit[i]] || !commandOk[command < 0 ? app.commands.count : command]) continue;
    if (job && !inRanges(ids.job, job[i])) continue;
    if (cycles && !reaches(i, cycles[0], cycles[1])) continue;
    order[shown++] = i;
  }
  app.commandOk = commandOk;
  app.kindOk = kindOk;
  app.unitOk = unitOk;
  index(order.subarray(0, shown));
}

/** Whether a span has cycles in [from, to); one without length, whether it stands there. */
function reaches(span, from, to) {
  return app.start[span] < to && (app.end[span] > from || app.start[span] >= from);
}

/** Per row of each unit, where its shown spans stand in `order`; starts, ends and added lengths in that order. */
function index(order) {
  const count = order.length;
  app.order = order;
  app.isShown = new Uint8Array(app.count);
  app.shownStart = new Float64Array(count);
  app.shownEnd = new Float64Array(count);
  app.added = new Float64Array(count + 1);
  app.rows = app.units.map(() => []);
  for (let k = 0; k < count; k++) {
    const span = order[k];
    app.isShown[span] = 1;
    app.shownStart[k] = app.start[span];
    app.shownEnd[k] = app.end[span];
    app.added[k + 1] = app.added[k] + app.end[span] - app.start[span];
    const rows = app.rows[app.unit[span]];
    const row = app.row[span];
    if (rows.length <= row || rows[row] === undefined) {
      while (rows.length <= row) rows.push(undefined);
      rows[row] = { low: k, high: k + 1 };
    } else rows[row].high = k + 1;
  }
  app.depth = app.rows.map((rows) => rows.length);
  app.rows = app.rows.map((rows) => rows.map((row) => row ?? { low: 0, high: 0 }));
  app.byCommand = null;
  app.groups = new Map();
  app.stamp = (app.stamp || 0) + 1;
}

/** Shown spans by command: `list[starts[c] .. starts[c + 1])`, and when each command's first and last cycle is. */
function byCommand() {
  if (app.byCommand) return app.byCommand;
  const count = app.commands.count, starts = new Int32Array(count + 2);
  for (const span of app.order) if (app.command[span] >= 0) starts[app.command[span] + 2] += 1;
  for (let i = 2; i < count + 2; i++) starts[i] += starts[i - 1];
  const list = new Int32Array(starts[count + 1]);
  const first = new Float64Array(count).fill(Infinity), last = new Float64Array(count).fill(-Infinity);
  const issue = app.spans.get("issue");
  for (const span of app.order) {
    const command = app.command[span];
    if (command < 0) continue;
    list[starts[command + 1]++] = span;
    first[command] = Math.min(first[command], app.start[span], Number.isNaN(issue[span]) ? Infinity : issue[span]);
    last[command] = Math.max(last[command], app.end[span]);
  }
  app.byCommand = { starts, list, first, last };
  return app.byCommand;
}

/** Commands with something shown in [from, to), by id. */
function commandsIn(from, to) {
  const { first, last } = byCommand(), made = [];
  for (let i = 0; i < first.length; i++) if (first[i] < to && (last[i] > from || first[i] >= from)) made.push(i);
  return made;
}

/** How many filters are set. */
function filterCount() {
  return app.filter.axes.size + Object.values(app.filter.ids).filter(Boolean).length + (app.filter.cycles ? 1 : 0);
}
