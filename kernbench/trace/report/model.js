// What the page knows: spans in the order of their rows, commands, waits, events; and what each span is on each axis.

const app = {};  // the state of the page: filled by model.js, changed by filters, colours, selection and view

/** Take the tables out of the page's data. */
function buildModel(head, bytes) {
  const table = (told) => new Table(bytes, told);
  app.head = head;
  app.freq = head.run.freq || 1;
  app.first = head.first;
  app.last = Math.max(head.last, head.first + 1);  // of an empty run, too, there is a part to see
  app.cycles = head.last - head.first;
  app.units = head.units;
  app.commands = table(head.commands);
  app.spans = table(head.spans);
  app.details = head.details.map(table);
  app.waits = table(head.waits);
  app.points = Object.entries(head.points).map(([name, told]) => ({ name, table: table(told) }));
  app.count = app.spans.count;
  app.kind = new Uint8Array(app.spans.get("kind"));
  app.unit = new Int32Array(app.spans.get("unit"));
  app.row = new Int32Array(app.spans.get("row"));
  app.start = app.spans.get("start");
  const cycles = app.spans.get("cycles"), commands = app.spans.get("command"), { start } = app;
  const end = app.end = new Float64Array(app.count), command = app.command = new Int32Array(app.count);
  for (let i = 0; i < end.length; i++) {
    end[i] = start[i] + cycles[i];
    command[i] = commands[i] >= 0 ? commands[i] : -1;
  }
  app.heat = head.heat.map((told) => ({ ...told, bins: told.part.count / Math.max(1, told.rows.length) }));
  for (const heat of app.heat) {
    heat.parts = readInts(bytes, heat.part);
    heat.wholes = Array.isArray(heat.whole) ? null : readInts(bytes, heat.whole);
  }
  app.pathTable = head.answer.path ? table(head.answer.path) : null;
  app.causesTable = head.answer.causes ? table(head.answer.causes) : null;
  app.detailRow = detailRows();
  app.axes = new Map();
  countSpans();
}

/** How many spans each command and unit has, and how many spans and events each component; the last command stands for none. */
function countSpans() {
  const { command, kind, unit } = app, none = app.commands.count;
  const ofCommand = new Float64Array(none + 1), ofKind = new Float64Array(app.head.components.length), ofUnit = new Float64Array(app.units.length);
  for (let i = 0; i < command.length; i++) {
    ofCommand[command[i] < 0 ? none : command[i]] += 1;
    ofKind[kind[i]] += 1;
    ofUnit[unit[i]] += 1;
  }
  for (const { name, table } of app.points) {  // events are of a component too, some that has no spans
    const place = app.head.components.indexOf(app.head.point_components[name]);
    if (place >= 0) ofKind[place] += table.count;
  }
  app.spansOf = { command: ofCommand, component: ofKind, unit: ofUnit };
}

/** The row of each span in the details of its kind: they stand in the same order. */
function detailRows() {
  const { kind } = app, next = new Int32Array(app.head.kinds.length), made = new Int32Array(app.count);
  for (let i = 0; i < made.length; i++) made[i] = next[kind[i]]++;
  return made;
}

/** One axis: labels, and the label's place for each command and, where it is the span's own, each span. */
function axis(name) {
  if (!app.axes.has(name)) app.axes.set(name, makeAxis(name));
  return app.axes.get(name);
}

function makeAxis(name) {
  if (name === "component") return { name, labels: app.head.components, ofSpan: app.kind, numeric: false };
  if (name === "unit") return { name, labels: app.units.map((unit) => unit.name), ofSpan: app.unit, numeric: false };
  const column = app.head.axes[name], values = app.commands.get(column), texts = app.commands.texts(column);
  const { codes, keys } = distinct(values, !texts);
  const labels = keys.map((value) => (texts ? texts[value] : String(value)));
  labels.push("none");
  const none = labels.length - 1, ofCommand = new Int32Array(values.length);
  for (let i = 0; i < ofCommand.length; i++) ofCommand[i] = codes[i] < 0 ? none : codes[i];
  return { name, labels, ofCommand, none, numeric: !texts };
}

/** The different values, in order of appearance or size, and the place of each value among them; -1 for NaN. */
function distinct(values, bySize) {
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < values.length; i++) { if (values[i] < low) low = values[i]; if (values[i] > high) high = values[i]; }
  const codes = new Int32Array(values.length).fill(-1), keys = [], near = low <= high && high - low < 4e6;
  const known = near ? new Int32Array(high - low + 1) : new Map();  // a table is faster than a map, where it is not too long
  for (let i = 0; i < values.length; i++) {
    if (Number.isNaN(values[i])) continue;
    let place = near ? known[values[i] - low] : known.get(values[i]);
    if (!place) {
      place = keys.push(values[i]);
      if (near) known[values[i] - low] = place; else known.set(values[i], place);
    }
    codes[i] = place - 1;
  }
  if (bySize) {
    const order = Uint32Array.from(keys.keys()).sort((a, b) => keys[a] - keys[b]), rank = new Int32Array(keys.length);
    order.forEach((place, i) => { rank[place] = i; });
    for (let i = 0; i < codes.length; i++) if (codes[i] >= 0) codes[i] = rank[codes[i]];
    keys.sort((a, b) => a - b);
  }
  return { codes, keys };
}

/** The place of a span's label on an axis. */
function placeOn(made, span) {
  if (made.ofSpan) return made.ofSpan[span];
  const command = app.command[span];
  return command < 0 ? made.none : made.ofCommand[command];
}

/** How many spans have each label. */
function labelCounts(made) {
  if (!made.counts) {
    made.counts = made.ofSpan ? app.spansOf[made.name] : new Float64Array(made.labels.length);
    if (!made.ofSpan) {
      app.spansOf.command.forEach((count, command) => { made.counts[command < app.commands.count ? made.ofCommand[command] : made.none] += count; });
    }
  }
  return made.counts;
}

/** What each span adds to totals, read from the details of its kind: 0 where there is none. */
function amount(name) {
  app.amounts ??= new Map();
  if (!app.amounts.has(name)) app.amounts.set(name, makeAmount(name));
  return app.amounts.get(name);
}

function makeAmount(name) {
  const made = new Float64Array(app.count);
  if (name === "queued") {
    const issue = app.spans.get("issue");
    for (let i = 0; i < app.count; i++) if (isJob(i) && !Number.isNaN(issue[i])) made[i] = app.start[i] - issue[i];
    return made;
  }
  if (name.startsWith("wait.")) {
    const reason = app.head.reasons.indexOf(name.slice(5)), span = app.waits.get("span");
    const reasons = app.waits.get("reason"), cycles = app.waits.get("cycles");
    for (let i = 0; i < span.length; i++) if (reasons[i] === reason && !Number.isNaN(span[i])) made[span[i]] += cycles[i];
    return made;
  }
  const [kind, field] = { bytes: [0, "size_bytes"], dram: [0, "size_bytes"], macs: [1, "mac_count"], ops: [2, "op_count"] }[name];
  const values = app.details[kind].get(field);
  const inside = name === "dram" ? (app.details[0].texts("direction") ?? []).indexOf("SRAM_TO_SRAM") : -1;
  const direction = app.details[0].get("direction");
  for (let i = 0; i < app.count; i++) {
    if (app.kind[i] !== kind) continue;
    const row = app.detailRow[i];
    if (!(inside >= 0 && direction[row] === inside)) made[i] = values[row] || 0;
  }
  return made;
}

const isJob = (span) => app.kind[span] <= 2;

/** The name of a span that a link keeps: its track and job, of a flow its channel too, of a control command its id. */
function spanKey(span) {
  const unit = app.units[app.unit[span]].name, job = app.spans.get("job")[span];
  if (Number.isNaN(job)) return unit + ":c" + app.commands.get("cmd_id")[app.command[span]];
  return unit + ":" + job + (app.kind[span] === 5 ? ":" + app.details[5].get("channel")[app.detailRow[span]] : "");
}

/** The span of such a name; -1 where there is none. */
function spanOf(key) {
  for (let i = 0; i < app.count; i++) {
    if (key.startsWith(app.units[app.unit[i]].name + ":") && spanKey(i) === key) return i;
  }
  return -1;
}

/** What a span is called: its opcode or event kind, and its command. */
function spanTitle(span) {
  const command = app.command[span];
  const opcode = command >= 0 ? app.commands.value("cmd_type", command) : undefined;
  const what = app.kind[span] === 4 ? "DRAM flow" : app.kind[span] === 5 ? "NoC flow" : opcode ?? app.head.components[app.kind[span]] + " job";
  return safe(what, 80) + (command >= 0 ? " \u00b7 command " + app.commands.get("cmd_id")[command] : "");
}

/** First place in [low, high) whose value is above (or, with `orEqual`, at or above) the limit. */
function firstAbove(values, low, high, limit, orEqual) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (orEqual ? values[middle] >= limit : values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}
