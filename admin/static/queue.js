// Keys on the queue page: j and k move between lessons. Any other key presses the lesson's button with this data-key.
"use strict";
const articles = [...document.querySelectorAll("article.candidate")];
let at = Math.max(0, articles.findIndex((a) => "#" + a.id === location.hash)); // selected lesson's index
let armed = null; // the Reject button after the first press

function select(i, scrolls = true) {
  if (!articles.length) return;
  at = Math.min(Math.max(i, 0), articles.length - 1);
  articles.forEach((a, n) => n === at ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current"));
  articles[at].focus({ preventScroll: true });
  if (scrolls) articles[at].scrollIntoView({ block: "start" });
}

function press(key) {
  const target = articles[at] && articles[at].querySelector('[data-key="' + key + '"]');
  if (!target) return;
  if (key === "r" && armed !== target) { // a rejected lesson leaves the queue, so a rejection needs two presses
    armed = target;
    target.firstChild.textContent = "Press r again to reject ";
    return;
  }
  target.click();
}

// After a decision the page returns to the next lesson, not to the first lesson.
document.addEventListener("submit", (e) => {
  const i = articles.indexOf(e.target.closest("article")), next = articles[i + 1] || articles[i - 1], back = e.target.elements.back;
  if (i >= 0 && next) back.value = back.value.split("#")[0] + "#" + next.id;
});

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select")) return;
  if (e.key === "?") document.getElementById("keys").togglePopover();
  else if (e.key === "j") select(at + 1);
  else if (e.key === "k") select(at - 1);
  else if ("atrbo".includes(e.key)) press(e.key);
  else return;
  e.preventDefault();
});
select(at, location.hash !== ""); // without a lesson in the URL the page stays at the top
