// Two pages of traces in one: they see the same cycles, the same tab, the same theme.

const TABS = [["timeline", "Timeline"], ["heat", "Heatmaps"], ["phases", "Phases"], ["roofline", "Roofline"], ["run", "Run"]];
const { runs, sentence, settings } = JSON.parse(byId("head").textContent), NAMES = ["a", "b"];
const pages = () => NAMES.map((name) => byId(name).contentWindow.report);

/** A page, unpacked, in its frame; it is ready when its own script says so. */
async function open(name) {
  const text = byId("page-" + name), raw = atob(text.textContent), frame = byId(name);
  text.remove();
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.srcdoc = new TextDecoder().decode(Uint8Array.from(raw, (c) => c.charCodeAt(0)));
  await loaded;
  return frame.contentWindow.report.ready;
}

/** What one page sees the other sees too; the longer run is the axis of both. */
function join() {
  const longest = Math.max(...runs.map((run) => run.cycles)), both = pages();
  both.forEach((own, i) => {
    const other = both[1 - i];
    own.extend(longest);
    own.viewed = (from, to) => { const seen = other.seen(); if (Math.abs(seen[0] - from) + Math.abs(seen[1] - to) > 1e-6 * (to - from)) other.see(from, to); };
    own.themed = changeTheme;
  });
  both[0].see(0, longest);
}

function changeTheme() {
  switchTheme();
  for (const page of pages()) page.theme(document.documentElement.dataset.theme);
  byId("theme").textContent = themeSign();
}

function showTab(name) {
  for (const button of document.querySelectorAll("#tabs button")) button.setAttribute("aria-selected", String(button.dataset.tab === name));
  for (const page of pages()) page.tab(name);
}

/** The sentence, and a bar a run on one scale. Waits are hatched; hues are those of the timelines below, so that here is none. */
function drawAnswer() {
  const longest = Math.max(...runs.map((run) => run.cycles), 1), rows = [], names = new Map();
  runs.forEach((run, i) => {
    const bar = make("div", { className: "share", role: "img", "aria-label": "Where the cycles of " + "AB"[i] + " went" });
    const groups = run.groups.length ? run.groups : [{ name: "cycles", cycles: run.cycles, waiting: 0 }];
    for (const group of groups) for (const [kind, part] of [["solid", group.cycles - group.waiting], ["hatch", group.waiting]]) {
      if (part <= 0) continue;
      const about = `${safe(group.name, 60)}: ${percent(group.cycles / (run.cycles || 1))}, ${short(Math.round(group.cycles))} cycles`;
      bar.append(make("i", { className: kind, title: about, style: { width: (100 * part) / longest + "%" } }));
    }
    for (const group of run.groups) names.set(group.name, [...(names.get(group.name) ?? []), [i, group.cycles / run.cycles]]);
    rows.push(make("span", {}, `${"AB"[i]} ${grouped(run.cycles)}`), bar);
  });
  const shown = [...names].filter(([, parts]) => parts.some(([, share]) => share >= 0.01)), of = (parts, i) => percent(parts.find(([run]) => run === i)?.[1] ?? 0);
  const keys = make("div", { className: "keys" }, ...shown.map(([name, parts]) => make("span", {}, `${safe(name, 40)} ${of(parts, 0)} \u2192 ${of(parts, 1)}`)));
  const machine = settings.length ? `The machine of B differs: ${settings.map((one) => safe(one, 160)).join(", ")}.` : "Both runs have the same machine.";
  byId("answer").replaceChildren(make("div", {}, make("p", { className: "said" }, safe(sentence, 600)), make("p", { className: "facts" }, machine)), make("div", { className: "bars" }, ...rows, keys));
}

function drawTop() {
  byId("name").textContent = runs[0].name === runs[1].name ? safe(runs[0].name, 60) : "A and B";
  byId("tabs").replaceChildren(...TABS.map(([name, title]) => make("button", { role: "tab", "data-tab": name, "aria-selected": String(name === "timeline"), onclick: () => showTab(name) }, title)));
  runs.forEach((run, i) => byId("name-" + NAMES[i]).replaceChildren("AB"[i] + "  " + safe(run.name, 60), make("small", {}, `${safe(run.status, 20)}, ${counted(run.cycles, "cycle")} at ${safe(run.freq, 20)} GHz`)));
  byId("theme").textContent = themeSign();
  byId("theme").onclick = changeTheme;
  addEventListener("keydown", (event) => { if (event.key.toLowerCase() === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) changeTheme(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { byId("theme").textContent = themeSign(); });
}

keepTheme();
drawTop();
drawAnswer();
window.report = { ready: Promise.all(NAMES.map(open)).then((done) => { join(); return done.every(Boolean); }), seen: () => pages().map((page) => page.seen()), pages };
