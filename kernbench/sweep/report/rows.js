// The points as a table: sorted by the goal, or by the column that was clicked.

const MOST_ROWS = 200, TEXTS = ["status", "limit", "jobs_hash"];

function columnsNow() {
  const names = [...data.axes, ...data.numbers];
  return [["number", data.number], ...names.map((name) => [name, column(name)]), ["status", data.status], ["limit", data.limit], ["jobs_hash", data.hash]];
}

function sorted(found) {
  if (!app.sort) return [...found.order, ...data.number.map((_, i) => i).filter((i) => found.rank[i] === null && data.target[i] === app.target)];
  const [name, down] = app.sort, values = new Map(columnsNow()).get(name), sign = down ? -1 : 1;
  const key = (value) => (value === null || value === undefined ? [2, 0] : isNumber(value) ? [0, value] : [1, String(value)]);
  return data.number.map((_, i) => i).sort((i, k) => {
    const [a, b] = [key(values[i]), key(values[k])];
    return a[0] - b[0] || sign * (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0) || i - k;
  });
}

function drawRows(found) {
  const wanted = sorted(found).filter(chosen), columns = columnsNow(), table = make("table"), head = make("tr");
  const best = new Set(front(app.x, app.y));
  for (const [name] of columns) {
    const cell = make("th", safe(name, 40) + (app.sort?.[0] === name ? (app.sort[1] ? " \u2193" : " \u2191") : ""), TEXTS.includes(name) ? "text" : "");
    if (data.about[name]) cell.title = data.about[name];
    cell.addEventListener("click", () => { app.sort = [name, app.sort?.[0] === name && !app.sort[1]]; draw(); });
    head.append(cell);
  }
  table.append(head);
  for (const i of wanted.slice(0, MOST_ROWS)) {
    const line = make("tr", undefined, [best.has(i) ? "front" : "", data.status[i] !== "done" ? "bad" : "", i === app.here ? "here" : ""].join(" ").trim());
    for (const [name, values] of columns) line.append(make("td", name === "number" ? String(values[i]) : told(name, values[i]), TEXTS.includes(name) ? "text" : ""));
    table.append(line);
  }
  element("table").replaceChildren(table);
  const cut = wanted.length > MOST_ROWS ? ", the first " + MOST_ROWS : "";
  element("shown").textContent = grouped(wanted.length) + " of " + grouped(data.target.filter((target) => target === app.target).length) + cut + "; a mark on the left: on the Pareto front";
}
