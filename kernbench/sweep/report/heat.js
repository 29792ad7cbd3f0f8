// The best of every pair of values of two axes, whatever the others are.

const OVER = 18, UNDER = 38;

/** Groups of an axis's values: the values themselves, or equal steps where there are many. */
function binsOf(name) {
  const scale = scaleOf(name);
  if (!scale.many) return { labels: toldApart(name, scale.levels), of: (value) => scale.levels.indexOf(value) };
  const texts = toldApart(name, scale.ticks), labels = Array.from({ length: 16 }, (_, k) => (k % 4 ? "" : texts[k / 4] ?? ""));
  return { labels, of: (value) => { const part = scale.part(value); return part === null ? -1 : Math.min(15, Math.floor(part * 16)); } };
}

/** Per cell the best point, -1 where no point of it has the goal's number; `why` says what is there instead. */
function gridNow() {
  const [name, way] = app.goal, values = column(name), rows = app.rows === app.columns ? { labels: [""], of: () => 0 } : binsOf(app.rows), columns = binsOf(app.columns);
  const cells = rows.labels.map(() => columns.labels.map(() => -1)), why = rows.labels.map(() => columns.labels.map(() => (data.excluded || data.invalid ? "left out" : "no point")));
  for (let i = 0; i < count; i++) {
    if (data.target[i] !== app.target) continue;
    const r = rows.of(column(app.rows)[i]), c = columns.of(column(app.columns)[i]);
    if (r < 0 || c < 0) continue;
    const known = isNumber(values[i]);
    if (!known || !chosen(i) || !allowed(i)) { why[r][c] = known ? chosen(i) ? "constraint" : "not chosen" : data.status[i] === "missing" ? "not run" : data.status[i] === "done" ? "no value" : "failed"; continue; }
    const held = cells[r][c];
    if (held < 0 || (way === "max" ? values[i] > values[held] : values[i] < values[held])) cells[r][c] = i;
  }
  return { rows, columns, cells, why };
}

/** Where the cells are: left of them stand the labels of the rows. */
function heatBox(context, width, height, { rows, columns }) {
  const left = Math.min(0.3 * width, Math.max(...rows.labels.map((text) => context.measureText(text).width)) + 10);
  return { left, top: OVER, w: (width - left) / columns.labels.length, h: (height - OVER - UNDER) / rows.labels.length };
}

function drawHeat() {
  const { context, width, height } = fresh("heat"), grid = gridNow(), { rows, columns, cells, why } = grid, values = column(app.goal[0]);
  const box = heatBox(context, width, height, grid), { w, h } = box;
  app.heatBox = { ...box, width };
  context.textBaseline = "middle";
  cells.forEach((line, r) => line.forEach((i, c) => {
    const x = box.left + c * w, y = box.top + (rows.labels.length - 1 - r) * h, fill = i < 0 ? null : goalColour(goalPart(values[i]));
    if (fill) { context.fillStyle = css(fill); context.fillRect(x, y, w - 1, h - 1); } else hatched(context, x, y, w - 1, h - 1);
    const text = i < 0 ? why[r][c] : told(app.goal[0], values[i]), wide = context.measureText(text).width;
    if (i >= 0 && i === app.here) { context.strokeStyle = paint.pick; context.lineWidth = 3; context.strokeRect(x + 1.5, y + 1.5, w - 4, h - 4); context.lineWidth = 1; }
    if (w < wide + 8 || h < 14) return;
    if (i < 0) { context.fillStyle = paint.card; context.fillRect(x + (w - wide) / 2 - 4, y + h / 2 - 8, wide + 8, 16); }
    context.fillStyle = fill ? textOn(fill) : paint.soft;
    context.textAlign = "center";
    context.fillText(text, x + w / 2, y + h / 2);
  }));
  context.fillStyle = paint.soft;
  context.textAlign = "right";
  const step = Math.ceil(14 / h);
  rows.labels.forEach((text, r) => { if (r % step === 0) context.fillText(fitted(context, text, box.left - 8), box.left - 6, box.top + (rows.labels.length - r - 0.5) * h); });
  context.textAlign = "center";
  const widest = Math.max(...columns.labels.map((text) => context.measureText(text).width)), wide = Math.max(1, Math.ceil(Math.min(widest + 8, 60) / w));
  columns.labels.forEach((text, c) => { if (c % wide === 0) context.fillText(fitted(context, text, w * wide - 2), box.left + (c + 0.5) * w, height - UNDER + 10); });
  context.fillStyle = paint.ink;
  context.fillText(fitted(context, shortName(app.columns), width - box.left), (box.left + width) / 2, height - 8);
  context.textAlign = "left";
  if (app.rows !== app.columns) context.fillText("\u2191 " + fitted(context, shortName(app.rows), width - 20), 0, 7);
  context.textBaseline = "alphabetic";
}

/** What is told of a cell. */
function cellStory(r, c) {
  const { rows, columns, cells, why } = gridNow(), i = cells[r]?.[c] ?? -1;
  return { i, text: i >= 0 ? story(i) : why[r]?.[c] ? `${shortName(app.rows)} ${rows.labels[r]}, ${shortName(app.columns)} ${columns.labels[c]}: ${why[r][c]}` : "" };
}

function listenHeat() {
  const canvas = byId("heat");
  const show = (r, c, event) => {
    const { i, text } = cellStory(r, c);
    tip(event, text);
    if (i !== app.here) { app.here = i; draw(); }
  };
  canvas.addEventListener("pointermove", (event) => {
    const room = canvas.getBoundingClientRect(), { left, top, w, h } = app.heatBox, lines = gridNow().rows.labels.length;
    const c = Math.floor((event.clientX - room.left - left) / w), r = lines - 1 - Math.floor((event.clientY - room.top - top) / h);
    show(r, c, event);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = ARROWS[event.key], { rows, columns } = gridNow();
    if (!step) return;
    event.preventDefault();
    app.cell = [Math.max(0, Math.min(rows.labels.length - 1, app.cell[0] + step[1])), Math.max(0, Math.min(columns.labels.length - 1, app.cell[1] + step[0]))];
    const room = canvas.getBoundingClientRect(), { left, top, w, h } = app.heatBox;
    show(...app.cell, { clientX: room.left + left + (app.cell[1] + 0.5) * w, clientY: room.top + top + (rows.labels.length - app.cell[0] - 0.5) * h });
  });
  forget(canvas);
}
