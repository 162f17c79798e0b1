// One line for each thing, its value and its interval: scores, differences, probabilities, diagnostics.
function drawIntervals(panel, view, part, hidden, label, say) {
  clear(panel);
  const rows = part.rows.filter(row => !hidden.has(row.name));
  const longest = Math.max(0, ...rows.map(row => row.name.length));
  // Names that would be cut stand above their rows.
  const narrow = panel.clientWidth < 560 || longest > 32, gap = narrow ? 40 : 28;
  const left = narrow ? 10 : Math.min(240, 16 + 7 * longest);
  const marks = part.marks ?? [], bottom = 42, right = 14, width = Math.max(240, panel.clientWidth);
  const values = part.rows.flatMap(row => [row.value, row.low, row.high, row.worst]);
  const [low, high] = range([...values, ...marks.map(one => one.at)], view.x, 0.06);
  const x = scale(low, high, left, width - right), across = ticks(low, high, (width - left) / 90);
  const lanes = laneNames(marks, x, left, width), top = lanes.length ? 10 + 13 * (1 + Math.max(...lanes.map(one => one.lane))) : 10;
  const [svg] = frame(panel, part.title ? `${label}: ${part.title}` : label, top + bottom + gap * rows.length);
  const foot = top + gap * rows.length;
  for (const span of part.spans ?? [])
    add(svg, "rect", {x: x(span.from), y: top, width: Math.max(0, x(span.to) - x(span.from)), height: foot - top, class: `part-${span.kind}`});
  for (const at of across) {
    add(svg, "line", {x1: x(at), x2: x(at), y1: top, y2: foot, class: "grid"});
    add(svg, "text", {x: x(at), y: foot + 16, "text-anchor": "middle", class: "faint"}, written(at, tickAxis(view.x, across)));
  }
  if (low < 0 && high > 0) add(svg, "line", {x1: x(0), x2: x(0), y1: top, y2: foot, class: "zero"});
  for (const {mark, place, anchor, lane} of lanes) {
    add(svg, "line", {x1: place, x2: place, y1: top - 4, y2: foot, class: "mark"});
    add(svg, "text", {x: place, y: 12 + 13 * lane, "text-anchor": anchor, class: "faint"}, mark.name);
  }
  add(svg, "text", {x: (left + width - right) / 2, y: foot + 34, "text-anchor": "middle"}, view.x.title);
  const chosen = add(svg, "rect", {x: 0, width, height: gap, class: "chosen", visibility: "hidden"});
  rows.forEach((row, index) => {
    const y = top + gap * index + (narrow ? 27 : gap / 2);
    const look = row.look ?? hue(row.colour);
    if (narrow) add(svg, "text", {x: left, y: y - 13, class: row.strong ? "strong" : null}, row.name);
    else add(svg, "text", {x: left - 10, y: y + 4, "text-anchor": "end", class: row.strong ? "strong" : null}, row.name);
    if (row.value === null) return;
    if (row.worst !== undefined && row.worst !== null) {
      add(svg, "line", {x1: x(row.worst), x2: x(row.value), y1: y, y2: y, class: `reach ${look}`});
      shape(svg, 3, x(row.worst), y, 4, `hollow ${look}`);
    }
    if (row.low !== null && row.low !== undefined)
      add(svg, "line", {x1: x(row.low), x2: x(row.high), y1: y, y2: y, class: `row ${look}`});
    shape(svg, row.look ? 1 : row.colour, x(row.value), y, 5, look);
  });
  const box = tip(panel);
  walk(svg, () => rows.length, event => {
    const at = Math.floor((mouse(svg, event)[1] - top) / gap);
    return at >= 0 && at < rows.length ? at : -1;
  }, index => {
    const row = rows[index];
    const value = `${view.x.short ?? "mean"} ${written(row.value, view.x)}${ends(row, view.x)}`;
    chosen.setAttribute("y", top + gap * index);
    chosen.setAttribute("visibility", "visible");
    box.show(row.name, [value, ...(row.note ?? [])], Math.max(left, x(row.value ?? low)), top + gap * (index + 1));
    say(`${row.name}: ${value}; ${(row.note ?? []).join("; ")}`);
  }, () => { box.hide(); chosen.setAttribute("visibility", "hidden"); });
}

// Where the names of marks stand: in the first line in which they touch no other.
function laneNames(marks, x, left, width) {
  const taken = [];
  return [...marks].sort((one, other) => one.at - other.at).map(mark => {
    const place = x(mark.at), long = 6.6 * mark.name.length;
    const anchor = place + long / 2 > width ? "end" : place - long / 2 < left ? "start" : "middle";
    const from = place - {start: 0, middle: long / 2, end: long}[anchor];
    let lane = taken.findIndex(until => until < from - 6);
    if (lane < 0) lane = taken.length;
    taken[lane] = from + long;
    return {mark, place, anchor, lane};
  });
}

// Every one of the rows with every one of the columns.
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function tint(share) {
  const at = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1), from = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[from].map((one, index) => Math.round(one + (at - from) * (VIRIDIS[from + 1][index] - one)));
}
function drawMap(panel, view, part, hidden, label, say) {
  clear(panel);
  const columns = part.columns.length, names = Math.max(...part.rows.map(name => name.length));
  const wide = Math.max(240, panel.clientWidth), left = Math.min(wide * 0.36, 14 + 6.6 * names);
  const longest = Math.min(26, Math.max(...part.columns.map(name => name.length)));
  // Cells are as wide as the names above them where there is room for that; else the names are slanted.
  const lettered = 7 * longest + 8, slanted = lettered > Math.min(120, (wide - left - 8) / columns);
  const right = slanted ? 4.4 * longest : 8;
  const cell = Math.max(9, Math.min(slanted ? 56 : Math.max(56, lettered), (wide - left - right) / columns)), tall = Math.max(14, Math.min(34, cell));
  const top = slanted ? 16 + 5.2 * longest : 22;
  const [svg, width] = frame(panel, label, top + tall * part.rows.length + 46);
  const found = part.cells.flat().filter(value => value !== null);
  const [low, high] = range(found, view.value, 0);
  const short = (name, most) => name.length > most ? `${name.slice(0, most - 1)}\u2026` : name;
  part.columns.forEach((name, column) => {
    const x = left + cell * (column + 0.5);
    if (cell < 11) return;
    add(svg, "text", slanted ? {transform: `translate(${x + 3} ${top - 6}) rotate(-50)`} : {x, y: top - 6, "text-anchor": "middle"}, short(name, 26));
  });
  part.rows.forEach((name, row) =>
    add(svg, "text", {x: left - 6, y: top + tall * (row + 0.5) + 4, "text-anchor": "end"}, short(name, Math.floor(left / 6.6))));
  part.cells.forEach((values, row) => values.forEach((value, column) => {
    if (value === null) return;
    const colour = tint((value - low) / (high - low));
    const x = left + cell * column, y = top + tall * row;
    add(svg, "rect", {x: x + 0.5, y: y + 0.5, width: cell - 1, height: tall - 1, fill: `rgb(${colour})`});
    const text = written(value, {...view.value, unit: "", digits: view.value.factor === 100 ? 0 : view.value.digits});
    const dark = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 140;
    if (cell >= 7.2 * text.length) {
      const made = add(svg, "text", {x: x + cell / 2, y: y + tall / 2 + 4, "text-anchor": "middle", class: "bare"}, text);
      made.style.fill = dark ? "#000" : "#fff";
    }
  }));
  const foot = top + tall * part.rows.length + 12;
  for (let share = 0; share < 1; share += 0.02)
    add(svg, "rect", {x: left + 160 * share, y: foot, width: 4, height: 10, fill: `rgb(${tint(share)})`});
  add(svg, "text", {x: left, y: foot + 24, class: "faint"}, written(low, view.value));
  add(svg, "text", {x: left + 160, y: foot + 24, "text-anchor": "end", class: "faint"}, written(high, view.value));
  add(svg, "text", {x: left + 172, y: foot + 10}, width - left > 330 ? view.value.title : "");
  const chosen = add(svg, "rect", {width: cell, height: tall, class: "cell-chosen", visibility: "hidden"}), box = tip(panel);
  walk(svg, () => part.rows.length * columns, event => {
    const [across, down] = mouse(svg, event), column = Math.floor((across - left) / cell), row = Math.floor((down - top) / tall);
    return column >= 0 && column < columns && row >= 0 && row < part.rows.length ? row * columns + column : -1;
  }, index => {
    const row = Math.floor(index / columns), column = index % columns, value = part.cells[row][column];
    chosen.setAttribute("x", left + cell * column); chosen.setAttribute("y", top + tall * row);
    chosen.setAttribute("visibility", "visible");
    const title = `${part.rows[row]} ${part.between ?? "with"} ${part.columns[column]}`;
    box.show(title, [written(value, view.value), ...(part.notes?.[row]?.[column] ? [part.notes[row][column]] : [])],
      left + cell * (column + 1), top + tall * (row + 1));
    say(`${title}: ${written(value, view.value)}`);
  }, () => { box.hide(); chosen.setAttribute("visibility", "hidden"); }, () => columns);
}
