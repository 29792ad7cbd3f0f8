// The plot: raster of the lanes, labels, time axis, gutter, and over them what the pointer and the selection mark.

/** Draw everything in the next frame, once. */
function redraw() {
  if (app.pending) return;
  app.pending = true;
  requestAnimationFrame(() => { app.pending = false; drawNow(); });
}

function drawNow() {
  fitGutter();
  if (app.tab !== "timeline" && app.tab !== "heat") return;
  const begin = performance.now();
  if (app.tab === "timeline" && app.lanesBy === "command" || app.layoutStamp !== layoutKey()) {
    layout();
    app.layoutStamp = layoutKey();
  }
  fitScroll();
  drawPlot();
  drawMini();
  drawOver();
  footer();
  app.drawMs = performance.now() - begin;
  rememberView();
  report.viewed?.(app.from, app.to);
}

const layoutKey = () => [app.tab, app.lanesBy, app.stamp, [...app.folded].join()].join("|");

function sized(canvas, width, height) {
  const scale = Math.min(devicePixelRatio || 1, 3);
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return { context, scale };
}

function drawPlot() {
  const { width, height, room } = plotSize(), { context, scale } = sized(byId("base"), width, height);
  const paint = app.paint;
  context.fillStyle = paint.lane;
  context.fillRect(0, 0, width, height);
  if (room > 1 && height > AXIS + 4) {
    const raster = new Raster(Math.round(room * scale), Math.round((height - AXIS) * scale), scale);
    rasterLanes(raster);
    context.putImageData(raster.image, Math.round(GUTTER * scale), Math.round(AXIS * scale));
    labelSpans(context, raster);
    gridLines(context, room, height);
    drawMarks(context, room, height);
    gutter(context, width, height);
  }
  timeAxis(context, width, room);
  emptyState();
}

function rasterLanes(raster) {
  const { scale } = raster, bottom = raster.height / scale;
  const colours = { lane: packed(hex(app.paint.lane)), head: packed(hex(app.paint.head)) };
  raster.band(0, raster.height, colours.lane);
  app.lanes.forEach((lane) => {
    const y = lane.y - app.scrollY;
    if (y + lane.height < 0 || y > bottom) return;
    raster.band(y * scale, lane.height * scale, lane.type === "head" ? colours.head : colours.lane);
    if (lane.type === "unit") rasterUnit(raster, lane, y);
    else if (lane.type === "path") raster.path((y + 1) * scale, (lane.height - 2) * scale);
    else if (lane.type === "heat") raster.heat(lane, (y + 1) * scale, Math.max(1, (lane.height - 1) * scale));
    else if (lane.type === "command") rasterCommand(raster, lane, y);
  });
}

function rowBox(lane, row, y) {
  const inner = lane.height - 6, height = inner / Math.max(1, lane.rows);
  return [y + 3 + row * height, Math.max(1, height - (height > 5 ? 1 : 0))];
}

/** A track: its spans, hatched where they waited while they ran. */
function rasterUnit(raster, lane, y) {
  const waits = waitRows(), { scale } = raster;
  app.rows[lane.unit].forEach(({ low, high }, row) => {
    const [top, height] = rowBox(lane, row, y), waited = waits.get(lane.unit + "." + row);
    raster.spans(low, high, top * scale, height * scale);
    if (waited && height >= 5) raster.waits(waited, top * scale, height * scale);
  });
}

/** The waits of shown spans while they ran, by track and row, in order of their starts. */
function waitRows() {
  if (app.waitRows?.stamp === app.stamp) return app.waitRows;
  const made = new Map(), spans = app.waits.get("span"), starts = app.waits.get("start"), cycles = app.waits.get("cycles");
  for (let i = 0; i < spans.length; i++) {
    const span = spans[i];
    if (Number.isNaN(span) || starts[i] < app.start[span] || !app.isShown[span]) continue;
    const key = app.unit[span] + "." + app.row[span], row = made.get(key) ?? { starts: [], ends: [] };
    row.starts.push(starts[i]);
    row.ends.push(Math.max(starts[i] + cycles[i], row.ends.at(-1) ?? 0));  // several flows of a job may wait at a time
    made.set(key, row);
  }
  made.stamp = app.stamp;
  app.waitRows = made;
  return made;
}

/** A command: hatched from issue to start, its jobs, hatched where they waited, its flows as thin lines below. */
function rasterCommand(raster, lane, y) {
  const { starts, list } = byCommand(), issue = app.spans.get("issue"), { scale, line, width } = raster;
  const zoom = width / (app.to - app.from), at = (time) => Math.max(0, Math.min(width, Math.round((time - app.from) * zoom)));
  const bar = (from, to, colour, top, height) => {
    const low = at(from), high = Math.max(at(to), Math.min(low + 1, width));
    if (to < app.from || from > app.to) return;
    line.fill(0);
    line.fill(colour, low, high);
    raster.stamp((y + top) * scale, height * scale);
  };
  for (let k = starts[lane.command]; k < starts[lane.command + 1]; k++) {
    const span = list[k], place = app.placeOf(span);
    if (app.kind[span] > CONTROL) { bar(app.start[span], app.end[span], app.shades[place][20], 14, 2); continue; }
    const hatched = (from, to) => { const low = at(from), high = at(to); raster.hatch((y + 2) * scale, 12 * scale, (x) => x >= low && x < high); };
    if (issue[span] < app.start[span]) { bar(issue[span], app.start[span], app.packedColours[place], 2, 12); hatched(issue[span], app.start[span]); }
    bar(app.start[span], app.end[span], app.packedColours[place], 2, 12);
    const left = at(app.start[span]), right = at(app.end[span]);
    if (right - left > 34 * scale) raster.labels.push([span, left, right, (y + 2) * scale, 12 * scale]);
    for (const wait of waitsOf(span)) { const from = app.waits.get("start")[wait]; if (from >= app.start[span]) hatched(from, from + app.waits.get("cycles")[wait]); }
  }
}

/** The waits of a span, by place. */
function waitsOf(span) {
  if (!app.waitsBySpan) {
    app.waitsBySpan = new Map();
    const spans = app.waits.get("span");
    for (let i = 0; i < spans.length; i++) {
      if (Number.isNaN(spans[i])) continue;
      if (app.waitsBySpan.has(spans[i])) app.waitsBySpan.get(spans[i]).push(i); else app.waitsBySpan.set(spans[i], [i]);
    }
  }
  return app.waitsBySpan.get(span) ?? [];
}

function labelSpans(context, raster) {
  context.textBaseline = "middle";
  for (const [span, left, right, y, height] of raster.labels) {
    if (typeof span === "object") { labelPath(context, raster, span, left, right, y, height); continue; }
    const place = app.placeOf(span), x = GUTTER + left / raster.scale, width = (right - left) / raster.scale - 8;
    if (height / raster.scale < 11) continue;
    context.font = textFont(LOOK.type.label);
    const text = barTexts(span).find((one) => context.measureText(one).width <= width);
    if (!text) continue;
    labelOn(context, text, x + 4, AXIS + (y + height / 2) / raster.scale + 0.5, app.colours[place], hatchedAt(span, left, raster));
  }
}

/** A text on a fill; on hatch with the lane's colour around it. */
function labelOn(context, text, x, y, fill, hatched) {
  if (hatched) {
    context.strokeStyle = app.paint.lane;
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(text, x, y);
  }
  context.fillStyle = hatched ? app.paint.ink : textOn(hex(fill));
  context.fillText(text, x, y);
}

/** Whether a span waits where its label begins. */
function hatchedAt(span, left, raster) {
  const time = app.from + (left + 6 * raster.scale) * (app.to - app.from) / raster.width, more = 40 * raster.scale * (app.to - app.from) / raster.width;
  return waitsOf(span).some((wait) => { const from = app.waits.get("start")[wait]; return from < time + more && from + app.waits.get("cycles")[wait] > time; });
}

function labelPath(context, raster, one, left, right, y, height) {
  context.font = textFont(LOOK.type.label);
  const text = fitted(context, `${causeText(one.cause)} ${safe(one.resource, 40)}`, (right - left) / raster.scale - 10);
  if (text) labelOn(context, text, GUTTER + left / raster.scale + 5, AXIS + (y + height / 2) / raster.scale + 0.5, hueOf(one.hue), one.fill === "hatch");
}

/** What may stand in a bar, the longest first: opcode without its tail and command, or one of them. */
function barTexts(span) {
  const command = app.command[span];
  if (command < 0) return [];
  const opcode = safe(String(app.commands.value("cmd_type", command) ?? "").replace(/_TILE$/, ""), 40), id = String(app.commands.get("cmd_id")[command]);
  return [opcode + " " + id, opcode.replace(/^(DMA|TE|VE)_/, "") + " " + id, id];
}

/** As much of a text as fits, at least three characters of it: its beginning, or of the name of a node its end, where it differs. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const node = /^sip\d+\./.test(text), cut = (n) => node ? "\u2026" + text.slice(text.length - n) : text.slice(0, n) + "\u2026";
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(cut(middle)).width <= width) low = middle; else high = middle - 1;
  }
  return low >= 3 ? cut(low) : "";
}

function gutter(context, width, height) {
  context.fillStyle = app.paint.card;
  context.fillRect(0, AXIS, GUTTER, height - AXIS);
  context.save();
  context.beginPath();
  context.rect(0, AXIS, width, height - AXIS);
  context.clip();
  context.fillStyle = app.paint.strong;
  context.fillRect(GUTTER - 1, AXIS, 1, height - AXIS);  // below the heads of groups, whose names may be wider
  context.textBaseline = "middle";
  for (const lane of app.lanes) {
    const y = AXIS + lane.y - app.scrollY;
    if (y + lane.height < AXIS || y > height) continue;
    if (lane.type === "head") groupHead(context, lane, y, width);
    else if (lane.height >= 9) {
      context.font = textFont(LOOK.type.label, lane.type === "path" ? "600" : "");
      context.fillStyle = lane.type === "more" ? app.paint.accent : lane.type === "path" ? app.paint.ink : app.paint.soft;
      const left = GUTTER < 100 || lane.type === "path" ? 6 : 18;
      context.fillText(fitted(context, safe(lane.type === "path" && GUTTER < 100 ? "Critical" : lane.text ?? lane.label, 60), (lane.type === "more" ? width : GUTTER) - left - 6), left, y + Math.min(lane.height, 40) / 2 + 0.5);
    }
    if (lane.type !== "head" && lane.type !== "heat" && lane.type !== "more") {
      context.fillStyle = app.paint.line;
      context.fillRect(0, Math.round(y + lane.height) - 1, width, 1);
    }
  }
  context.restore();
}

function groupHead(context, lane, y, width) {
  context.fillStyle = app.paint.head;
  context.fillRect(0, y, width, lane.height);
  context.strokeStyle = app.paint.soft;
  context.lineWidth = 1.5;
  context.beginPath();
  const middle = y + lane.height / 2;
  if (lane.shut) { context.moveTo(8, middle - 3.5); context.lineTo(12, middle); context.lineTo(8, middle + 3.5); }
  else { context.moveTo(6.5, middle - 2); context.lineTo(10, middle + 2); context.lineTo(13.5, middle - 2); }
  context.stroke();
  context.font = textFont(LOOK.type.dense, "600");
  context.fillStyle = app.paint.ink;
  context.fillText(lane.label, 20, middle + 0.5);
  const at = Math.max(GUTTER, 20 + context.measureText(lane.label).width) + 8;
  context.font = textFont(LOOK.type.label);
  context.fillStyle = app.paint.soft;
  context.fillText(fitted(context, lane.note ?? "", width - at - 8), at, middle + 0.5);
}

/** Steps of 1, 2 or 5 times a power of ten, so that ticks stand at least `apart` pixels from each other. */
function tickStep(range, room, apart) {
  const least = (range * apart) / room, power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least));
}

function ticks(room, apart = 84) {
  const step = tickStep(app.to - app.from, room, apart), made = [];
  for (let t = Math.ceil(app.from / step) * step; t <= app.to; t += step) made.push(t);
  return { step, made };
}

const xOf = (time, room) => GUTTER + ((time - app.from) / (app.to - app.from)) * room;

function gridLines(context, room, height) {
  context.fillStyle = app.paint.ink;
  context.globalAlpha = 0.07;
  for (const t of ticks(room).made) context.fillRect(Math.round(xOf(t, room)), AXIS, 1, height - AXIS);
  context.globalAlpha = 1;
}

function timeAxis(context, width, room) {
  const { made } = ticks(room);
  context.fillStyle = app.paint.card;
  context.fillRect(0, 0, width, AXIS);
  context.fillStyle = app.paint.strong;
  context.fillRect(0, AXIS - 1, width, 1);
  context.font = textFont(LOOK.type.label);
  context.textBaseline = "middle";
  context.fillStyle = app.paint.soft;
  context.fillText("cycle", GUTTER < 100 ? 6 : 18, AXIS / 2);
  for (const t of made) {
    const x = Math.round(xOf(t, room));
    context.fillStyle = app.paint.strong;
    context.fillRect(x, AXIS - 6, 1, 5);
    context.fillStyle = app.paint.soft;
    const text = grouped(t), wide = context.measureText(text).width;
    if (x + wide / 2 < width - 2 && x - wide / 2 > GUTTER - 30) context.fillText(text, x - wide / 2, AXIS / 2 - 2);
  }
}
