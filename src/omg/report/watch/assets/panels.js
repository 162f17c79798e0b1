// What a seat knows and wants at a moment: its actions, the others, its goals for them, its observation.

/** A row of bars: name, bar (null: none), numbers; `marks` are classes of the row. */
function barRow(name, share, texts, marks, extra = []) {
  const inner = svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "empty", width: 100, height: 10 }),
    ...(share === null ? [] : [svg("rect", { class: "full", width: 100 * clamp(share, 0, 1), height: 10 })]), ...extra);
  return html("tr", { class: marks }, html("th", { scope: "row" }, name), html("td", { class: "bars" }, inner),
    ...texts.map((text) => html("td", { class: "number" }, text)));
}

const headRow = (words) => html("thead", {}, html("tr", {}, ...words.map((word, place) =>
  (word === "" ? html("td", {}) : html("th", { scope: "col", class: place > 1 ? "number" : null }, word)))));

const table = (caption, rows, ...head) =>
  html("table", { class: "rows" }, html("caption", {}, caption), ...head, html("tbody", {}, ...rows));

/** What the seat may do, what it thinks of it, and what it does. */
function actionsPanel(film, game, at, seat) {
  if (at >= game.steps) return [html("p", { class: "small" }, "The game is over: nobody acts any more.")];
  const mind = game.minds[seat] || {}, chosen = game.actions[at][seat];
  const legal = game.avail ? game.avail[at][seat] : null;
  const values = mind.values ? mind.values[at] : null, visited = mind.visits ? mind.visits[at] : null;
  const open = film.actions.map((_, action) => !legal || legal[action] === "1");
  const known = values ? values.filter((value, action) => open[action] && value !== null) : [];
  const chances = mind.kind === "chance", low = chances ? 0 : Math.min(...known), high = chances ? 1 : Math.max(...known);
  const searches = visited ? total(visited) : 0;
  const rows = film.actions.map((name, action) => {
    const value = values ? values[action] : null, took = action === chosen;
    const words = took ? [html("span", { class: "tick-mark" }, "\u25b6 "), name, html("span", { class: "unseen" }, " (chosen)")] : [name];
    const label = html("span", {}, ...words);
    const shows = open[action] && value !== null;
    const unknown = values && searches > 0 ? "not tried" : "";
    const texts = [open[action] ? (!shows ? unknown : chances ? percent(value) : valued(value)) : "not legal"];
    if (searches > 0) texts.push(open[action] ? percent(visited[action] / searches) : "");
    const share = shows ? (high > low ? 0.04 + (0.96 * (value - low)) / (high - low) : 1) : null;
    const extra = searches > 0 && open[action]
      ? [svg("rect", { class: "visited", y: 7, width: (100 * visited[action]) / searches, height: 3 })] : [];
    return barRow(label, share, texts, `${took ? "taken" : ""} ${open[action] ? "" : "closed"}`.trim(), extra);
  });
  const kind = chances ? "how likely it does what" : values ? "its Q-values (bars begin at the lowest legal one)" : "what it may do";
  const head = searches > 0 ? [headRow(["action", "", chances ? "chance" : "Q", "visits"])] : [];
  return [table(`${seatName(film, game, seat)}: ${kind}`, rows, ...head)];
}

const seatName = (film, game, seat) => `${film.seat_names[seat]} (${game.seats[seat]})`;

/** What the seat thinks that the others do now, beside what they do. */
function predictedPanel(film, game, at, seat) {
  const mind = game.minds[seat], guess = mind && mind.predicted;
  if (!guess || at >= game.steps) return [];
  const rows = guess.of.map((other, index) => {
    const chances = guess.chances[at][index];
    if (!chances || chances[0] === null) return null;
    const best = chances.indexOf(Math.max(...chances)), did = game.actions[at][other];
    const right = best === did;
    return html("tr", { class: right ? "right" : "wrong" },
      html("th", { scope: "row" }, film.seat_names[other]),
      html("td", {}, `${film.actions[best]}, ${percent(chances[best])}`),
      html("td", {}, `${right ? "\u2713" : "\u2717"} ${film.actions[did]}${right ? "" : `, was given ${percent(chances[did])}`}`));
  });
  const caption = html("caption", {}, "What it thinks the others do now"), head = headRow(["who", "predicted", "did"]);
  head.querySelectorAll(".number").forEach((cell) => cell.removeAttribute("class"));
  return [html("table", { class: "rows plain" }, caption, head, html("tbody", {}, ...rows.filter((row) => row !== null)))];
}

/** What the seat thinks that each of the others is after. */
function goalsPanel(film, game, at, seat) {
  const mind = game.minds[seat], goals = mind && mind.goals;
  if (!goals) return [];
  return goals.of.map((other, index) => {
    const chances = goals.chances[at][index], best = Math.max(...chances);
    if (chances[0] === null) return "";
    return table(`What it thinks ${film.seat_names[other]} is after`, goals.names.map((name, goal) =>
      barRow(name, chances[goal], [percent(chances[goal])], chances[goal] === best ? "taken belief" : "belief")));
  });
}

/** What the seat sees of the others, nearest first. */
function sightPanel(film, game, at, seat) {
  const own = film.seats[seat];
  if (film.sight === null || own === null) return [];
  if (!game.there[at][own]) return [html("p", { class: "small" }, "It is no longer in the game.")];
  const away = (number) => Math.hypot(game.x[at][number] - game.x[at][own], game.y[at][number] - game.y[at][own]);
  const seen = film.pieces.map((_, number) => number)
    .filter((number) => number !== own && game.there[at][number] && sees(film, game, seat, number, at))
    .sort((one, other) => away(one) - away(other))
    .map((number) => `${film.pieces[number].name} at ${written(away(number))}`);
  return [html("p", { class: "small" }, seen.length ? `It sees, nearest first, in ${film.unit}: ${seen.join(", ")}.` : "It sees nobody else.")];
}

/** The observation, number by number. */
function numbersPanel(game, at, seat) {
  const cells = (game.obs[seat] ? game.obs[seat][at] : []).map((value, place) => html("div", { class: value ? null : "zero" },
    html("span", { class: "place" }, String(place)), written(value)));
  return [html("div", { class: "numbers", role: "group", "aria-label": "Observation" }, ...cells)];
}
