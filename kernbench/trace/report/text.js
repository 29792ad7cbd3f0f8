// Numbers and names as people read them. Names come from files of strangers: they are only ever set as text.

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** A name on one line: what cannot be seen is written out, what is too long is cut. */
function safe(value, longest = 200) {
  const text = String(value);
  const cut = text.length > longest ? text.slice(0, longest - 1) + "\u2026" : text;
  return cut.replace(UNPRINTABLE, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** A whole number with its thousands apart. */
function grouped(value) {
  return Number.isFinite(value) ? GROUPED.format(value) : "\u2013";
}

/** Three digits that count, or `digits`, with a prefix: 9,999; 12.3 k; 6.41 M. */
function short(value, digits = 3) {
  if (!Number.isFinite(value)) return "\u2013";
  let size = Math.abs(value), power = 0;
  if (size < 10000) return Number.isInteger(value) ? GROUPED.format(value) : three(value, digits);
  while (size >= 999.5 && power < 6) { size /= 1000; power += 1; }
  return (value < 0 ? "-" : "") + three(size, digits) + ["", "\u2009k", "\u2009M", "\u2009G", "\u2009T", "\u2009P", "\u2009E"][power];
}

function three(value, digits = 3) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.01) return value.toExponential(digits - 2);
  const behind = Math.max(0, digits - (size < 9.995 ? 1 : size < 99.95 ? 2 : 3));
  return behind ? value.toFixed(behind) : GROUPED.format(Math.round(value));
}

function percent(part) {
  if (!Number.isFinite(part)) return "\u2013";
  if (part > 0 && part < 0.0005) return "<0.1%";
  if (part >= 0.9995 && part < 1) return ">99.9%";
  return (part > 0 && part < 0.00995) || (part >= 0.99 && part < 1) ? (100 * part).toFixed(1) + "%" : Math.round(100 * part) + "%";
}

/** Cycles as a time: 354 ns, 6.63 ms. */
function duration(cycles) {
  const ns = cycles / app.freq, digits = (value) => Number(value.toPrecision(4));
  const [size, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([size]) => digits(ns / size) >= 1) ?? [1, "ns"];
  return grouped(digits(ns / size)) + "\u2009" + name;
}

/** A number of things: 1 cycle, 1,240 cycles. */
const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/** An energy in its unit, from pJ: 4.54 mJ. */
function joules(pj) {
  let power = 0;
  for (; Math.abs(pj) >= 999.5 && power < 5; power += 1) pj /= 1000;
  return three(pj) + "\u2009" + ["pJ", "nJ", "uJ", "mJ", "J", "kJ"][power];
}

/** An element with properties, attributes (names with a dash, or role) and children; texts are texts. */
function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "style") Object.assign(made.style, value);
    else if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A name that is cut where it has no room: that of a node on its left, as they differ at their ends. */
const nameOf = (text, longest) => make("span", { className: /^sip\d+\./.test(text) ? "node" : "" }, make("bdi", {}, safe(text, longest)));

/** A definition list of [name, value] rows; a value is a text or an element. */
function fieldList(rows, longest = 200) {
  const list = make("dl", { className: "fields" });
  for (const [name, value] of rows) list.append(make("dt", {}, safe(name, 60)), make("dd", {}, value instanceof Node ? value : safe(value, longest)));
  return list;
}

const byId = (id) => document.getElementById(id);
