// The packed columns: unpacked once, read when they are first asked for.

/** The bytes behind the page's base64 text. */
async function unpacked(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Integers as they were packed; NaN stands for what a record does not say. */
function readInts(bytes, told) {
  const count = told.count, made = new Float64Array(count);
  if ("constant" in told) return made.fill(told.constant === null ? NaN : told.constant);
  let scale = 1;
  for (let plane = 0; plane < told.bytes; plane++, scale *= 256) {
    const at = told.at + plane * count;
    for (let i = 0; i < count; i++) made[i] += scale * bytes[at + i];
  }
  if (told.delta) addSteps(made, told.bytes <= 4);
  const { base, nullable } = told;
  if (nullable) for (let i = 0; i < count; i++) made[i] = made[i] === 0 ? NaN : made[i] + base;
  else if (base) for (let i = 0; i < count; i++) made[i] += base;
  return made;
}

/** Zigzag differences to values, in place; those below 2**32 in whole numbers, which are faster. */
function addSteps(made, small) {
  let sum = 0;
  for (let i = 0; i < made.length; i++) {
    if (small) { const step = made[i] >>> 0; sum += step & 1 ? -(step >>> 1) - 1 : step >>> 1; }
    else { const step = made[i]; sum += step % 2 ? -(step + 1) / 2 : step / 2; }
    made[i] = sum;
  }
}

/** Columns of one length by name. */
class Table {
  constructor(bytes, told) {
    this.bytes = bytes;
    this.told = told.columns;
    this.count = told.count;
    this.names = Object.keys(told.columns);
    this.read = new Map();
  }

  /** The numbers of a column: of texts, places in `texts(name)`. */
  get(name) {
    let made = this.read.get(name);
    if (!made) {
      made = name in this.told ? readInts(this.bytes, this.told[name]) : new Float64Array(this.count).fill(NaN);
      this.read.set(name, made);
    }
    return made;
  }

  texts(name) {
    return this.told[name]?.texts ?? null;
  }

  /** One value as the record had it; undefined where it had none. */
  value(name, row) {
    const value = this.get(name)[row];
    if (Number.isNaN(value)) return undefined;
    const told = this.told[name];
    if (told.items) return this.list(name, row);
    return told.texts ? told.texts[value] : value;
  }

  list(name, row) {
    const counts = this.get(name), key = name + "[]";
    if (!this.read.has(key)) {
      const starts = new Float64Array(this.count + 1);
      for (let i = 0; i < this.count; i++) starts[i + 1] = starts[i] + (counts[i] || 0);
      this.read.set(key, { starts, items: readInts(this.bytes, this.told[name].items) });
    }
    const { starts, items } = this.read.get(key);
    return Array.from(items.subarray(starts[row], starts[row + 1]));
  }

  /** All fields of a row that it has: [name, value]. */
  row(row) {
    return this.names.map((name) => [name, this.value(name, row)]).filter(([, value]) => value !== undefined);
  }
}
