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

// A number with so many digits after the point, to the nearest, of two that are as near the even one: as Python rounds.
function fixed(x, after) {
  const text = Math.abs(x).toFixed(after);
  const exact = Math.abs(x).toFixed(100);
  const tie = /^50*$/.test(exact.slice(exact.indexOf(".") + 1 + after));
  const even = tie && "13579".includes(text.at(-1)) ? (Number(text) - 10 ** -after).toFixed(after) : text;
  return x < 0 ? `-${even}` : even;
}

// Four digits, more where they stand before the point.
function show(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-4 || size >= 1e9) return x.toExponential(Math.max(2, digits - 2));
  const after = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return Number(fixed(x, Math.min(after, 8))).toLocaleString("en-US", { maximumFractionDigits: 8 });
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
  return `${fixed(100 * p, size >= 0.095 ? 0 : size >= 0.0095 ? 1 : 2)}%`;
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
