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
  if (!data.peak || !data.bandwidth) return say("No roof to draw", "The trace has no peak of the tensor engines or no bandwidth of the DRAM channels (TRACE_META).");
  const width = Math.max(320, view.clientWidth - 50), height = Math.max(340, view.clientHeight - 90), box = { left: 70, top: 26, right: width - 62, bottom: height - 50 };
  const ridge = data.peak / data.bandwidth, xs = [...data.points.map((point) => point.x), ridge], ys = data.points.map((point) => point.y), half = Math.sqrt(10);
  const x0 = Math.min(...xs) / half, x1 = Math.max(...xs) * half, y1 = data.peak * half, y0 = Math.min(...ys, data.peak / half) / half;
  const X = (value) => box.left + (Math.log(value / x0) / Math.log(x1 / x0)) * (box.right - box.left), Y = (value) => box.bottom - (Math.log(value / y0) / Math.log(y1 / y0)) * (box.bottom - box.top);
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline" });
  const tens = (low, high) => { const made = []; for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++) made.push(10 ** power); return made; };
  for (const x of tens(x0, x1)) svg.append(shape("line", { class: "grid", x1: X(x), x2: X(x), y1: box.top, y2: box.bottom }), shape("text", { x: X(x), y: box.bottom + 17, "text-anchor": "middle" }, short(x)));
  for (const y of tens(y0, y1)) svg.append(shape("line", { class: "grid", x1: box.left, x2: box.right, y1: Y(y), y2: Y(y) }), shape("text", { x: box.left - 8, y: Y(y) + 4, "text-anchor": "end" }, short(y)),
    shape("text", { x: box.right + 8, y: Y(y) + 4 }, short((2 * y * app.freq) / 1000)));
  svg.append(shape("rect", { class: "frame", x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }));
  const names = [["MACs per DRAM byte  [MAC/B]", (box.left + box.right) / 2, height - 12, ""], ["MAC/cycle", 16, (box.top + box.bottom) / 2, `rotate(-90 16 ${(box.top + box.bottom) / 2})`], ["TOPS (2 ops a MAC)", width - 10, (box.top + box.bottom) / 2, `rotate(-90 ${width - 10} ${(box.top + box.bottom) / 2})`]];
  for (const [text, x, y, transform] of names) svg.append(shape("text", { x, y, "text-anchor": "middle", ...(transform ? { transform } : {}) }, text));
  const most = Math.max(...data.points.map((point) => point.cycles));
  for (const point of data.points) point.radius = Math.max(4, 16 * Math.sqrt(point.cycles / most));
  const taken = roofs(svg, data, ridge, X, Y, x0, x1, y0, box), rest = pointsOf(svg, data, X, Y, box, taken), key = rest.length ? make("div", { className: "keys" }, ...rest.map(([fill, text]) => make("span", {}, make("i", { className: "swatch", style: { background: fill } }), " " + text))) : null;
  const left = data.left.length ? make("p", { className: "facts", style: { whiteSpace: "normal", margin: "0 8px" } }, "Not shown, because they compute no MACs or move no DRAM bytes: " + safe(data.left.slice(0, 12).join(", "), 300) + (data.left.length > 12 ? ` and ${data.left.length - 12} more` : "")) : null;
  view.replaceChildren(make("div", { className: "card" }, svg, key, left));
  return null;
}

/** The roofs, each with its name on its outer side. Returns the boxes that labels of points must leave free: the slope and its name. */
function roofs(svg, data, ridge, X, Y, x0, x1, y0, box) {
  const enter = Math.max(x0, y0 / data.bandwidth), narrow = box.right - box.left < 600;
  svg.append(shape("path", { class: "roof", d: `M${X(enter)} ${Y(data.bandwidth * enter)} L${X(ridge)} ${Y(data.peak)} L${X(x1)} ${Y(data.peak)}` }));
  if (data.macs < data.peak) {
    const begin = X(data.macs / data.bandwidth), text = `at factor 1: ${short(data.macs)}${narrow ? "" : " MAC/cycle"}`, room = begin - box.left > 6.6 * text.length + 16;
    svg.append(shape("line", { class: "roof dash", x1: begin, x2: X(x1), y1: Y(data.macs), y2: Y(data.macs) }));
    // Left of the slope no line crosses the name.
    svg.append(shape("text", { x: room ? begin - 14 : box.right - 8, y: Y(data.macs) + (room ? 1 : -6), "text-anchor": "end" }, text));
  }
  const right = X(ridge) > (box.left + box.right) / 2;
  svg.append(shape("text", { class: "ink", x: right ? box.right - 8 : X(ridge) + 8, y: Y(data.peak) - 8, "text-anchor": right ? "end" : "start" }, `TE: ${short(data.peak)} MAC/cycle` + (data.macs < data.peak && !narrow ? " at the widths used" : "")));
  const angle = (Math.atan2(Y(data.peak) - Y(data.bandwidth * enter), X(ridge) - X(enter)) * 180) / Math.PI, turn = (angle * Math.PI) / 180;
  const name = `DRAM: ${short(data.bandwidth)} B/cycle${narrow ? "" : `, ${short(data.bandwidth * app.freq)} GB/s`}`;
  svg.append(shape("line", { class: "roof dash", x1: X(ridge), x2: X(ridge), y1: Y(data.peak), y2: box.bottom }));
  const half = 3.3 * name.length, cells = (at) => {
    const made = [];
    for (let along = -half; along <= half; along += 8) made.push([at[0] + along * Math.cos(turn) - 5, at[1] + along * Math.sin(turn) - 9, at[0] + along * Math.cos(turn) + 5, at[1] + along * Math.sin(turn) + 4]);
    return made;
  };
  // The name stands 9 px above the slope, at the first place where it covers no point.
  const places = [0.4, 0.5, 0.6, 0.3, 0.7, 0.2, 0.8].map((share) => enter * (ridge / enter) ** share).map((x) => [X(x) + 9 * Math.sin(turn), Y(data.bandwidth * x) - 9 * Math.cos(turn)]);
  const covers = (at) => cells(at).some((cell) => cell[1] < box.top || cell[0] < box.left || data.points.some((point) => X(point.x) + point.radius > cell[0] && X(point.x) - point.radius < cell[2] && Y(point.y) + point.radius > cell[1] && Y(point.y) - point.radius < cell[3]));
  const at = places.find((place) => !covers(place)) || places[0];
  svg.append(shape("text", { class: "ink", x: at[0], y: at[1], "text-anchor": "middle", transform: `rotate(${angle} ${at[0]} ${at[1]})` }, name));
  svg.append(shape("text", { x: X(ridge) + (right ? -6 : 6), y: box.bottom - 8, "text-anchor": right ? "end" : "start" }, `ridge: ${short(ridge)} MAC/B`));
  const boxes = [...cells(at), [X(ridge) - 3, Y(data.peak), X(ridge) + 3, box.bottom]];
  for (let part = 0; part <= 1; part += 0.02) {
    const [x, y] = [X(enter) + part * (X(ridge) - X(enter)), Y(data.bandwidth * enter) + part * (Y(data.peak) - Y(data.bandwidth * enter))];
    boxes.push([x - 2, y - 2, x + 2, y + 2]);
  }
  return boxes;
}

/** The points, their areas as their times, the whole run first; each name at the end of a line to its point. */
function pointsOf(svg, data, X, Y, box, taken) {
  const made = axis(app.by), colours = app.by === app.colour ? app.colours : labelColours(made);
  const sorted = [...data.points].sort((a, b) => (b.place < 0) - (a.place < 0) || b.cycles - a.cycles);
  const labels = [];
  for (const point of sorted) {
    const x = X(point.x), y = Y(point.y), r = point.radius, fill = point.place < 0 ? "none" : colours[point.place];
    const circle = shape("circle", { cx: x, cy: y, r, fill, "fill-opacity": 0.85, ...(point.place < 0 ? { style: "stroke: var(--ink)", "pointer-events": "all" } : {}) });
    const bound = data.bandwidth * point.x < data.peak ? "DRAM" : "TE", part = point.y / Math.min(data.peak, data.bandwidth * point.x);
    const tip = { tip: () => [make("h3", {}, safe(point.label, 80)), fieldList([["MACs", grouped(point.macs)], ["DRAM bytes", grouped(point.bytes)], ["cycles at work", grouped(point.cycles)], ["intensity", three(point.x) + " MAC/B"], ["rate", short(point.y) + " MAC/cycle"], [`of the ${bound} roof`, percent(part)]])] };
    circle.addEventListener("pointermove", (event) => showTip(tip, event.clientX, event.clientY));
    circle.addEventListener("pointerleave", () => showTip(null));
    svg.append(circle);
    taken.push([x - r, y - r, x + r, y + r]);
    labels.push({ x, y, r, fill, text: safe(point.label === "all" ? "whole run" : point.label, 28) + `: ${percent(part)} of the ${bound} roof`, short: safe(point.label === "all" ? "whole run" : point.label, 16) + ` ${percent(part)}` });
  }
  const narrow = box.right - box.left < 600;
  const rest = [];  // without a free place beside their points
  for (const { x, y, r, fill, ...texts } of labels) {
    const text = narrow ? texts.short : texts.text, wide = text.length * 6.6 + (text.match(/[A-Z_]/g) || []).length * 1.7 + 6, places = [];
    for (let out = 14; out <= 190; out += 16) for (const turn of [-35, 35, -145, 145, 0, 180, -70, 70, -110, 110]) places.push([x + (r + out) * Math.cos(turn * Math.PI / 180), y + (r + out) * Math.sin(turn * Math.PI / 180), Math.abs(turn) <= 90 ? 0 : -wide]);
    const found = places.map(([px, py, shift]) => [px, py, px + shift, py - 8, px + shift + wide, py + 7]).find(([, , left, top, right, bottom]) => left > box.left + 2 && right < box.right - 2 && top > box.top + 2 && bottom < box.bottom - 18 && !taken.some((other) => left < other[2] && right > other[0] && top < other[3] && bottom > other[1]));
    if (!found) { rest.push([fill, texts.text]); continue; }
    const [px, py, left, top, right, bottom] = found;
    taken.push([left, top, right, bottom]);
    const length = Math.hypot(px - x, py - y) || 1;
    svg.append(shape("line", { class: "leader", x1: x + (px - x) * r / length, y1: y + (py - y) * r / length, x2: px, y2: py }), shape("text", { class: "ink", x: left + 3, y: py + 4 }, text));
  }
  return rest;
}
