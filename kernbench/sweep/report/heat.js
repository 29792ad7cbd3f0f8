// The best of every pair of values of two axes, whatever the others are.

const LEFT = 84, UNDER = 40, MOST_CELLS = 40;

/** Groups of an axis's values: the values themselves, or equal steps where there are many. */
function binsOf(name) {
  const scale = scaleOf(name);
  if (scale.levels.length <= MOST_CELLS) return { labels: toldApart(name, scale.levels), of: (value) => scale.levels.indexOf(value) };
  const texts = toldApart(name, scale.ticks), labels = Array.from({ length: 16 }, (_, k) => (k % 4 ? "" : texts[k / 4] ?? ""));
  return { labels, of: (value) => { const part = scale.part(value); return part === null ? -1 : Math.min(15, Math.floor(part * 16)); } };
}

function gridNow() {
  const [name, way] = app.goal, values = column(name), rows = app.rows === app.columns ? { labels: [""], of: () => 0 } : binsOf(app.rows), columns = binsOf(app.columns);
  const cells = rows.labels.map(() => columns.labels.map(() => -1));
  for (let i = 0; i < count; i++) {
    if (!isNumber(values[i]) || !chosen(i)) continue;
    const r = rows.of(column(app.rows)[i]), c = columns.of(column(app.columns)[i]);
    if (r < 0 || c < 0) continue;
    const held = cells[r][c];
    if (held < 0 || (way === "max" ? values[i] > values[held] : values[i] < values[held])) cells[r][c] = i;
  }
  return { rows, columns, cells };
}

function drawHeat() {
  const { context, width, height } = fresh("heat"), { rows, columns, cells } = gridNow(), values = column(app.goal[0]);
  const scale = makeScale(cells.flat().filter((i) => i >= 0).map((i) => values[i]));
  const w = (width - LEFT - 8) / columns.labels.length, h = (height - UNDER) / rows.labels.length;
  context.textBaseline = "middle";
  cells.forEach((line, r) => line.forEach((i, c) => {
    const x = LEFT + c * w, y = height - UNDER - (r + 1) * h;
    const part = i < 0 ? null : scale.part(values[i]);
    context.fillStyle = i < 0 ? paint.head : colour(app.goal[1] === "max" ? 1 - part : part, 0.9);
    context.fillRect(x, y, w - 1, h - 1);
    if (i < 0) return;
    const text = told(app.goal[0], values[i]);
    if (w < context.measureText(text).width + 6 || h < 14) return;
    context.fillStyle = "#fff";
    context.textAlign = "center";
    context.fillText(text, x + w / 2, y + h / 2);
  }));
  context.fillStyle = paint.soft;
  context.textAlign = "right";
  const step = Math.ceil(14 / h);
  rows.labels.forEach((text, r) => { if (r % step === 0) context.fillText(fitted(context, text, LEFT - 10), LEFT - 6, height - UNDER - (r + 0.5) * h); });
  context.textAlign = "center";
  const wide = Math.max(1, Math.ceil(46 / w));
  columns.labels.forEach((text, c) => { if (c % wide === 0) context.fillText(fitted(context, text, w * wide), LEFT + (c + 0.5) * w, height - UNDER + 10); });
  context.fillText(safe(app.columns), (LEFT + width) / 2, height - 8);
  context.textBaseline = "alphabetic";
}

function listenHeat() {
  const canvas = element("heat");
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), { rows, columns, cells } = gridNow();
    const c = Math.floor(((event.clientX - box.left - LEFT) * columns.labels.length) / (box.width - LEFT - 8));
    const r = Math.floor(((box.height - UNDER - event.clientY + box.top) * rows.labels.length) / (box.height - UNDER));
    const i = cells[r]?.[c] ?? -1;
    tip(event, i < 0 ? "" : story(i));
    if (i !== app.here) { app.here = i; draw(); }
  });
  canvas.addEventListener("pointerleave", (event) => { tip(event, ""); app.here = -1; draw(); });
}
