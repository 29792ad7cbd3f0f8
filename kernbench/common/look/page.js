// What the scripts of all pages share: colours as numbers, text on a fill, the theme. `LOOK` is made from the token file.

/** A colour of a ramp of channels, `part` of the way from its first stop to its last. */
function mix(stops, part) {
  const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
  return stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (at - low)));
}

const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
const css = (channels) => "#" + channels.map((value) => value.toString(16).padStart(2, "0")).join("");
const textFont = (size, weight = "") => `${weight} ${size}px ${LOOK.font.sans}`;

const luminance = (channels) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
  const value = channels[i] / 255;
  return sum + weight * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
}, 0);

/** The light or the dark text, whichever has the higher contrast on a colour (WCAG). */
function textOn(channels) {
  const own = luminance(channels), light = 1.05 / (own + 0.05), dark = (own + 0.05) / (luminance(hex(LOOK.text.dark)) + 0.05);
  return light >= dark ? LOOK.text.light : LOOK.text.dark;
}

/** Whether the page is dark: by the switch, else by the system. */
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The theme that was chosen before, where the browser keeps it: a page from a file may have no storage. */
function keepTheme() {
  try { const kept = localStorage.getItem("kernbench-theme"); if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept; } catch { /* no storage */ }
}

/** Dark or light, whatever the system says. */
function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("kernbench-theme", document.documentElement.dataset.theme); } catch { /* no storage */ }
}

/** The sign of the button that changes the theme: what a click makes of the page. */
const themeSign = () => (isDark() ? "\u2600" : "\u263e");
