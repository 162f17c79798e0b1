// What all parts of the player use: elements, numbers, colours of action bars.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (null: left out) and children (elements or texts). */
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

/** A number as people read it: about three figures, no needless zeros. */
function written(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  const text = size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : size >= 0.1 || size === 0 ? value.toFixed(2)
    : value.toPrecision(2);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "\u2212");
}
/** A value among others like it: two decimals tell those apart that `written` makes the same. */
const valued = (value) => (Math.abs(value) >= 10 && Math.abs(value) < 1000 ? value.toFixed(2).replace("-", "\u2212") : written(value));
const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const total = (values) => values.reduce((sum, value) => sum + value, 0);

/** Evenly placed round numbers from 0 to at least `top`. */
function ticks(top, count = 4) {
  const rough = Math.max(top, 1e-6) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const marks = [0];
  while (marks[marks.length - 1] < top) marks.push(Number((marks.length * step).toPrecision(12)));
  return marks;
}
