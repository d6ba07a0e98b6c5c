// The lines: where each lane stands, and what is drawn there.
const canvas = byId("lines"), map = byId("map"), pen = canvas.getContext("2d"), map_pen = map.getContext("2d");
const LEFT = 108, RULER = 22, HIGH = 17, LOW = 5, GAP = 9, THREAD_GAP = 3;
const folded = new Set(data.n_pes > 12 ? Array.from({ length: data.n_pes }, (_, pe) => pe) : []);
let lane_top = [], lane_high = [], rows = [], total_height = 0, chosen = -1, pointed = -1;

function place_lanes() {
  lane_top = new Array(data.lanes.length); lane_high = new Array(data.lanes.length); rows = [];
  let y = RULER + 4, at = 0;
  for (let pe = 0; pe < data.n_pes; pe++) {
    const row = { pe, top: y, threads: [] }, high = folded.has(pe) ? LOW : HIGH;
    let thread = -1;
    for (; at < data.lanes.length && data.lanes[at][0] === pe; at++) {
      if (data.lanes[at][1] !== thread) {
        if (thread >= 0) y += THREAD_GAP;
        thread = data.lanes[at][1];
        row.threads.push([thread, y]);
      }
      lane_top[at] = y; lane_high[at] = high; y += high;
    }
    row.bottom = y = Math.max(y, row.top + HIGH);
    rows.push(row);
    y += GAP;
  }
  total_height = y;
}

function sized(target, context, height) {
  const ratio = devicePixelRatio || 1, width = target.clientWidth;
  if (target.width !== Math.round(width * ratio) || target.height !== Math.round(height * ratio)) {
    target.width = Math.round(width * ratio); target.height = Math.round(height * ratio);
    target.style.height = height + "px";
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return width;
}

let lines_height = 0;  // what the reader has dragged; 0: as high as there is need, up to half of the window
const height_of_lines = () =>
  lines_height || Math.max(160, Math.min(total_height + 4, Math.round(innerHeight * 0.55)));
const to_x = (time, width) => LEFT + (time - view.start) / view.length * (width - LEFT);
const to_time = (x, width) => view.start + (x - LEFT) / (width - LEFT) * view.length;

function first_after(lane, time) {  // the first box of a lane that ends after a time
  let low = boxes.first[lane], high = boxes.first[lane + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes.end[middle] > time || (boxes.length[middle] === 0 && boxes.end[middle] === time)) high = middle; else low = middle + 1;
  }
  return low;
}

let drawn = 0;  // rectangles of the last drawing
function draw_lane(context, lane, top, high, width, left, from, length) {
  const scale = (width - left) / length, last = boxes.first[lane + 1], until = from + length;
  let column = -1, longest = 0, ink = "", faint = false, run = 0;
  const flush = () => {
    if (column >= 0) { context.globalAlpha = faint ? 0.16 : 1; context.fillStyle = ink; context.fillRect(column, top, run, high - 1); drawn++; }
    column = -1;
  };
  for (let i = first_after(lane, from); i < last && boxes.start[i] < until; i++) {
    const x0 = Math.max(left, left + (boxes.start[i] - from) * scale), x1 = Math.min(width, left + (boxes.end[i] - from) * scale);
    const colour = colours[boxes.kind[i]], dim = !matches(boxes.site[i], boxes.kind[i]);
    if (x1 - x0 >= 1.5) {
      flush();
      context.globalAlpha = dim ? 0.16 : 1;
      context.fillStyle = colour;
      context.fillRect(x0, top, x1 - x0 - (x1 - x0 > 4 ? 0.6 : 0), high - 1); drawn++;
      if (high >= HIGH && x1 - x0 > 34 && context === pen) label(i, x0, x1, top, high);
      continue;
    }
    // Below a pixel: of what falls into one column the longest is shown, and equal columns are joined.
    const pixel = Math.floor(x0);
    if (column >= 0 && pixel < column + run) {
      if (boxes.length[i] > longest && run === 1) { longest = boxes.length[i]; ink = colour; faint = dim; }
    } else if (column >= 0 && pixel === column + run && colour === ink && faint === dim) run++;
    else { flush(); column = pixel; run = 1; longest = boxes.length[i]; ink = colour; faint = dim; }
  }
  flush();
  context.globalAlpha = 1;
}

function label(i, x0, x1, top, high) {
  const name = boxes.count[i] > 1 ? `${many(boxes.count[i])} events` : data.sites[boxes.site[i]][0];
  const kind = KINDS[boxes.kind[i]];
  pen.save();
  pen.beginPath(); pen.rect(x0, top, x1 - x0 - 2, high); pen.clip();
  pen.fillStyle = ["RANGE"].includes(kind) || colour_names[boxes.kind[i]] === "wait" ? paint.text : ink_on(colours[boxes.kind[i]]);
  pen.fillText(name, Math.max(x0, LEFT) + 4, top + high - 5);
  pen.restore();
}
function ink_on(colour) {
  const [r, g, b] = [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 150 ? "#111" : "#fff";
}

function nice(length) {
  const power = 10 ** Math.floor(Math.log10(Math.max(length, 1)));
  return [1, 2, 5, 10].map(n => n * power).find(step => step >= length) || 10 * power;
}
function draw_ruler(width, height) {
  const step = nice(view.length / Math.max(2, (width - LEFT) / 120));
  pen.fillStyle = paint.soft; pen.fillRect(0, 0, width, RULER);
  pen.font = "11px system-ui, sans-serif"; pen.lineWidth = 1;
  for (let t = Math.ceil(view.start / step) * step; t < view.start + view.length; t += step) {
    const x = Math.round(to_x(t, width)) + 0.5;
    pen.strokeStyle = paint.line;
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke();
    pen.fillStyle = paint.quiet; pen.fillText(duration(t), x + 4, 15);
  }
}

let arrows_note = "";
function draw_arrows(width, height) {
  arrows_note = "";
  if (!byId("show-arrows").checked) return;
  const seen = [], until = view.start + view.length;
  for (let i = 0; i < arrows.start.length && arrows.start[i] < until; i++) {
    if (arrows.end[i] > view.start && arrows.from[i] >= 0 && arrows.to[i] >= 0) seen.push(i);
  }
  if (seen.length > 400) { arrows_note = `${many(seen.length)} arrows: zoom in to see them`; return; }
  pen.strokeStyle = pen.fillStyle = paint.text; pen.globalAlpha = seen.length > 60 ? 0.28 : 0.6; pen.lineWidth = 1.1;
  for (const i of seen) {
    const a = arrows.from[i], b = arrows.to[i];
    const x0 = to_x(arrows.start[i], width), x1 = to_x(arrows.end[i], width);
    const y0 = lane_top[a] + lane_high[a] / 2 - view.top, y1 = lane_top[b] + lane_high[b] / 2 - view.top;
    if (Math.max(y0, y1) < RULER || Math.min(y0, y1) > height) continue;
    const bend = Math.max(14, Math.abs(x1 - x0) / 3);
    pen.beginPath(); pen.moveTo(x0, y0); pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1); pen.stroke();
    pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x1 - 6, y1 - 3); pen.lineTo(x1 - 6, y1 + 3); pen.fill();
  }
  pen.globalAlpha = 1;
}

function draw_path(width) {
  if (!byId("show-path").checked) return;
  const until = view.start + view.length;
  pen.strokeStyle = pen.fillStyle = paint.path; pen.lineWidth = 2;
  let before = null, column = -2;
  for (let i = 0; i < path.start.length; i++) {
    if (path.end[i] < view.start) { before = null; continue; }
    if (path.start[i] > until) break;
    const row = rows[path.pe[i]], lane = path.lane[i];
    const top = (lane >= 0 ? lane_top[lane] : row.top) - view.top, high = lane >= 0 ? lane_high[lane] : HIGH;
    const x0 = Math.max(LEFT, to_x(path.start[i], width)), x1 = Math.min(width, to_x(path.end[i], width));
    const y = top + high;
    if (before && Math.abs(before.y - y) > 1 && before.end === path.start[i]) {
      const pixel = Math.round(x0);
      if (pixel !== column) { pen.globalAlpha = 0.7; pen.lineWidth = 1.2; pen.beginPath(); pen.moveTo(x0, before.y); pen.lineTo(x0, y); pen.stroke(); }
      column = pixel;
    }
    pen.globalAlpha = lane >= 0 ? 1 : 0.45;
    pen.fillRect(x0, y - 3, Math.max(1, x1 - x0), 3);
    if (lane >= 0 && x1 - x0 > 5 && high >= HIGH) { pen.lineWidth = 1.5; pen.strokeRect(x0 + 0.7, top + 0.7, x1 - x0 - 1.4, high - 2); }
    before = { y, end: path.end[i] };
  }
  pen.globalAlpha = 1;
}

function draw_names(width, height) {
  pen.fillStyle = paint.back; pen.fillRect(0, RULER, LEFT - 1, height);
  pen.strokeStyle = paint.line; pen.lineWidth = 1;
  pen.beginPath(); pen.moveTo(LEFT - 0.5, 0); pen.lineTo(LEFT - 0.5, height); pen.stroke();
  for (const row of rows) {
    const y = row.top - view.top;
    if (row.bottom - view.top < RULER || y > height) continue;
    pen.fillStyle = paint.text; pen.font = "600 12px system-ui, sans-serif";
    pen.fillText(`${folded.has(row.pe) ? "▸" : "▾"} PE ${row.pe}`, 7, y + 12.5);
    if (folded.has(row.pe)) continue;
    pen.font = "11px system-ui, sans-serif"; pen.fillStyle = paint.quiet; pen.textAlign = "right";
    for (const [thread, top] of row.threads) if (row.threads.length > 1) pen.fillText(data.threads[thread], LEFT - 6, top - view.top + 12.5);
    pen.textAlign = "left";
  }
}

function draw_lines() {
  const height = height_of_lines(), width = sized(canvas, pen, height);
  view.top = Math.max(0, Math.min(view.top, total_height - height));
  pen.font = "11px system-ui, sans-serif"; drawn = 0;
  draw_ruler(width, height);
  pen.save(); pen.beginPath(); pen.rect(0, RULER, width, height); pen.clip();
  for (const row of rows) {
    const y = row.bottom - view.top + GAP / 2;
    if (y > RULER && y < height) { pen.fillStyle = paint.line; pen.globalAlpha = 0.6; pen.fillRect(0, y, width, 1); pen.globalAlpha = 1; }
  }
  for (let lane = 0; lane < data.lanes.length; lane++) {
    const top = lane_top[lane] - view.top;
    if (top + lane_high[lane] > RULER && top < height) draw_lane(pen, lane, top, lane_high[lane], width, LEFT, view.start, view.length);
  }
  draw_path(width); draw_arrows(width, height); draw_frame(chosen, width, 2.5); draw_frame(pointed, width, 1.2);
  draw_names(width, height);
  pen.restore();
  if (arrows_note) { const long = pen.measureText(arrows_note).width + 16; pen.fillStyle = paint.soft; pen.fillRect(width - long, 0, long, RULER); pen.fillStyle = paint.quiet; pen.textAlign = "right"; pen.fillText(arrows_note, width - 8, 15); pen.textAlign = "left"; }
}
const lane_of = i => { let lane = 0; while (boxes.first[lane + 1] <= i) lane++; return lane; };
function draw_frame(i, width, thick) {
  if (i < 0) return;
  const lane = lane_of(i), x0 = Math.max(LEFT - 5, to_x(boxes.start[i], width)), x1 = Math.min(width + 5, to_x(boxes.end[i], width));
  pen.strokeStyle = paint.text; pen.lineWidth = thick;
  if (x1 > LEFT && x0 < width) pen.strokeRect(x0 - 1, lane_top[lane] - view.top - 1, Math.max(3, x1 - x0 + 1), lane_high[lane] + 1);
}

// The overview: each PE's first lanes, and a window on what is shown.
let map_image = null, map_key = "";
function draw_map() {
  const width = sized(map, map_pen, 44), ratio = devicePixelRatio || 1;
  const key = `${width} ${document.documentElement.className} ${byId("search").value}`;
  if (key !== map_key) {
    map_key = key;
    const shown = data.lanes.map((lane, i) => [lane, i]).filter(([lane]) => lane[2] === 0 && (lane[1] === 0 || lane[1] === 3));
    const deep = data.lanes.map((lane, i) => [lane, i]).filter(([lane]) => lane[1] === 0 && lane[2] > 0 && lane[2] < 4);
    const high = Math.max(1, 40 / data.n_pes);
    for (const [lane, i] of [...shown, ...deep]) draw_lane(map_pen, i, 2 + lane[0] * high, Math.max(1.6, high), width, 0, -whole * 0.02, whole * 1.04);
    map_image = document.createElement("canvas"); map_image.width = map.width; map_image.height = map.height;
    map_image.getContext("2d").drawImage(map, 0, 0);
  } else if (map.width && map.height) {
    map_pen.setTransform(1, 0, 0, 1, 0, 0); map_pen.drawImage(map_image, 0, 0); map_pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const x = time => (time + whole * 0.02) / (whole * 1.04) * width;
  const x0 = x(view.start), x1 = Math.max(x(view.start + view.length), x0 + 3);
  map_pen.globalAlpha = 0.62; map_pen.fillStyle = paint.soft;
  map_pen.fillRect(0, 0, x0, 44); map_pen.fillRect(x1, 0, width, 44);
  map_pen.globalAlpha = 1; map_pen.strokeStyle = paint.accent; map_pen.lineWidth = 2; map_pen.strokeRect(x0 + 1, 1, x1 - x0 - 2, 42);
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; if (canvas.isConnected) draw(); });
}
function draw() { draw_lines(); draw_map(); }

// What is under the mouse, and what is said of it.
function box_at(x, y) {
  const width = canvas.clientWidth, line = y + view.top;
  if (x < LEFT || y < RULER) return -1;
  const lane = lane_top.findIndex((top, i) => line >= top && line < top + lane_high[i]);
  if (lane < 0) return -1;
  const slack = 2.5 * view.length / (width - LEFT), time = to_time(x, width);
  let best = -1, distance = Infinity;
  for (let i = first_after(lane, time - slack); i < boxes.first[lane + 1] && boxes.start[i] <= time + slack; i++) {
    const off = Math.max(0, boxes.start[i] - time, time - boxes.end[i]);
    if (off < distance || (off === distance && best >= 0 && boxes.start[i] > boxes.start[best])) { best = i; distance = off; }
  }
  return best;
}
function describe(i) {
  const [name, place, details] = data.sites[boxes.site[i]], kind = KINDS[boxes.kind[i]], [pe, thread] = data.lanes[lane_of(i)];
  const parts = [];
  if (boxes.count[i] > 1) {
    parts.push(["b", `${many(boxes.count[i])} events, each shorter than ${duration(data.shorter)}`],
      ["span", ` PE ${pe}, ${data.threads[thread]}; the longest: `], ["b", name]);
    if (place) parts.push(["span", ` ${place}`, "mono quiet"]);
    parts.push(["div", `from ${duration(boxes.start[i])} to ${duration(boxes.end[i])}`]);
    return parts;
  }
  parts.push(["b", name || "(no name)"], ["span", ` ${WORDS[kind] || kind}, PE ${pe}` + (thread ? `, ${data.threads[thread]}` : "")]);
  if (place) parts.push(["div", place, "mono"]);
  let text = boxes.length[i] || kind !== "INSTANT" ? `${duration(boxes.length[i])} from ${duration(boxes.start[i])}` : `at ${duration(boxes.start[i])}`;
  if (boxes.own[i] !== boxes.length[i]) text += `; ${duration(boxes.own[i])} of it not within others`;
  if (boxes.size[i]) text += `; ${bytes(boxes.size[i])}`;
  if (boxes.peer[i] >= 0) text += kind === "GET" ? ` from PE ${boxes.peer[i]}` : kind === "WAIT" ? `; ended by PE ${boxes.peer[i]}` : ` to PE ${boxes.peer[i]}`;
  parts.push(["div", text]);
  if (details) parts.push(["div", details, "quiet"]);
  return parts;
}
function fill(target, i) {
  target.replaceChildren(...describe(i).map(([tag, text, name]) => element(tag, text, name)));
}
function choose(i) {
  chosen = i;
  if (i >= 0) fill(byId("chosen"), i);
  else byId("chosen").replaceChildren(element("span", "Point at an event, or click it.", "quiet"));
  redraw();
}
function reveal(i, closer = true) {
  choose(i);
  const lane = lane_of(i);
  if (folded.delete(data.lanes[lane][0])) place_lanes();
  const length = closer ? Math.max(boxes.length[i] * 12, 2000, Math.min(view.length, whole / 20)) : view.length;
  if (closer || boxes.start[i] < view.start || boxes.end[i] > view.start + view.length) show((boxes.start[i] + boxes.end[i] - length) / 2, length);
  if (lane_top[lane] - view.top < RULER || lane_top[lane] + HIGH - view.top > height_of_lines()) view.top = lane_top[lane] - height_of_lines() / 2;
}

// A pointer that is gone already cannot be followed.
function follow(target, pointer) { try { target.setPointerCapture(pointer); } catch { /* then without */ } }
canvas.onwheel = event => {
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) show(view.start + (event.deltaX || event.deltaY) / canvas.clientWidth * view.length, view.length);
  else if (event.ctrlKey || event.offsetX > LEFT) zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) * 0.0022), to_time(event.offsetX, canvas.clientWidth));
  else { view.top += event.deltaY; redraw(); }
};
let dragged = null;
const fingers = new Map();
canvas.onpointerdown = event => {
  follow(canvas, event.pointerId);
  fingers.set(event.pointerId, event.offsetX);
  dragged = { x: event.offsetX, y: event.offsetY, start: view.start, top: view.top, moved: false };
};
canvas.onpointermove = event => {
  const width = canvas.clientWidth;
  if (fingers.size === 2 && fingers.has(event.pointerId)) {  // two fingers zoom
    const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
    const before = Math.abs(fingers.get(event.pointerId) - other), after = Math.abs(event.offsetX - other);
    if (before > 4 && after > 4) zoom(before / after, to_time((event.offsetX + other) / 2, width));
    fingers.set(event.pointerId, event.offsetX);
  } else if (dragged && fingers.size) {
    const dx = event.offsetX - dragged.x, dy = event.offsetY - dragged.y;
    if (Math.abs(dx) + Math.abs(dy) > 3) dragged.moved = true;
    if (dragged.moved) { canvas.classList.add("dragged"); view.top = dragged.top - dy; show(dragged.start - dx / (width - LEFT) * view.length, view.length); }
  } else point_at(box_at(event.offsetX, event.offsetY), event);
};
canvas.onpointerup = canvas.onpointercancel = event => {
  fingers.delete(event.pointerId); canvas.classList.remove("dragged");
  if (dragged && !dragged.moved && event.type === "pointerup") {
    const row = rows.find(each => event.offsetY + view.top >= each.top && event.offsetY + view.top < each.bottom + GAP);
    if (event.offsetX < LEFT && event.offsetY > RULER && row) fold(row.pe);
    else choose(box_at(event.offsetX, event.offsetY));
  }
  if (!fingers.size) dragged = null;
};
canvas.onpointerleave = () => point_at(-1);
canvas.ondblclick = event => { const i = box_at(event.offsetX, event.offsetY); if (i >= 0) show(boxes.start[i] - boxes.length[i] * 0.1, boxes.length[i] * 1.2); };
function fold(pe) { if (!folded.delete(pe)) folded.add(pe); place_lanes(); redraw(); }
function point_at(i, event) {
  const tip = byId("tip");
  if (pointed !== i) { pointed = i; redraw(); }
  tip.hidden = i < 0;
  if (i < 0) return;
  fill(tip, i);
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18) + "px";
}
map.onpointerdown = map.onpointermove = event => {
  if (event.type === "pointerdown") follow(map, event.pointerId);
  if (event.buttons) show((event.offsetX / map.clientWidth) * whole * 1.04 - whole * 0.02 - view.length / 2, view.length);
};
map.onwheel = event => { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.0022)); };
const splitter = byId("splitter");
splitter.onpointerdown = event => { follow(splitter, event.pointerId); };
splitter.onpointermove = event => { if (event.buttons) resize_lines(event.clientY - canvas.getBoundingClientRect().top); };
splitter.onkeydown = event => { const by = { ArrowUp: -30, ArrowDown: 30 }[event.key]; if (by) { resize_lines(height_of_lines() + by); event.preventDefault(); } };
function resize_lines(height) { lines_height = Math.max(120, Math.min(height, innerHeight * 0.9)); redraw(); }
