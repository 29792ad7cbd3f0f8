// The points as a table: sorted by the goal, or by the column that was clicked.

const MOST_ROWS = 200, TEXTS = ["status", "limit", "jobs_hash"];

/** The status of each point, or the constraints that it breaks. */
const STATUSES = data.status.map((status, i) => (allowed(i) ? status : "breaks " + brokenText(i)));

/** All columns, those that matter first: number, goals, axes, other numbers, texts. */
function allColumns() {
  const goals = [...new Set([app.goal[0], ...data.goals.map(([name]) => name)])].filter((name) => data.numbers.includes(name));
  const names = [...goals, ...data.axes, ...data.numbers.filter((name) => !goals.includes(name))];
  return [["number", data.number], ...names.map((name) => [name, column(name)]), ["limit", data.limit], ["status", STATUSES], ["jobs_hash", data.hash]];
}

const shownRows = () => once("rows", () => data.number.map((_, i) => i).filter((i) => data.target[i] === app.target));

/** Columns with one value for all points, which stand above the table. */
function sameColumns() {
  const rows = shownRows();
  return allColumns().filter(([name, values]) => name !== "number" && name !== "jobs_hash" && rows.length > 1 && rows.every((i) => values[i] === values[rows[0]]) && !(name === "status" && values[rows[0]] !== "done"));
}

/** The columns that are seen: those that were chosen, else those that fit. */
function seenColumns() {
  const same = new Set(sameColumns().map(([name]) => name)), all = allColumns();
  if (app.columnsSeen) return all.filter(([name]) => app.columnsSeen.has(name));
  const wanted = all.filter(([name]) => !same.has(name) && name !== "jobs_hash"), goals = data.goals.map(([name]) => name);
  const must = wanted.filter(([name]) => name === "number" || data.axes.includes(name) || goals.includes(name) || name === app.goal[0]);
  if (innerWidth <= 700) return must;
  const limit = wanted.filter(([name]) => name === "limit");
  let room = byId("table").clientWidth - 16 - [...must, ...limit].reduce((sum, one) => sum + columnWidth(one), 0);
  const more = wanted.filter((one) => !must.includes(one) && !limit.includes(one)).filter((one) => (room -= columnWidth(one)) >= 0);
  return wanted.filter((one) => must.includes(one) || limit.includes(one) || more.includes(one));
}

/** About as wide as a column is: its head breaks, its values do not. */
function columnWidth([name, values]) {
  const context = byId("heat").getContext("2d");
  context.font = textFont(LOOK.type.dense, LOOK.weight.bold);
  const wide = (text) => context.measureText(text).width, rows = shownRows().slice(0, MOST_ROWS);
  return 18 + Math.max(...safe(shortName(name), 80).split(/(?<=[._])/).map((part) => wide(part + " \u2193")), ...rows.map((i) => wide(cellText(name, values[i]))));
}

const cellText = (name, value) => (name === "number" ? String(value) : told(name, value));

function sorted(found) {
  if (!app.sort) return [...found.order, ...data.number.map((_, i) => i).filter((i) => found.parts[i] === null && data.target[i] === app.target)];
  const [name, down] = app.sort, values = new Map(allColumns()).get(name), sign = down ? -1 : 1;
  const key = (value) => (value === null || value === undefined ? [2, 0] : isNumber(value) ? [0, value] : [1, String(value)]);
  return data.number.map((_, i) => i).sort((i, k) => {
    const [a, b] = [key(values[i]), key(values[k])];
    return a[0] - b[0] || sign * (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0) || i - k;
  });
}

function drawRows(found) {
  const wanted = sorted(found).filter(chosen), columns = seenColumns(), best = new Set(front(app.x, app.y));
  const head = make("tr", {}, ...columns.map(([name]) => {
    const now = app.sort?.[0] === name, arrow = now ? (app.sort[1] ? " \u2193" : " \u2191") : "";
    const sort = () => { app.sort = [name, now && !app.sort[1]]; draw(); };
    return make("th", { className: TEXTS.includes(name) ? "text" : "", title: data.about[name] ?? "", "aria-sort": now ? (app.sort[1] ? "descending" : "ascending") : "none" }, make("button", { onclick: sort }, (name === "number" ? "point" : breakable(name)) + arrow));
  }));
  const lines = wanted.slice(0, MOST_ROWS).map((i) => make("tr", { className: [best.has(i) ? "front" : "", data.status[i] !== "done" ? "bad" : allowed(i) ? "" : "off", i === app.here ? "here" : ""].join(" ").trim() },
    ...columns.map(([name, values]) => make("td", { className: TEXTS.includes(name) ? "text" : "" }, cellText(name, values[i])))));
  byId("table").replaceChildren(make("table", { className: "data" }, make("thead", {}, head), make("tbody", {}, ...lines)));
  const cut = wanted.length > MOST_ROWS ? ", the first " + MOST_ROWS : "";
  byId("shown").textContent = grouped(wanted.length) + " of " + grouped(shownRows().length) + cut + "; a bar on the left marks the Pareto front" + (Object.keys(data.breaks).length ? ", grey points break a constraint" : "");
  const same = sameColumns().filter(([name]) => name !== "status");
  byId("same").textContent = same.length ? "Equal for all points: " + same.map(([name, values]) => `${name} ${cellText(name, values[shownRows()[0]])}`).join(", ") + "." : "";
}

/** Which columns the table has. */
function drawChooser() {
  const list = make("div", { hidden: true }), button = make("button", { className: "framed", "aria-expanded": "false", onclick: () => {
    list.hidden = !list.hidden;
    button.setAttribute("aria-expanded", String(!list.hidden));
    const seen = new Set(seenColumns().map(([name]) => name));
    list.replaceChildren(...allColumns().map(([name]) => make("label", {}, make("input", { type: "checkbox", checked: seen.has(name), disabled: name === "number", onchange: (event) => {
      app.columnsSeen ??= seen;
      if (event.target.checked) app.columnsSeen.add(name); else app.columnsSeen.delete(name);
      draw();
    } }), name === "number" ? "point" : safe(name, 60))));
  } }, "Columns");
  byId("chooser").replaceChildren(button, list);
}
