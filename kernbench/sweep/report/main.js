// Putting it together: what is chosen above decides what all cards show.

let asked = false;

/** Draw everything, once before the next frame. */
function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(drawNow);
}

function drawNow() {
  asked = false;
  readPaint();
  byId("theme").textContent = themeSign();
  byId("clear").hidden = !app.brushes.size;
  if (app.goal) {
    const found = ordered();
    drawAnswer(found);
    drawScale();
    drawBars();
    drawHeat();
    drawScatter(found);
    drawParallel(found);
    drawRows(found);
    for (const name of document.querySelectorAll(".goal-name")) name.textContent = app.goal[0];
  }
  return true;
}

function drawTop() {
  const { statuses } = data, bad = Object.keys(statuses).filter((name) => name !== "done"), chip = byId("status"), told = bad.length ? bad.map((name) => `${grouped(statuses[name])} ${name}`).join(", ") : "done";
  chip.textContent = told;
  chip.classList.add(bad.some((name) => name !== "missing") ? "bad" : bad.length ? "aborted" : "done");
  const left = [data.excluded ? grouped(data.excluded) + " left out by conditions" : "", data.invalid ? grouped(data.invalid) + " invalid" : ""].filter(Boolean);
  byId("name").textContent = safe(data.name, 60);
  byId("name").title = safe(data.name, 1000);
  byId("counts").textContent = [counted(count, "point"), ...left, "kernbench " + data.version].join(" \u00b7 ");
}

function changeTheme() {
  switchTheme();
  draw();
}

function start() {
  keepTheme();
  readPaint();
  drawTop();
  app.goal = data.goals.find(([name]) => data.numbers.includes(name)) || (data.numbers.length ? [data.numbers[0], "min"] : null);
  drawWhy();
  byId("theme").onclick = changeTheme;
  addEventListener("keydown", (event) => { if (event.key.toLowerCase() === "t" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(SELECT|INPUT)$/.test(event.target.tagName)) changeTheme(); });
  if (!app.goal) {
    byId("theme").textContent = themeSign();
    byId("answer").hidden = false;
    byId("answer").replaceChildren(make("p", { className: "said" }, "No point is done: the failures below say why."));
    for (const card of document.querySelectorAll("main > :not(#failed-card)")) card.hidden = true;
    return;
  }
  const varied = variedAxes(), by = (data.influences[app.goal[0]] || []).map((one) => one.axis);
  const axes = varied.length ? varied : [...data.axes, ...data.numbers];
  const others = [...data.goals.map(([name]) => name), "energy_pj", "bound", ...data.numbers].filter((name) => name !== app.goal[0] && data.numbers.includes(name));
  [app.x, app.y] = [app.goal[0], others[0] ?? app.goal[0]];
  const matter = [...new Set([...by, ...axes])].filter((name) => axes.includes(name));  // of this target's axes those that matter most
  [app.rows, app.columns] = [matter[0], matter[1] ?? matter[0]];
  option(byId("goal"), data.numbers, app.goal[0], (name) => wayOf(name) + " " + name);
  option(byId("x"), [...data.numbers, ...varied], app.x);
  option(byId("y"), [...data.numbers, ...varied], app.y);
  option(byId("rows"), axes, app.rows);
  option(byId("columns"), axes, app.columns);
  byId("goal").addEventListener("change", (event) => { app.goal = [event.target.value, wayOf(event.target.value)]; app.sort = null; draw(); });
  for (const name of ["x", "y", "rows", "columns"]) byId(name).addEventListener("change", (event) => { app[name] = event.target.value; draw(); });
  const targets = [...new Set(data.target)];
  byId("targets").hidden = targets.length < 2;
  option(byId("target"), targets, app.target, (name) => name);
  byId("target").addEventListener("change", (event) => { app.target = event.target.value; app.brushes.clear(); scales.clear(); remembered.clear(); draw(); });
  byId("clear").addEventListener("click", () => { app.brushes.clear(); draw(); });
  byId("open").addEventListener("click", () => {
    const open = byId("parallel-card").classList.toggle("open");
    byId("open").textContent = open ? "Hide" : "Show";
    byId("open").setAttribute("aria-expanded", String(open));
    draw();
  });
  listenParallel();
  listenScatter();
  listenHeat();
  drawChooser();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  drawNow();
}

start();
/** For tests: what the page has worked out. */
window.report = {
  ready: Promise.resolve(true), drawNow, front: () => front(app.x, app.y).map((i) => data.number[i]),
  grid: () => gridNow().cells.map((line) => line.map((i) => (i < 0 ? null : column(app.goal[0])[i]))), gaps: () => gridNow().why,
  brush: (name, low, high) => { app.brushes.set(name, [low, high]); drawNow(); return byId("shown").textContent; },
  plots: () => ({ heat: app.heatBox.width - app.heatBox.left, scatter: app.scatterWidth }),
};
