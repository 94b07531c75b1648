"use strict";
// What all pages share: elements, numbers as text, figures that are made when they come near the window.
// Texts from outside are set as textContent only.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function put(parent, tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "text") element.textContent = value;
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  if (parent) parent.append(element);
  return element;
}

function draw(parent, tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

let lastId = 0;
const newId = () => `e${++lastId}`;

// Four digits, more where they stand before the point.
function show(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-4 || size >= 1e9) return x.toExponential(Math.max(2, digits - 2));
  const after = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return x.toLocaleString("en-US", { maximumFractionDigits: Math.min(after, 8) });
}

// So many digits of a number; more where it is one of a range that is short against it.
function digitsWithin(x, length, digits) {
  if (!(length > 0) || x === 0) return digits;
  return Math.max(digits, Math.floor(Math.log10(Math.abs(x))) - Math.floor(Math.log10(length)) + digits - 1);
}

function percent(p) {
  if (p === 0) return "0%";
  const size = Math.abs(p);
  if (size < 5e-5) return p > 0 ? "<0.01%" : ">-0.01%";
  if (p >= 0.995 && p < 1) return ">99%";
  return `${(100 * p).toFixed(size >= 0.0995 ? 0 : size >= 0.00995 ? 1 : 2)}%`;
}

const plural = (n, word) => `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : "s"}`;

// A box that scrolls sideways by itself, for what may be wider than the page.
function scrolling(parent, label) {
  return put(parent, "div", { className: "scroll wide", tabIndex: 0, role: "region", "aria-label": label });
}

const waiting = new Map();
const watcher = "IntersectionObserver" in window
  ? new IntersectionObserver((entries) => entries.forEach((e) => e.isIntersecting && make(e.target)), { rootMargin: "800px" })
  : null;

function make(element) {
  const maker = waiting.get(element);
  if (!maker) return;
  waiting.delete(element);
  if (watcher) watcher.unobserve(element);
  maker();
}

function whenSeen(element, maker) {
  waiting.set(element, maker);
  if (watcher) watcher.observe(element);
  else make(element);
}
