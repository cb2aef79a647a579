// For every page: times in the browser's zone, the theme switch, and the automatic refresh of live pages.
"use strict";

// Writes times in the browser's zone. A time in the current year has no year.
function localise(root) {
  const form = (when, fine) => new Intl.DateTimeFormat(undefined, {
    year: when.getFullYear() === new Date().getFullYear() ? undefined : "numeric", month: "short", day: "numeric",
    hour: "numeric", minute: "2-digit", second: fine ? "2-digit" : undefined,
  }).format(when);
  for (const t of root.querySelectorAll("time[datetime]")) {
    const when = new Date(t.dateTime);
    if (t.dateTime.length < 16 || isNaN(when)) continue; // a date without a time stays in UTC
    t.title = t.textContent;
    t.textContent = form(when, "fine" in t.dataset);
  }
  const line = root.querySelector("#zone");
  if (!line) return;
  line.textContent = `Times are in your time zone, ${new Intl.DateTimeFormat().resolvedOptions().timeZone} (UTC${offset()}).`;
  line.title = "The tooltip of a time shows UTC.";
}

// Returns the browser's offset from UTC, such as +02:00.
function offset() {
  const minutes = -new Date().getTimezoneOffset(), size = Math.abs(minutes), two = (n) => String(Math.floor(n)).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(size / 60)}:${two(size % 60)}`;
}

// Sends the browser's UTC offset to the server in a cookie, because days in a filter begin at local midnight.
function setZoneCookie() {
  const base = document.querySelector('link[rel="icon"]').getAttribute("href").replace(/static\/icon\.svg$/, "");
  document.cookie = `precept_zone=${offset()}; path=${base}; samesite=strict; max-age=31536000`;
}

function switchTheme() {
  const box = document.getElementById("theme");
  if (!box) return;
  box.hidden = false;
  box.value = document.documentElement.dataset.theme || "auto";
  box.addEventListener("change", () => {
    if (box.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = box.value;
    try { localStorage.setItem("precept-theme", box.value); } catch { /* storage is forbidden: the choice holds for this page only */ }
    document.dispatchEvent(new Event("precept:theme"));
  });
}

// Reports whether the reader is using the page: a field has the focus, text is selected, a popover or a sample is
// open, or a filter was changed. A page in use is not refreshed.
function inUse(main) {
  const changed = (e) => {
    if (e.tagName === "SELECT") return e.selectedIndex !== Math.max(0, [...e.options].findIndex((o) => o.defaultSelected));
    return e.type === "checkbox" ? e.checked !== e.defaultChecked : e.value !== e.defaultValue;
  };
  return main.contains(document.activeElement) && document.activeElement !== main || !getSelection().isCollapsed
    || document.querySelector(":popover-open, .sample[open]") || [...main.querySelectorAll("input, select")].some(changed);
}

const narrow = matchMedia("(max-width: 40rem)");

// Collapses the sidebar on a phone. On a wider screen the sidebar has no summary, and stays open.
function foldSidebar() {
  for (const e of document.querySelectorAll(".sidebar")) e.open = !narrow.matches;
}

// Replaces main with next. Details stay open or closed, tables keep their scroll position, main keeps the focus, and
// the notice about the last action stays.
function swap(main, next) {
  const places = (root) => [...root.querySelectorAll(".scroll, details")];
  const name = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.querySelector("summary")?.textContent;
  const before = new Map(places(main).map((e) => [name(e), e]));
  const at = places(main).map((e) => [name(e), e.scrollLeft]);
  const focused = document.activeElement === main, notice = main.querySelector(":scope > .notice:is([role=status], [data-kept])");
  main.replaceWith(next);
  if (notice && !next.querySelector(":scope > .notice[role=status]")) {
    notice.dataset.kept = "";
    notice.removeAttribute("role"); // a screen reader has read the notice
    next.prepend(notice);
  }
  if (focused) next.focus({ preventScroll: true });
  for (const e of places(next)) {
    const old = before.get(name(e));
    if (old?.tagName === "DETAILS") e.open = old.open;
    e.scrollLeft = at.find(([n]) => n === name(e))?.[1] || 0;
  }
}

// Shows why the page has old data; without a text, hides the line.
function showStale(text) {
  const line = document.getElementById("stale");
  line.hidden = !text;
  line.textContent = text || "";
}

// Loads the page again and replaces the main part. Runs every five seconds, unless the page is hidden or in use, or the
// "refresh" box is not checked.
async function refresh() {
  const box = document.getElementById("refresh"), main = document.querySelector("main");
  if (document.hidden || !box || !box.checked || inUse(main)) return;
  let reply;
  try {
    reply = await fetch(location.href, { headers: { Accept: "text/html", "Precept-Refresh": "1" }, credentials: "same-origin" });
  } catch {
    return showStale("precept does not answer. The page shows older data, and tries again.");
  }
  if (reply.status === 401) return showStale("Your login has expired. The page shows older data: load the page again.");
  if (!reply.ok) return showStale("precept cannot build this page. The page shows older data.");
  const next = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main");
  if (!next || inUse(main)) return;
  showStale("");
  swap(main, next);
  localise(next);
  document.dispatchEvent(new Event("precept:swap"));
}

// Escape closes the open part that has the focus, and moves the focus to the part's summary.
document.addEventListener("keydown", (e) => {
  const part = document.activeElement.closest(narrow.matches ? "details[open]" : "details[open]:not(.sidebar)");
  if (e.key !== "Escape" || !part || document.querySelector(":popover-open")) return;
  part.open = false;
  part.querySelector("summary").focus();
});

foldSidebar();
narrow.addEventListener("change", foldSidebar);
localise(document);
setZoneCookie();
switchTheme();
if (document.getElementById("refresh")) setInterval(refresh, 5000);
