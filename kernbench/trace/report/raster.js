// Spans and samples as pixels. A row costs a step a pixel at most, however many spans are in it: what is narrower than a pixel is
// put together with all that begins in the same pixel, and drawn as strongly as they fill it.

/** A picture of the lanes' part of the plot in device pixels. */
class Raster {
  constructor(width, height, scale) {
    this.width = width;
    this.height = height;
    this.scale = scale;  // device pixels of one CSS pixel
    this.image = new ImageData(width, height);
    this.words = new Uint32Array(this.image.data.buffer);
    this.line = new Uint32Array(width);
    this.labels = [];
  }

  /** Fill rows [y, y + height) with one colour. */
  band(y, height, colour) {
    const low = Math.max(0, Math.round(y)), high = Math.min(this.height, Math.round(y + height));
    if (high > low) this.words.fill(colour, low * this.width, high * this.width);
  }

  /** Copy the line to rows [y, y + height); where it has 0 the picture stays. */
  stamp(y, height) {
    const low = Math.max(0, Math.round(y)), high = Math.min(this.height, Math.max(Math.round(y + height), Math.round(y) + 1));
    for (let row = low; row < high; row++) {
      const at = row * this.width;
      for (let x = 0; x < this.width; x++) if (this.line[x]) this.words[at + x] = this.line[x];
    }
  }

  /** Draw shown spans [low, high) of `order`, which do not overlap. */
  spans(low, high, y, height) {
    const { width, line } = this, { shownStart, shownEnd, added, order } = app;
    const zoom = width / (app.to - app.from), from = app.from;
    if (high <= low || y + height < 0 || y >= this.height) return;
    line.fill(0);
    let k = firstAbove(shownEnd, low, high, from, false);
    while (k < high && shownStart[k] < app.to) {
      const left = (shownStart[k] - from) * zoom, right = (shownEnd[k] - from) * zoom, place = app.placeOf(order[k]);
      if (right - left >= 1) {
        const x = Math.max(0, Math.round(left)), end = Math.min(width, Math.max(Math.round(right), x + 1));
        line.fill(app.packedColours[place], x, end);
        if (end - x > 3 * this.scale && end < width) line[end - 1] = app.shades[place][18];
        if (end - x > 34 * this.scale && height >= 9 * this.scale) this.labels.push([order[k], x, end, y, height]);
        k += 1;
        continue;
      }
      const pixel = Math.floor(left), next = nextPixel(k, high, from + (pixel + 1) / zoom);
      const filled = (added[next] - added[k]) * zoom, middle = app.placeOf(order[(k + next) >> 1]);
      const shade = Math.min(32, Math.max(16, Math.round(32 * filled)));
      if (pixel >= 0 && pixel < width && !line[pixel]) line[pixel] = app.shades[middle][shade];
      k = next;
    }
    this.stamp(y, height);
  }

  /** Hatch where the spans of a row waited while they ran, [start, end) each, in order: half of a pixel or more, the whole bar. */
  waits({ starts, ends }, y, height) {
    const { width } = this, zoom = width / (app.to - app.from), count = starts.length;
    let k = firstAbove(ends, 0, count, app.from, false);
    if (y + height < 0 || y >= this.height || k >= count || starts[k] >= app.to) return;
    this.covered ??= new Float32Array(width + 1);
    this.covered.fill(0);
    for (; k < count && starts[k] < app.to; k++) {
      const left = Math.max(0, (starts[k] - app.from) * zoom), right = Math.min(width, (ends[k] - app.from) * zoom), low = Math.floor(left), high = Math.floor(right);
      if (low === high) { this.covered[low] += right - left; continue; }
      this.covered[low] += low + 1 - left;
      for (let x = low + 1; x < high; x++) this.covered[x] = 1;
      this.covered[high] += right - high;
    }
    this.hatch(y, height, (x) => this.covered[x] >= 0.5);
    this.hatch(y + height * 0.6, height * 0.4, (x) => this.covered[x] > 0 && this.covered[x] < 0.5);
  }

  /** Stripes at 45 degrees of what is drawn there, over the same at a part of its strength. */
  hatch(y, height, wanted) {
    const { width, words, scale } = this, { stripe, period, ground } = LOOK.hatch, step = period * Math.SQRT2 * scale, solid = stripe * Math.SQRT2 * scale;
    const low = Math.max(0, Math.round(y)), high = Math.min(this.height, Math.round(y + height)), lane = hex(app.paint.lane);
    for (let x = 0; x < width; x++) {
      if (!wanted(x)) continue;
      for (let row = low; row < high; row++) {
        if ((x + row) % step < solid) continue;
        const at = row * width + x, was = words[at];
        words[at] = packed([0, 8, 16].map((shift, i) => Math.round(lane[i] + (((was >>> shift) & 255) - lane[i]) * ground)));
      }
    }
  }

  /** Draw the critical path: hue by resource, waits hatched. */
  path(y, height) {
    const { width, line } = this, zoom = width / (app.to - app.from), marks = new Uint8Array(width);
    line.fill(0);
    for (const one of pathRows()) {
      if (one.end <= app.from || one.start >= app.to) continue;
      const left = Math.max(0, Math.round((one.start - app.from) * zoom)), right = Math.min(width, Math.max(Math.round((one.end - app.from) * zoom), left + 1));
      line.fill(packed(hex(hueOf(one.hue))), left, right);
      marks.fill(one.fill === "hatch" ? 1 : 0, left, right);
      if (right - left > 34 * this.scale) this.labels.push([one, left, right, y, height]);
    }
    this.stamp(y, height);
    this.hatch(y, height, (x) => marks[x]);
  }

  /** Draw a row of a heatmap: the mean of what a pixel covers. */
  heat(lane, y, height) {
    const { heat, row } = lane, { width, line } = this, zoom = width / (app.to - app.from);
    const ramp = heat.name.startsWith("denials") ? app.deniedPacked : app.usePacked;
    line.fill(0);
    for (let x = 0; x < width; x++) {
      const cell = heatCell(heat, row, app.from + x / zoom, app.from + (x + 1) / zoom);
      if (cell) line[x] = ramp[Math.max(0, Math.min(255, Math.round(255 * cell.share)))];
    }
    this.stamp(y, height);
  }
}

/** The first shown span from k on that begins at or after a time: steps that double, then halves. */
function nextPixel(k, high, time) {
  let step = 1;
  while (k + step < high && app.shownStart[k + step] < time) step *= 2;
  return Math.max(k + 1, firstAbove(app.shownStart, k + (step >> 1), Math.min(k + step, high), time, true));
}

/** A heatmap's row over the bins that [from, to) touches; null outside of them. */
function heatCell(heat, row, from, to) {
  const low = Math.max(0, Math.floor((from - heat.first) / heat.bin));
  const high = Math.min(heat.bins, Math.max(low + 1, Math.ceil((to - heat.first) / heat.bin)));
  if (to <= heat.first || low >= heat.bins || from >= heat.last) return null;
  let part = 0, whole = 0;
  for (let bin = low; bin < high; bin++) {
    const at = row * heat.bins + bin, start = heat.first + bin * heat.bin;
    part += heat.parts[at];
    whole += heat.wholes ? heat.wholes[at] : heat.whole[row] * (Math.min(start + heat.bin, heat.last) - start);
  }
  const start = heat.first + low * heat.bin;
  return { part, whole, share: whole > 0 ? part / whole : 0, start, end: Math.min(heat.first + high * heat.bin, heat.last) };
}
