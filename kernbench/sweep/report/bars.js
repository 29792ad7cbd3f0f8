// How much each axis matters for the goal, and what the worst points are limited by.

function drawBars() {
  const box = element("bars"), found = data.influences[app.goal[0]] || [];
  box.replaceChildren(...found.map((one) => {
    const line = make("div", undefined, "axis"), bar = make("div", undefined, "bar"), inner = make("i");
    inner.style.width = 100 * one.share + "%";
    bar.append(inner);
    const levels = one.levels.map(([level, , mean]) => safe(level, 24) + ": " + (one.relative ? percent(mean) : told(app.goal[0], mean)));
    const worst = one.gain === null ? "" : ", worst over best " + three(one.gain);
    line.append(make("span", safe(one.axis).replace(/[._]/g, "$&\u200b")), bar, make("b", percent(one.share)), make("div", (one.relative ? "of the target's mean " : "means ") + levels.join(", ") + worst, "levels"));
    return line;
  }));
  if (!found.length) box.replaceChildren(make("p", "There are not enough points that are done."));
}

function drawWhy() {
  element("why-card").hidden = !data.why.length;
  element("why").replaceChildren(...data.why.map(([number, text]) => {
    const line = make("p"), i = data.number.indexOf(number);
    line.append(make("b", number + "  " + safe(data.label[i]) + ": "), safe(text, 500));
    return line;
  }));
  const failed = [];
  for (let i = 0; i < count; i++) if (data.error[i] && !isNumber(column(data.numbers[0] ?? "ns")?.[i])) failed.push(i);
  element("failed-card").hidden = !failed.length;
  element("failed").replaceChildren(...failed.slice(0, 100).map((i) => {
    const line = make("p");
    line.append(make("b", data.number[i] + "  " + safe(data.label[i]) + ": "), data.status[i] + ": " + safe(data.error[i], 500));
    return line;
  }));
}
