// Scales, colours and canvases.

const MOST_LEVELS = 40;
const scales = new Map();
const paint = {};

/** From a column's values to 0..1: numbers by size, by logarithm where they span much, texts by order. */
function scaleOf(name) {
  if (!column(name)) return undefined;
  if (!scales.has(name)) scales.set(name, makeScale(column(name).filter((_, i) => data.target[i] === app.target)));
  return scales.get(name);
}

/** `levels`: the different values; of more than MOST_LEVELS numbers only the ends, and it has `many`. */
function makeScale(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.every(isNumber) && known.length) {
    let low = Infinity, high = -Infinity;
    for (const value of known) { if (value < low) low = value; if (value > high) high = value; }
    const log = low > 0 && high / low > 10, f = log ? Math.log : (x) => x;
    const span = f(high) - f(low);
    const part = (value) => (isNumber(value) ? (span ? (f(value) - f(low)) / span : 0.5) : null);
    const back = (p) => (log ? Math.exp(f(low) + p * span) : low + p * span);
    const found = new Set();
    for (const value of known) if (found.size <= MOST_LEVELS) found.add(value); else break;
    const many = found.size > MOST_LEVELS, levels = many ? [low, high] : [...found].sort((a, b) => a - b);
    const near = high > low ? Math.floor(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low))) : 0;
    const digits = Math.min(Math.max(3 + near, 3), MOST_DIGITS);  // of the difference, three
    return { part, ticks: levels.length <= 9 && !many ? levels : [0, 0.25, 0.5, 0.75, 1].map(back), levels, many, digits };
  }
  const levels = [...new Set(known)], place = new Map(levels.map((value, i) => [value, i]));
  const part = (value) => (place.has(value) ? (levels.length > 1 ? place.get(value) / (levels.length - 1) : 0.5) : null);
  return { part, ticks: levels.length <= 12 ? levels : [], levels, many: levels.length > MOST_LEVELS, digits: 3 };
}

/** The ticks of a column: [text, place], but for those that others leave no `room`; the first and the last stay. */
function ticksOf(name, placeOf, room) {
  const scale = scaleOf(name), texts = toldApart(name, scale.ticks), all = scale.ticks.map((tick, i) => [texts[i], placeOf(scale.part(tick))]);
  const kept = [], last = all.at(-1);
  for (const one of all) {
    const free = (other) => Math.abs(one[1] - other[1]) >= (typeof room === "function" ? room(one[0], other[0]) : room);
    if (!kept.length || one === last || (free(kept.at(-1)) && free(last))) kept.push(one);
  }
  return kept;
}

/** The colour of the goal: `part` 0 the best, 1 the worst. */
const goalColour = (part) => mix(paint.goal, part);
const faded = ([r, g, b], alpha) => `rgb(${r} ${g} ${b} / ${alpha})`;

function readPaint() {
  Object.assign(paint, LOOK[isDark() ? "dark" : "light"]);
  paint.goal = paint.ramp.goal.map(hex);
}

/** Stripes at 45 degrees: what is not there. */
function hatched(context, x, y, w, h) {
  context.save();
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
  context.strokeStyle = paint.strong;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - h; at < x + w; at += 8) { context.moveTo(at, y + h); context.lineTo(at + h, y); }
  context.stroke();
  context.restore();
}

/** A canvas at the screen's resolution, empty: its context, width and height in CSS pixels. */
function fresh(id) {
  const canvas = byId(id), ratio = devicePixelRatio || 1;
  canvas.dataset.tall ||= canvas.getAttribute("height");
  const width = canvas.clientWidth, height = Number(canvas.dataset.tall);
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = textFont(LOOK.type.label);
  return { canvas, context, width, height };
}

/** Text that fits, with an ellipsis where it does not. */
function fitted(context, text, width) {
  let cut = safe(text, 80);
  if (context.measureText(cut).width <= width) return cut;
  while (cut.length > 1 && context.measureText(cut + "\u2026").width > width) cut = cut.slice(0, -1);
  return cut + "\u2026";
}
