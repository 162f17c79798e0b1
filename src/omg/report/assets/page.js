// The page: unpacks its data, draws the charts, and makes tables that sort and filter.
const KINDS = {lines: drawLines, intervals: drawIntervals, map: drawMap};
const MOST_ROWS = 100;
const FEW_ROWS = 8;

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function buildChart(holder, chart) {
  const draw = KINDS[chart.kind], hidden = new Set();
  let view = chart.views[0];
  const head = add(holder, "div", {class: "sieve"});
  const legend = add(holder, "div", {class: "legend"});
  const panels = add(holder, "div", {class: "panels"});
  const live = add(holder, "div", {class: "blind", "aria-live": "polite"});
  const say = text => { live.textContent = text; };
  let shown = [];
  const redraw = () => shown.forEach(([panel, part]) => draw(panel, view, part, hidden, chart.label, say));
  const lay = () => {
    panels.replaceChildren();
    panels.classList.toggle("single", view.panels.length === 1 || chart.kind !== "lines");
    shown = view.panels.map(part => {
      const panel = add(panels, "div", {class: "panel"});
      if (part.title) add(panel, "h3", {}, part.title);
      return [panel, part];
    });
    layLegend();
    redraw();
  };
  const layLegend = () => {
    legend.replaceChildren();
    const all = view.panels.flatMap(part => part.series ?? []);
    const names = [...new Map(all.map(one => [one.name, one])).values()];
    for (const one of names.length > 1 ? names : []) {
      const button = add(legend, "button", {type: "button", "aria-pressed": String(!hidden.has(one.name))});
      const sample = add(button, "svg", {viewBox: "0 0 30 14", "aria-hidden": "true"});
      add(sample, "line", {x1: 1, x2: 29, y1: 7, y2: 7, "stroke-width": 2, class: hue(one.colour), "stroke-dasharray": dash(one.colour)});
      shape(sample, one.colour, 15, 7, 3.4, hue(one.colour));
      add(button, "span", {}, one.name);
      button.addEventListener("click", () => {
        if (!hidden.delete(one.name)) hidden.add(one.name);
        button.setAttribute("aria-pressed", String(!hidden.has(one.name)));
        redraw();
      });
    }
  };
  if (chart.views.length > 1) {
    const label = add(head, "label", {}, chart.choose || "Shown");
    const choice = add(label, "select");
    chart.views.forEach((one, index) => add(choice, "option", {value: index}, one.name));
    choice.addEventListener("change", () => { view = chart.views[Number(choice.value)]; lay(); });
  }
  lay();
  let width = holder.clientWidth;
  new ResizeObserver(() => { if (holder.clientWidth !== width) { width = holder.clientWidth; redraw(); } }).observe(holder);
}

// What a cell is sorted by: the first number in it, else its text.
function sortKey(text) {
  const found = text.replaceAll("\u2212", "-").replaceAll(",", "").match(/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?/i);
  return found ? Number(found[0]) : text;
}

function compareKeys(first, second) {
  if (typeof first === typeof second) return typeof first === "number" ? first - second : first.localeCompare(second, "en", {numeric: true});
  return typeof first === "number" ? -1 : 1;
}

function buildTable(holder, data) {
  const table = holder.querySelector("table"), body = table.tBodies[0];
  let rows = data ? data.rows.map(texts => ({texts, line: null}))
    : [...body.rows].map(line => ({texts: [...line.cells].map(cell => cell.textContent), line}));
  const all = rows, heads = [...table.tHead.rows[0].cells];
  const kinds = heads.map(head => head.className);
  let most = MOST_ROWS, words = "";
  const wanted = new Map();
  const lineOf = row => {
    if (row.line === null) {
      row.line = document.createElement("tr");
      row.texts.forEach((text, index) => add(row.line, "td", {class: kinds[index] || null}, text));
    }
    return row.line;
  };
  const count = document.createElement("output"), more = document.createElement("button");
  more.type = "button"; more.className = "more";
  more.addEventListener("click", () => { most = Infinity; fill(); });
  const fill = () => {
    const kept = rows.filter(row => [...wanted].every(([column, text]) => row.texts[column] === text)
      && (!words || row.texts.some(text => text.toLowerCase().includes(words))));
    body.replaceChildren(...kept.slice(0, most).map(lineOf));
    count.textContent = kept.length === all.length ? `${all.length} rows` : `${kept.length} of ${all.length} rows`;
    more.hidden = kept.length <= most;
    more.textContent = `Show all ${kept.length} rows`;
  };
  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.type = "button"; button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(one => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = all.map(row => [sortKey(row.texts[column]), row]);
      keyed.sort((one, other) => (down ? -1 : 1) * compareKeys(one[0], other[0]));
      rows = keyed.map(pair => pair[1]);
      fill();
    });
  });
  if (all.length > FEW_ROWS) {
    const sieve = document.createElement("div");
    sieve.className = "sieve";
    const search = add(add(sieve, "label", {}, "Rows with"), "input", {type: "search"});
    search.addEventListener("input", () => { words = search.value.toLowerCase(); fill(); });
    for (const column of data?.choices ?? []) {
      const choice = add(add(sieve, "label", {}, heads[column].textContent), "select");
      add(choice, "option", {value: ""}, "all");
      for (const text of [...new Set(all.map(row => row.texts[column]))]) add(choice, "option", {value: text}, text);
      const preset = data.preset[column];
      if (preset !== undefined) { choice.value = preset; wanted.set(column, preset); }
      choice.addEventListener("change", () => {
        if (choice.value === "") wanted.delete(column); else wanted.set(column, choice.value);
        fill();
      });
    }
    sieve.append(count, more);
    holder.before(sieve);
  }
  fill();
}

// A page inside this one: loaded when it is opened, as high as it needs.
function openPage(box, text) {
  const frame = box.querySelector("iframe");
  const fit = () => { frame.style.height = `${frame.contentDocument.documentElement.scrollHeight + 2}px`; };
  box.addEventListener("toggle", () => {
    if (!box.open || frame.srcdoc) return;
    frame.addEventListener("load", () => {
      fit();
      new ResizeObserver(fit).observe(frame.contentDocument.body);
    });
    frame.srcdoc = text;
  });
}

(async () => {
  const packed = document.getElementById("page-data");
  const data = packed ? await unpack(packed.textContent) : {charts: [], tables: []};
  for (const holder of document.querySelectorAll("[data-table]")) buildTable(holder, data.tables[holder.dataset.table]);
  for (const holder of document.querySelectorAll("[data-chart]")) buildChart(holder, data.charts[holder.dataset.chart]);
  for (const frame of document.querySelectorAll("[data-page]")) openPage(frame.parentElement, data.pages[frame.dataset.page]);
  document.documentElement.dataset.ready = "yes";
})();
