// Sums over spans, as kernbench/trace/views.py makes them.

const SUMS = ["bytes", "dram", "macs", "ops", "queued"];

/** Sums of some spans by a code (0 .. size - 1) each; `codes` null: all in one. */
function summed(spans, codes, size) {
  const made = Array.from({ length: size }, () => ({
    spans: 0, jobs: 0, first: Infinity, last: -Infinity, cycles: [0, 0, 0], bytes: 0, dram: 0, macs: 0, ops: 0, queued: 0,
    waits: app.head.reasons.map(() => 0), active: 0,
  }));
  const values = SUMS.map(amount), waits = app.head.reasons.map((reason) => amount("wait." + reason));
  for (let k = 0; k < spans.length; k++) {
    const span = spans[k], sum = made[codes ? codes[k] : 0], kind = app.kind[span];
    sum.spans += 1;
    if (app.start[span] < sum.first) sum.first = app.start[span];
    if (app.end[span] > sum.last) sum.last = app.end[span];
    if (kind > 2) continue;
    sum.jobs += 1;
    sum.cycles[kind] += app.end[span] - app.start[span];
    for (let n = 0; n < SUMS.length; n++) sum[SUMS[n]] += values[n][span];
    for (let n = 0; n < waits.length; n++) sum.waits[n] += waits[n][span];
  }
  return made;
}

/** Fill in `active`: cycles in which at least one job of a code ran. */
function addActive(sums, spans, codes) {
  const reached = new Float64Array(sums.length).fill(-Infinity);
  const jobs = byStart(spans);
  for (const k of jobs) {
    const span = spans[k], code = codes ? codes[k] : 0, end = app.end[span];
    const from = Math.max(app.start[span], reached[code]);
    if (end > from) { sums[code].active += end - from; reached[code] = end; }
  }
}

/** Places of the jobs among some spans, by start. */
function byStart(spans) {
  const count = spans.length;
  const jobs = [];
  for (let k = 0; k < count; k++) if (app.kind[spans[k]] <= 2) jobs.push(k);
  const keys = Float64Array.from(jobs, (k) => app.start[spans[k]]);
  const order = Uint32Array.from(jobs.keys()).sort((a, b) => keys[a] - keys[b]);
  return Uint32Array.from(order, (place) => jobs[place]);
}

/** Totals of all shown spans by the labels of an axis, in its order, and of all of them. */
function groups(name) {
  if (!app.groups.has(name)) {
    const made = axis(name), codes = Int32Array.from(app.order, (span) => placeOn(made, span));
    const sums = summed(app.order, codes, made.labels.length), all = summed(app.order, null, 1);
    addActive(sums, app.order, codes);
    addActive(all, app.order, null);
    const rows = sums.map((sum, place) => ({ label: made.labels[place], place, ...sum })).filter((sum) => sum.spans);
    app.groups.set(name, { rows, all: { label: "all", place: -1, ...all[0] } });
  }
  return app.groups.get(name);
}

/** Totals of the shown spans that reach into [from, to), and what of each unit's time there they take. */
function totalsIn(from, to) {
  const spans = [], used = new Float64Array(app.units.length);
  for (const span of app.order) {
    if (!reaches(span, from, to)) continue;
    spans.push(span);
    used[app.unit[span]] += Math.max(0, Math.min(to, app.end[span]) - Math.max(from, app.start[span]));
  }
  const sum = summed(spans, null, 1)[0];
  addActive([sum], spans, null);
  return { sum, used };
}
