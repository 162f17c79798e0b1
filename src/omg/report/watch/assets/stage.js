// The field with its pieces at one moment, and what is drawn over them.

/** Radius by which a piece is drawn: its own, but never too small to be seen. */
const drawn = (film, piece) => (film.stage.cells ? piece.size : Math.max(piece.size, film.view[2] / 64));

/** Whether a seat sees a piece at a moment; true where the game hides nothing. */
function sees(film, game, seat, piece, at) {
  const own = film.seats[seat];
  if (film.sight === null || own === null || own === piece) return true;
  const dx = Math.abs(game.x[at][piece] - game.x[at][own]), dy = Math.abs(game.y[at][piece] - game.y[at][own]);
  return film.sight_square ? Math.max(dx, dy) <= film.sight : Math.hypot(dx, dy) < film.sight;
}

function board(film) {
  const { left, top, width, height, cells } = film.stage;
  const group = svg("g", {}, svg("rect", { class: "ground", x: left, y: top, width, height }));
  if (cells) {
    let lines = "";
    for (let x = 1; x < width; x++) lines += `M${left + x} ${top}v${height}`;
    for (let y = 1; y < height; y++) lines += `M${left} ${top + y}h${width}`;
    group.append(svg("path", { class: "lines", d: lines }));
  }
  return group;
}

/** A bar on a piece, where it covers no neighbour: the upper one of two has `place` 1. */
function bar(x, y, size, place, share, kind) {
  const height = size / 4, side = 0.75 * size, top = y - 0.5 * size - (place + 1) * 1.2 * height;
  return svg("g", { class: kind },
    svg("rect", { class: "empty", x: x - side, y: top, width: 2 * side, height }),
    svg("rect", { class: "full", x: x - side, y: top, width: 2 * side * clamp(share, 0, 1), height }));
}

/** The number that a piece shows in the place of its name, such as its level; null: it shows its name. */
const ownNumber = (game, number, at) => (game.written ? game.written[at][number] ?? null : null);

function pieceGroup(film, game, at, number, seat, layers) {
  const piece = film.pieces[number], size = drawn(film, piece), x = game.x[at][number], y = game.y[at][number];
  const hidden = layers.sight && !sees(film, game, seat, number, at);
  const group = svg("g", { class: hidden ? "piece hidden" : "piece" });
  if (film.seats[seat] === number) group.append(svg("circle", { class: "chosen", cx: x, cy: y, r: 1.32 * size }));
  group.append(piece.square
    ? svg("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: size / 6, fill: piece.colour })
    : svg("circle", { cx: x, cy: y, r: size, fill: piece.colour }));
  const own = ownNumber(game, number, at), text = own === null ? piece.label : String(own);
  if (text) group.append(svg("text", { x, y: y + 0.36 * size, "font-size": 1.05 * size }, text));
  if (own !== null && piece.label) {
    group.append(svg("text", { class: "name", x: x + 1.02 * size, y: y + 1.2 * size, "font-size": 0.62 * size }, `#${piece.label}`));
  }
  const health = game.health[at][number], shield = game.shield ? game.shield[at][number] : null;
  const wait = game.cooldown ? game.cooldown[at][number] : 0;
  let place = 0;
  if (film.fights || health < 1) group.append(bar(x, y, size, place++, health, health > 0.4 ? "well" : "hurt"));
  if (shield !== null && piece.shield) group.append(bar(x, y, size, place++, shield, "shield"));
  if (wait > 0) group.append(svg("path", { class: "wait", d: arc(x, y, 1.12 * size, wait) }));
  const facts = [piece.name, `health ${percent(health)}`];
  if (shield !== null && piece.shield) facts.push(`shield ${percent(shield)}`);
  if (wait > 0) facts.push(`ready again in ${percent(wait)} of its cooldown`);
  group.prepend(svg("title", {}, facts.join(", ")));
  return group;
}

/** A piece of a circle, clockwise from the top. */
function arc(x, y, radius, share) {
  const turn = 2 * Math.PI * clamp(share, 0, 0.999);
  const to = `${x + radius * Math.sin(turn)} ${y - radius * Math.cos(turn)}`;
  return `M${x} ${y - radius}A${radius} ${radius} 0 ${turn > Math.PI ? 1 : 0} 1 ${to}`;
}

function ranges(film, game, at, seat) {
  const own = film.seats[seat], group = svg("g", {});
  if (own === null || !game.there[at][own]) return group;
  const x = game.x[at][own], y = game.y[at][own];
  for (const [name, radius] of [["sight", film.sight], ["reach", film.pieces[own].reach]]) {
    if (radius === null) continue;
    const side = radius + 0.5;
    group.append(film.sight_square && name === "sight"
      ? svg("rect", { class: name, x: x - side, y: y - side, width: 2 * side, height: 2 * side })
      : svg("circle", { class: name, cx: x, cy: y, r: radius }));
  }
  return group;
}

function shots(film, game, at) {
  const group = svg("g", {});
  for (const [from, to] of at < game.steps ? game.shots[at] : []) {
    group.append(svg("line", {
      class: film.pieces[to].own ? "heal" : "shot",
      x1: game.x[at][from], y1: game.y[at][from], x2: game.x[at][to], y2: game.y[at][to],
    }));
  }
  return group;
}

/** Ghosts: where the seat thinks that others will be, over where they really were. */
function ghosts(film, game, at, seat, layers) {
  const truth = svg("g", {}), belief = svg("g", {}), mind = game.minds[seat], heading = mind && mind.heading;
  if (!heading) return [];
  heading.pieces.forEach((number, index) => {
    const x = heading.x[at][index], y = heading.y[at][index], piece = film.pieces[number];
    const realX = heading.later_x[at][index], realY = heading.later_y[at][index];
    const size = drawn(film, piece), known = realX !== null, r = 0.5 * size;
    if (layers.really && known) {
      truth.append(svg("path", { class: "really", d:
        `M${realX} ${realY - r}L${realX + r} ${realY}L${realX} ${realY + r}L${realX - r} ${realY}Z` },
      svg("title", {}, `${piece.name}: really here ${heading.when}`)));
    }
    if (x === null || !layers.ghosts) return;
    if (layers.between && known && layers.really) {
      truth.append(svg("line", { class: "between", x1: x, y1: y, x2: realX, y2: realY }));
    }
    if (layers.paths && game.there[at][number]) {
      truth.append(svg("line", { class: "path", x1: game.x[at][number], y1: game.y[at][number], x2: x, y2: y }));
    }
    belief.append(svg("circle", { class: "halo", cx: x, cy: y, r: 0.85 * size }), svg("circle", { class: "ghost", cx: x, cy: y, r: 0.85 * size },
      svg("title", {}, `${piece.name}: believed here ${heading.when}`)));
    if (piece.label) {
      const numbered = ownNumber(game, number, at) !== null, high = numbered ? 0.75 * size : size;
      belief.append(svg("text", { class: "ghost-name", x, y: y + 0.34 * high, "font-size": high }, numbered ? `#${piece.label}` : piece.label));
    }
  });
  return [truth, belief];
}

/** What the others are after, as the seat thinks: the more likely, the thicker. */
function aims(film, game, at, seat) {
  const group = svg("g", {}), mind = game.minds[seat], goals = mind && mind.goals;
  if (!goals || at >= goals.chances.length) return group;
  goals.of.forEach((other, index) => {
    const piece = film.seats[other];
    if (piece === null || !game.there[at][piece]) return;
    (goals.chances[at][index] || []).forEach((chance, goal) => {
      const x = goals.x[at][goal], y = goals.y[at][goal];
      if (x === null || !(chance > 0.02)) return;
      group.append(svg("line", { class: "aim", "stroke-width": 1 + 5 * chance, "stroke-opacity": 0.25 + 0.75 * chance,
        x1: game.x[at][piece], y1: game.y[at][piece], x2: x, y2: y },
      svg("title", {}, `${film.seat_names[other]} is after ${goals.names[goal]}: ${percent(chance)}`)));
    });
  });
  return group;
}

/** An arrow from a piece in a direction, the longer and thicker the larger the share. */
function arrow(kind, x, y, [dx, dy], size, share) {
  const start = 1.1 * size, length = start + 1.6 * size * share, wing = 0.35 * size;
  const [ex, ey] = [x + dx * length, y + dy * length];
  return svg("path", {
    class: kind, "stroke-width": 1.5 + 5 * share,
    d: `M${x + dx * start} ${y + dy * start}L${ex} ${ey}M${ex - dx * wing - dy * wing} ${ey - dy * wing - dx * wing}`
      + `L${ex} ${ey}L${ex - dx * wing + dy * wing} ${ey - dy * wing + dx * wing}`,
  });
}

/** How often the search went each way from where the seat stands. */
function visits(film, game, at, seat) {
  const group = svg("g", {}), mind = game.minds[seat], own = film.seats[seat];
  if (!mind || !mind.visits || at >= mind.visits.length || own === null) return group;
  const row = mind.visits[at], most = Math.max(...row, 1e-9), x = game.x[at][own], y = game.y[at][own];
  const size = drawn(film, film.pieces[own]);
  for (const [action, way] of Object.entries(film.moves)) {
    if (row[action] > 0) group.append(arrow("visit", x, y, way, size, row[action] / most));
  }
  return group;
}

/** What the others most likely do now, as the seat thinks: where they go, or whom they do it to. */
function guesses(film, game, at, seat) {
  const group = svg("g", {}), mind = game.minds[seat], guess = mind && mind.predicted;
  if (!guess || at >= game.steps) return group;
  guess.of.forEach((other, index) => {
    const chances = guess.chances[at][index], piece = film.seats[other];
    if (!chances || chances[0] === null || piece === null || !game.there[at][piece]) return;
    const chance = Math.max(...chances), best = chances.indexOf(chance), aim = film.aims[best];
    const x = game.x[at][piece], y = game.y[at][piece];
    const one = film.moves[best] ? arrow("guess", x, y, film.moves[best], drawn(film, film.pieces[piece]), chance)
      : aim !== undefined && game.there[at][aim]
        ? svg("line", { class: "guess", "stroke-width": 1 + 3 * chance, x1: x, y1: y, x2: game.x[at][aim], y2: game.y[at][aim] }) : null;
    if (one === null) return;
    one.append(svg("title", {}, `${film.seat_names[other]}: ${film.actions[best]}, ${percent(chance)}`));
    group.append(one);
  });
  return group;
}

/** Draws a game at a moment into its picture. */
function drawStage(film, game, picture, state) {
  const at = Math.min(state.at, game.steps), { seat, layers } = state;
  const back = svg("g", { class: "back" }), front = svg("g", {});
  film.pieces.forEach((piece, number) => {
    if (game.there[at][number]) (piece.square ? back : front).append(pieceGroup(film, game, at, number, seat, layers));
  });
  const over = svg("g", {});
  if (layers.ranges) over.append(ranges(film, game, at, seat));
  if (layers.shots) over.append(shots(film, game, at));
  if (layers.goals) over.append(aims(film, game, at, seat));
  picture.replaceChildren(board(film), back, over, front, ...ghosts(film, game, at, seat, layers));
  if (layers.predicted) picture.append(guesses(film, game, at, seat));
  if (layers.visits) picture.append(visits(film, game, at, seat));
  picture.setAttribute("aria-label", `${game.name}, step ${at} of ${game.steps}: ${spoken(film, game, at)}`);
}

/** What a piece is, without its number. */
const kindOf = (piece) => (piece.label ? piece.name.replace(/ \d+$/, "") : piece.name);

/** What the pieces of the field are: every kind that is ever there, in its colours; kinds that look the same together. */
function kinds(film) {
  const found = new Map();
  film.pieces.forEach((piece, number) => {
    if (!film.games.some((game) => game.there.some((row) => row[number]))) return;
    const looks = found.get(kindOf(piece)) || found.set(kindOf(piece), new Map()).get(kindOf(piece));
    looks.set(`${piece.colour} ${piece.square}`, piece);
  });
  const alike = new Map();
  for (const [kind, looks] of found) {
    const look = [...looks.keys()].join();
    alike.set(look, { names: [...(alike.get(look) || { names: [] }).names, kind], pieces: [...looks.values()] });
  }
  const bars = film.fights ? [["well", "health"], ...(film.games.some((game) => game.shield) ? [["shield", "shield"]] : [])] : [];
  const small = (...inner) => svg("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, ...inner);
  const look = (piece) => small(piece.square ? svg("rect", { x: 1, y: 1, width: 8, height: 8, rx: 1, fill: piece.colour })
    : svg("circle", { cx: 5, cy: 5, r: 4.5, fill: piece.colour }));
  return [...[...alike.values()].map(({ names, pieces }) => html("span", {}, ...pieces.map(look), names.join(", "))),
  ...bars.map(([look, word]) => html("span", {}, small(svg("g", { class: look }, svg("rect", { class: "full", y: 3.5, width: 10, height: 3 }))), word)),
  ...(film.games.some((game) => game.cooldown) ? [html("span", {}, small(svg("path", { class: "wait", d: arc(5, 5, 4, 0.7) })), "time until it can shoot")] : [])];
}

/** How a moment stands, in words. */
function spoken(film, game, at) {
  const counts = new Map();
  film.pieces.forEach((piece, number) => {
    const kind = kindOf(piece);
    if (game.there[at][number]) counts.set(kind, (counts.get(kind) || 0) + 1);
  });
  return [...counts].map(([name, count]) => (count > 1 ? `${count} times ${name}` : name)).join(", ") || "nobody is there";
}
