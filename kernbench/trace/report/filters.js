// The panel of filters: one part an axis, its labels with how many spans they have; and the legend, which filters too.

const AXIS_NAMES = {
  component: "Component", unit: "Unit", phase: "Phase", layer: "Layer", block: "Block", head: "Head", token: "Token", tenant: "Tenant", model: "Model",
  opcode: "Opcode", precision: "Precision", npu: "NPU", core: "Core", thread: "Thread",
};
const MOST_LABELS = 200;

/** After any change of the filter. */
function refilter() {
  applyFilter();
  app.layoutStamp = "";
  drawBar();
  showTab(app.tab);
  if (app.range) selectRange(...app.range);
  redraw();
}

function drawFilters() {
  const open = new Set([...document.querySelectorAll("#filters details[open]")].map((one) => one.dataset.axis));
  if (!app.filtersDrawn) ["component", "phase", "layer"].forEach((name) => open.add(name));
  app.filtersDrawn = true;
  const clear = make("button", { onclick: clearFilters, title: "Clear all filters (X)", hidden: !filterCount() }, "clear");
  const parts = [make("h2", {}, "Filters", clear, make("button", { onclick: toggleFilters, title: "Close (B)" }, "close")), timeFilter(open)];
  for (const name of Object.keys(AXIS_NAMES)) {
    if (!allAlike(name) || app.filter.axes.has(name)) parts.push(axisFilter(name, open.has(name)));
  }
  for (const name of Object.keys(IDS)) parts.push(idFilter(name, open));
  byId("filters").replaceChildren(...parts);
}

/** Whether all spans have one label on an axis, as the column's description shows without reading it. */
function allAlike(name) {
  if (!(name in app.head.axes)) return app.spansOf[name].filter(Boolean).length < 2;
  const told = app.commands.told[app.head.axes[name]];
  return !told || ("constant" in told && app.spansOf.command[app.commands.count] === 0);
}

function clearFilters() {
  app.filter = noFilter();
  app.filter.texts = {};
  refilter();
  drawFilters();
}

function part(name, title, note, open, ...body) {
  return make("details", { open, "data-axis": name }, make("summary", { className: note ? "on" : "" }, title, make("i", {}, note)), make("div", { className: "body" }, ...body));
}

function timeFilter(open) {
  const now = app.filter.cycles, from = make("input", { type: "text", placeholder: "from", value: now ? now[0] : "", "aria-label": "From cycle" });
  const to = make("input", { type: "text", placeholder: "to", value: now ? now[1] : "", "aria-label": "To cycle" });
  const change = () => {
    const values = [from, to].map((input, i) => (input.value.trim() ? Number(input.value.replace(/[,_ ]/g, "")) : [app.first, app.last][i]));
    const wrong = values.some((value) => !Number.isFinite(value)) || values[0] >= values[1];
    from.classList.toggle("bad", wrong);
    to.classList.toggle("bad", wrong);
    if (wrong) return;
    const any = from.value.trim() || to.value.trim();
    app.filter.cycles = any ? values : null;
    app.filter.texts = { ...app.filter.texts, cycles: any ? values.join("-") : "" };
    refilter();
    drawFilters();
  };
  from.onchange = to.onchange = change;
  const seen = make("button", { className: "linked", onclick: () => { from.value = Math.floor(app.from); to.value = Math.ceil(app.to); change(); } }, "what is seen");
  return part("cycles", "Time", now ? now.map(grouped).join(" \u2013 ") : "", open.has("cycles"),
    make("div", { className: "pair" }, from, to), make("p", { className: "hint" }, "cycles, or take ", seen));
}

function idFilter(name, open) {
  const input = make("input", { type: "text", placeholder: "12, 40-60", value: app.filter.texts?.[name] ?? "", "aria-label": IDS[name], "data-ids": name });
  input.onchange = () => {
    const ranges = parseRanges(input.value);
    input.classList.toggle("bad", ranges === false);
    if (ranges === false) return;
    app.filter.ids[name] = ranges;
    app.filter.texts = { ...app.filter.texts, [name]: input.value.trim() };
    refilter();
    drawFilters();
  };
  return part(name, IDS[name], app.filter.ids[name] ? safe(input.value, 24) : "", open.has(name), input);
}

/** The part of an axis; what is in it is made when it is opened. */
function axisFilter(name, open) {
  const wanted = app.filter.axes.get(name), details = part(name, AXIS_NAMES[name], wanted ? `${wanted.size} of ${axis(name).labels.length - 1}` : "", open);
  const fill = () => details.lastChild.replaceChildren(...labelPart(name, axis(name), labelCounts(axis(name))).filter(Boolean));
  if (open) fill(); else details.addEventListener("toggle", fill, { once: true });
  return details;
}

function labelPart(name, made, counts) {
  const list = make("div", { className: "list" }), many = made.labels.length > 13;
  const narrow = many ? make("input", { type: "text", placeholder: made.numeric ? "0-3, 7" : "part of a name", "aria-label": "Narrow " + AXIS_NAMES[name] }) : null;
  const fill = () => fillLabels(list, name, made, counts, narrow?.value ?? "");
  if (narrow) {
    narrow.oninput = fill;
    narrow.onchange = () => { if (narrow.value.trim()) setWanted(name, matching(made, counts, narrow.value).map((place) => made.labels[place])); };
  }
  fill();
  return [narrow, list, narrow && make("p", { className: "hint" }, "Enter: these alone")];
}

/** Places of labels that have spans and match what is typed: ranges of numbers, or a part of the name. */
function matching(made, counts, typed) {
  const ranges = made.numeric ? parseRanges(typed) : null, part = typed.trim().toLowerCase();
  return made.labels.map((_, place) => place).filter((place) => {
    if (!counts[place]) return false;
    if (ranges) return inRanges(ranges, Number(made.labels[place]));
    return !part || made.labels[place].toLowerCase().includes(part);
  });
}

function fillLabels(list, name, made, counts, typed) {
  const places = matching(made, counts, typed), wanted = app.filter.axes.get(name);
  const rows = places.slice(0, MOST_LABELS).map((place) => {
    const label = made.labels[place];
    const box = make("input", { type: "checkbox", checked: !wanted || wanted.has(label), "data-label": place });
    box.onchange = (event) => toggleLabel(name, made, counts, label, event);
    const swatch = name === app.colour ? make("i", { className: "swatch", style: { background: app.colours[place] } }) : null;
    const text = nameOf(label, 80);
    text.title = safe(label, 80) + "\nAlt+click: this alone";
    return make("label", {}, box, swatch, text, make("em", {}, short(counts[place])));
  });
  if (places.length > MOST_LABELS) rows.push(make("p", { className: "hint" }, `${grouped(places.length - MOST_LABELS)} more: narrow them`));
  list.replaceChildren(...rows);
  list.onclick = (event) => {
    if (!event.altKey) return;
    const at = [...list.querySelectorAll("label")].findIndex((label) => label.contains(event.target));
    if (at >= 0) { event.preventDefault(); setWanted(name, [made.labels[places[at]]]); }
  };
}

function toggleLabel(name, made, counts, label) {
  const all = made.labels.filter((_, place) => counts[place]), now = app.filter.axes.get(name) ?? new Set(all);
  if (now.has(label)) now.delete(label); else now.add(label);
  setWanted(name, all.every((one) => now.has(one)) ? null : [...now]);
}

/** Let only these labels of an axis through; null: all. */
function setWanted(name, labels) {
  if (labels) app.filter.axes.set(name, new Set(labels)); else app.filter.axes.delete(name);
  refilter();
  drawFilters();
}

/** Colour spans by another axis. */
function setColour(name) {
  app.colour = name;
  const made = axis(name);
  app.placeOf = made.ofSpan ? (span) => made.ofSpan[span] : (span) => { const command = app.command[span]; return command < 0 ? made.none : made.ofCommand[command]; };
  readColours();
}

/** The line over the plot: what lanes and colours stand for. */
function drawBar() {
  const bar = byId("bar"), choose = (label, value, options, change) => {
    const select = make("select", { onchange: () => change(select.value) }, ...options.map(([name, text]) => make("option", { value: name, selected: name === value }, text)));
    return make("label", {}, label, select);
  };
  if (app.tab === "timeline") {
    bar.replaceChildren(filterButton(),
      choose("Lanes", app.lanesBy, [["engine", "engines"], ["command", "commands"]], setLanes),
      choose("Colour", app.colour, app.head.colours.map((name) => [name, name === "component" ? "resource" : AXIS_NAMES[name].toLowerCase()]), (name) => { setColour(name); drawFilters(); drawBar(); drawAnswer(); redraw(); }),
      legend(), ...filterChips());
  } else if (app.tab === "heat") bar.replaceChildren(filterButton(), heatScale("use", "use"), ...(deniedSeen() ? [heatScale("conflicts", "denied")] : []), make("span", { className: "scale" }, app.heat.length ? `a step is ${counted(app.heat[0].bin, "cycle")}` : ""), ...filterChips());
  else if (app.tab === "run") bar.replaceChildren(make("span", { className: "scale" }, "What was run, on what, and how it ended"));
  else {
    const names = [...Object.keys(AXIS_NAMES)].filter((name) => name in app.head.axes || app.tab === "phases");
    bar.replaceChildren(filterButton(), choose("By", app.by, names.map((name) => [name, AXIS_NAMES[name].toLowerCase()]), (name) => { app.by = name; showTab(app.tab); rememberView(); }),
      make("span", { className: "scale hint" }, app.tab === "phases" ? "click a name to show it alone, a column head to sort" : "each point is a part of the run; its area is the time in which its jobs ran"), ...filterChips(), ...(app.tab === "phases" ? [columnChooser()] : []));
  }
  bar.hidden = false;
}

function setLanes(by) {
  app.lanesBy = by;
  app.scrollY = 0;
  drawBar();
  if (app.selected >= 0) seeSpan(app.selected);
  redraw();
}

const heatScale = (name, ramp) => make("span", { className: "scale" }, name + "  0%", make("i", { className: "ramp", style: { background: `linear-gradient(90deg, ${look().ramp[ramp].join(", ")})` } }), "100%");

/** Whether rows of conflicts are there and unfolded. */
const deniedSeen = () => app.heat.some((heat) => heat.name.startsWith("denials") && !app.folded.get("heat." + heat.name));

const filterButton = () => make("button", { className: "framed", title: "Filters (B)", "aria-expanded": String(!byId("filters").hidden), onclick: toggleFilters }, "Filters");

/** What is filtered, a button each that takes the filter away. */
function filterChips() {
  const made = [], chip = (text, clear) => made.push(make("button", { className: "chip only", title: safe(text, 200) + ": click to take it away", onclick: clear }, safe(text, 40) + " \u2715"));
  for (const [name, wanted] of app.filter.axes) if (name !== app.colour || app.tab !== "timeline") chip(`${AXIS_NAMES[name] ?? name}: ${wanted.size <= 2 ? [...wanted].join(", ") || "nothing" : `${wanted.size} labels`}`, () => { app.group = undefined; setWanted(name, null); drawAnswer(); });
  for (const [name, ranges] of Object.entries(app.filter.ids)) if (ranges) chip(`${IDS[name]}: ${app.filter.texts?.[name] ?? ""}`, () => { app.filter.ids[name] = null; app.filter.texts = { ...app.filter.texts, [name]: "" }; refilter(); drawFilters(); });
  if (app.filter.cycles) chip(`cycles ${app.filter.cycles.map(grouped).join(" \u2013 ")}`, () => { app.filter.cycles = null; app.filter.texts = { ...app.filter.texts, cycles: "" }; refilter(); drawFilters(); });
  return made;
}

/** The labels: a click hides one or shows it again, a double click leaves it alone. Those of the last colour come last, as one. */
function legend() {
  const made = axis(app.colour), counts = labelCounts(made), wanted = app.filter.axes.get(app.colour), box = make("div", { id: "legend" });
  const there = [...made.labels.keys()].filter((place) => counts[place]), other = look().resource.other;
  const many = there.filter((place) => app.colours[place] === other && place !== made.none), joined = many.length > 3 ? new Set(many) : new Set();
  const entry = (labels, text, fill) => {
    const on = !wanted || labels.some((label) => wanted.has(label)), all = there.map((place) => made.labels[place]);
    const toggle = () => {
      const now = wanted ?? new Set(all), next = on ? [...now].filter((label) => !labels.includes(label)) : [...now, ...labels];
      setWanted(app.colour, all.every((label) => next.includes(label)) ? null : next);
    };
    const alone = () => setWanted(app.colour, wanted?.size === labels.length && on ? null : labels);
    box.append(make("button", { className: on ? "" : "off", title: `${safe(text, 80)}: click to hide or show, double click to leave it alone`, "aria-pressed": String(on), onclick: (event) => { clearTimeout(app.clicking); if (event.detail > 1) alone(); else app.clicking = setTimeout(toggle, event.detail ? 220 : 0); } },
      make("i", { className: "swatch", style: { background: fill } }), make("span", {}, safe(text, 60))));
  };
  for (const place of there) if (!joined.has(place)) entry([made.labels[place]], made.labels[place], app.colours[place]);
  if (joined.size) entry([...joined].map((place) => made.labels[place]), `${joined.size} other`, other);
  return box;
}
