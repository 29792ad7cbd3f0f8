// Mouse, wheel and touch on the plot: pan, zoom, select, point at.

/** What is at a place of the plot: a span, events, a cell, a head; null: nothing. */
function underPointer(x, y) {
  if (x < 0 || y < AXIS) return null;
  const lane = app.lanes?.find((one) => y - AXIS + app.scrollY >= one.y && y - AXIS + app.scrollY < one.y + one.height);
  if (!lane) return null;
  if (lane.type === "more") return { head: { id: lane.id, shut: Boolean(app.folded.get(lane.id)) }, tip: () => [make("p", {}, lane.label)] };
  if (lane.type === "head") return { head: lane, tip: () => [make("p", {}, lane.note ?? lane.label)] };
  if (x < GUTTER) return { tip: () => [make("h3", {}, safe(lane.label, 300))] };
  const pixel = (app.to - app.from) / plotSize().room, time = app.from + (x - GUTTER) * pixel;
  if (lane.type === "path") {
    const found = pathRows().find((one) => one.start <= time + pixel && one.end > time);
    return found ? { path: found, span: found.command >= 0 ? jobOf(found.command) : -1, tip: () => pathTip(found) } : null;
  }
  if (lane.type === "heat") {
    const cell = heatCell(lane.heat, lane.row, time, time + pixel);
    return cell && { cell, tip: () => heatTip(lane.heat, lane.label, cell) };
  }
  if (lane.type === "events") {
    const { points } = lane, low = firstAbove(points.times, 0, points.times.length, time - 5 * pixel, true);
    const high = firstAbove(points.times, low, points.times.length, time + 5 * pixel, false);
    return high > low ? { point: points.shown[low], points, tip: () => pointTip(points, points.shown.slice(low, high)) } : null;
  }
  const span = lane.type === "unit" ? spanInRow(lane, y - AXIS + app.scrollY - lane.y, time, pixel) : spanOfCommand(lane.command, time, pixel);
  return span >= 0 ? { span, tip: () => spanTip(span) } : null;
}

function spanInRow(lane, y, time, pixel) {
  const rows = app.rows[lane.unit], row = rows[Math.floor(((y - 3) / (lane.height - 6)) * Math.max(1, lane.rows))];
  if (!row) return -1;
  const k = firstAbove(app.shownEnd, row.low, row.high, time - pixel, false);
  return k < row.high && app.shownStart[k] <= time + pixel ? app.order[k] : -1;
}

function spanOfCommand(command, time, pixel) {
  const { starts, list } = byCommand();
  let found = -1;
  for (let k = starts[command]; k < starts[command + 1]; k++) {
    const span = list[k], near = app.start[span] <= time + pixel && app.end[span] >= time - pixel;
    if (near && (found < 0 || app.kind[span] < app.kind[found])) found = span;
  }
  return found < 0 && starts[command] < starts[command + 1] ? list[starts[command]] : found;
}

function listenToPlot() {
  const over = byId("over"), plot = byId("plot"), at = (event) => { const box = plot.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const timeAt = (x) => app.from + ((x - GUTTER) / plotSize().room) * (app.to - app.from);
  let drag = null;

  over.addEventListener("pointerdown", (event) => {
    const [x, y] = at(event);
    if (event.button > 1) return;
    over.setPointerCapture(event.pointerId);
    plot.focus({ preventScroll: true });
    const pick = event.shiftKey || (y < AXIS && x > GUTTER);
    drag = { x, y, from: app.from, to: app.to, scroll: app.scrollY, time: timeAt(x), pick, moved: false };
    showTip(null);
  });
  over.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    app.pointer = x >= GUTTER && x <= GUTTER + plotSize().room ? { x, y, time: timeAt(x) } : null;
    if (drag) moveDrag(drag, x, y);
    else point(event, x, y);
    drawOver();
  });
  over.addEventListener("pointerup", (event) => {
    const [x, y] = at(event), done = drag;
    drag = null;
    over.className = "";
    if (!done || done.moved) return;
    const found = underPointer(x, y);
    if (found?.head) { app.folded.set(found.head.id, !found.head.shut); app.layoutStamp = ""; if (app.tab === "heat") drawBar(); redraw(); }
    else if (found?.span >= 0) select(found.span);
    else clearSelection();
  });
  over.addEventListener("pointerleave", () => { app.pointer = null; app.hover = null; showTip(null); drawOver(); });
  over.addEventListener("dblclick", (event) => { const found = underPointer(...at(event)); if (found?.span >= 0) seeSpan(found.span); });

  function moveDrag(one, x, y) {
    if (Math.abs(x - one.x) + Math.abs(y - one.y) > 3) one.moved = true;
    if (!one.moved) return;
    over.className = one.pick ? "picking" : "panning";
    if (one.pick) { app.range = [one.time, timeAt(x)].sort((a, b) => a - b); selectRange(...app.range); return; }
    const shift = ((x - one.x) / plotSize().room) * (one.to - one.from);
    app.scrollY = one.scroll - (y - one.y);
    see(one.from - shift, one.to - shift);
  }

  function point(event, x, y) {
    app.hover = underPointer(x, y);
    over.className = app.hover?.head || app.hover?.span >= 0 ? "pointing" : "";
    showTip(app.hover, event.clientX, event.clientY);
  }

  plot.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x] = at(event), room = plotSize().height - AXIS, fine = event.deltaMode === 1 ? 20 : 1;
    if (event.ctrlKey || event.metaKey || (app.tall <= room && Math.abs(event.deltaY) > Math.abs(event.deltaX) && !event.shiftKey)) {
      zoomBy(Math.exp(Math.max(-1, Math.min(1, event.deltaY * fine * 0.0025))), Math.max(app.from, timeAt(x)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) panBy(((event.deltaX || event.deltaY) * fine) / plotSize().width);
    else { app.scrollY += event.deltaY * fine; redraw(); }
  }, { passive: false });
  byId("scroll").addEventListener("scroll", (event) => { if (Math.abs(event.target.scrollTop - app.scrollY) > 1) { app.scrollY = event.target.scrollTop; redraw(); } });
  listenToMini();
}

/** On the small picture a click or drag moves what is seen. */
function listenToMini() {
  const mini = byId("mini");
  let held = false;
  const move = (event) => {
    const box = mini.getBoundingClientRect(), part = (event.clientX - box.left - GUTTER) / (box.width - GUTTER - MARGIN), half = (app.to - app.from) / 2;
    const middle = app.first + Math.max(0, Math.min(1, part)) * (app.last - app.first);
    see(middle - half, middle + half);
  };
  mini.addEventListener("pointerdown", (event) => { held = true; mini.setPointerCapture(event.pointerId); move(event); });
  mini.addEventListener("pointermove", (event) => { if (held) move(event); });
  mini.addEventListener("pointerup", () => { held = false; });
}
