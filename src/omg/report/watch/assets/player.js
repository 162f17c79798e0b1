// Time, keys and toggles: reads the data of the page and draws a moment of it.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const LAYERS = {
  ghosts: ["Where it thinks they are heading", "heading"],
  really: ["Where they really were", "heading"],
  between: ["Lines between the two", "heading"],
  paths: ["Lines from where they stand", "heading"],
  goals: ["What it thinks they are after", "goals"],
  visits: ["Where the search went", "visits"],
  predicted: ["What it thinks they do", "predicted"],
  sight: ["Fade what it does not see", "sight"],
  ranges: ["Ranges of sight and fire", "ranges"],
  shots: ["Shots", "shots"],
};
const find = (id) => document.getElementById(id);

/** Which layers there is anything to show of. */
function layersOf(film) {
  const minds = film.games.flatMap((game) => Object.values(game.minds));
  const has = { sight: film.sight !== null, ranges: film.sight !== null || film.fights,
    shots: film.games.some((game) => game.shots.some((row) => row.length)) };
  return Object.keys(LAYERS).filter((name) => {
    const need = LAYERS[name][1];
    return need in has ? has[need] : minds.some((mind) => mind[need]);
  });
}

/** A series that never changes comes as one row. */
const unroll = (rows, moments) => (rows && rows.length === 1 ? new Array(moments).fill(rows[0]) : rows);

function unrollAll(film) {
  for (const game of film.games) {
    const whole = (owner, names) => { for (const name of names) owner[name] = unroll(owner[name], game.steps + 1); };
    whole(game, ["x", "y", "there", "health", "shield", "cooldown", "written"]);
    whole(game.obs, Object.keys(game.obs));
    for (const mind of Object.values(game.minds)) {
      whole(mind, ["values", "visits"]);
      if (mind.heading) whole(mind.heading, ["x", "y", "later_x", "later_y"]);
      if (mind.predicted) whole(mind.predicted, ["chances"]);
      if (mind.goals) whole(mind.goals, ["chances", "x", "y"]);
    }
  }
}

function start(film) {
  unrollAll(film);
  const last = Math.max(...film.games.map((game) => game.steps));
  const here = layersOf(film);
  const state = { at: 0, seat: film.first_seat, timer: null, speed: 1, loop: false, layers: {} };
  for (const name of here) state.layers[name] = !["paths", "sight"].includes(name);
  const boards = film.games.map((game, index) => ({ game, picture: find(`stage-${index}`), plot: null }));
  const bar = find("at"), play = find("play"), seat = find("seat"), said = find("said"), speed = find("speed");

  function go(at) {
    state.at = clamp(at, 0, last);
    draw();
  }
  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
    draw();
  }
  function tick() {
    if (state.at < last) go(state.at + 1);
    else if (state.loop) go(0);
    else stop();
  }
  function run() {
    clearInterval(state.timer);
    state.timer = setInterval(tick, 1000 / (film.pace * state.speed));
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
  }
  function toggle() {
    if (state.timer !== null) return stop();
    if (state.at >= last) go(0);
    run();
  }
  function pace(factor) {
    state.speed = SPEEDS[clamp(SPEEDS.indexOf(state.speed) + factor, 0, SPEEDS.length - 1)];
    speed.value = String(state.speed);
    if (state.timer !== null) run();
  }

  /** One plot for each game, of the chosen seat, on one scale. */
  function plots() {
    const beliefs = boards.map(({ game }) => (game.minds[state.seat] || {}).heading || null);
    const top = Math.max(...beliefs.flatMap((belief) => (belief ? [...belief.error, ...belief.stay] : [0])));
    boards.forEach((one, index) => {
      const place = find(`plot-${index}`), belief = beliefs[index];
      place.hidden = !belief;
      one.plot = belief ? makePlot(film, one.game, belief, top, place.clientWidth - 34, (at) => { halt(); go(at); }) : null;
      // The page begins with this sentence for the seat that is shown first.
      const told = film.games.length > 1 || state.seat !== film.first_seat;
      place.replaceChildren(...(belief ? [html("h2", {}, `How far off the belief is, in ${film.unit}`),
        ...(told ? [html("p", { class: "finding" }, belief.sentence)] : []), plotLegend(belief), ...one.plot.nodes] : []));
    });
  }
  const halt = () => { if (state.timer !== null) stop(); };

  function draw() {
    const { layers } = state;
    boards.forEach(({ game, picture, plot }, index) => {
      const at = Math.min(state.at, game.steps);
      drawStage(film, game, picture, state);
      if (plot) plot.show(at);
      find(`actions-${index}`).replaceChildren(...actionsPanel(film, game, at, state.seat));
      find(`others-${index}`).replaceChildren(...(layers.predicted ? predictedPanel(film, game, at, state.seat) : []),
        ...(layers.goals ? goalsPanel(film, game, at, state.seat) : []));
      find(`sees-${index}`).replaceChildren(...sightPanel(film, game, at, state.seat));
      if (find("numbers").open) find(`numbers-${index}`).replaceChildren(...numbersPanel(game, at, state.seat));
      const paid = game.rewards.slice(0, at).map((row) => (film.own_rewards ? row[state.seat] : row[0]));
      const step = at > 0 ? paid[at - 1] : 0;
      find(`paid-${index}`).textContent = `${film.own_rewards ? "Its reward" : "Reward"} in the last step `
        + `${written(step)}, so far ${written(total(paid))}${at === game.steps ? "; the game is over" : ""}`;
    });
    find("knows").hidden = find("numbers").hidden && ![...find("knows").querySelectorAll("[id^=others-], [id^=sees-]")]
      .some((place) => place.childElementCount);
    bar.value = String(state.at);
    const differs = film.difference !== null && state.at >= film.difference.step;
    bar.setAttribute("aria-valuetext", `step ${state.at} of ${last}`);
    find("when").textContent = `step ${state.at} of ${last}`;
    if (film.difference !== null) find("differs").classList.toggle("reached", differs);
    if (state.timer === null) said.textContent = `step ${state.at} of ${last}`;
  }

  function choose(number) {
    state.seat = clamp(number, 0, film.seats.length - 1);
    seat.value = String(state.seat);
    plots();
    draw();
  }

  // ------------------------------------------------------------------------------------------- what people operate
  film.seat_names.forEach((name, number) => {
    const players = [...new Set(film.games.map((game) => game.seats[number]))].join(" / ");
    seat.append(html("option", { value: String(number) }, `${name}: ${players}`));
  });
  find("whole-box").hidden = film.view.join() === [film.stage.left, film.stage.top, film.stage.width, film.stage.height].join();
  for (const value of SPEEDS) speed.append(html("option", { value: String(value) }, `${value}\u00d7`));
  for (const name of here) {
    const box = html("input", { type: "checkbox", id: `layer-${name}` });
    box.checked = state.layers[name];
    box.addEventListener("change", () => { state.layers[name] = box.checked; draw(); });
    find("layers").append(html("label", { class: `layer layer-${name}` }, box, " ", html("span", { class: "mark" }), LAYERS[name][0]));
  }
  speed.value = "1";
  bar.max = String(last);
  play.addEventListener("click", toggle);
  find("back").addEventListener("click", () => { halt(); go(state.at - 1); });
  find("on").addEventListener("click", () => { halt(); go(state.at + 1); });
  bar.addEventListener("input", () => { halt(); go(Number(bar.value)); });
  speed.addEventListener("change", () => { state.speed = Number(speed.value); if (state.timer !== null) run(); });
  find("loop").addEventListener("change", (event) => { state.loop = event.target.checked; });
  seat.addEventListener("change", () => choose(Number(seat.value)));
  find("layer-box").hidden = here.length === 0 && find("whole-box").hidden;
  find("numbers").hidden = film.games.every((game) => Object.keys(game.obs).length === 0);
  find("numbers").addEventListener("toggle", draw);
  if (film.difference !== null) {
    find("to-difference").addEventListener("click", () => { halt(); go(film.difference.step); });
    find("mark").style.left = `${(100 * film.difference.step) / Math.max(last, 1)}%`;
  }
  find("whole").addEventListener("change", (event) => zoom(event.target.checked));
  function zoom(whole) {
    const { left, top, width, height } = film.stage;
    const view = whole ? [left, top, width, height] : film.view;
    for (const { picture } of boards) picture.setAttribute("viewBox", view.join(" "));
  }
  find("kinds").append(...kinds(film));
  find("keys").append(...keysOf(film, here));
  const keys = {
    " ": toggle, k: toggle, ArrowLeft: () => { halt(); go(state.at - 1); }, ArrowRight: () => { halt(); go(state.at + 1); },
    Home: () => { halt(); go(0); }, End: () => { halt(); go(last); }, "+": () => pace(1), "=": () => pace(1), "-": () => pace(-1),
    l: () => find("loop").click(), s: () => choose((state.seat + 1) % film.seats.length),
    d: () => { if (film.difference !== null) { halt(); go(film.difference.step); } },
    b: () => { for (const name of ["ghosts", "really"]) if (find(`layer-${name}`)) find(`layer-${name}`).click(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
    // What has the focus keeps its own keys: a list all, a slider its arrows, what is pressed the space bar.
    const own = event.target.closest("input, select, button, summary");
    if (own && (own.matches("select") || (own.matches("[type=range]") ? event.key.length > 1 : event.key === " "))) return;
    event.preventDefault();
    keys[event.key]();
  });
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; plots(); draw(); } });
  zoom(false);
  choose(state.seat);
  document.body.dataset.ready = "yes";
}

/** The keys that do something here, and what. */
function keysOf(film, layers) {
  const all = [[["space"], "plays"], [["\u2190", "\u2192"], "step"], [["Home", "End"], "ends"], [["+", "\u2212"], "speed"],
    [["l"], "loops"], ...(film.seats.length > 1 ? [[["s"], "next seat"]] : []),
    ...(layers.includes("ghosts") ? [[["b"], "belief"]] : []), ...(film.difference !== null ? [[["d"], "first difference"]] : [])];
  return all.map(([names, does]) => html("span", {}, ...names.flatMap((name) => [html("kbd", {}, name), " "]), does));
}

/** The data of the page: JSON, deflated, as text. */
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

if (typeof document !== "undefined") {
  unpack(find("film").textContent).then(start).catch((error) => { find("said").textContent = `This page is damaged: ${error.message}`; });
}
