// Two numbers against each other, and the points that no other beats in both.

const PAD = { left: 76, right: 14, top: 22, bottom: 38 };  // left: as wide as the values there
const NARROW = 500;  // [px]
const MOST_DOTS = 2000;  // above this, points of one pixel are drawn once
const wayOf = (name) => (data.goals.find(([goal]) => goal === name) || [name, "min"])[1];

/** The points within the constraints that no other is at least as good as in both and better in one, by the first number. */
const front = (x, y) => once(`front of ${x} ${y}`, () => makeFront(x, y));

function makeFront(x, y) {
  const [a, b] = [column(x), column(y)], [p, q] = [wayOf(x) === "max" ? -1 : 1, wayOf(y) === "max" ? -1 : 1], found = [];
  const known = [];
  for (let i = 0; i < count; i++) if (isNumber(a[i]) && isNumber(b[i]) && data.target[i] === app.target && allowed(i)) known.push(i);
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
  const [xs, ys] = [column(app.x), column(app.y)];
  return (i) => {
    const [u, v] = [sx.part(xs[i]), sy.part(ys[i])];
    return u === null || v === null ? null : [PAD.left + u * (width - PAD.left - PAD.right), height - PAD.bottom - v * (height - PAD.top - PAD.bottom)];
  };
}

/** Room beside the plot for its values; where they would take more than a phone has, they stand on the lines inside. */
function fitPad(context, width) {
  const widest = Math.max(...toldApart(app.y, scaleOf(app.y).ticks).map((text) => context.measureText(text).width), 10), narrow = innerWidth < NARROW;
  PAD.right = narrow ? 8 : 14;
  PAD.left = widest + (narrow ? 13 : 17);
  PAD.inside = narrow && width - PAD.left - PAD.right < 0.76 * innerWidth;
  if (PAD.inside) PAD.left = 8;
  PAD.top = PAD.inside ? 34 : 22;
}

/** The points that are seen, the best first, with their places: of many within one pixel the best, which is drawn over the others. */
function uncovered(order, at, width, height) {
  const many = order.length > MOST_DOTS, seen = new Uint8Array(many ? (width + 1) * (height + 1) : 0), found = [];
  for (const i of order) {
    const point = at(i);
    if (!point) continue;
    if (many) {
      const pixel = Math.round(point[1]) * (width + 1) + Math.round(point[0]);
      if (seen[pixel]) continue;
      seen[pixel] = 1;
    }
    found.push([i, point]);
  }
  return found;
}

function drawScatter(found) {
  const { context, width, height } = fresh("scatter");
  fitPad(context, width);
  app.scatterWidth = width - PAD.left - PAD.right;
  const at = placed(width, height);
  context.strokeStyle = paint.line;
  context.fillStyle = paint.soft;
  drawTicks(context, width, height);
  const drawn = uncovered(found.order, at, width, height), small = count > MOST_DOTS;
  for (const [i, point] of drawn.reverse()) {
    context.fillStyle = context.strokeStyle = chosen(i) ? css(goalColour(found.parts[i])) : paint.line;
    context.beginPath();
    context.arc(point[0], point[1], small ? 2 : 3.5, 0, 7);
    if (allowed(i)) context.fill(); else context.stroke();
  }
  const line = front(app.x, app.y), names = `${shortName(app.x)} and ${shortName(app.y)}`;
  context.strokeStyle = context.fillStyle = paint.ink;
  context.lineWidth = 1.5;
  context.beginPath();
  if (line.length > 1) line.forEach((i) => context.lineTo(...at(i)));
  context.stroke();
  for (const i of new Set([...line, ...(app.here >= 0 && at(app.here) ? [app.here] : [])])) {
    context.beginPath();
    context.arc(...at(i), i === app.here ? 6 : 4.5, 0, 7);
    context.stroke();
  }
  context.lineWidth = 1;
  const broken = found.order.some((i) => !allowed(i)), hollow = broken ? " Hollow points break a constraint." : "", within = drawn.length < found.order.length && found.order.length > MOST_DOTS ? " Of points within one pixel, the best is drawn." : "";
  byId("front").textContent = (!line.length ? broken ? "No point meets the constraints." : "No point has both numbers." : app.x === app.y ? "" : line.length === 1 ? `1 point is best in both: point ${data.number[line[0]]}.` : `${line.length} points, with rings and a line: no other is better in both ${names}.`) + hollow + within;
}

function drawTicks(context, width, height) {
  const wide = (text) => context.measureText(text).width, half = (one, other) => (wide(one) + wide(other)) / 2 + 14;
  const about = (name) => safe(shortName(name), 60) + (wayOf(name) === "max" ? " (more is better)" : "");
  context.textAlign = "center";
  for (const [text, x] of ticksOf(app.x, (part) => PAD.left + part * (width - PAD.left - PAD.right), half)) {
    context.strokeRect(x, PAD.top, 0, height - PAD.top - PAD.bottom);
    context.fillText(text, Math.max(wide(text) / 2, Math.min(x, width - 2 - wide(text) / 2)), height - PAD.bottom + 16);
  }
  context.textAlign = PAD.inside ? "left" : "right";
  for (const [text, y] of ticksOf(app.y, (part) => height - PAD.bottom - part * (height - PAD.top - PAD.bottom), 16)) {
    context.strokeRect(PAD.left, y, width - PAD.left - PAD.right, 0);
    context.fillText(text, PAD.inside ? PAD.left + 2 : PAD.left - 10, PAD.inside ? y - 3 : y + 4);
  }
  context.fillStyle = paint.ink;
  context.textAlign = "center";
  context.fillText(about(app.x), (PAD.left + width) / 2, height - 5);
  context.textAlign = "left";
  context.fillText("\u2191 " + about(app.y), 0, 11);
}

function listenScatter() {
  const canvas = byId("scatter"), room = () => canvas.getBoundingClientRect();
  const show = (i, event) => {
    tip(event, i < 0 ? "" : story(i));
    if (i !== app.here) { app.here = i; draw(); }
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = room(), at = placed(box.width, box.height);
    let best = -1, near = 14;
    for (let i = 0; i < count; i++) {
      const point = data.target[i] === app.target ? at(i) : null, away = point ? Math.hypot(point[0] - event.clientX + box.left, point[1] - event.clientY + box.top) : Infinity;
      if (away < near) { near = away; best = i; }
    }
    show(best, event);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = ARROWS[event.key], box = room(), at = placed(box.width, box.height);
    if (!step) return;
    event.preventDefault();
    const points = shownRows().filter((i) => at(i)).sort((i, k) => at(i)[0] - at(k)[0] || at(i)[1] - at(k)[1]), now = points.indexOf(app.here);
    const i = points[now < 0 ? 0 : Math.max(0, Math.min(points.length - 1, now + step[0] + step[1]))];
    if (i !== undefined) show(i, { clientX: box.left + at(i)[0], clientY: box.top + at(i)[1] });
  });
  forget(canvas);
}

/** Nothing is pointed at where the pointer or the focus leaves. */
function forget(canvas) {
  for (const kind of ["pointerleave", "blur"]) canvas.addEventListener(kind, (event) => { tip(event, ""); app.here = -1; draw(); });
}
