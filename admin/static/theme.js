// Sets the chosen theme before the first paint. Therefore the script is in the head and is not deferred.
"use strict";
try {
  const theme = localStorage.getItem("precept-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden: the page uses the system's color scheme */ }
