// Parallel coordinates: what varies on the left, the goals on the right.

const TOP = 34, BOTTOM = 18, SIDE = 72, MOST_LINES = 10000;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const parallelAxes = () => [...variedAxes(), ...new Set([app.goal[0], ...data.goals.map(([name]) => name)])].filter((name) => column(name));
const axisX = (k, names, width) => (names.length > 1 ? SIDE + (k * (width - 2 * SIDE)) / (names.length - 1) : width / 2);

/** The points that are drawn as lines: all, or every n-th of those that are chosen, from the best on. */
function linesOf(order) {
  if (order.length <= MOST_LINES) { byId("lines").textContent = ""; return [...order]; }
  const inside = app.brushes.size ? order.filter((i) => chosen(i) && allowed(i)) : order, step = Math.ceil(inside.length / MOST_LINES);
  byId("lines").textContent = step > 1 ? `from the best to the worst, one line for every ${grouped(step)} points` : "";
  return inside.filter((_, k) => k % step === 0);
}

function drawParallel(found) {
  if (!byId("parallel").clientWidth) return;
  const { context, width, height } = fresh("parallel"), names = parallelAxes();
  const y = (part) => height - BOTTOM - part * (height - TOP - BOTTOM);
  const drawn = linesOf(found.order).reverse(), columns = names.map((name) => [column(name), scaleOf(name)]);  // the best last, on top
  const alpha = Math.max(0.06, Math.min(0.85, 60 / Math.sqrt(drawn.length + 1) / 10));
  context.lineWidth = drawn.length > 300 ? 1 : 1.5;
  for (const i of drawn) {
    const inside = chosen(i) && allowed(i);
    if (!inside && app.brushes.size && drawn.length > 3000) continue;
    context.strokeStyle = inside ? faded(goalColour(found.parts[i]), found.parts[i] < 0.02 ? 0.95 : alpha) : paint.line;
    context.beginPath();
    columns.forEach(([values, scale], k) => {
      const part = scale.part(values[i]);
      if (part !== null) context.lineTo(axisX(k, names, width), y(part));
    });
    context.stroke();
  }
  if (app.here >= 0 && found.parts[app.here] !== null) {
    context.strokeStyle = paint.pick;
    context.lineWidth = 2.5;
    context.beginPath();
    names.forEach((name, k) => context.lineTo(axisX(k, names, width), y(scaleOf(name).part(column(name)[app.here]) ?? 0)));
    context.stroke();
  }
  context.lineWidth = 1;
  const room = Math.min(width / names.length, (SIDE + (width - 2 * SIDE) / Math.max(1, names.length - 1)) / 1.5);  // a name at the edge is moved inwards
  names.forEach((name, k) => drawAxis(context, name, axisX(k, names, width), y, room, width, k === app.axis && document.activeElement === byId("parallel")));
}

/** An axis; its values stand left of it, on the card's colour where lines pass. */
function drawAxis(context, name, x, y, room, width, focused) {
  context.strokeStyle = focused ? paint.accent : paint.edge;
  context.lineWidth = focused ? 2 : 1;
  context.beginPath();
  context.moveTo(x, y(0));
  context.lineTo(x, y(1));
  context.stroke();
  context.lineWidth = 1;
  const brush = app.brushes.get(name);
  if (brush) {
    context.fillStyle = paint.accent;
    context.globalAlpha = 0.4;
    context.fillRect(x - 6, y(Math.min(1, brush[1])), 12, y(Math.max(0, brush[0])) - y(Math.min(1, brush[1])));
    context.globalAlpha = 1;
  }
  context.fillStyle = paint.ink;
  context.textAlign = "center";
  context.font = textFont(LOOK.type.label, LOOK.weight.bold);
  const title = fitted(context, shortName(name), room - 8), half = context.measureText(title).width / 2;
  context.fillText(title, Math.max(half, Math.min(x, width - half)), 14);
  context.font = textFont(LOOK.type.label);
  context.textAlign = "right";
  for (const [label, place] of ticksOf(name, y, 14)) {
    const text = fitted(context, label, Math.min(room - 16, SIDE - 8)), wide = context.measureText(text).width;
    context.fillStyle = paint.card;
    context.fillRect(x - wide - 9, place - 7, wide + 5, 14);
    context.fillStyle = paint.soft;
    context.fillText(text, x - 7, place + 4);
  }
}

/** Choose the next value of the axis that has the focus; past its ends all. */
function stepBrush(name, by) {
  const { levels, many, ticks, part } = scaleOf(name), stops = (many ? ticks : levels).map(part), now = app.brushes.get(name);
  const at = now ? stops.findIndex((one) => one >= now[0] && one <= now[1]) : by > 0 ? -1 : stops.length, next = stops[at + by];
  if (next === undefined) app.brushes.delete(name); else app.brushes.set(name, [next - 0.01, next + 0.01]);
}

function listenParallel() {
  const canvas = byId("parallel");
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
  canvas.addEventListener("keydown", (event) => {
    const names = parallelAxes(), step = ARROWS[event.key];
    if (event.key === "Escape") app.brushes.clear();
    else if (!step) return;
    else if (step[0]) app.axis = Math.max(0, Math.min(names.length - 1, app.axis + step[0]));
    else stepBrush(names[Math.min(app.axis, names.length - 1)], step[1]);
    event.preventDefault();
    draw();
  });
  for (const kind of ["focus", "blur"]) canvas.addEventListener(kind, draw);
}
