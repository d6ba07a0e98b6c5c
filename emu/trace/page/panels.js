// The reports below the timeline, the search, the keys, and the start.
const words_of_kind = kind => (kind ? WORDS[kind] || kind : "");
function table(heads, rows, goes) {
  const made = element("table"), head = element("tr"), body = element("tbody");
  for (const [text, is_number, title] of heads) {
    const cell = element("th", text, is_number ? "number" : "");
    if (title) cell.title = title;
    cell.scope = "col"; head.append(cell);
  }
  rows.forEach((row, n) => {
    const line = element("tr");
    row.forEach((value, i) => {
      const cell = element("td", value instanceof Node ? "" : value, heads[i][1] ? "number" : "long");
      if (value instanceof Node) cell.append(value);
      line.append(cell);
    });
    if (goes) {
      line.className = "goes"; line.tabIndex = 0;
      line.onclick = () => goes(n);
      line.onkeydown = event => { if (event.key === "Enter") goes(n); };
    }
    body.append(line);
  });
  const top = element("thead"); top.append(head); made.append(top, body);
  const box = element("div", "", "scroll"); box.append(made);
  return box;
}
function bar(parts) {
  const made = element("span", "", "bar");
  for (const [share, colour, title] of parts) {
    const part = element("i");
    part.style.width = Math.max(0, 100 * share) + "%"; part.style.background = `var(--${colour})`; part.title = title;
    made.append(part);
  }
  return made;
}
const colour_of = kind => colour_names[KINDS.indexOf(kind)] || "other";
const PES_TIME = Math.max(1, data.elapsed * data.n_pes);

function path_panel() {
  const rows = data.path_rows.map(row => [bar([[row.time / whole, row.kind ? colour_of(row.kind) : "quiet", ""]]), duration(row.time), percent(row.time / whole),
    `PE ${row.pe}`, row.name, words_of_kind(row.kind), row.place, many(row.steps)]);
  return [element("p", "The longest chain: what ended last, what that had waited for, and so on back to the start. Its parts add up to the "
    + "whole time. Only what is on this chain makes the run shorter when it gets faster. “Between events” is the program itself: Python, or what nothing records."),
  table([["", 0], ["time", 1], ["of the run", 1], ["where", 0], ["what", 0], ["kind", 0], ["line", 0], ["parts", 1]], rows, n => goto_path(data.path_rows[n]))];
}
function goto_path(row) {
  const kind = KINDS.indexOf(row.kind);
  let best = -1;
  for (let i = 0; i < path.start.length; i++) {
    const site = path.site[i] >= 0 ? data.sites[path.site[i]] : ["", ""];
    const same = path.pe[i] === row.pe && (row.kind ? path.kind[i] === kind && site[0] === row.name && site[1] === row.place : path.site[i] < 0);
    if (same && (best < 0 || path.length[i] > path.length[best])) best = i;
  }
  if (best < 0) return;
  if (folded.delete(row.pe)) place_lanes();
  const length = Math.max(path.length[best] * 8, 2000);
  show((path.start[best] + path.end[best] - length) / 2, length);
  const lane = path.lane[best], top = lane >= 0 ? lane_top[lane] : rows[row.pe].top;
  if (top - view.top < RULER || top + HIGH - view.top > height_of_lines()) view.top = top - height_of_lines() / 2;
  if (lane >= 0) choose(first_after(lane, path.start[best]));
  byId("times").scrollIntoView({ block: "nearest" });
}

function sums(name, explain, of) {
  const found = data[of];
  const rows = found.rows.map(row => [bar([[row.self_time / PES_TIME, of === "by_kind" ? colour_of(row.name) : "compute", ""]]),
    of === "by_kind" ? words_of_kind(row.name) : row.name, ...(of === "by_kernel" ? [row.place] : []), duration(row.self_time), percent(row.self_time / PES_TIME),
    duration(row.total), many(row.count), duration(row.total / row.count), duration(row.longest), row.bytes ? bytes(row.bytes) : "", many(row.pes)]);
  const heads = [["", 0], [name, 0], ...(of === "by_kernel" ? [["line", 0]] : []), ["own time", 1, "without what lies within"], ["of all PEs' time", 1],
    ["with inner", 1, "sum of the durations, with what lies within"], ["events", 1], ["mean", 1], ["longest", 1], ["moved", 1], ["PEs", 1]];
  const left = found.all - found.rows.length;
  return [element("p", explain + (left ? ` ${many(left)} more are not in this page.` : "")), table(heads, rows, n => search(found.rows[n].name))];
}

function pes_panel() {
  const rows = data.pes.map((each, pe) => {
    const other = each.busy - each.compute, parts = [[each.compute, "compute", "computes"], [other, "communicate", "communicates or prepares, without computing"],
      [each.bubble, "wait", "only waits"], [each.unrecorded, "range", "the program itself, or nothing"]];
    return [`PE ${pe}`, bar(parts.map(([time, colour, title]) => [time / whole, colour, `${title}: ${duration(time)}`])),
      duration(each.busy), percent(each.busy / whole), duration(each.compute), duration(each.communicate), duration(each.overlap),
      each.communicate ? percent(each.overlap / each.communicate) : "", duration(each.bubble), percent(each.bubble / whole), duration(each.unrecorded)];
  });
  const text = data.imbalance === null ? "" : ` Imbalance: the busiest PE is busy ${data.imbalance.toFixed(2)} times as long as the mean.`;
  return [element("p", "A PE is busy while it computes, communicates or prepares; a bubble is time in which it only waits; the rest is the program itself, "
    + "which no event tells of." + text),
  table([["PE", 0], ["", 0], ["busy", 1], ["", 1], ["computes", 1], ["communicates", 1], ["both at once", 1, "computation and communication overlap"],
    ["hidden", 1, "part of the communication that goes on while the PE computes"], ["bubbles", 1], ["", 1], ["unrecorded", 1]], rows, n => {
    if (folded.delete(n)) place_lanes();
    view.top = rows_top(n); redraw();
  })];
}
const rows_top = pe => rows[pe].top - RULER - 4;

function matrix_panel() {
  const say = element("p", "Point at a square.", "mono quiet"), heat = element("canvas"), n = data.n_pes;
  heat.id = "heat"; heat.setAttribute("role", "img"); heat.setAttribute("aria-label", "Bytes from each PE (row) to each PE (column)");
  const cells = new Map(data.moved.map(([from, to, size, calls]) => [from * n + to, [size, calls]]));
  const most = Math.max(1, ...data.moved.map(each => each[2])), edge = 34;
  draw_matrix = () => {
    const width = heat.clientWidth;
    if (!width) return;
    const context = heat.getContext("2d"), cell = Math.max(1, Math.min(54, (width - edge) / n)), height = edge + cell * n;
    sized(heat, context, height);
    context.font = "11px system-ui, sans-serif"; context.textAlign = "center"; context.fillStyle = paint.quiet;
    const every = Math.ceil(26 / cell);
    for (let pe = 0; pe < n; pe += every) { context.fillText(pe, edge + (pe + 0.5) * cell, edge - 8); context.fillText(pe, edge - 14, edge + (pe + 0.5) * cell + 4); }
    context.fillText("from \\ to", 22, 11);
    for (let from = 0; from < n; from++) for (let to = 0; to < n; to++) {
      const [size] = cells.get(from * n + to) || [0];
      context.fillStyle = size ? `rgba(${paint.heat}, ${0.12 + 0.88 * size / most})` : paint.soft;
      context.fillRect(edge + to * cell, edge + from * cell, Math.max(1, cell - 1), Math.max(1, cell - 1));
      if (size && cell >= 44) { context.fillStyle = size / most > 0.45 ? paint.back : paint.text; context.fillText(bytes(size), edge + (to + 0.5) * cell, edge + (from + 0.5) * cell + 4, cell - 4); }
    }
    heat.onpointermove = event => {
      const to = Math.floor((event.offsetX - edge) / cell), from = Math.floor((event.offsetY - edge) / cell);
      if (to < 0 || from < 0 || to >= n || from >= n) return;
      const [size, calls] = cells.get(from * n + to) || [0, 0];
      say.textContent = `PE ${from} → PE ${to}: ${bytes(size)} in ${many(calls)} calls`;
    };
  };
  const rows = [...data.moved].sort((a, b) => b[2] - a[2]).slice(0, 60).map(([from, to, size, calls]) =>
    [`PE ${from} → PE ${to}`, bytes(size), many(calls), bytes(size / calls)]);
  return [element("p", "Bytes that puts, gets, signals and atomics moved, from the PE in whose memory they were to the one that got them."
    + (data.bytes_without_peer ? ` Not in it: ${bytes(data.bytes_without_peer)} of collectives, servers and calls that name no single PE.` : "")),
  ...(rows.length ? [heat, say, table([["way", 0], ["moved", 1], ["calls", 1], ["a call", 1]], rows)] : [element("p", "Nothing of the kind in this trace.", "quiet")])];
}
let draw_matrix = () => {};

function about_panel() {
  const list = element("dl");
  const terms = { "PE": "A processing element: one of the processes that stand for the accelerators of the program.",
    "own time": "The time in which an event was the innermost one of its thread: without what lies within it.",
    "overlap": "Time in which a PE computes (kernels, operations) on one thread while it communicates on another.",
    "bubble": "Time in which a PE waits (for memory, a barrier, a lock, its stores) and does nothing else that is recorded.",
    "collective": "Until its last member has come, a collective counts as waiting; from then on as communication.",
    "critical path": "Backwards from the last end: from an event to the one that it waited for (the sender of a signal, the last that came to a barrier), else to what was before it on the same PE.",
    "imbalance": "The busy time of the busiest PE over the mean of all; 1.00 is even.",
    "threads": "program: what the PE does one after the other; server: its communication server; tasks: operations that go on beside it; backward: autograd." };
  for (const [term, text] of Object.entries(terms)) list.append(element("dt", term), element("dd", text));
  const notes = [`${many(data.events)} events; ${many(boxes.start.length)} boxes.`];
  if (data.shorter) notes.push(`Events shorter than ${duration(data.shorter)} that follow each other are joined: this page does not have them one by one. The figures and tables are of all events. emu trace convert writes all of them for Perfetto.`);
  if (data.arrows_left_out) notes.push(`${many(data.arrows_left_out)} arrows of the shortest waits are left out.`);
  if (data.path_left_out) notes.push(`The ${many(data.path_left_out)} shortest steps of the critical path are not drawn; its table has all.`);
  return [...notes.map(text => element("p", text)), list];
}

const PANELS = [["path", "Critical path", path_panel], ["pes", "PEs", pes_panel], ["matrix", "Bytes between PEs", matrix_panel],
  ["kinds", "By kind", () => sums("kind", "Where the PEs' time went, by kind of event.", "by_kind")],
  ["kernels", "By kernel", () => sums("kernel", "The kernels that were launched.", "by_kernel")],
  ["code", "By line", () => sums("line", "Lines of the program, with all that happened there.", "by_line")], ["about", "About these figures", about_panel]];
function open_panel(name) {
  for (const [id] of PANELS) { byId("panel-" + id).hidden = id !== name; byId("tab-" + id).setAttribute("aria-selected", id === name); byId("tab-" + id).tabIndex = id === name ? 0 : -1; }
  draw_matrix();
}
for (const [id, title, make] of PANELS) {
  const tab = element("button", title), panel = element("div");
  tab.id = "tab-" + id; tab.setAttribute("role", "tab"); tab.setAttribute("aria-controls", "panel-" + id); tab.onclick = () => open_panel(id);
  tab.onkeydown = event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const next = PANELS[(PANELS.findIndex(each => each[0] === id) + by + PANELS.length) % PANELS.length][0];
    open_panel(next); byId("tab-" + next).focus(); event.stopPropagation();
  };
  panel.id = "panel-" + id; panel.setAttribute("role", "tabpanel"); panel.setAttribute("aria-labelledby", tab.id); panel.hidden = true;
  byId("tabs").append(tab); byId("panels").append(panel);
  panel.append(...make());
}

// Search: what does not match fades; Enter goes from one to the next.
let hits = 0, hit = -1;
function search(words) {
  byId("search").value = words; seek(words); hit = -1; hits = 0;
  for (let i = 0; i < boxes.start.length; i++) if (matching !== null && matches(boxes.site[i], boxes.kind[i])) hits += boxes.count[i];
  byId("found").textContent = matching === null ? "" : `${many(hits)} event${hits === 1 ? "" : "s"}`;
  redraw();
}
function next_hit(by) {
  if (matching === null || !hits) return;
  const n = boxes.start.length;
  for (let k = 0, i = hit < 0 && by < 0 ? 0 : hit; k < n; k++) {
    i = (i + by + n) % n;
    if (matches(boxes.site[i], boxes.kind[i])) { hit = i; reveal(i); return; }
  }
}
function next_event(by) {
  if (!boxes.start.length) return;
  const i = chosen < 0 ? 0 : chosen + by;
  if (i >= 0 && i < boxes.start.length) reveal(i, false);
}
byId("search").oninput = () => search(byId("search").value);
byId("search").onkeydown = event => {
  if (event.key === "Enter") next_hit(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") { search(""); canvas.focus(); }
  event.stopPropagation();
};
byId("zoom-in").onclick = () => zoom(0.5); byId("zoom-out").onclick = () => zoom(2); byId("fit").onclick = show_all;
byId("show-path").onchange = byId("show-arrows").onchange = redraw;

const KEYS = [["← →", "move in time"], ["↑ ↓", "move between PEs"], ["+ −  or  w s", "zoom"], ["f", "show all"], [", .", "choose the event before, after"],
  ["z", "zoom to the chosen event"], ["/", "search; Enter: next, Shift+Enter: before"], ["c", "critical path on or off"], ["r", "arrows on or off"],
  ["e", "fold or unfold all PEs (or click a PE)"], ["wheel", "zoom where the mouse is; with Shift: move"], ["double click", "zoom to an event"]];
byId("help").append(...KEYS.map(([key, text]) => { const line = element("div"); line.append(element("kbd", key), element("span", " " + text)); return line; }));
byId("keys").onclick = () => { const help = byId("help"); help.hidden = !help.hidden; byId("keys").setAttribute("aria-expanded", !help.hidden); };
function flip(id) { byId(id).checked = !byId(id).checked; redraw(); }
const ACTS = { "+": () => zoom(0.6), "=": () => zoom(0.6), w: () => zoom(0.6), "-": () => zoom(1.6), s: () => zoom(1.6), f: show_all,
  ArrowLeft: () => show(view.start - view.length * 0.15, view.length), ArrowRight: () => show(view.start + view.length * 0.15, view.length),
  ArrowUp: () => { view.top -= 50; redraw(); }, ArrowDown: () => { view.top += 50; redraw(); },
  a: () => show(view.start - view.length * 0.15, view.length), d: () => show(view.start + view.length * 0.15, view.length),
  ",": () => next_event(-1), ".": () => next_event(1), "/": () => byId("search").focus(), c: () => flip("show-path"), r: () => flip("show-arrows"),
  z: () => { if (chosen >= 0) show(boxes.start[chosen] - boxes.length[chosen] * 0.1, boxes.length[chosen] * 1.2); }, "?": () => byId("keys").onclick(),
  n: () => next_hit(1), N: () => next_hit(-1), Escape: () => choose(-1),
  e: () => { if (folded.size) folded.clear(); else for (let pe = 0; pe < data.n_pes; pe++) folded.add(pe); place_lanes(); redraw(); } };
addEventListener("keydown", event => {
  const scrolls = event.key.startsWith("Arrow") && document.activeElement !== canvas;  // elsewhere arrows scroll the page
  if (event.ctrlKey || event.metaKey || event.altKey || scrolls || !Object.hasOwn(ACTS, event.key)) return;
  event.preventDefault(); ACTS[event.key]();
});

function set_theme(dark) { document.documentElement.classList.toggle("dark", dark); read_colours(); redraw(); draw_matrix(); }
byId("theme").onclick = () => set_theme(!document.documentElement.classList.contains("dark"));
for (const [name, colour, kinds] of GROUPS) {
  if (!boxes.kind.some(kind => kinds.includes(KINDS[kind]))) continue;
  const key = element("span", "", "key"), swatch = element("span", "", "swatch");
  swatch.style.background = `var(--${colour})`; key.append(swatch, name); byId("legend").append(key);
}
const sum = name => data.pes.reduce((total, each) => total + each[name], 0);
const CARDS = [[duration(data.elapsed), "whole time"], [many(data.n_pes), data.n_pes === 1 ? "PE" : "PEs"], [percent(sum("busy") / PES_TIME), "busy"],
  [percent(sum("bubble") / PES_TIME), "only waiting"], [sum("communicate") ? percent(sum("overlap") / sum("communicate")) : "–", "communication hidden"],
  [data.imbalance === null ? "–" : data.imbalance.toFixed(2), "imbalance"]];
byId("cards").append(...CARDS.map(([value, name]) => { const card = element("div", "", "card"); card.append(element("b", value), element("span", name)); return card; }));
byId("command").textContent = [data.command, data.folder && `files in ${data.folder}`].filter(Boolean).join("   ·   "); byId("command").title = byId("command").textContent;
const lost = data.lost.reduce((a, b) => a + b, 0);
const WARNINGS = [];
if (data.status === null) WARNINGS.push("This trace stops before the run had ended: what came later is not in it.");
else if (data.status !== "ok") WARNINGS.push(`The run did not end well: ${data.status}`);
if (lost) WARNINGS.push(`${many(lost)} events were lost, because there was no room for them: all times here are lower bounds.`);
if (data.shorter) WARNINGS.push(`${many(data.events)} events are more than a page can show one by one: those shorter than ${duration(data.shorter)} are joined where they follow each other. Figures and tables are of all events.`);
byId("warnings").append(...WARNINGS.map(text => element("p", text)));

place_lanes();
set_theme(matchMedia("(prefers-color-scheme: dark)").matches);
view.start = -whole * 0.01; view.length = whole * 1.02;
open_panel("path");
draw();
addEventListener("resize", () => { draw(); draw_matrix(); });
