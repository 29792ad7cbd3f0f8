// Events as marks, the small picture of the whole run, what lies over the plot, and the line below it.

const SHAPES = { ERROR: "fail", MARKER: "accent", TOKEN: "good", TOKEN_COMPLETE: "good", IRQ_EMIT: "accent" };

function drawMarks(context, room, height) {
  context.save();
  context.beginPath();
  context.rect(GUTTER, AXIS, room, height - AXIS);
  context.clip();
  for (const lane of app.lanes) {
    const y = AXIS + lane.y - app.scrollY;
    if (lane.type === "events" && y + lane.height > AXIS && y < height) marksOf(context, lane, y, room);
  }
  context.restore();
}

function marksOf(context, lane, y, room) {
  const { points } = lane, zoom = room / (app.to - app.from), colour = app.paint[SHAPES[points.name]] ?? app.paint.soft;
  shownPoints(points);
  const { times } = points;
  let k = firstAbove(times, 0, times.length, app.from, true), reached = -Infinity;
  context.fillStyle = colour;
  while (k < times.length && times[k] <= app.to) {
    const x = (times[k] - app.from) * zoom, next = firstAbove(times, k + 1, times.length, app.from + (Math.floor(x) + 1) / zoom, true);
    const after = next < times.length ? (times[next] - app.from) * zoom : Infinity, alone = x - reached > 9 && after - x > 9;
    const middle = y + lane.height / 2;
    context.globalAlpha = alone ? 1 : 0.75;
    if (alone) {
      context.beginPath();
      context.moveTo(GUTTER + x, middle - 5); context.lineTo(GUTTER + x + 5, middle); context.lineTo(GUTTER + x, middle + 5); context.lineTo(GUTTER + x - 5, middle);
      context.fill();
    } else context.fillRect(GUTTER + Math.floor(x), y + 4, 1.5, lane.height - 8);
    if (points.name === "MARKER" && after - x > 40) {
      context.globalAlpha = 1;
      context.font = textFont(LOOK.type.label);
      context.textBaseline = "middle";
      context.fillStyle = app.paint.ink;
      context.fillText(fitted(context, safe(points.table.value("marker", points.shown[k]) ?? "", 60), Math.min(after - x, 200) - 16), GUTTER + x + 9, middle + 0.5);
      context.fillStyle = colour;
    }
    reached = x;
    k = next;
  }
  context.globalAlpha = 1;
}

/** How busy the run was, from its first to its last cycle, and which part of it is seen. */
function drawMini() {
  const canvas = byId("mini"), width = canvas.clientWidth, height = 44, { context, scale } = sized(canvas, width, height);
  const paint = app.paint, room = Math.max(1, width - GUTTER - MARGIN);
  context.fillStyle = paint.card;
  context.fillRect(0, 0, width, height);
  const key = [width, scale, app.stamp, app.dark, app.colour].join();
  if (app.miniKey !== key) { app.miniBars = miniBars(Math.max(1, Math.floor(room))); app.miniKey = key; }
  const { bars, peak } = app.miniBars;
  for (let x = 0; x < Math.floor(room); x++) {
    let y = height - 3;
    for (const { fill, values } of bars) {
      const tall = (values[x] / peak) * (height - 8);
      if (!tall) continue;
      context.fillStyle = fill;
      context.fillRect(GUTTER + x, y - tall, 1, tall);
      y -= tall;
    }
  }
  context.font = textFont(LOOK.type.label);
  context.textBaseline = "middle";
  context.fillStyle = paint.soft;
  context.fillText(fitted(context, "jobs at work", GUTTER - 8), GUTTER < 100 ? 6 : 18, 14);
  context.fillText(fitted(context, `peak ${grouped(peak)}`, GUTTER - 8), GUTTER < 100 ? 6 : 18, 30);
  const left = GUTTER + ((app.from - app.first) / (app.last - app.first)) * room, right = GUTTER + ((app.to - app.first) / (app.last - app.first)) * room;
  context.fillStyle = paint.page;
  context.globalAlpha = 0.72;
  context.fillRect(GUTTER, 0, left - GUTTER, height);
  context.fillRect(right, 0, GUTTER + room - right, height);
  context.globalAlpha = 1;
  context.strokeStyle = paint.accent;
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.5, 1.5, Math.max(2, right - left - 1), height - 3);
}

/** Mean number of jobs at work in each pixel, by colour: the key is that of the lanes. */
function miniBars(width) {
  const fills = [...new Set(app.colours)], order = app.colours.map((fill) => fills.indexOf(fill));
  const bars = fills.map(() => new Float64Array(width + 1)), zoom = width / (app.last - app.first);
  for (const span of app.order) {
    if (app.kind[span] > 2) continue;
    const from = (app.start[span] - app.first) * zoom, to = (app.end[span] - app.first) * zoom, low = Math.floor(from), high = Math.floor(to);
    const bar = bars[order[app.placeOf(span)]];
    if (low === high) { bar[low] += to - from; continue; }
    bar[low] += low + 1 - from;
    for (let x = low + 1; x < high; x++) bar[x] += 1;
    if (high < width) bar[high] += to - high;
  }
  return { bars: bars.map((values, i) => ({ fill: fills[i], values })), peak: Math.max(1, mostAtOnce()) };
}

/** The largest number of jobs in one cycle: the same at every width of the window. */
function mostAtOnce() {
  const jobs = app.order.filter((span) => app.kind[span] <= 2);
  const starts = Float64Array.from(jobs, (span) => app.start[span]).sort(), ends = Float64Array.from(jobs, (span) => app.end[span]).sort();
  let most = 0;
  for (let begun = 0, ended = 0; begun < starts.length; begun++) {
    while (ended < ends.length && ends[ended] <= starts[begun]) ended++;
    most = Math.max(most, begun + 1 - ended);
  }
  return most;
}

/** The box of a span on the plot: [x, y, width, height]; null where it is not drawn. */
function spanBox(span) {
  const { room } = plotSize(), edge = GUTTER + room;
  for (const lane of app.lanes ?? []) {
    const y = AXIS + lane.y - app.scrollY;
    let top, height;
    if (lane.type === "unit" && lane.unit === app.unit[span]) [top, height] = rowBox(lane, app.row[span], y);
    else if (lane.type === "command" && lane.command === app.command[span]) [top, height] = [y + 2, 12];
    else continue;
    const left = xOf(app.start[span], room), right = Math.max(xOf(app.end[span], room), left + 2);
    return [Math.max(left, GUTTER), top, Math.min(right, edge) - Math.max(left, GUTTER), height];
  }
  return null;
}

function drawOver() {
  const { width, height, room } = plotSize(), { context } = sized(byId("over"), width, height), { paint } = app;
  context.clearRect(0, 0, width, height);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, room + 1, height);
  context.clip();
  if (app.range) {
    const left = xOf(app.range[0], room), right = xOf(app.range[1], room);
    context.fillStyle = paint.accent;
    context.globalAlpha = 0.14;
    context.fillRect(left, AXIS, right - left, height - AXIS);
    context.globalAlpha = 1;
    context.fillRect(left - 1, 0, 1.5, height);
    context.fillRect(right, 0, 1.5, height);
  }
  for (const [span, colour, line] of [[app.hover?.span ?? -1, paint.pick, 1], [app.selected, paint.pick, 2]]) {
    const box = span >= 0 ? spanBox(span) : null;
    if (!box || box[1] < AXIS - box[3] || box[2] < -2) continue;
    context.save();
    context.beginPath();
    context.rect(GUTTER, AXIS, width, height);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(box[0] - 0.5, box[1] - 0.5, Math.max(box[2], 2) + 1, box[3] + 1);
    context.restore();
  }
  if (app.pointer) crosshair(context, room, height);
  context.restore();
}

function crosshair(context, room, height) {
  const time = app.pointer.time, x = xOf(time, room);
  context.fillStyle = app.paint.accent;
  context.globalAlpha = 0.6;
  context.fillRect(Math.round(x), AXIS, 1, height - AXIS);
  context.globalAlpha = 1;
  context.font = textFont(11, "600");
  const text = grouped(Math.floor(time)), wide = context.measureText(text).width + 10, left = Math.min(Math.max(x - wide / 2, GUTTER), GUTTER + room - wide);
  context.fillStyle = app.paint.accent;
  context.fillRect(left, 3, wide, AXIS - 8);
  context.fillStyle = textOn(hex(app.paint.accent));
  context.textBaseline = "middle";
  context.fillText(text, left + 5, AXIS / 2 - 0.5);
}

function footer() {
  const filters = filterCount(), shown = app.order.length, to = Math.min(app.to, app.first + app.cycles), length = to - app.from;
  byId("foot").replaceChildren(
    make("span", {}, `${grouped(Math.round(app.from))} \u2013 ${grouped(Math.round(to))}`),
    make("span", {}, `${counted(Math.round(length), "cycle")}, ${duration(length)}`),
    make("span", {}, shown === app.count ? counted(shown, "span") : `${grouped(shown)} of ${counted(app.count, "span")} (${counted(filters, "filter")})`),
  );
}

/** What to say where there is nothing to draw. */
function emptyState() {
  const box = byId("nothing");
  const nothing = app.tab === "heat" ? !app.lanes.length : !app.order.length;
  box.hidden = !nothing;
  if (!nothing) return;
  const [title, text] = app.tab === "heat"
    ? app.heat.length ? ["Nothing passes the filters", "Press X to clear them."] : ["No samples in this trace", "It has no windows with samples: the run was shorter than one, or they were filtered out."]
    : app.count ? ["Nothing passes the filters", "Press X to clear them."] : ["No spans in this trace", "No job started: the program is empty, or the file breaks off before its first job."];
  box.replaceChildren(make("b", {}, title), make("span", {}, text));
}
