// Curves over sizes, drawn at the width that there is, so that texts keep their size on every screen.

const series = JSON.parse(document.getElementById("data").textContent);
const VALUES = { time_us: 1, algbw: 2, busbw: 3 };  // places in a point
const SVG = "http://www.w3.org/2000/svg";
const hidden = new Set();

const sizeText = (bytes) => {
  const power = bytes >= 2 ** 30 ? 30 : bytes >= 2 ** 20 ? 20 : bytes >= 2 ** 10 ? 10 : 0;
  const value = bytes / 2 ** power;
  return `${Number.isInteger(value) ? value : value.toPrecision(3)} ${{ 0: "B", 10: "KiB", 20: "MiB", 30: "GiB" }[power]}`;
};
const numberText = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(4))));

/** An element of SVG with attributes. */
function element(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** Ticks from 0 to at least `most`: 1, 2 or 5 times a power of ten apart, four or five of them. */
function linearTicks(most) {
  const raw = most / 4, power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999) ?? 10 * power;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

function drawPlot(plot) {
  const at = VALUES[plot.dataset.value], logarithmic = plot.dataset.value === "time_us";
  const width = plot.clientWidth, height = plot.clientHeight, left = 46, right = 8, top = 8, bottom = 24;
  const shown = series.map((one, place) => ({ ...one, place })).filter(({ place }) => !hidden.has(place));
  const points = shown.flatMap((one) => one.points);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": plot.previousElementSibling.textContent });
  plot.replaceChildren(svg);
  if (points.length === 0) return;
  const sizes = [...new Set(points.map((one) => one[0]))].sort((a, b) => a - b), values = points.map((one) => one[at]);
  const low = Math.log2(Math.max(1, sizes[0])), high = Math.log2(Math.max(1, sizes.at(-1)));
  const x = (size) => left + (high > low ? (Math.log2(Math.max(1, size)) - low) / (high - low) : 0.5) * (width - left - right);
  let ticks, y;
  if (logarithmic) {
    const least = Math.log10(Math.min(...values.filter((one) => one > 0))), most = Math.log10(Math.max(...values));
    const from = Math.floor(least), to = Math.max(Math.ceil(most), from + 1);
    ticks = Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
    y = (value) => height - bottom - (Math.log10(value) - from) / (to - from) * (height - top - bottom);
  } else {
    ticks = linearTicks(Math.max(...values) || 1);
    y = (value) => height - bottom - value / ticks.at(-1) * (height - top - bottom);
  }
  for (const tick of ticks) {
    svg.append(element("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
    svg.append(element("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, numberText(tick)));
  }
  svg.append(element("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  let free = -Infinity;
  for (const [i, size] of sizes.entries()) {
    const anchor = sizes.length === 1 ? "middle" : i === 0 ? "start" : i === sizes.length - 1 ? "end" : "middle";
    const text = size ? sizeText(size) : "no size", half = 3.4 * text.length;
    const from = anchor === "start" ? x(size) : anchor === "end" ? x(size) - 2 * half : x(size) - half;
    const last = x(sizes.at(-1)) - 7 * sizeText(sizes.at(-1)).length;
    if (from < free || (i < sizes.length - 1 && from + 2 * half > last - 8 && sizes.length > 1)) continue;
    svg.append(element("text", { x: x(size), y: height - 6, "text-anchor": anchor }, text));
    free = from + 2 * half + 10;
  }
  for (const { name, points: own, place } of shown) {
    const colour = `var(--slot-${place % 7 + 1})`, drawn = own.filter((one) => !logarithmic || one[at] > 0);
    const path = drawn.map((one, i) => `${i ? "L" : "M"}${x(one[0]).toFixed(1)} ${y(one[at]).toFixed(1)}`).join("");
    svg.append(element("path", { class: "curve", d: path, style: `stroke: ${colour}`, ...(place > 6 ? { "stroke-dasharray": "6 4" } : {}) }));
    for (const one of drawn) {
      const dot = element("circle", { cx: x(one[0]), cy: y(one[at]), r: 3.5, style: `fill: ${colour}`, tabindex: 0 });
      const text = `${name}: ${one[0] ? sizeText(one[0]) : "no size"}, ${numberText(one[1])} us, algbw ${numberText(one[2])} GB/s, busbw ${numberText(one[3])} GB/s`;
      dot.setAttribute("aria-label", text);
      dot.addEventListener("pointerenter", () => tell(dot, text));
      dot.addEventListener("focus", () => tell(dot, text));
      for (const event of ["pointerleave", "blur"]) dot.addEventListener(event, () => { tip.hidden = true; });
      svg.append(dot);
    }
  }
}

const tip = document.getElementById("tip");
function tell(dot, text) {
  tip.textContent = text;
  tip.hidden = false;
  const place = dot.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(place.right + 8, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, place.top - tip.offsetHeight - 8)}px`;
}

const plots = [...document.querySelectorAll(".plot")];
const drawAll = () => plots.forEach(drawPlot);
document.getElementById("keys").addEventListener("click", (event) => {
  const key = event.target.closest("button");
  if (!key) return;
  const place = Number(key.dataset.curve);
  if (!hidden.delete(place)) hidden.add(place);
  key.setAttribute("aria-pressed", String(!hidden.has(place)));
  drawAll();
});

const sign = () => { document.getElementById("theme").textContent = themeSign(); };
const change = () => { switchTheme(); sign(); };
keepTheme();
sign();
document.getElementById("theme").onclick = change;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sign);
addEventListener("keydown", (event) => { if (event.key.toLowerCase() === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) change(); });
new ResizeObserver(drawAll).observe(document.querySelector("main"));
window.report = { ready: Promise.resolve(true), hidden };
