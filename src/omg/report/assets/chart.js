"use strict";
// What all charts share: nodes, numbers, scales, what is shown where the pointer or the keyboard is.
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
const HUES = 8;

function add(parent, name, attributes = {}, text = null) {
  const own = parent instanceof SVGElement || name === "svg";
  const made = own ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

function written(value, axis) {
  if (value === null || value === undefined) return "\u2013";
  const shown = value * (axis.factor ?? 1) || 0;
  let text;
  if (axis.steps && Math.abs(shown) >= 1000) {
    const [size, unit] = Math.abs(shown) >= 1e6 ? [1e6, "M"] : [1e3, "k"];
    text = String(Number((shown / size).toFixed(2))) + unit;
  } else text = shown.toLocaleString("en", {
    minimumFractionDigits: axis.digits ?? 0, maximumFractionDigits: axis.digits ?? 0 });
  return text.replace(/^-(?=[0.,]*$)/, "").replace("-", "\u2212") + (axis.unit ?? "");
}

function ends(point, axis) {
  return point.low === null || point.low === undefined ? "" : ` [${written(point.low, axis)}, ${written(point.high, axis)}]`;
}

// Round numbers between two ends, about `wanted` of them.
function ticks(low, high, wanted, least = 0) {
  const span = high - low || 1, rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 2.5, 5, 10].map(one => one * power).find(one => one >= rough));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * span; at++) found.push(at * step);
  return found;
}

function tickAxis(axis, found) {
  // As many digits as tell neighbouring ticks apart.
  if (axis.steps || found.length < 2) return axis;
  const gap = Math.abs(found[1] - found[0]) * (axis.factor ?? 1);
  let digits = 0;
  while (digits < 6 && Math.abs(gap * 10 ** digits - Math.round(gap * 10 ** digits)) > 1e-6 * 10 ** digits) digits++;
  return {...axis, digits};
}

function range(values, axis, padding = 0.05) {
  const kept = values.filter(value => value !== null && value !== undefined);
  let low = Math.min(...kept), high = Math.max(...kept);
  if (!kept.length) [low, high] = [0, 1];
  if (low === high) { low -= 0.5; high += 0.5; }
  const spare = padding * (high - low);
  [low, high] = [low - spare, high + spare];
  if (axis.low !== undefined) low = axis.low;
  if (axis.high !== undefined) high = axis.high;
  return [low, high];
}

function scale(low, high, from, to) {
  return value => from + (value - low) / (high - low) * (to - from);
}

function clear(panel) { panel.querySelectorAll("svg, .tip").forEach(one => one.remove()); }

function tip(panel) {
  const box = add(panel, "div", {class: "tip", hidden: ""});
  return {
    show(title, lines, x, y) {
      box.replaceChildren();
      add(box, "strong", {}, title);
      for (const line of lines) add(box, "div", {}, line);
      box.hidden = false;
      const width = panel.clientWidth, own = box.offsetWidth;
      box.style.left = `${Math.max(0, Math.min(x + 12, width - own))}px`;
      if (x + 12 + own > width && x - 12 - own >= 0) box.style.left = `${x - 12 - own}px`;
      box.style.top = `${Math.max(0, y)}px`;
    },
    hide() { box.hidden = true; },
  };
}

// One place after another by pointer or arrow keys; what is there is said aloud in the element `live`.
function walk(svg, count, nearest, show, hide, stride = () => null) {
  let at = -1;
  const go = to => { at = Math.max(0, Math.min(count() - 1, to)); show(at); };
  svg.addEventListener("pointermove", event => { const to = nearest(event); if (to >= 0) go(to); else hide(); });
  svg.addEventListener("pointerdown", event => { const to = nearest(event); if (to >= 0) go(to); });
  svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) hide(); });
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const far = stride() ?? 1;
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: far, ArrowUp: -far, PageDown: 10, PageUp: -10}[event.key];
    if (step !== undefined) go(at < 0 ? 0 : at + step);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(count() - 1);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
}

function mouse(svg, event) {
  const box = svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function frame(panel, label, height) {
  const width = Math.max(240, panel.clientWidth);
  const svg = add(panel, "svg", {viewBox: `0 0 ${width} ${height}`, height, tabindex: 0, role: "img",
    "aria-label": `${label}. Arrow keys read the values.`});
  return [svg, width];
}

function shape(parent, kind, x, y, size, look) {
  if (kind % 4 === 1) return add(parent, "rect", {x: x - size, y: y - size, width: 2 * size, height: 2 * size, class: look});
  if (kind % 4 === 2) return add(parent, "path", {d: `M${x} ${y - 1.25 * size}L${x + 1.2 * size} ${y + size}H${x - 1.2 * size}Z`, class: look});
  if (kind % 4 === 3) return add(parent, "path", {d: `M${x} ${y - 1.35 * size}L${x + 1.35 * size} ${y}L${x} ${y + 1.35 * size}L${x - 1.35 * size} ${y}Z`, class: look});
  return add(parent, "circle", {cx: x, cy: y, r: size, class: look});
}

function hue(number) { return `s${number % HUES}`; }
function dash(number) { return DASHES[Math.floor(number / HUES) % DASHES.length] || null; }
