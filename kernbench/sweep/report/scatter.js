// Two numbers against each other, and the points that no other beats in both.

const PAD = { left: 76, right: 12, top: 8, bottom: 34 };
const wayOf = (name) => (data.goals.find(([goal]) => goal === name) || [name, "min"])[1];

/** The points that no other is at least as good as in both and better in one, by the first number. */
function front(x, y) {
  const [a, b] = [column(x), column(y)], [p, q] = [wayOf(x) === "max" ? -1 : 1, wayOf(y) === "max" ? -1 : 1], found = [];
  const known = [];
  for (let i = 0; i < count; i++) if (isNumber(a[i]) && isNumber(b[i]) && data.target[i] === app.target) known.push(i);
  known.sort((i, k) => p * (a[i] - a[k]) || q * (b[i] - b[k]) || i - k);
  let best = Infinity, last = -1;
  for (const i of known) {
    const same = last >= 0 && a[i] === a[last] && b[i] === b[last];
    if (q * b[i] < best || same) { found.push(i); best = Math.min(best, q * b[i]); last = i; }
  }
  return found;
}

function placed(width, height) {
  const sx = scaleOf(app.x), sy = scaleOf(app.y);
  return (i) => {
    const [u, v] = [sx.part(column(app.x)[i]), sy.part(column(app.y)[i])];
    return u === null || v === null ? null : [PAD.left + u * (width - PAD.left - PAD.right), height - PAD.bottom - v * (height - PAD.top - PAD.bottom)];
  };
}

function drawScatter(found) {
  const { context, width, height } = fresh("scatter"), at = placed(width, height);
  context.strokeStyle = paint.line;
  context.fillStyle = paint.soft;
  drawTicks(context, width, height);
  for (const i of [...found.order].reverse()) {
    const point = at(i);
    if (!point) continue;
    context.fillStyle = chosen(i) ? colour(found.rank[i], 0.75) : paint.line;
    context.beginPath();
    context.arc(point[0], point[1], count > 2000 ? 2 : 3.5, 0, 7);
    context.fill();
  }
  const line = front(app.x, app.y);
  context.strokeStyle = context.fillStyle = paint.ink;
  context.lineWidth = 1.5;
  context.beginPath();
  line.forEach((i) => context.lineTo(...at(i)));
  context.stroke();
  for (const i of line) {
    context.beginPath();
    context.arc(...at(i), i === app.here ? 6 : 4, 0, 7);
    context.stroke();
  }
  context.lineWidth = 1;
}

function drawTicks(context, width, height) {
  const wide = (text) => context.measureText(text).width, half = (one, other) => (wide(one) + wide(other)) / 2 + 14;
  context.textAlign = "center";
  for (const [text, x] of ticksOf(app.x, (part) => PAD.left + part * (width - PAD.left - PAD.right), half)) {
    context.strokeRect(x, PAD.top, 0, height - PAD.top - PAD.bottom);
    context.fillText(text, Math.min(x, width - 2 - wide(text) / 2), height - PAD.bottom + 16);
  }
  context.fillText(safe(app.x) + (wayOf(app.x) === "max" ? " (more is better)" : ""), (PAD.left + width) / 2, height - 5);
  context.textAlign = "right";
  for (const [text, y] of ticksOf(app.y, (part) => height - PAD.bottom - part * (height - PAD.top - PAD.bottom), 16)) {
    context.strokeRect(PAD.left, y, width - PAD.left - PAD.right, 0);
    context.fillText(text, PAD.left - 5, y + 4);
  }
}

function listenScatter() {
  const canvas = element("scatter");
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), at = placed(box.width, box.height);
    let best = -1, near = 14;
    for (let i = 0; i < count; i++) {
      const point = data.target[i] === app.target ? at(i) : null, away = point ? Math.hypot(point[0] - event.clientX + box.left, point[1] - event.clientY + box.top) : Infinity;
      if (away < near) { near = away; best = i; }
    }
    tip(event, best < 0 ? "" : story(best));
    if (best !== app.here) { app.here = best; draw(); }
  });
  canvas.addEventListener("pointerleave", (event) => { tip(event, ""); app.here = -1; draw(); });
}
