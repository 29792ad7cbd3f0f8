// What the page shows, and what was chosen. Names come from files of strangers: they are only ever set as text.

const data = JSON.parse(document.getElementById("data").textContent);

/** A column as the page has it, packed: different values and the place of each point's among them, or 64-bit numbers. */
function unpacked({ levels, size, at }) {
  const raw = atob(at), bytes = new Uint8Array(raw.length), made = [];
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  if (levels) for (const place of new { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[size](bytes.buffer)) made.push(levels[place]);
  else for (const value of new Float64Array(bytes.buffer)) made.push(Number.isNaN(value) ? null : value);
  return made;
}

for (const name of ["number", "target", "label", "status", "limit", "error", "hash"]) data[name] = unpacked(data[name]);
for (const columns of [data.values, data.results]) for (const name of Object.keys(columns)) columns[name] = unpacked(columns[name]);

const count = data.number.length;
const app = { freq: 1, goal: data.goals[0] || null, brushes: new Map(), here: -1, axis: 0, cell: [0, 0], target: data.target[0], sort: null, x: null, y: null, rows: null, columns: null };

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

/** Whether a point breaks no constraint of the sweep; the others are shown, and are never the best. */
const allowed = (i) => !(i in data.breaks);

/** The constraints that a point breaks, as text. */
const brokenText = (i) => data.breaks[i].map((k) => data.constraints[k]).join(", ");

const remembered = new Map();

/** A value that depends on nothing but `key` and the target that is shown: made once, until another target is shown. */
function once(key, make) {
  if (!remembered.has(key)) remembered.set(key, make());
  return remembered.get(key);
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

/** The points that have the goal's number, the best first and those that break a constraint last, and where each lies between the best, 0, and the worst, 1. */
function ordered() {
  return once("order by " + app.goal, () => {
    const [name, way] = app.goal, values = column(name), order = [], parts = new Array(count).fill(null);
    for (let i = 0; i < count; i++) if (isNumber(values[i]) && data.target[i] === app.target) order.push(i);
    order.sort((a, b) => allowed(b) - allowed(a) || (way === "max" ? values[b] - values[a] : values[a] - values[b]) || a - b);
    for (const i of order) parts[i] = goalPart(values[i]);
    return { order, parts };
  });
}

/** Where a value of the goal lies between the best, 0, and the worst, 1. */
function goalPart(value) {
  const scale = scaleOf(app.goal[0]), part = scale.levels.length > 1 ? scale.part(value) : 0;
  return app.goal[1] === "max" && scale.levels.length > 1 ? 1 - part : part;
}

function option(select, names, value, text = shortName) {
  select.replaceChildren(...names.map((name) => make("option", { value: name, selected: name === value }, safe(text(name), 60))));
}

/** What all axes that vary begin with, to the last point: it is told once, not on each of them. */
function sharedPrefix() {
  if (app.prefix === undefined) {
    const names = data.axes.filter((name) => new Set(column(name)).size > 1), first = names[0] ?? "";
    let cut = names.length > 1 ? first.lastIndexOf(".") + 1 : 0;
    while (cut && !names.every((name) => name.startsWith(first.slice(0, cut)))) cut = first.lastIndexOf(".", cut - 2) + 1;
    app.prefix = first.slice(0, cut);
  }
  return app.prefix;
}

const shortName = (name) => (data.axes.includes(name) && name.startsWith(sharedPrefix()) ? name.slice(sharedPrefix().length) : name);

/** A name that may break behind a point or a line. */
const breakable = (name) => safe(shortName(name), 80).replace(/[._]/g, "$&\u200b");

/** The axes of the target that is shown on which its points differ. */
const variedAxes = () => data.axes.filter((name) => scaleOf(name).levels.length > 1);

/** A point by what it differs in: channels 8, macs_per_cycle 4,096. */
const settingsOf = (i) => variedAxes().map((name) => `${shortName(name)} ${told(name, column(name)[i])}`).join(", ");

function tip(event, text) {
  const box = byId("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + "px";
  box.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8)) + "px";
}

/** A point in some lines. */
function story(i) {
  const lines = ["Point " + data.number[i], ...variedAxes().map((name) => shortName(name) + " = " + told(name, column(name)[i]))];
  for (const name of new Set([app.goal[0], ...data.goals.map(([goal]) => goal)])) lines.push(name + ": " + told(name, column(name)[i]));
  if (data.limit[i]) lines.push("limit: " + data.limit[i]);
  if (!allowed(i)) lines.push("breaks " + brokenText(i));
  return lines.map((line) => safe(line, 160)).join("\n");
}
