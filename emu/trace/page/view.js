// Columns, words for numbers, and what part of the run is shown.
const byId = id => document.getElementById(id);

function column(text) {  // what data.py's `column` wrote
  const bytes = atob(text), found = [];
  let value = 0, scale = 1;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes.charCodeAt(i);
    value += (byte & 127) * scale;
    if (byte & 128) { scale *= 128; continue; }
    found.push(value % 2 ? -(value + 1) / 2 : value / 2);
    value = 0; scale = 1;
  }
  return Float64Array.from(found);
}
const summed = values => { for (let i = 1; i < values.length; i++) values[i] += values[i - 1]; return values; };
const ends = (start, length) => length.map((value, i) => value + start[i]);
const columns = (from, names) => Object.fromEntries(names.map(name => [name, column(from[name])]));

const boxes = columns(data.boxes, ["first", "start", "length", "kind", "site", "size", "peer", "count", "own"]);
summed(boxes.first); summed(boxes.start); boxes.end = ends(boxes.start, boxes.length);
const path = columns(data.path, ["start", "length", "pe", "site", "lane", "kind"]);
summed(path.start); path.end = ends(path.start, path.length);
const arrows = columns(data.arrows, ["start", "length", "from", "to"]);
summed(arrows.start); arrows.end = ends(arrows.start, arrows.length);

const KINDS = data.kinds;
const WORDS = { LAUNCH: "kernel", COMPILE: "compilation", TUNE: "autotuning", OP: "operation", PUT: "put", GET: "get", SIGNAL: "signal", ATOMIC: "atomic",
  WAIT: "wait", COMPLETE: "wait until sent", BARRIER: "barrier", COLLECTIVE: "collective", TURN: "server's turn", LOCK: "wait for a lock",
  ALLOCATE: "memory", RANGE: "named range", COUNTER: "counter", INSTANT: "report" };
const GROUPS = [["kernel", "compute", ["LAUNCH"]], ["operation", "op", ["OP"]],
  ["put, get, signal, atomic", "communicate", ["PUT", "GET", "SIGNAL", "ATOMIC"]], ["collective, server", "meet", ["COLLECTIVE", "TURN"]],
  ["waiting", "wait", ["WAIT", "COMPLETE", "BARRIER", "LOCK"]], ["compiling, memory", "prepare", ["COMPILE", "TUNE", "ALLOCATE"]],
  ["named range", "range", ["RANGE"]], ["report", "path", ["INSTANT"]]];
const colour_names = KINDS.map(kind => (GROUPS.find(group => group[2].includes(kind)) || [0, "other"])[1]);
let colours = [], paint = {};
function read_colours() {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue("--" + name).trim();
  colours = colour_names.map(of);
  for (const name of ["back", "soft", "line", "text", "quiet", "accent", "path", "heat", "range", "wait"]) paint[name] = of(name);
}

function duration(ns) {
  const size = Math.abs(ns);
  const [scale, unit] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return (ns / scale || 0).toLocaleString("en", { maximumSignificantDigits: scale === 1 ? 15 : 4, useGrouping: false }) + " " + unit;
}
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < 4) { n /= 1024; i++; }
  return n.toLocaleString("en", { maximumSignificantDigits: i ? 3 : 15, useGrouping: false }) + " " + units[i];
}
const many = n => n.toLocaleString("en");
const percent = part => (100 * part).toLocaleString("en", { maximumFractionDigits: part < 0.1 ? 1 : 0 }) + " %";
function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  if (name) made.className = name;
  return made;
}

// What is shown: from `start` for `length` ns; the lines are moved up by `top` pixels.
const whole = Math.max(1, data.elapsed);
const view = { start: 0, length: whole, top: 0 };
function show(start, length) {
  view.length = Math.min(whole * 1.04, Math.max(20, length));
  const margin = whole * 0.02;
  view.start = Math.min(Math.max(-margin, start), whole + margin - view.length);
  redraw();
}
const zoom = (factor, at = view.start + view.length / 2) =>
  show(at - (at - view.start) * factor, view.length * factor);
const show_all = () => show(-whole * 0.01, whole * 1.02);

// A search: which sites and kinds have all its words.
let matching = null;  // a list of flags by site and kind; null: nothing is sought
function matches(site, kind) { return matching === null || matching[site * KINDS.length + kind] === 1; }
function seek(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  matching = null;
  if (wanted.length) {
    matching = new Uint8Array(data.sites.length * KINDS.length);
    data.sites.forEach((site, i) => KINDS.forEach((kind, k) => {
      const text = `${site.join(" ")} ${kind} ${WORDS[kind] || ""}`.toLowerCase();
      if (wanted.every(word => text.includes(word))) matching[i * KINDS.length + k] = 1;
    }));
  }
}
