// Parallel coordinates: what varies on the left, the goals on the right.

const TOP = 34, BOTTOM = 18, SIDE = 64;
const parallelAxes = () => [...data.axes.filter((name) => scaleOf(name).levels.length > 1), ...new Set([app.goal[0], ...data.goals.map(([name]) => name)])];
const axisX = (k, names, width) => (names.length > 1 ? SIDE + (k * (width - 2 * SIDE)) / (names.length - 1) : width / 2);

function drawParallel(found) {
  const { context, width, height } = fresh("parallel"), names = parallelAxes();
  const y = (part) => height - BOTTOM - part * (height - TOP - BOTTOM);
  const drawn = [...found.order].reverse();  // the best last, on top
  const alpha = Math.max(0.06, Math.min(0.85, 60 / Math.sqrt(drawn.length + 1) / 10));
  context.lineWidth = drawn.length > 300 ? 1 : 1.5;
  for (const i of drawn) {
    const inside = chosen(i);
    if (!inside && app.brushes.size && drawn.length > 3000) continue;
    context.strokeStyle = inside ? colour(found.rank[i], found.rank[i] < 0.02 ? 0.95 : alpha) : paint.line;
    context.beginPath();
    names.forEach((name, k) => {
      const part = scaleOf(name).part(column(name)[i]);
      if (part !== null) context.lineTo(axisX(k, names, width), y(part));
    });
    context.stroke();
  }
  if (app.here >= 0 && found.rank[app.here] !== null) {
    context.strokeStyle = paint.ink;
    context.lineWidth = 2.5;
    context.beginPath();
    names.forEach((name, k) => context.lineTo(axisX(k, names, width), y(scaleOf(name).part(column(name)[app.here]) ?? 0)));
    context.stroke();
  }
  context.lineWidth = 1;
  names.forEach((name, k) => drawAxis(context, name, axisX(k, names, width), y, width / names.length));
}

function drawAxis(context, name, x, y, room) {
  context.strokeStyle = paint.strong;
  context.beginPath();
  context.moveTo(x, y(0));
  context.lineTo(x, y(1));
  context.stroke();
  const brush = app.brushes.get(name);
  if (brush) {
    context.fillStyle = paint.accent;
    context.globalAlpha = 0.3;
    context.fillRect(x - 6, y(brush[1]), 12, y(brush[0]) - y(brush[1]));
    context.globalAlpha = 1;
  }
  context.fillStyle = paint.ink;
  context.textAlign = "center";
  context.font = "600 11px system-ui, sans-serif";
  context.fillText(fitted(context, name, room - 4), x, 14);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  for (const [label, place] of ticksOf(name, y, 13)) {
    const text = fitted(context, label, room - 12), at = place + 4;
    context.fillStyle = paint.card;
    context.globalAlpha = 0.8;
    context.fillRect(x + 4, at - 10, context.measureText(text).width + 3, 13);
    context.globalAlpha = 1;
    context.fillStyle = paint.soft;
    context.fillText(text, x + 5, at);
  }
}

function listenParallel() {
  const canvas = element("parallel");
  let drag = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), names = parallelAxes(), x = event.clientX - box.left;
    let best = 0;
    names.forEach((_, k) => { if (Math.abs(axisX(k, names, box.width) - x) < Math.abs(axisX(best, names, box.width) - x)) best = k; });
    const part = (box.height - BOTTOM - (event.clientY - box.top)) / (box.height - TOP - BOTTOM);
    return { name: names[best], part: Math.min(1, Math.max(0, part)) };
  };
  canvas.addEventListener("pointerdown", (event) => {
    drag = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const { part } = at(event);
    if (Math.abs(part - drag.part) > 0.02) app.brushes.set(drag.name, [Math.min(part, drag.part) - 0.01, Math.max(part, drag.part) + 0.01]);
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && Math.abs(at(event).part - drag.part) <= 0.02) app.brushes.delete(drag.name);
    drag = null;
    draw();
  });
}
