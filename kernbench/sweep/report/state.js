// What the page shows, and what was chosen. Names come from files of strangers: they are only ever set as text.

const data = JSON.parse(document.getElementById("data").textContent);
const count = data.number.length;
const app = { freq: 1, goal: data.goals[0] || null, brushes: new Map(), here: -1, target: data.target[0], sort: null, x: null, y: null, rows: null, columns: null };
const element = (id) => document.getElementById(id);

/** A column by its name: an axis's values or a result's numbers. */
const column = (name) => data.values[name] || data.results[name];
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Units and what a thousand of each is called. */
const STEPS = { ns: ["ns", "us", "ms", "s"], pJ: ["pJ", "nJ", "uJ", "mJ", "J", "kJ"], B: ["B", "kB", "MB", "GB", "TB", "PB"] };
const MOST_DIGITS = 12;

/** A number with the unit of its column; three digits count, more where its column's values are near each other. */
function told(name, value, digits = scaleOf(name)?.digits ?? 3) {
  if (value === null || value === undefined) return "\u2013";
  if (!isNumber(value)) return safe(value, 60);
  const steps = STEPS[data.units[name]];
  if (!steps) {
    if (Number.isInteger(value) && Math.abs(value) < 10 ** digits) return grouped(value);
    return Math.abs(value) < 1 ? value.toPrecision(digits) : short(value, digits);
  }
  let size = value, power = 0;
  while (Math.abs(size) >= 999.5 && power < steps.length - 1) { size /= 1000; power += 1; }
  return (Number.isInteger(value) && !power ? grouped(value) : three(size, digits)) + " " + steps[power];
}

/** Values of a column with as many digits as it takes to tell each from the others. */
function toldApart(name, values) {
  let digits = scaleOf(name).digits, texts;
  do texts = values.map((value) => told(name, value, digits)); while (new Set(texts).size < new Set(values).size && digits++ < MOST_DIGITS);
  return texts;
}

/** Whether a point is of the target that is shown, and within all that was chosen along axes. */
function chosen(i) {
  if (data.target[i] !== app.target) return false;
  for (const [name, [low, high]] of app.brushes) {
    const part = scaleOf(name).part(column(name)[i]);
    if (part === null || part < low || part > high) return false;
  }
  return true;
}

/** How good a point is by the goal, 0 the best to 1 the worst by rank; null where it has no number. */
function ranks() {
  const [name, way] = app.goal, values = column(name), known = [];
  for (let i = 0; i < count; i++) if (isNumber(values[i]) && data.target[i] === app.target) known.push(i);
  known.sort((a, b) => (way === "max" ? values[b] - values[a] : values[a] - values[b]) || a - b);
  const rank = new Array(count).fill(null);
  known.forEach((i, place) => { rank[i] = known.length > 1 ? place / (known.length - 1) : 0; });
  return { order: known, rank };
}

function option(select, names, value, text = (name) => name) {
  select.replaceChildren(...names.map((name) => {
    const made = document.createElement("option");
    made.value = name;
    made.textContent = safe(text(name), 60);
    made.selected = name === value;
    return made;
  }));
}

function make(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function tip(event, text) {
  const box = element("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + "px";
  box.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8)) + "px";
}

/** A point in some lines. */
function story(i) {
  const lines = ["point " + data.number[i], ...data.axes.map((name) => name + " = " + told(name, column(name)[i]))];
  for (const [name] of data.goals) lines.push(name + ": " + told(name, column(name)[i]));
  if (data.limit[i]) lines.push("limit: " + data.limit[i]);
  return lines.map((line) => safe(line, 160)).join("\n");
}
