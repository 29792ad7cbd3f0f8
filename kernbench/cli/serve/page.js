// The theme: all else of the page is drawn already.

const sign = () => { document.getElementById("theme").textContent = themeSign(); };
const change = () => { switchTheme(); sign(); };

keepTheme();
sign();
document.getElementById("theme").onclick = change;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", sign);
addEventListener("keydown", (event) => { if (event.key.toLowerCase() === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) change(); });
window.report = { ready: Promise.resolve(true) };
