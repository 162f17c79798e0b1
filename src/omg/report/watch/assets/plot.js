// How far the belief was from what came, step by step, with "they stay where they are" beside it.

const HIGH = 190, LEFT = 44, RIGHT = 12, TOP = 12, BOTTOM = 34;

/** The curve through the values that are there; gaps where there are none. */
function curve(values, x, y) {
  let path = "", open = false;
  values.forEach((value, at) => {
    if (value === null) { open = false; return; }
    path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  });
  return path;
}

/** The plot of a belief, `wide` pixels wide; `go(step)` is called where somebody points into it. */
function makePlot(film, game, belief, top, wide, go) {
  const WIDE = Math.max(wide, 240), last = Math.max(game.steps, 1), marks = ticks(top || 1), high = marks[marks.length - 1];
  const x = (at) => LEFT + ((WIDE - LEFT - RIGHT) * at) / last;
  const y = (value) => HIGH - BOTTOM - ((HIGH - TOP - BOTTOM) * value) / high;
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" });
  for (const mark of marks) {
    picture.append(svg("path", { class: "grid", d: `M${LEFT} ${y(mark)}H${WIDE - RIGHT}` }),
      svg("text", { class: "tick end", x: LEFT - 6, y: y(mark) + 4 }, String(mark)));
  }
  for (const mark of ticks(last, WIDE > 500 ? 8 : 4).filter((step) => step <= last && Number.isInteger(step))) {
    picture.append(svg("text", { class: "tick middle", x: x(mark), y: HIGH - BOTTOM + 16 }, String(mark)));
  }
  picture.append(svg("text", { class: "tick middle", x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 3 }, "step"),
    svg("path", { class: "stay-line", d: curve(belief.stay, x, y) }),
    svg("path", { class: "belief-line", d: curve(belief.error, x, y) }));
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HIGH - BOTTOM });
  const dots = [["belief-dot", belief.error], ["stay-dot", belief.stay]].map(([kind, values]) => [
    svg("circle", { class: kind, r: 4.5 }), values]);
  picture.append(cursor, ...dots.map(([dot]) => dot));
  const pointed = (event) => {
    const box = picture.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * WIDE;
    go(Math.round(clamp((place - LEFT) / (WIDE - LEFT - RIGHT), 0, 1) * last));
  };
  picture.addEventListener("pointerdown", (event) => { picture.setPointerCapture(event.pointerId); pointed(event); });
  picture.addEventListener("pointermove", (event) => { if (event.buttons) pointed(event); });
  const said = html("p", { class: "small now" });
  const show = (at) => {
    const now = Math.min(at, game.steps), error = belief.error[now] ?? null, stay = belief.stay[now] ?? null;
    fill(cursor, { x1: x(now), x2: x(now) }, []);
    for (const [dot, values] of dots) {
      const value = values[now] ?? null;
      dot.style.display = value === null ? "none" : "";
      if (value !== null) fill(dot, { cx: x(now), cy: y(value) }, []);
    }
    said.textContent = error === null
      ? `Step ${now}: nothing to compare, what it is compared with is not known.`
      : `Step ${now}: belief off by ${written(error)} ${film.unit}, "they stay" by ${written(stay)}.`;
  };
  picture.setAttribute("aria-label", `Distance between belief and what came, by step. ${belief.sentence}`);
  return { nodes: [picture, said], show };
}

const plotLegend = (belief) => html("p", { class: "legend" },
  html("span", {}, html("span", { class: "key belief-key" }), ` where the agent thinks they are ${belief.when}`),
  html("span", {}, html("span", { class: "key stay-key" }), " they stay where they are"));
