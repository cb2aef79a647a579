// Loads the page again every five seconds and swaps its main part, as long as it is seen, wanted and nobody is using it.
"use strict";
const box = document.getElementById("refresh");
async function refresh() {
  const main = document.querySelector("main");
  if (document.hidden || !box.checked || main.contains(document.activeElement) || !getSelection().isCollapsed) return;
  try {
    const reply = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (!reply.ok) return;
    const next = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main");
    if (next) main.replaceWith(next);
  } catch { /* precept is being restarted: try again in five seconds */ }
}
if (box) setInterval(refresh, 5000);
