// The answer above everything: the sentence of `kbsim trace why` and where the cycles went, or the busiest resources.

function drawAnswer() {
  const box = byId("answer"), { answer } = app.head;
  box.hidden = false;
  const said = make("p", { className: "said", title: safe(answer.sentence, 1000) }, safe(answer.sentence.replace(/^./, (c) => c.toUpperCase()), 400));
  if (answer.groups) box.replaceChildren(make("div", {}, said), groupBar(answer));
  else box.replaceChildren(make("div", {}, said, make("p", { className: "facts" }, safe(answer.hint, 300))), usedBars(answer.used));
}

/** The groups as one bar, waits hatched; a click selects the resource. */
function groupBar({ groups, cycles }) {
  const bar = make("div", { className: "share", role: "img", "aria-label": "Where the cycles of the critical path went" }), keys = make("div", { className: "keys" });
  groups.forEach((group, i) => {
    const share = group.cycles / cycles, about = `${group.name}: ${percent(share)}, ${short(Math.round(group.cycles))} cycles, of which ${short(Math.round(group.waiting))} waiting` + (group.units.length ? `; ${group.units.slice(0, 8).join(", ")}` : "");
    for (const [kind, part] of [["solid", group.cycles - group.waiting], ["hatch", group.waiting]]) {
      if (part <= 0) continue;
      const piece = make("button", { className: kind, title: safe(about, 400), "aria-label": safe(about, 400), onclick: () => selectGroup(i) });
      piece.style.setProperty("--hue", hueOf(group.hue));
      piece.style.width = (100 * part) / cycles + "%";
      bar.append(piece);
    }
    if (share < 0.005) return;
    const swatch = make("i", { className: "swatch " + (2 * group.waiting > group.cycles ? "hatch" : "solid") });
    swatch.style.setProperty("--hue", hueOf(group.hue));
    keys.append(make("button", { title: safe(about, 400), "aria-pressed": String(app.group === i), onclick: () => selectGroup(i) }, swatch, `${safe(group.name, 40)} ${percent(share)}`));
  });
  return make("div", {}, bar, keys);
}

function usedBars(used) {
  const box = make("div", { className: "keys" });
  for (const { name, hue, share } of used.slice(0, 5)) {
    const bar = make("i", { className: "swatch solid" });
    bar.style.setProperty("--hue", hueOf(hue));
    bar.style.width = Math.max(2, 90 * share) + "px";
    box.append(make("span", { title: safe(name, 80) }, bar, ` ${safe(name, 30)} ${percent(share)}`));
  }
  return box;
}

/** Show the units of a group alone; again: all. */
function selectGroup(i) {
  const again = app.group === i, { units } = app.head.answer.groups[i];
  const known = units.filter((name) => app.units.some((unit) => unit.name === name) && axis("unit").labels.includes(name));
  app.group = again || !known.length ? undefined : i;
  for (const name of known) if (/^(dram|noc)\./.test(name)) app.folded.set(name.startsWith("dram") ? "dram" : "noc", false);
  if (known.length) setWanted("unit", again ? null : known);
  drawAnswer();
}

/** The path's table as rows [start, end, command row, cause, resource, hue, fill]. */
function pathRows() {
  if (app.pathRows) return app.pathRows;
  const { answer } = app.head;
  if (!answer.path) return (app.pathRows = []);
  const table = app.pathTable, made = [];
  for (let i = 0; i < table.count; i++) {
    const start = table.get("start")[i];
    made.push({ start, end: start + table.get("cycles")[i], command: table.get("command")[i], cause: table.value("cause", i), resource: table.value("resource", i), hue: table.value("hue", i), fill: table.value("fill", i) });
  }
  return (app.pathRows = made.sort((a, b) => a.start - b.start));
}

/** The causes of a command's cycles, the longest first. */
function causesOf(command) {
  const table = app.causesTable;
  if (!table) return [];
  if (!app.causeRows) {
    app.causeRows = new Map();
    table.get("command").forEach((row, i) => { if (app.causeRows.has(row)) app.causeRows.get(row).push(i); else app.causeRows.set(row, [i]); });
  }
  return (app.causeRows.get(command) ?? []).map((i) => ({ cycles: table.get("cycles")[i], cause: table.value("cause", i), resource: table.value("resource", i), hue: table.value("hue", i), fill: table.value("fill", i), by: table.value("by", i) ?? [] }));
}

const causeText = (cause) => cause.replace(/_/g, " ");

/** A bar of causes with a line each: cycles, and the commands in the way. */
function causePanel(causes) {
  const whole = causes.reduce((sum, one) => sum + one.cycles, 0) || 1, bar = make("div", { className: "share" }), list = make("dl", { className: "fields" });
  for (const one of causes.slice(0, 8)) {
    const piece = make("i", { className: one.fill }), swatch = make("i", { className: "swatch " + one.fill });
    for (const part of [piece, swatch]) part.style.setProperty("--hue", look().resource[one.hue]);
    piece.style.width = (100 * one.cycles) / whole + "%";
    bar.append(piece);
    const links = one.by.map((id) => make("button", { className: "linked", title: "The command in the way", onclick: () => selectCommand(id) }, String(id)));
    list.append(make("dt", {}, swatch, " " + causeText(one.cause)), make("dd", {}, `${percent(one.cycles / whole)} ${safe(one.resource, 60)}`, ...(links.length ? [", behind ", ...links] : [])));
  }
  return [make("h3", {}, "From ready to end"), bar, list];
}
