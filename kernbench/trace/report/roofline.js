// The roofline: what the machine can do at most for each byte of DRAM, and what the run and its parts did.

/** Points, left-out labels, roofs; as kernbench/trace/views.py makes them. */
function rooflineData() {
  const { rows, all } = groups(app.by), able = (sum) => sum.macs && sum.dram && sum.active;
  const point = (sum) => ({ label: sum.label, place: sum.place, macs: sum.macs, bytes: sum.dram, cycles: sum.active, x: sum.macs / sum.dram, y: sum.macs / sum.active });
  return { points: [all, ...rows].filter(able).map(point), left: rows.filter((sum) => !able(sum)).map((sum) => sum.label), ...app.head.roof };
}

const shape = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

function drawRoofline() {
  const view = byId("view-roofline"), data = rooflineData();
  const say = (title, text) => view.replaceChildren(make("div", { className: "empty still" }, make("b", {}, title), make("span", {}, text)));
  if (!data.points.length) return say("No point to draw", app.order.length ? "No job of what is shown computes MACs and moves bytes of DRAM." : "Nothing passes the filters: press X to clear them.");
  if (!data.peak || !data.bandwidth) return say("No roof to draw", "TRACE_META says not what the tensor engines or the DRAM channels can do.");
  const width = Math.max(420, view.clientWidth - 32), height = Math.max(360, view.clientHeight - 60), box = { left: 78, top: 18, right: width - 70, bottom: height - 50 };
  const ridge = data.peak / data.bandwidth, xs = data.points.map((point) => point.x), ys = data.points.map((point) => point.y);
  const decade = (value, up) => 10 ** (up ? Math.ceil(Math.log10(value)) : Math.floor(Math.log10(value)));
  const x0 = decade(Math.min(...xs, ridge) / 1.5), x1 = decade(Math.max(...xs, ridge) * 1.5, true), y1 = data.peak * 2.5, y0 = decade(Math.min(...ys, data.bandwidth * x0) / 1.2);
  const X = (value) => box.left + (Math.log(value / x0) / Math.log(x1 / x0)) * (box.right - box.left), Y = (value) => box.bottom - (Math.log(value / y0) / Math.log(y1 / y0)) * (box.bottom - box.top);
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline" });
  for (let x = x0; x <= x1 * 1.001; x *= 10) svg.append(shape("line", { class: "grid", x1: X(x), x2: X(x), y1: box.top, y2: box.bottom }), shape("text", { x: X(x), y: box.bottom + 17, "text-anchor": "middle" }, short(x)));
  for (let y = y0; y <= y1 * 1.001; y *= 10) svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: Y(y), y2: Y(y) }), shape("text", { x: box.left - 8, y: Y(y) + 4, "text-anchor": "end" }, short(y)),
    shape("text", { x: box.right + 8, y: Y(y) + 4 }, short((2 * y * app.freq) / 1000)));
  svg.append(shape("rect", { class: "frame", x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }));
  const names = [["MACs for a byte of DRAM  [MAC/B]", (box.left + box.right) / 2, height - 12, ""], ["MAC/cycle", 16, (box.top + box.bottom) / 2, `rotate(-90 16 ${(box.top + box.bottom) / 2})`], ["TOPS (2 ops a MAC)", width - 10, (box.top + box.bottom) / 2, `rotate(-90 ${width - 10} ${(box.top + box.bottom) / 2})`]];
  for (const [text, x, y, transform] of names) svg.append(shape("text", { x, y, "text-anchor": "middle", ...(transform ? { transform } : {}) }, text));
  roofs(svg, data, ridge, X, Y, x0, x1, box);
  pointsOf(svg, data, X, Y, box);
  const left = data.left.length ? make("p", { style: { color: "var(--soft)", margin: "0 0 0 78px" } }, "Not shown, for they compute no MACs or move no bytes of DRAM: " + safe(data.left.slice(0, 12).join(", "), 300) + (data.left.length > 12 ? ` and ${data.left.length - 12} more` : "")) : null;
  view.replaceChildren(make("div", { className: "pad", style: { padding: "12px 16px" } }, svg, left));
  return null;
}

function roofs(svg, data, ridge, X, Y, x0, x1, box) {
  const start = x0;
  svg.append(shape("path", { class: "roof", d: `M${X(start)} ${Math.min(Y(data.bandwidth * start), box.bottom)} L${X(ridge)} ${Y(data.peak)} L${X(x1)} ${Y(data.peak)}` }));
  if (data.macs < data.peak) svg.append(shape("line", { class: "roof dash", x1: X(data.macs / data.bandwidth), x2: X(x1), y1: Y(data.macs), y2: Y(data.macs) }), shape("text", { x: box.right - 8, y: Y(data.macs) - 6, "text-anchor": "end" }, `at factor 1: ${short(data.macs)}${box.right - box.left < 600 ? "" : " MAC/cycle"}`));
  svg.append(shape("text", { class: "ink", x: box.right - 8, y: Y(data.peak) - 7, "text-anchor": "end" }, `tensor engines: ${short(data.peak)} MAC/cycle` + (data.macs < data.peak ? " at the widths used" : "")));
  const free = (box.right - box.left < 600 ? [0.5, 0.25] : [0.75, 0.5, 0.25]).map((part) => x0 * (ridge / x0) ** part), near = (x) => Math.min(...data.points.map((point) => Math.abs(Math.log(point.x / x))));
  const middle = free.reduce((best, x) => (near(x) > near(best) ? x : best)), angle = (Math.atan2(Y(data.peak) - Y(data.bandwidth * x0), X(ridge) - X(x0)) * 180) / Math.PI;
  svg.append(shape("text", { class: "ink", x: X(middle), y: Y(data.bandwidth * middle) - 9, "text-anchor": "middle", transform: `rotate(${angle} ${X(middle)} ${Y(data.bandwidth * middle) - 9})` }, `DRAM: ${short(data.bandwidth)} B/cycle, ${short(data.bandwidth * app.freq)} GB/s`));
  svg.append(shape("line", { class: "roof dash", x1: X(ridge), x2: X(ridge), y1: Y(data.peak), y2: box.bottom }), shape("text", { x: X(ridge) + 6, y: box.bottom - 8 }, `${short(ridge)} MAC/B`));
}

/** The points, and their names where there is room: the whole run first, then from the highest down. */
function pointsOf(svg, data, X, Y, box) {
  const taken = [], made = axis(app.by);
  for (const point of [...data.points].sort((a, b) => (a.place < 0) - (b.place < 0) || b.y - a.y).reverse()) {
    const colour = point.place < 0 ? "var(--ink)" : app.by === app.colour ? app.colours[point.place] : labelColour(made, point.place), x = X(point.x), y = Y(point.y);
    const circle = shape("circle", { cx: x, cy: y, r: point.place < 0 ? 7 : 5.5, fill: colour });
    const roof = Math.min(data.peak, data.bandwidth * point.x);
    const tip = { tip: () => [make("h3", {}, safe(point.label, 80)), fieldList([["MACs", grouped(point.macs)], ["bytes of DRAM", grouped(point.bytes)], ["cycles at work", grouped(point.cycles)], ["intensity", three(point.x) + " MAC/B"], ["rate", short(point.y) + " MAC/cycle"], ["of the roof", percent(point.y / roof)]])] };
    circle.addEventListener("pointermove", (event) => showTip(tip, event.clientX, event.clientY));
    circle.addEventListener("pointerleave", () => showTip(null));
    svg.append(circle);
    const text = safe(point.label === "all" ? "whole run" : point.label, 32), wide = text.length * 7 + 10;
    for (const [dx, dy, anchor] of [[10, 4, "start"], [-10, 4, "end"], [0, -11, "middle"], [0, 21, "middle"]]) {
      const left = anchor === "start" ? x + dx : anchor === "end" ? x + dx - wide : x - wide / 2, place = [left, y + dy - 11, left + wide, y + dy + 4];
      if (place[0] < box.left || place[2] > box.right || taken.some((other) => place[0] < other[2] && place[2] > other[0] && place[1] < other[3] && place[3] > other[1])) continue;
      taken.push(place);
      svg.append(shape("text", { class: "ink", x: x + dx, y: y + dy, "text-anchor": anchor }, text));
      break;
    }
  }
}
