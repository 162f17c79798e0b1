// Curves with bands: learning curves, scores against training, performance profiles, offsets.
function drawLines(panel, view, part, hidden, label, say) {
  clear(panel);
  const height = panel.clientWidth < 420 ? 240 : 300;
  const [svg, width] = frame(panel, part.title ? `${label}: ${part.title}` : label, height);
  const series = part.series.filter(one => !hidden.has(one.name));
  const xs = [...new Set(part.series.flatMap(one => one.x))].sort((one, other) => one - other);
  const [left, right, top, bottom] = [52, 12, 12, 44];
  const values = part.series.flatMap(one => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]);
  const [low, high] = range([...values, ...(part.marks ?? []).map(one => one.at)], view.y);
  const x = scale(...range(xs, view.x, 0), left, width - right), y = scale(low, high, height - bottom, top);
  const across = ticks(...range(xs, view.x, 0), width / 110, view.x.least), up = ticks(low, high, 5);
  for (const at of up) {
    add(svg, "line", {x1: left, x2: width - right, y1: y(at), y2: y(at), class: "grid"});
    add(svg, "text", {x: left - 6, y: y(at) + 4, "text-anchor": "end", class: "faint"}, written(at, tickAxis(view.y, up)));
  }
  for (const at of across)
    add(svg, "text", {x: x(at), y: height - bottom + 18, "text-anchor": x(at) > width - 30 ? "end" : "middle", class: "faint"}, written(at, tickAxis(view.x, across)));
  add(svg, "line", {x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis"});
  add(svg, "text", {x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, view.x.title);
  for (const mark of part.marks ?? []) {
    add(svg, "line", {x1: left, x2: width - right, y1: y(mark.at), y2: y(mark.at), class: "mark"});
    add(svg, "text", {x: width - right, y: y(mark.at) - 4, "text-anchor": "end", class: "faint"}, mark.name);
  }
  const join = (one, heights, reverse = false) => {
    const order = one.x.map((_, index) => index).filter(index => heights[index] !== null);
    if (reverse) order.reverse();
    return order.map((index, place) => {
      const at = `${x(one.x[index]).toFixed(1)} ${y(heights[index]).toFixed(1)}`;
      const [h, v] = [`H${x(one.x[index]).toFixed(1)}`, `V${y(heights[index]).toFixed(1)}`];
      return place ? (one.step ? (reverse ? v + h : h + v) : `L${at}`) : `M${at}`;
    }).join("");
  };
  for (const one of series) if (one.low && one.low.some(value => value !== null))
    add(svg, "path", {d: `${join(one, one.high)}${join(one, one.low, true).replace("M", "L")}Z`, class: `band ${hue(one.colour)}`});
  for (const one of series) {
    add(svg, "path", {d: join(one, one.y), class: `line ${hue(one.colour)}`, "stroke-dasharray": dash(one.colour)});
    // A short curve has a shape wherever it was measured, a long one some, each at places of its own.
    const every = one.step || one.x.length > 40 ? Math.ceil(one.x.length / 8) : 1, first = (2 * one.colour) % every;
    one.x.forEach((at, index) => {
      if (one.y[index] !== null && index % every === first) shape(svg, one.colour, x(at), y(one.y[index]), 3, hue(one.colour));
    });
  }
  const cross = add(svg, "line", {y1: top, y2: height - bottom, class: "cross", visibility: "hidden"});
  const box = tip(panel);
  const closest = to => {
    let best = 0;
    xs.forEach((at, index) => { if (Math.abs(x(at) - to) < Math.abs(x(xs[best]) - to)) best = index; });
    return best;
  };
  walk(svg, () => xs.length, event => closest(mouse(svg, event)[0]), index => {
    const at = xs[index];
    const lines = series.map(one => [one, nearestPoint(one, at)]).filter(([, found]) => found !== null)
      .sort((first, second) => second[1].value - first[1].value)
      .map(([one, found]) => `${one.name}: ${written(found.value, view.y)}${ends(found, view.y)}`);
    cross.setAttribute("x1", x(at)); cross.setAttribute("x2", x(at)); cross.setAttribute("visibility", "visible");
    const title = `${written(at, {...view.x, steps: false, digits: view.x.digits ?? 0})} ${view.x.short ?? ""}`.trim();
    box.show(title, lines.slice(0, 14).concat(lines.length > 14 ? [`and ${lines.length - 14} more`] : []), x(at), top);
    say(`${title}: ${lines.join("; ")}`);
  }, () => { box.hide(); cross.setAttribute("visibility", "hidden"); });
}

// The value of a curve where it was measured, or on the line between; null outside.
function nearestPoint(one, at) {
  const after = one.x.findIndex(value => value >= at);
  if (after < 0 || (after === 0 && one.x[0] > at)) return null;
  const pick = (values, from, to, share) => {
    if (!values || values[from] === null || values[to] === null) return null;
    return one.step && share > 0 ? values[from] : values[from] + share * (values[to] - values[from]);
  };
  const from = one.x[after] === at ? after : after - 1;
  const share = from === after ? 0 : (at - one.x[from]) / (one.x[after] - one.x[from]);
  const value = pick(one.y, from, after, share);
  return value === null ? null : {value, low: pick(one.low, from, after, share), high: pick(one.high, from, after, share)};
}
