"use strict";
// The rows come from the server again and again; texts in them are a stranger's and only ever become text.
const COLUMNS = [
  { key: "name", label: "What", sort: (row) => `${row.name} ${row.game} ${row.folder}`.toLowerCase(), kind: "all" },
  { key: "status", label: "Status", sort: (row) => row.status, kind: "all" },
  { key: "done", label: "Done", sort: (row) => row.done, kind: "number", down: true },
  { key: "best", label: "Best", sort: (row) => row.best, kind: "number", down: true },
  { key: "last", label: "Last", sort: (row) => row.last, kind: "number", down: true },
  { key: "curve", label: "Tests", kind: "curve" },
  { key: "steps", label: "Steps/s", sort: (row) => row.env_steps_per_second, kind: "number", down: true },
  { key: "age", label: "Age", sort: (row) => row.age, kind: "number" },
  { key: "links", label: "Pages", kind: "all" },
];
const EVERY = 2000;
const FEW = 4;
const at = (id) => document.getElementById(id);
const known = new Map();
let data = null, order = null, down = false, paused = false, asked = false;

function make(tag, text, name) {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (name) one.className = name;
  return one;
}
function put(one, text) { if (one.textContent !== text) one.textContent = text; }
const score = (value) => (value === null ? "" : value.toFixed(3));
function duration(seconds) {
  if (seconds === null) return "";
  if (seconds >= 86400) return `${Math.round(seconds / 86400)} d`;
  if (seconds >= 7200) return `${Math.round(seconds / 3600)} h`;
  return seconds >= 120 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`;
}

function head() {
  for (const column of COLUMNS) {
    const cell = make("th", undefined, column.sort ? (column.kind === "number" ? "number" : "") : "plain");
    cell.setAttribute("role", "columnheader");
    cell.scope = "col";
    if (column.sort) {
      const button = make("button", column.label);
      button.type = "button";
      button.addEventListener("click", () => sortBy(column, order === column ? !down : Boolean(column.down)));
      cell.append(button);
      at("order").append(new Option(column.label, column.key));
    } else cell.textContent = column.label;
    column.head = cell;
    at("head").append(cell);
  }
  at("order").prepend(new Option("running, newest", "", true, true));
}
function sortBy(column, reverse) {
  order = column;
  down = reverse;
  at("order").value = column ? column.key : "";
  for (const one of COLUMNS) {
    if (one === order) one.head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else one.head.removeAttribute("aria-sort");
  }
  show();
}

function newRow(row) {
  const line = make("tr");
  line.setAttribute("role", "row");
  const parts = {};
  for (const column of COLUMNS) {
    const cell = make("td", undefined, column.kind);
    cell.setAttribute("role", "cell");
    cell.dataset.name = column.label;
    parts[column.key] = cell;
    line.append(cell);
  }
  parts.what = make("span", "", "what");
  parts.game = make("span", "", "game");
  parts.folder = make("span", "", "folder");
  parts.name.append(parts.what, " ", parts.game, parts.folder);
  parts.badge = make("span");
  parts.note = make("span", "", "note");
  parts.status.append(parts.badge, parts.note);
  for (const name of ["best", "last"]) {
    parts[`${name}Score`] = make("span");
    parts[`${name}Metric`] = make("span", "", "metric");
    parts[name].append(parts[`${name}Score`], parts[`${name}Metric`]);
  }
  parts.bar = make("progress");
  parts.bar.max = 1;
  parts.share = make("span");
  parts.link = "";
  known.set(row.id, { line, parts });
  return known.get(row.id);
}
function fill(row) {
  const { line, parts } = known.get(row.id) || newRow(row);
  put(parts.what, row.name || row.kind);
  const algorithm = row.algorithm === row.name ? "" : row.algorithm;
  put(parts.game, [algorithm, row.game, row.kind === "run" ? "" : row.kind].filter(Boolean).join(" \u00b7 "));
  put(parts.folder, row.folder);
  if (parts.badge.className !== `badge ${row.status}`) parts.badge.className = `badge ${row.status}`;
  put(parts.badge, row.status);
  put(parts.note, row.note);
  if (row.done === null) parts.done.replaceChildren();
  else {
    if (!parts.bar.isConnected) parts.done.append(parts.share, parts.bar);
    const left = row.left === null ? "" : `, ${duration(row.left)} left`;
    put(parts.share, `${Math.floor(100 * row.done)} %${left}`);
    parts.bar.value = row.done;
    parts.bar.setAttribute("aria-label", `${row.name || row.kind}, done`);
    parts.done.classList.toggle("still", row.status !== "running");
  }
  for (const name of ["best", "last"]) {
    const metric = row[name] === null ? "" : row.metric.replace(/^test_|_mean$/g, "");
    put(parts[`${name}Score`], score(row[name]));
    put(parts[`${name}Metric`], metric);
    parts[name].hidden = parts[name].textContent === "" && matchMedia("(max-width: 56rem)").matches;
  }
  const curve = row.curve.join();
  if (parts.drawn !== curve) {
    parts.drawn = curve;
    parts.curve.replaceChildren(...(row.curve.length > 1 ? [picture(row.curve)] : []));
  }
  put(parts.steps, row.env_steps_per_second === null ? "" : Math.round(row.env_steps_per_second).toLocaleString("en"));
  put(parts.age, duration(row.age));
  const wanted = JSON.stringify(row.links);
  if (parts.link !== wanted) {
    parts.link = wanted;
    parts.links.replaceChildren(...(row.links.length ? [linked(row)] : []));
  }
  return line;
}
// The tests from the first to the newest, between their lowest and their highest value.
function picture(values) {
  const [wide, high, edge] = [88, 26, 3];
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const place = (value, index) => [
    edge + ((wide - 2 * edge) * index) / (values.length - 1),
    most > least ? high - edge - ((high - 2 * edge) * (value - least)) / (most - least) : high / 2,
  ];
  const points = values.map(place);
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img" });
  const last = values.length - 1;
  svg.setAttribute("aria-label", `${values.length} tests, from ${score(values[0])} to ${score(values[last])}`);
  svg.append(
    draw("polyline", { points: points.map((point) => point.map((one) => one.toFixed(1)).join()).join(" ") }),
    draw("circle", { cx: points[last][0], cy: points[last][1], r: 2.5 }),
  );
  return svg;
}
function draw(name, attributes) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, String(value));
  return one;
}
// The first pages and the log at once, the others on demand: a run may have a replay of every game.
function linked(row) {
  const anchors = row.links.map((link) => anchor(link, row.folder));
  const box = make("div", undefined, "links");
  if (anchors.length <= FEW) {
    box.append(...anchors);
    return box;
  }
  const more = make("details"), rest = make("div", undefined, "links");
  const hidden = anchors.slice(FEW - 1, -1);
  more.append(make("summary", `${hidden.length} more`), rest);
  rest.append(...hidden);
  box.append(...anchors.slice(0, FEW - 1), anchors[anchors.length - 1], more);
  return box;
}
function anchor(link, where) {
  const one = make("a", link.name);
  one.href = link.address;
  one.setAttribute("aria-label", where ? `${link.name} of ${where}` : link.name);
  return one;
}

function compare(one, other) {
  const [a, b] = [order.sort(one), order.sort(other)];
  if (a === null || b === null) return (a === null) - (b === null);
  const sign = a < b ? -1 : a > b ? 1 : 0;
  return down ? -sign : sign;
}
function show() {
  if (!data) return;
  const words = at("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = data.rows.filter((row) => {
    const text = `${row.name} ${row.algorithm} ${row.game} ${row.folder} ${row.kind} ${row.status} ${row.note}`.toLowerCase();
    return words.every((word) => text.includes(word)) && (!at("status").value || row.status === at("status").value)
      && (!at("kind").value || row.kind === at("kind").value);
  });
  if (order) rows.sort(compare);
  const lines = rows.map(fill);
  const there = [...at("rows").children];
  if (lines.length !== there.length || lines.some((line, place) => line !== there[place])) {
    const focused = document.activeElement;
    at("rows").replaceChildren(...lines);
    // What is moved loses the keyboard.
    if (focused.isConnected) focused.focus({ preventScroll: true });
  }
  const counts = new Map();
  for (const row of data.rows) counts.set(row.status, (counts.get(row.status) || 0) + 1);
  const kinds = ["running", "finished", "stopped", "interrupted", "failed"].filter((name) => counts.has(name));
  const hidden = data.rows.length - rows.length;
  const said = kinds.map((name) => `${counts.get(name)} ${name}`).join(", ") || "Nothing here yet.";
  put(at("summary"), said + (hidden ? ` (${hidden} not shown)` : "") + (data.complete ? "" : ". There is more than was looked at."));
  at("nothing").hidden = rows.length > 0 || data.rows.length === 0;
  at("loose").hidden = data.pages.length === 0;
  const pages = JSON.stringify(data.pages);
  if (at("pages").dataset.shown !== pages) {
    at("pages").dataset.shown = pages;
    at("pages").replaceChildren(...data.pages.map((page) => {
      const item = make("li");
      item.append(anchor(page, ""));
      return item;
    }));
  }
}

async function look() {
  if (asked) return;
  asked = true;
  try {
    const answer = await fetch("/rows.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    data = await answer.json();
    at("trouble").hidden = true;
    put(at("when"), `Seen at ${new Date().toLocaleTimeString()}.`);
    show();
  } catch (error) {
    at("trouble").hidden = false;
    put(at("trouble"), "No answer: omg runs --serve has ended, or its address is a new one. What is shown is what was last seen.");
  } finally { asked = false; }
}

head();
for (const id of ["words", "status", "kind"]) at(id).addEventListener("input", show);
at("controls").addEventListener("submit", (event) => event.preventDefault());
at("order").addEventListener("change", () => {
  const column = COLUMNS.find((one) => one.key === at("order").value) || null;
  sortBy(column, Boolean(column && column.down));
});
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  put(at("pause"), paused ? "Continue" : "Pause");
  if (!paused) look();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) {
    event.preventDefault();
    at("words").focus();
  }
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) look(); });
look();
setInterval(() => { if (!paused && !document.hidden) look(); }, EVERY);
