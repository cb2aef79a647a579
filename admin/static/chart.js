// Draws each .chart with uPlot out of the JSON in its data-chart: values over days, some with a band around them.
"use strict";

// A custom property may hold light-dark(); what an element really has is a colour that canvas understands.
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
    width: Math.max(box.clientWidth, 280), height: Math.min(rem * 21, Math.max(200, box.clientWidth * 0.32)), series, bands, padding: [null, rem * 2.4, null, null], // half of the last moment's words
    axes: [{ ...axis, size: rem * 2.4, space: rem * 6, values: (self, splits, i, space, step) => times(splits, step, chart.local) }, { ...axis, size: rem * 3.7, values: (self, splits) => splits.map((v) => String(v).replace("-", "−")), label: chart.label + ", " + chart.unit, labelSize: rem * 1.5, labelFont: font }],
    scales: { x: { time: true }, y: { range: (self, lo, hi) => around(lo, hi) } },
    tzDate: (ts) => chart.local ? new Date(ts * 1e3) : uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"), // days are days in UTC
    hooks: { draw: [(self) => marks(self, chart, ink)], setCursor: [(self) => { if (self.cursor.idx == null) rest(self); }] },
  }, data, box);
  rest(u);
  box.chart = u;
}

// Where nobody points at the chart its legend tells the newest values.
function rest(u) {
  u.setLegend({ idx: u.data[0].length - 1 });
}

// Moments along the axis as the reader's language writes them, as fine as they are apart; days are days in UTC.
function times(moments, step, local) {
  const clock = { hour: "numeric", minute: "2-digit", ...(step < 60 && { second: "2-digit" }) };
  const long = moments.length && moments.at(-1) - moments[0] > 86400 / 2;
  const form = step >= 86400 ? { month: "short", day: "numeric" } : { ...clock, ...(long && { weekday: "short" }) };
  const write = new Intl.DateTimeFormat(undefined, { ...form, timeZone: local ? undefined : "UTC" });
  return moments.map((t) => write.format(t * 1e3));
}

// What is drawn, and zero, with some air on both sides.
function around(lo, hi) {
  const from = Math.min(lo ?? 0, 0), to = Math.max(hi ?? 0, 0), air = (to - from || 1) * 0.08;
  return [from < 0 ? from - air : 0, to > 0 ? to + air : 0];
}

// The zero line, and the planned looks.
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
