"""The page that `emu.sdy.provenance.html` fills: markup, style and script in one text."""

__all__ = ["PAGE"]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Shardings, step by step</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 0; display: grid; height: 100vh;
  grid-template: auto 1fr / minmax(24em, 1fr) 1fr; color: #222; background: #fff; }
header { grid-column: 1 / 3; padding: .6em 1em; border-bottom: 1px solid #ccc; display: flex;
  gap: 1em; align-items: center; flex-wrap: wrap; }
header input[type=range] { flex: 1; min-width: 12em; }
#list, #detail { overflow: auto; padding: .5em 1em; }
#list { border-right: 1px solid #ccc; }
table { border-collapse: collapse; width: 100%; }
td { padding: .15em .5em; white-space: nowrap; font-family: ui-monospace, monospace;
  font-size: 12px; }
tr { cursor: pointer; }
tr:hover { background: #f2f2f2; }
tr.chosen { background: #dbe9ff; }
tr.changed td:nth-child(3) { background: #ffe9b0; }
th { text-align: left; padding: .8em .5em .2em; font-weight: 600; }
.refused { color: #a40; }
pre { white-space: pre-wrap; font-size: 12px; background: #f7f7f7; padding: .6em; }
figure { display: inline-block; margin: 0 1em 1em 0; vertical-align: top; }
canvas { border: 1px solid #888; display: block; }
</style>
</head>
<body>
<header>
<strong>Shardings</strong>
<button id="back" title="one step back">&#9664;</button>
<input id="step" type="range" min="0" value="0" aria-label="step">
<button id="on" title="one step on">&#9654;</button>
<span id="what"></span>
</header>
<div id="list"><table id="values"></table></div>
<div id="detail"></div>
<script>
"use strict";
const data = /*DATA*/null;
const slider = document.getElementById("step");
slider.max = data.steps.length;
slider.value = slider.max;
let chosen = 0;

function element(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function states(upTo) {
  const now = data.values.map(value => value.before);
  for (const step of data.steps.slice(0, upTo))
    for (const [number, sharding] of step.changes) now[number] = sharding;
  return now;
}

const rows = [];
const table = document.getElementById("values");
let heading = null;
data.values.forEach((value, number) => {
  if (value.function !== heading) {
    heading = value.function;
    const cell = element("th", "@" + heading, element("tr", undefined, table));
    cell.colSpan = 4;
  }
  const row = element("tr", undefined, table);
  element("td", value.name, row);
  element("td", value.operation, row);
  element("td", "", row);
  const refused = element("td", value.refused ? value.refused + " not taken" : "", row);
  refused.className = "refused";
  row.onclick = () => { chosen = number; show(); };
  rows.push(row);
});

function shardOf(device, digits) {
  let index = 0;
  for (const [stride, size] of digits) index = index * size + Math.floor(device / stride) % size;
  return index;
}

function colour(device, devices) {
  return `hsl(${Math.round(360 * device / devices)} 65% 70%)`;
}

function draw(title, sharding, shape, parent) {
  const figure = element("figure", undefined, parent);
  element("figcaption", title, figure);
  if (!sharding) { element("div", "no sharding", figure); return; }
  const counts = sharding.dims.map(digits => digits.reduce((n, [, size]) => n * size, 1));
  const last = counts.length - 1;
  const columns = last >= 0 ? counts[last] : 1;
  const lines = counts.slice(0, Math.max(last, 0)).reduce((n, c) => n * c, 1);
  const owners = Array.from({length: lines * columns}, () => []);
  for (let device = 0; device < sharding.devices; device++) {
    let line = 0;
    for (let dim = 0; dim < last; dim++)
      line = line * counts[dim] + shardOf(device, sharding.dims[dim]);
    const column = last >= 0 ? shardOf(device, sharding.dims[last]) : 0;
    owners[line * columns + column].push(device);
  }
  const canvas = element("canvas", undefined, figure);
  const cell = Math.max(4, Math.min(90, 320 / Math.max(lines, columns)));
  canvas.width = columns * cell;
  canvas.height = lines * cell;
  const pen = canvas.getContext("2d");
  owners.forEach((devices, place) => {
    const x = place % columns * cell, y = Math.floor(place / columns) * cell;
    const stripes = Math.min(devices.length, 8);
    for (let s = 0; s < stripes; s++) {
      const device = devices[Math.floor(s * devices.length / stripes)];
      pen.fillStyle = colour(device, sharding.devices);
      pen.fillRect(x + s * cell / stripes, y, cell / stripes + 1, cell);
    }
    pen.strokeStyle = "#fff";
    pen.strokeRect(x, y, cell, cell);
    if (cell >= 24) {
      const ids = devices.map(d => sharding.ids.length ? sharding.ids[d] : d);
      pen.fillStyle = "#222";
      pen.font = "11px system-ui";
      const text = ids.length > 4 ? ids.slice(0, 3).join(",") + " …" : ids.join(",");
      pen.fillText(text, x + 3, y + cell / 2 + 4, cell - 6);
    }
  });
  const local = shape.map((n, dim) => n === null ? "?" : Math.ceil(n / counts[dim]));
  element("div", sharding.text, figure).style.font = "12px ui-monospace, monospace";
  element("div", `${lines * columns} shards of ${local.join("x") || "a scalar"}`, figure);
}

function show() {
  const at = Number(slider.value);
  const now = states(at);
  const step = at ? data.steps[at - 1] : null;
  const changed = new Set(step ? step.changes.map(([number]) => number) : []);
  document.getElementById("what").textContent = step
    ? `step ${at} of ${data.steps.length}: ${step.what} ${step.place}`
      + (step.round.length ? ` (user priority ${step.round[0]}, op round ${step.round[1]})` : "")
    : `before the first of ${data.steps.length} steps`;
  rows.forEach((row, number) => {
    row.children[2].textContent = now[number] ? now[number].text : "";
    row.className = (number === chosen ? "chosen " : "") + (changed.has(number) ? "changed" : "");
  });
  const detail = document.getElementById("detail");
  detail.replaceChildren();
  const value = data.values[chosen];
  if (!value) return;
  element("h3", `${value.name} : ${value.type}`, detail);
  draw("before", value.before, value.shape, detail);
  draw("at this step", now[chosen], value.shape, detail);
  draw("after", value.after, value.shape, detail);
  element("pre", value.why, detail);
}

function move(by) {
  slider.value = Number(slider.value) + by;
  show();
  const row = rows.find(row => row.classList.contains("changed"));
  if (row) row.scrollIntoView({block: "nearest"});
}
slider.oninput = show;
document.getElementById("back").onclick = () => move(-1);
document.getElementById("on").onclick = () => move(1);
document.onkeydown = event => {
  if (event.key === "ArrowLeft" && event.target !== slider) move(-1);
  if (event.key === "ArrowRight" && event.target !== slider) move(1);
};
show();
</script>
</body>
</html>
"""
