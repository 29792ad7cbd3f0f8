// The theme, and rows that open on a phone.

const sign = () => { document.getElementById("theme").textContent = themeSign(); };
const change = () => { switchTheme(); sign(); };

keepTheme();
sign();
document.getElementById("theme").onclick = change;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sign);
addEventListener("keydown", (event) => {
  const row = event.target.closest?.("tbody tr");
  if (row && event.key === "Enter") row.classList.toggle("opened");
  else if (event.key.toLowerCase() === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) change();
});
addEventListener("click", (event) => event.target.closest?.("tbody tr")?.classList.toggle("opened"));
/** A link to a suite opens it. */
const follow = () => { const suite = document.getElementById(decodeURIComponent(location.hash.slice(1))); if (suite?.tagName === "DETAILS") suite.open = true; };
addEventListener("hashchange", follow);
follow();
window.report = { ready: Promise.resolve(true) };
