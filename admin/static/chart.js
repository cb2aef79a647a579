// Draws each .chart element with uPlot, from the JSON in data-chart: values over days, some with an interval.
"use strict";

// Returns a custom property as a colour for a canvas. A canvas does not accept light-dark(), so an element resolves the
// property first.
function colour(name, alpha) {
  const probe = document.createElement("span");
  probe.style.color = "var(" + name + ")";
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return alpha ? found.replace("rgb(", "rgba(").replace(")", ", " + alpha + ")") : found;
}

const number = (v) => v == null ? "–" : v.toFixed(1).replace("-", "−");

function columns(chart) {
  const when = new Intl.DateTimeFormat(undefined, chart.local ? { dateStyle: "medium", timeStyle: "medium" } : { dateStyle: "medium", timeZone: "UTC" });
  const data = [chart.days], series = [{ label: chart.local ? "Time" : "Day, UTC", value: (u, v) => v == null ? "–" : when.format(v * 1e3) }], bands = [];
  for (const s of chart.series) {
    const stroke = colour(s.colour);
    data.push(s.values);
    series.push({ label: s.name, stroke, width: 2, points: { show: chart.days.length < 40, size: 5 }, spanGaps: true, value: (u, v) => v == null ? "–" : number(v) + " " + chart.unit });
    if (!s.hi) continue;
    const at = data.length;
    data.push(s.hi, s.lo);
    for (const label of ["to", "from"]) series.push({ label, stroke: colour(s.colour, 0.5), width: 1, dash: [3, 3], points: { show: false }, spanGaps: true, value: (u, v) => number(v) });
    bands.push({ series: [at, at + 1], fill: colour(s.colour, 0.14) });
  }
  return { data, series, bands };
}

function draw(box) {
  const chart = JSON.parse(box.dataset.chart), { data, series, bands } = columns(chart);
  const ink = colour("--quiet"), line = colour("--line");
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize), font = Math.round(rem * 0.8) + "px system-ui, sans-serif";
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font };
  box.replaceChildren();
  const u = new uPlot({
    width: Math.max(box.clientWidth, 280), height: Math.min(rem * 21, Math.max(200, box.clientWidth * 0.32)), series, bands, padding: [null, rem * 2.4, null, null], // right: half the last time label
    axes: [{ ...axis, size: rem * 2.4, space: rem * 6, values: (self, splits, i, space, step) => times(splits, step, chart.local) }, { ...axis, size: rem * 3.7, values: (self, splits) => splits.map((v) => String(v).replace("-", "−")), label: chart.label + ", " + chart.unit, labelSize: rem * 1.5, labelFont: font }],
    scales: { x: { time: true }, y: { range: (self, lo, hi) => withMargin(lo, hi) } },
    tzDate: (ts) => chart.local ? new Date(ts * 1e3) : uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"), // days begin at midnight UTC
    hooks: { draw: [(self) => marks(self, chart, ink)], setCursor: [(self) => { if (self.cursor.idx == null) showNewest(self); }] },
  }, data, box);
  showNewest(u);
  box.chart = u;
}

// Shows the newest values in the legend while the pointer is not on the chart.
function showNewest(u) {
  u.setLegend({ idx: u.data[0].length - 1 });
}

// Returns the time axis labels in the browser's language: UTC dates if a step is at least a day, else times.
function times(moments, step, local) {
  const clock = { hour: "numeric", minute: "2-digit", ...(step < 60 && { second: "2-digit" }) };
  const long = moments.length && moments.at(-1) - moments[0] > 86400 / 2;
  const form = step >= 86400 ? { month: "short", day: "numeric" } : { ...clock, ...(long && { weekday: "short" }) };
  const write = new Intl.DateTimeFormat(undefined, { ...form, timeZone: local ? undefined : "UTC" });
  return moments.map((t) => write.format(t * 1e3));
}

// Returns the y axis range: all values and zero, with an 8% margin.
function withMargin(lo, hi) {
  const from = Math.min(lo ?? 0, 0), to = Math.max(hi ?? 0, 0), margin = (to - from || 1) * 0.08;
  return [from < 0 ? from - margin : 0, to > 0 ? to + margin : 0];
}

// Draws the zero line, and a line for each mark in the chart: planned trials' evaluations.
function marks(u, chart, ink) {
  const c = u.ctx, { left, top, width, height } = u.bbox;
  c.save();
  c.strokeStyle = c.fillStyle = ink;
  c.setLineDash([4, 4]);
  const zero = u.valToPos(0, "y", true);
  if (zero >= top && zero <= top + height) line(c, left, zero, left + width, zero);
  for (const m of chart.marks || []) {
    const x = u.valToPos(m.at, "x", true);
    line(c, x, top, x, top + height);
    c.fillText(m.text, x + 4, top + 14);
  }
  c.restore();
}

function line(c, x0, y0, x1, y1) {
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
}

function drawAll() {
  for (const box of document.querySelectorAll(".chart[data-chart]")) draw(box);
}

let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(drawAll, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.addEventListener("precept:theme", drawAll);
document.addEventListener("precept:swap", drawAll);
drawAll();
