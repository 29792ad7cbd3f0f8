// Colours: of labels, of heat, of everything that the style sheet names.

const CATEGORIES = ["#4a78c0", "#dd7a36", "#3d9970", "#bf4f93", "#8469cc", "#c2981f", "#2f9fb3", "#cf5650", "#7c8d3f", "#93684f", "#5d7c9c", "#b573c9"];
const ORDERED = [[68, 88, 176], [43, 131, 186], [60, 160, 130], [150, 180, 70], [230, 175, 60], [222, 110, 60], [180, 60, 90]];
const HEAT = {
  light: [[244, 246, 249], [198, 219, 239], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
  dark: [[22, 27, 34], [28, 62, 104], [37, 116, 160], [79, 186, 178], [240, 240, 160]],
};
const DENIED = {
  light: [[244, 246, 249], [252, 196, 170], [244, 120, 85], [203, 40, 36], [103, 0, 13]],
  dark: [[22, 27, 34], [92, 34, 40], [166, 52, 48], [235, 110, 70], [255, 214, 150]],
};
const NOTHING = "#98a1ad";

function mix(stops, part) {
  const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (at - low)));
}

const rgb = (channels) => `rgb(${channels.join(" ")})`;
const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;  // as ImageData has it

/** Whether the page is dark: by the switch, else by the system. */
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colour of a label: numbers in many steps get a ramp, all else a colour of its own. */
function labelColour(made, place) {
  if (place === made.none) return NOTHING;
  const count = made.labels.length - 1;
  if (made.numeric && count > CATEGORIES.length) return rgb(mix(ORDERED, count > 1 ? place / (count - 1) : 0));
  const turn = Math.floor(place / CATEGORIES.length) % 4, base = hex(CATEGORIES[place % CATEGORIES.length]);
  return rgb(base.map((value) => Math.round(turn % 2 ? value * 0.68 : value + (255 - value) * (turn / 2) * 0.4)));
}

const channels = (text) => (text.startsWith("#") ? hex(text) : text.match(/\d+/g).map(Number));

/** Read the style sheet's colours, and pack those of the axis by which spans are coloured. */
function readColours() {
  const style = getComputedStyle(document.documentElement), paint = {};
  for (const name of ["page", "card", "raised", "ink", "soft", "faint", "line", "strong", "lane", "stripe", "head", "accent", "pick", "wait", "warn", "bad", "good"]) {
    paint[name] = style.getPropertyValue("--" + name).trim();
  }
  app.paint = paint;
  app.dark = isDark();
  app.heatRamp = HEAT[app.dark ? "dark" : "light"];
  app.deniedRamp = DENIED[app.dark ? "dark" : "light"];
  for (const name of ["heatRamp", "deniedRamp"]) app[name + "Packed"] = Uint32Array.from({ length: 256 }, (_, i) => packed(mix(app[name], i / 255)));
  const made = axis(app.colour);
  app.colours = made.labels.map((_, place) => labelColour(made, place));
  app.rgb = app.colours.map(channels);
  app.packedColours = Uint32Array.from(app.rgb, packed);
  const lane = hex(app.paint.lane);
  app.shades = app.rgb.map((colour) => Uint32Array.from({ length: 33 }, (_, i) => packed(colour.map((v, c) => Math.round(lane[c] + (v - lane[c]) * i / 32)))));
}

/** Black or white, whichever is legible on a colour. */
function textOn([r, g, b]) {
  return 0.299 * r + 0.587 * g + 0.114 * b > 150 ? "#11151a" : "#ffffff";
}
