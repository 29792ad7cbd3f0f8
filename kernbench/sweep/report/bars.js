// The answer, how much each axis matters for the goal, and what the worst points are limited by.

/** The best value, its settings, the axis that explains most; beside it the shares of all axes as one bar. */
function drawAnswer(found) {
  const box = byId("answer"), best = found.order.find(allowed), known = data.influences[app.goal[0]] || [], [name, way] = app.goal;
  const broken = found.order.filter((i) => !allowed(i)).length;
  box.hidden = false;
  if (best === undefined) { box.replaceChildren(make("p", { className: "said" }, found.order.length ? `No point meets the constraints: ${safe(data.constraints.join(", "), 300)}.` : "No point is done.")); return; }
  const where = settingsOf(best), top = known[0];
  const said = make("p", {}, make("b", {}, `${way === "max" ? "Highest" : "Lowest"} ${name}: ${told(name, column(name)[best])}`), where ? ` at ${safe(where, 300)}` : "", ` (point ${data.number[best]}).`,
    ...(broken ? [` ${counted(broken, "point")} of ${grouped(found.order.length)} break${broken === 1 ? "s" : ""} a constraint (${safe(data.constraints.join(", "), 300)}).`] : []),
    ...(top && top.share > 0.0005 ? [" ", make("b", {}, `${shortName(top.axis)} explains ${percent(top.share)}`), " of the variance."] : []));
  const rest = data.rest[name], whole = known.reduce((sum, one) => sum + one.share, 0) + (rest ?? 0) || 1, bar = make("div", { className: "share", role: "img", "aria-label": "Shares of the variance" }), keys = make("div", { className: "keys" });
  for (const [label, share, kind] of [...known.map((one) => [shortName(one.axis), one.share, "solid"]), ...(rest ? [["interactions", rest, "rest"]] : [])]) {
    if (share < 0.0005) continue;
    bar.append(make("i", { className: kind, title: `${safe(label, 60)}: ${percent(share)}`, style: { width: (100 * share) / whole + "%" } }));
    keys.append(make("span", {}, `${safe(label, 40)} ${percent(share)}`));
  }
  box.replaceChildren(said, make("div", {}, ...(bar.childElementCount ? [bar, keys] : [])));
}

/** The scale beside the goal: its two ends with their unit, and which of them is good. */
function drawScale() {
  const scale = scaleOf(app.goal[0]), ends = scale.levels.length > 1 ? toldApart(app.goal[0], [scale.levels[0], scale.levels.at(-1)]) : null;
  if (app.goal[1] === "max") ends?.reverse();
  const strip = make("i", { style: { background: `linear-gradient(to right, ${paint.ramp.goal.join(", ")})` } });
  const words = app.goal[1] === "max" ? ["highest", "lowest"] : ["lowest", "highest"], [good, bad] = Object.keys(data.breaks).length ? words : ["best", "worst"];
  byId("scale").replaceChildren(...(ends ? [`${good} ${ends[0]}`, strip, `${bad} ${ends[1]}`] : []));
}

function drawBars() {
  const box = byId("bars"), found = data.influences[app.goal[0]] || [], rest = data.rest[app.goal[0]];
  const line = (title, share, kind, levels) => make("div", { className: "axis" }, make("div", {}, make("span", {}, title), make("b", {}, percent(share))),
    make("div", { className: "bar" }, make("i", { className: kind, style: { width: 100 * share + "%" } })), levels ? make("div", { className: "levels" }, levels) : null);
  byId("bars-card").hidden = !found.length;
  const prefix = sharedPrefix() ? `All axes begin with ${sharedPrefix()} ` : "";
  byId("bars-note").textContent = `Share of the variance between the values of an axis. ${prefix}${rest === null ? "The points are no full grid: shares overlap." : ""}`;
  box.replaceChildren(...found.map((one) => {
    const levels = one.levels.map(([level, , mean]) => safe(level, 24) + ": " + (one.relative ? percent(mean) : told(app.goal[0], mean)));
    const [more, less] = app.goal[1] === "max" ? ["best", "worst"] : ["worst", "best"];
    const ends = one.gain === null ? "" : `; the ${more} is ${three(one.gain)} times the ${less}`;
    return line(breakable(one.axis), one.share, "solid", (one.relative ? "Of the target's mean " : "Means ") + levels.join(", ") + ends);
  }), ...(rest ? [line("interactions of axes", rest, "rest", "")] : []));
}

function drawWhy() {
  byId("why-card").hidden = !data.why.length;
  byId("why").replaceChildren(...data.why.map(([number, text]) => {
    const i = data.number.indexOf(number);
    return make("p", {}, make("b", {}, `Point ${number} `), make("span", {}, safe(data.label[i], 300) + ": "), safe(text, 500));
  }));
  const failed = [];
  for (let i = 0; i < count; i++) if (data.error[i] && !isNumber(column(data.numbers[0] ?? "ns")?.[i])) failed.push(i);
  byId("failed-card").hidden = !failed.length;
  byId("failed").replaceChildren(...failed.slice(0, 100).map((i) => make("p", {}, make("b", {}, `Point ${data.number[i]} ${data.status[i]} `), make("span", {}, safe(data.label[i], 300) + ": "), safe(data.error[i], 500))));
}
