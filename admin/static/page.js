// What every page does: times in the reader's zone, the theme's switch, and a live page that keeps itself new.
"use strict";

function localise(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const t of root.querySelectorAll("time[datetime]")) {
    const when = new Date(t.dateTime);
    if (t.dateTime.length < 16 || isNaN(when)) continue; // a day is a day in UTC
    t.title = t.textContent;
    t.textContent = form.format(when);
  }
}

function switchTheme() {
  const box = document.getElementById("theme");
  if (!box) return;
  box.hidden = false;
  box.value = document.documentElement.dataset.theme || "auto";
  box.addEventListener("change", () => {
    if (box.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = box.value;
    try { localStorage.setItem("precept-theme", box.value); } catch { /* it holds for this page */ }
    document.dispatchEvent(new Event("precept:theme"));
  });
}

// The main part is swapped every five seconds, as long as it is seen, wanted and nobody is using it.
async function refresh() {
  const box = document.getElementById("refresh"), main = document.querySelector("main");
  const used = main.contains(document.activeElement) && document.activeElement !== main;
  if (document.hidden || !box || !box.checked || used || !getSelection().isCollapsed || document.querySelector(":popover-open")) return;
  try {
    const reply = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (!reply.ok) return;
    const next = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main");
    if (!next) return;
    main.replaceWith(next);
    localise(next);
    document.dispatchEvent(new Event("precept:swap"));
  } catch { /* precept is being restarted: try again in five seconds */ }
}

localise(document);
switchTheme();
if (document.getElementById("refresh")) setInterval(refresh, 5000);
