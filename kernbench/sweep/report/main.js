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
  element("clear").hidden = !app.brushes.size;
  if (app.goal) {
    const found = ranks();
    drawParallel(found);
    drawScatter(found);
    drawHeat();
    drawBars();
    drawRows(found);
  }
  return true;
}

function start() {
  const statuses = Object.entries(data.statuses).map(([name, number]) => grouped(number) + " " + name);
  const left = [data.excluded ? grouped(data.excluded) + " left out by conditions" : "", data.invalid ? grouped(data.invalid) + " invalid" : ""].filter(Boolean);
  element("name").textContent = safe(data.name);
  element("counts").textContent = [counted(count, "point") + ": " + statuses.join(", "), ...left, "kernbench " + data.version].join("; ");
  app.goal = data.goals.find(([name]) => data.numbers.includes(name)) || (data.numbers.length ? [data.numbers[0], "min"] : null);
  drawWhy();
  if (!app.goal) return;
  const varied = data.axes.filter((name) => scaleOf(name).levels.length > 1), by = (data.influences[app.goal[0]] || []).map((one) => one.axis);
  const axes = varied.length ? varied : [...data.axes, ...data.numbers];
  const others = [...data.goals.map(([name]) => name), "energy_pj", "bound", ...data.numbers].filter((name) => name !== app.goal[0] && data.numbers.includes(name));
  [app.x, app.y] = [app.goal[0], others[0] ?? app.goal[0]];
  const matter = [...new Set([...by, ...axes])].filter((name) => axes.includes(name));  // of this target's axes those that matter most
  [app.rows, app.columns] = [matter[0], matter[1] ?? matter[0]];
  option(element("goal"), data.numbers, app.goal[0], (name) => wayOf(name) + " " + name);
  option(element("x"), [...data.numbers, ...varied], app.x);
  option(element("y"), [...data.numbers, ...varied], app.y);
  option(element("rows"), axes, app.rows);
  option(element("columns"), axes, app.columns);
  element("goal").addEventListener("change", (event) => { app.goal = [event.target.value, wayOf(event.target.value)]; app.sort = null; draw(); });
  for (const name of ["x", "y", "rows", "columns"]) element(name).addEventListener("change", (event) => { app[name] = event.target.value; draw(); });
  const targets = [...new Set(data.target)];
  element("targets").hidden = targets.length < 2;
  option(element("target"), targets, app.target);
  element("target").addEventListener("change", (event) => { app.target = event.target.value; app.brushes.clear(); scales.clear(); draw(); });
  element("clear").addEventListener("click", () => { app.brushes.clear(); draw(); });
  element("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, now = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = (now ? now === "dark" : dark) ? "light" : "dark";
    draw();
  });
  listenParallel();
  listenScatter();
  listenHeat();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  drawNow();
}

start();
/** For tests: what the page has worked out. */
window.report = { ready: Promise.resolve(true), drawNow, front: () => front(app.x, app.y).map((i) => data.number[i]), grid: () => gridNow().cells.map((line) => line.map((i) => (i < 0 ? null : column(app.goal[0])[i]))), brush: (name, low, high) => { app.brushes.set(name, [low, high]); drawNow(); return element("shown").textContent; } };
