// Zooms the timelines of a notebook: wheel with Ctrl or Shift, drag over a part, double click for all, keys + - 0 and arrows.
"use strict";
(() => {
  const WIDTH = 1000;
  const number = (value) => Math.round(value).toLocaleString("en-US");

  function ready(root, data) {
    const plot = root.querySelector(".kb-plot"), group = root.querySelector(".kb-spans");
    const axis = root.querySelector(".kb-axis"), told = root.querySelector(".kb-told"), H = data.lane;
    for (const lane of data.lanes) {
      for (const track of lane.tracks) {
        let at = 0;
        track.start = track.start.map((step) => (at += step));
      }
    }
    const least = Math.min(20, data.last);
    let from = 0, to = data.last, begun = null, picked = null;

    /** The first span of a track that ends behind a cycle. */
    function firstBehind(track, cycle) {
      let low = 0, high = track.start.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (track.start[middle] + track.length[middle] <= cycle) low = middle + 1; else high = middle;
      }
      return low;
    }

    /** The boxes of a track that are in view; what is too narrow to be told apart is one. */
    function boxes(track, scale, y, h) {
      let path = "", open = -1, until = -1;
      const box = () => { if (open >= 0) path += `M${open.toFixed(2)} ${y}h${(until - open).toFixed(2)}v${h}h${(open - until).toFixed(2)}z`; };
      for (let i = firstBehind(track, from); i < track.start.length && track.start[i] < to; i++) {
        const left = Math.max(0, (track.start[i] - from) * scale);
        const right = Math.min(WIDTH, Math.max((track.start[i] + track.length[i] - from) * scale, left + 0.5));
        const wide = right - left > 6;
        if (open >= 0 && !wide && left <= until + 0.3) { until = Math.max(until, right); continue; }
        box();
        open = left;
        until = wide ? right - 0.8 : right;
      }
      box();
      return path;
    }

    function draw() {
      const scale = WIDTH / (to - from);
      group.innerHTML = data.lanes.map((lane, row) => {
        const h = (H - 6) / lane.tracks.length, gap = lane.tracks.length > 1 ? 0.5 : 0;
        const path = lane.tracks.map((track, k) => boxes(track, scale, H * row + 3 + h * k, h - gap)).join("");
        return `<path class="kb-${lane.kind}" d="${path}"/>`;
      }).join("");
      const room = Math.max(2, Math.floor(plot.clientWidth / 90)), rough = (to - from) / room;
      const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
      const step = Math.max(1, [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough));
      const marks = [from];
      for (let at = Math.ceil((from + step * 0.6) / step) * step; at < to - step * 0.6; at += step) marks.push(at);
      marks.push(to);
      axis.replaceChildren(...marks.map((at) => {
        const mark = document.createElement("span");
        mark.style.left = `${100 * (at - from) / (to - from)}%`;
        mark.textContent = number(at);
        return mark;
      }));
    }

    function show(first, last) {
      const length = Math.min(data.last, Math.max(least, last - first));
      from = Math.min(Math.max(0, first), data.last - length);
      to = from + length;
      draw();
    }

    const zoom = (factor, at = (from + to) / 2) => show(at - (at - from) * factor, at + (to - at) * factor);
    const cycleAt = (event) => {
      const box = plot.getBoundingClientRect();
      return from + (to - from) * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };

    function tell(event) {
      const cycle = cycleAt(event), y = event.clientY - plot.getBoundingClientRect().top, lane = data.lanes[Math.floor(y / H)];
      if (!lane) { told.textContent = ""; return; }
      const k = Math.min(lane.tracks.length - 1, Math.max(0, Math.floor((y % H - 3) / (H - 6) * lane.tracks.length)));
      const track = lane.tracks[k], i = firstBehind(track, cycle);
      if (i >= track.start.length || track.start[i] > cycle) { told.textContent = `${lane.name}: nothing here at cycle ${number(cycle)}`; return; }
      const count = track.count ? track.count[i] : 1, start = track.start[i], length = track.length[i];
      const what = count > 1 ? `${number(count)} jobs` : data.labels[track.label[i]];
      told.textContent = `${lane.name}: ${what}, ${number(start)} to ${number(start + length)}, ${number(length)} cycles, ${(length / data.ghz).toPrecision(4)} ns`;
    }

    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey && !event.metaKey) return;  // the page scrolls
      event.preventDefault();
      zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, cycleAt(event));
    }, { passive: false });
    plot.addEventListener("pointerdown", (event) => {
      begun = { x: event.clientX, cycle: cycleAt(event) };
      picked = document.createElement("div");
      picked.className = "kb-picked";
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", (event) => {
      tell(event);
      if (!begun || Math.abs(event.clientX - begun.x) < 4) return;
      const box = plot.getBoundingClientRect();
      const clamp = (x) => Math.min(box.width, Math.max(0, x - box.left));
      const [left, right] = [clamp(begun.x), clamp(event.clientX)].sort((a, b) => a - b);
      picked.style.left = `${left}px`;
      picked.style.width = `${right - left}px`;
      plot.append(picked);
    });
    const end = (event, take) => {
      if (!begun) return;
      const [first, last] = [begun.cycle, cycleAt(event)].sort((a, b) => a - b);
      const far = Math.abs(event.clientX - begun.x) >= 4;
      picked.remove();
      begun = null;
      if (take && far) show(first, last);
    };
    plot.addEventListener("pointerup", (event) => end(event, true));
    plot.addEventListener("pointercancel", (event) => end(event, false));
    plot.addEventListener("pointerleave", () => { if (!begun) told.textContent = ""; });
    plot.addEventListener("dblclick", () => show(0, data.last));
    plot.addEventListener("keydown", (event) => {
      const by = (to - from) / 5;
      const does = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, data.last),
        ArrowLeft: () => show(from - by, to - by), ArrowRight: () => show(from + by, to + by) }[event.key];
      if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      does();
    });
    root.querySelector(".kb-tools").addEventListener("click", (event) => {
      const does = { in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, data.last) }[event.target.dataset.do];
      if (does) does();
    });
    new ResizeObserver(draw).observe(plot);
  }

  for (const run of document.querySelectorAll(".kb-run:not([data-ready])")) {
    const data = run.querySelector("script.kb-data");
    if (!data) continue;
    run.dataset.ready = "1";
    ready(run.querySelector(".kb-timeline"), JSON.parse(data.textContent));
  }
})();
