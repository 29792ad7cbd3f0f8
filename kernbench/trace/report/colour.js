// Colours: of labels, of heat, of everything that the style sheet names. All of them are LOOK's, which the token file makes.

const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;  // as ImageData has it

const look = () => LOOK[app.dark ? "dark" : "light"];

/** The colours of an axis's labels, as palette.py gives them: hues of resources, fixed slots of phases, the rest by share. */
function labelColours(made) {
  const { resource, slots, lane } = look(), other = resource.other;
  if (made.name === "component" || made.name === "opcode") {
    return made.labels.map((label) => {
      const hue = resource[app.head.hues[label]] ?? other;
      return made.name === "opcode" && /STORE/i.test(label) ? css(mix([hex(hue), hex(lane)], 0.45)) : hue;
    });
  }
  const found = labelSlots(made);
  return made.labels.map((label) => (found.has(label) ? slots[found.get(label) - 1] : other));
}

/** The slot of each label that has one. */
function labelSlots(made) {
  if (made.slots) return made.slots;
  const fixed = made.name === "phase" ? LOOK.phase : {}, found = new Map();
  const shares = new Float64Array(made.labels.length);
  for (let i = 0; i < app.count; i++) if (isJob(i)) shares[placeOn(made, i)] += app.end[i] - app.start[i];
  made.labels.forEach((label) => { if (Object.hasOwn(fixed, label)) found.set(label, fixed[label]); });
  const free = [1, 2, 3, 4, 5, 6, 7].filter((slot) => ![...found.values()].includes(slot));
  const rest = [...made.labels.keys()].filter((place) => !found.has(made.labels[place]) && place !== made.none);
  rest.sort((a, b) => shares[b] - shares[a] || a - b);
  rest.slice(0, free.length).forEach((place, i) => found.set(made.labels[place], free[i]));
  made.slots = found;
  return found;
}

/** Read the theme's colours, and pack those of the axis by which spans are coloured. */
function readColours() {
  app.dark = isDark();
  app.paint = look();
  for (const name of ["use", "denied"]) app[name + "Packed"] = Uint32Array.from({ length: 256 }, (_, i) => packed(mix(look().ramp[name].map(hex), i / 255)));
  const made = axis(app.colour);
  app.colours = labelColours(made);
  app.rgb = app.colours.map(hex);
  app.packedColours = Uint32Array.from(app.rgb, packed);
  app.shades = app.rgb.map(shadesOf);
  app.pathLook = new Map();
}

/** A colour in 33 strengths over the lane. */
function shadesOf(colour) {
  const lane = hex(app.paint.lane);
  return Uint32Array.from({ length: 33 }, (_, i) => packed(colour.map((v, c) => Math.round(lane[c] + (v - lane[c]) * i / 32))));
}

/** The colour of a resource where colours say resources; else of text, for one screen has one key. */
const hueOf = (name) => (app.colour === "component" ? look().resource[name] : app.paint.soft);
