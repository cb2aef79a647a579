// Puts the chosen theme on the page before its first paint: loaded in the head, and not deferred, for that reason.
"use strict";
try {
  const theme = localStorage.getItem("precept-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden: the system's scheme holds */ }
