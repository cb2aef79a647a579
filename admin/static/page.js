// What every page does: times in the reader's zone, the theme's switch, and a live page that keeps itself new.
"use strict";

function localise(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const fine = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const t of root.querySelectorAll("time[datetime]")) {
    const when = new Date(t.dateTime);
    if (t.dateTime.length < 16 || isNaN(when)) continue; // a day is a day in UTC
    t.title = t.textContent;
    t.textContent = ("fine" in t.dataset ? fine : form).format(when);
  }
}

// Days of a filter begin at midnight in the reader's zone: the server learns the UTC offset.
function tellZone() {
  const minutes = -new Date().getTimezoneOffset(), size = Math.abs(minutes), two = (n) => String(Math.floor(n)).padStart(2, "0");
  const base = document.querySelector('link[rel="icon"]').getAttribute("href").replace(/static\/icon\.svg$/, "");
  document.cookie = `precept_zone=${minutes < 0 ? "-" : "+"}${two(size / 60)}:${two(size % 60)}; path=${base}; samesite=strict; max-age=31536000`;
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

// Whoever reads, types or has chosen something is not disturbed.
function inUse(main) {
  const changed = (e) => {
    if (e.tagName === "SELECT") return e.selectedIndex !== Math.max(0, [...e.options].findIndex((o) => o.defaultSelected));
    return e.type === "checkbox" ? e.checked !== e.defaultChecked : e.value !== e.defaultValue;
  };
  return main.contains(document.activeElement) && document.activeElement !== main || !getSelection().isCollapsed
    || document.querySelector(":popover-open, .sample[open]") || [...main.querySelectorAll("input, select")].some(changed);
}

// What is new takes the place of main; what was unfolded or scrolled stays so.
function swap(main, next) {
  const places = (root) => [...root.querySelectorAll(".scroll, details")];
  const name = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.querySelector("summary")?.textContent;
  const before = new Map(places(main).map((e) => [name(e), e]));
  const at = places(main).map((e) => [name(e), e.scrollLeft]);
  main.replaceWith(next);
  for (const e of places(next)) {
    if (before.get(name(e))?.open) e.open = true;
    e.scrollLeft = at.find(([n]) => n === name(e))?.[1] || 0;
  }
}

// Old figures are never passed off as new ones: a page that cannot be made new says so.
function tell(words) {
  const line = document.getElementById("stale");
  line.hidden = !words;
  line.textContent = words || "";
}

// The main part is swapped every five seconds, as long as it is seen, wanted and nobody is using it.
async function refresh() {
  const box = document.getElementById("refresh"), main = document.querySelector("main");
  if (document.hidden || !box || !box.checked || inUse(main)) return;
  let reply;
  try {
    reply = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
  } catch {
    return tell("precept does not answer. The page shows older data and keeps asking.");
  }
  if (reply.status === 401) return tell("Your login has expired. The page shows older data: load the page again.");
  if (!reply.ok) return tell("precept cannot build this page. The page shows older data.");
  const next = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main");
  if (!next || inUse(main)) return;
  tell("");
  swap(main, next);
  localise(next);
  document.dispatchEvent(new Event("precept:swap"));
}

localise(document);
tellZone();
switchTheme();
if (document.getElementById("refresh")) setInterval(refresh, 5000);
