"use strict";
// Draws the charts of the page from its data. Text from journals enters by textContent alone.

const data = JSON.parse(document.getElementById("data").textContent);
const METRICS = Object.fromEntries(data.metrics.map(m => [m.name, m]));
const form = document.getElementById("filters");
const AT_ONCE = 40;
const FILTERS = [...form.querySelectorAll("select")].map(s => s.name).filter(n => n !== "metric" && n !== "runs");
let limit = AT_ONCE;

function element(name, attributes = {}, text) {
  const svg = ["svg", "g", "path", "line", "circle", "rect", "text", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Shares of 1 are shown in percent.
const scale = metric => METRICS[metric].unit === "" ? 100 : 1;
const unit = metric => ({ "": "%", x: "s of audio / s" })[METRICS[metric].unit] ?? METRICS[metric].unit;

function figure(metric, value) {
  const scaled = scale(metric) * value;
  return scaled.toLocaleString("en", { maximumSignificantDigits: 4, useGrouping: Math.abs(scaled) >= 1e4 });
}

const revision = run => (run.revision.slice(0, 8) || "unknown") + (run.dirty ? "+" : "");
const day = run => run.started.slice(5, 10);
const time = run => run.started.slice(11, 16);

function changeText(metric, [, p, before, after]) {
  const relative = before !== 0 && METRICS[metric].unit !== "" ? 100 * (after / before - 1) : null;
  const size = relative === null ? `${figure(metric, before)} → ${figure(metric, after)}`
    : `${relative > 0 ? "+" : ""}${relative.toFixed(1)} %`;
  return `${size} (p ${p.toFixed(3)})`;
}

function changeClass(metric, [, , before, after]) {
  const gain = METRICS[metric].direction * (after - before);
  return gain > 0 ? "better" : gain < 0 ? "worse" : "";
}

// Appends a name that the browser may break after a slash or an underscore.
function breakable(target, name) {
  for (const part of name.split(/(?<=[/_])/)) target.append(part, element("wbr"));
  return target;
}

// ---- one chart ----

// The width of a chart in its own units. A phone gets fewer units, so that letters keep their size.
const WIDTH = matchMedia("(max-width: 640px)").matches ? 330 : 460;
const LEAST_TICKS = 3;
const HEIGHT = 190, LEFT = 46, RIGHT = 10, TOP = 14, BOTTOM = 34;

function bounds(points, metric) {
  const values = points.map(p => p.figures[metric][0]);
  const low = Math.min(...values), high = Math.max(...values);
  const halves = points.map(p => p.figures[metric]).filter(f => f[1] !== null).map(f => (f[2] - f[1]) / 2).sort((a, b) => a - b);
  // The margin has room for the median interval, since one wild interval must not flatten all the rest.
  const usual = halves.length ? halves[Math.floor(halves.length / 2)] : 0;
  const margin = Math.max(0.35 * (high - low), 1.2 * usual) || 0.05 * Math.abs(high) || 1;
  return [low < 0 ? low - margin : Math.max(0, low - margin), high + margin];
}

// Returns the values of the grid lines, and the number of digits that tells them apart.
function ticks(low, high) {
  const power = 10 ** Math.floor(Math.log10(high - low));
  const count = step => Math.floor(high / step) - Math.ceil(low / step) + 1;
  const step = [1, 0.5, 0.2, 0.1].map(f => f * power).find(step => count(step) >= LEAST_TICKS);
  const list = [];
  for (let i = Math.ceil(low / step); i <= Math.floor(high / step); i++) list.push(i * step || 0);  // no -0
  const digits = Math.max(2, 1 + Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / step)));
  return [list, Math.min(digits, 12)];
}

function drawBands(svg, points, x) {
  const width = x(1) - x(0);
  for (let begin = 0, band = 0, end; begin < points.length; begin = end, band++) {
    const name = revision(data.runs[points[begin].run]);
    for (end = begin; end < points.length && revision(data.runs[points[end].run]) === name; end++);
    const left = x(begin) - width / 2, length = width * (end - begin);
    if (band % 2 === 0)
      svg.append(element("rect", { class: "band", x: left, y: TOP, width: length, height: HEIGHT - TOP - BOTTOM }));
    // Where bands are narrow, only the first and the last have their names, at the edges.
    const wide = length > 56, last = end === points.length;
    if (wide || begin === 0 || last)
      svg.append(element("text", { x: wide ? left + length / 2 : last ? WIDTH - RIGHT : LEFT, y: HEIGHT - 18,
                                   "text-anchor": wide ? "middle" : last ? "end" : "start" }, name));
  }
  // All times stand below where there is room, else the first and the last.
  const room = width > 62;
  points.forEach((point, i) => {
    if (!room && i !== 0 && i !== points.length - 1) return;
    const anchor = room ? "middle" : i === 0 ? "start" : "end";
    const at = room ? x(i) : i === 0 ? LEFT : WIDTH - RIGHT;
    const run = data.runs[point.run];
    svg.append(element("text", { x: at, y: HEIGHT - 5, "text-anchor": anchor }, `${day(run)} ${time(run)}`));
  });
}

function chart(series, metric) {
  const points = series.points.map((p, index) => ({ ...p, index })).filter(p => p.figures[metric]);
  const card = element("section", { class: "chart" });
  card.append(breakable(element("h3"), series.case));
  const apart = [series.machine, ...series.apart];
  card.append(element("p", { title: apart.join("\n") }, [...apart.slice(0, 5), ...(apart.length > 5 ? ["…"] : [])].join(" · ")));

  const width = (WIDTH - LEFT - RIGHT) / points.length;
  const x = i => LEFT + (i + 0.5) * width;
  const [low, high] = bounds(points, metric);
  const y = v => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (Math.min(Math.max(v, low), high) - low) / (high - low));
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  svg.append(element("title", {}, `${metric} of ${series.case}`));
  drawBands(svg, points, x);
  const [marks, digits] = ticks(scale(metric) * low, scale(metric) * high);
  for (const value of marks) {
    const at = y(value / scale(metric));
    svg.append(element("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
    svg.append(element("text", { x: LEFT - 5, y: at + 3.5, "text-anchor": "end" },
                       value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: digits })));
  }
  svg.append(element("path", { class: "trend", d: points.map((p, i) =>
    `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(p.figures[metric][0]).toFixed(1)}`).join("") }));

  const changes = series.changes[metric] ?? [];
  for (const change of changes) {
    const at = x(points.findIndex(p => p.index === change[0])) - width / 2;
    svg.append(element("line", { class: `split ${changeClass(metric, change)}`, x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    const run = data.runs[series.points[change[0]].run];
    card.append(element("p", { class: `change ${changeClass(metric, change)}` },
                        `${changeText(metric, change)} since ${revision(run)}, ${day(run)} ${time(run)}`));
  }

  const about = element("p", { class: "point" });
  const dots = points.map((point, i) => {
    const [value, from, to] = point.figures[metric];
    if (from !== null)
      svg.append(element("line", { class: "interval", x1: x(i), x2: x(i), y1: y(from), y2: y(to) }));
    return element("circle", { class: point.marks.length ? "dot marked" : "dot", cx: x(i), cy: y(value),
                               r: points.length > 60 ? 2 : 3.5 });
  });
  svg.append(...dots);
  const choose = i => {
    dots.forEach((dot, j) => dot.classList.toggle("chosen", i === j));
    describe(about, points[i], metric);
  };
  const nearest = event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) * WIDTH / box.width;
    choose(Math.min(points.length - 1, Math.max(0, Math.floor((at - LEFT) / width))));
  };
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("click", nearest);
  card.append(svg, about);
  choose(points.length - 1);
  return card;
}

function describe(target, point, metric) {
  const run = data.runs[point.run], [value, low, high] = point.figures[metric];
  const interval = low === null || low === high ? "" : ` [${figure(metric, low)}, ${figure(metric, high)}]`;
  const words = [`${figure(metric, value)}${interval} ${unit(metric)}`, revision(run), run.started.replace("T", " "),
                 point.grade, ...point.marks].filter(Boolean);
  target.textContent = words.join(" · ") + " · ";
  target.append(run.page ? element("a", { href: run.page }, run.journal) : run.journal);
}

// ---- filters and the list of charts ----

function fill(select, values, all) {
  if (all) select.append(element("option", { value: "" }, "all"));
  for (const value of values) select.append(element("option", { value }, value));
}

function matching() {
  const wanted = Object.fromEntries(new FormData(form));
  return data.series.filter(series =>
    FILTERS.every(name => !wanted[name] || series[name] === wanted[name]) &&
    series.points.filter(p => p.figures[wanted.metric]).length >= Number(wanted.runs) &&
    (!wanted.changed || series.changes[wanted.metric]));
}

function show() {
  const metric = form.metric.value, found = matching();
  if (!metric) return;  // all cases fail
  // Charts with a change come first, the largest loss before all others.
  const loss = s => Math.max(-Infinity, ...(s.changes[metric] ?? []).map(([, , before, after]) =>
    -METRICS[metric].direction * (after - before) / Math.abs(before || 1)));
  found.sort((a, b) => loss(b) - loss(a) || 0);
  const { meaning, direction } = METRICS[metric];
  const better = direction > 0 ? " More is better." : direction < 0 ? " Less is better." : "";
  document.getElementById("meaning").textContent = `${metric}, ${unit(metric)}: ${meaning}${better}`;
  const changed = found.filter(s => s.changes[metric]).length;
  document.getElementById("count").textContent = `${found.length} charts, ${changed} with a change`;
  document.getElementById("charts").replaceChildren(...found.slice(0, limit).map(s => chart(s, metric)));
  document.getElementById("more").hidden = found.length <= limit;
  history.replaceState(null, "", "#" + new URLSearchParams(new FormData(form)));
}

const known = new Set(data.series.flatMap(s => s.points.flatMap(p => Object.keys(p.figures))));
fill(form.metric, Object.keys(METRICS).filter(m => known.has(m)));
for (const name of FILTERS) {
  const values = [...new Set(data.series.map(s => s[name]))];
  fill(form[name], values.sort((a, b) => a.localeCompare(b, "en", { numeric: true })), true);
}
if (!data.series.some(s => s.points.length > 1)) form.runs.value = "1";
for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
  if (name === "changed") form.changed.checked = true;
  else if (form[name] && [...form[name].options].some(o => o.value === value)) form[name].value = value;
}
for (const [mark, meaning] of Object.entries(data.marks))
  document.getElementById("marks").append(element("dt", {}, mark), element("dd", {}, meaning));
form.addEventListener("input", () => { limit = AT_ONCE; show(); });
// A row of the overview shows its chart.
for (const link of document.querySelectorAll("#overview a[data-filters]"))
  link.addEventListener("click", () => {
    form.reset();
    for (const [name, value] of Object.entries(JSON.parse(link.dataset.filters))) form[name].value = value;
    limit = AT_ONCE;
    show();
  });
document.getElementById("more").addEventListener("click", () => { limit += AT_ONCE; show(); });
show();
