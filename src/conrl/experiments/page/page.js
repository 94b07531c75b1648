"use strict";
// The frame of the page: what was run, failures, and for each environment curves, table and explorer.
// Texts from the study are set as textContent only.

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
  if (size < 1e-4 || size >= 1e9) return x.toExponential(2);
  const after = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return x.toLocaleString("en-US", { maximumFractionDigits: Math.min(after, 8) });
}

function percent(p) {
  if (p === 0) return "0%";
  if (p < 5e-5) return "<0.01%";
  return `${(100 * p).toFixed(p >= 0.0995 ? 0 : p >= 0.00995 ? 1 : 2)}%`;
}

const plural = (n, word) => `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : "s"}`;
const many = (n) => (n === null ? "–" : Math.round(n).toLocaleString("en-US"));

function header() {
  const top = document.getElementById("top");
  put(top, "h1", { text: DATA.title });
  const sizes = [
    plural(DATA.runs, "run"), plural(DATA.environments.length, "environment"), plural(DATA.algorithms.length, "algorithm"),
  ].join(", ");
  put(top, "p", { className: "soft", text: DATA.name === DATA.title ? sizes : `${DATA.name}: ${sizes}` });
  const list = put(put(top, "nav", { "aria-label": "Environments" }), "ul");
  DATA.environments.forEach((env, i) => put(put(list, "li"), "a", { href: `#env-${i}`, text: env.title }));
}

function failures(main) {
  if (!DATA.failures.length && !DATA.unreadable.length) return;
  const box = put(main, "section", { className: "failures", "aria-label": "Failures" });
  if (DATA.failures.length) {
    put(box, "p", { text: `${plural(DATA.failures.length, "run")} failed; the numbers below are those of the others.` });
  }
  for (const failure of DATA.failures) {
    const details = put(box, "details");
    put(details, "summary", { text: failure.run });
    put(details, "pre", { text: failure.text, tabIndex: 0 });
  }
  if (DATA.unreadable.length) put(box, "p", { text: `${plural(DATA.unreadable.length, "run")} could not be read:` });
  const list = put(box, "ul");
  for (const line of DATA.unreadable) put(list, "li", { text: line });
}

function whatWasRun(main) {
  const section = put(main, "section", { "aria-label": "What was run" });
  put(section, "h2", { text: "What was run" });
  const list = put(section, "ul");
  for (const line of DATA.description) put(list, "li", { text: line });
  put(section, "p", { text: DATA.words.band });
  const details = put(section, "details");
  put(details, "summary", { text: "What the numbers mean" });
  for (const key of ["curve", "final", "violations", "solved", "regret", "strong", "total"]) put(details, "p", { text: DATA.words[key] });
}

// -- the table -------------------------------------------------------------------------------------------------

function range(low, high) {
  return low === null || low === high ? "one seed" : `[${show(low)}, ${show(high)}]`;
}

function resultsTable(section, env) {
  const box = put(section, "div", { className: "scroll wide", tabIndex: 0, role: "region", "aria-label": `Results in ${env.title}` });
  const table = put(box, "table");
  const costly = env.table.some((row) => row.cost_name !== null);
  const heads = [["Algorithm", "word"], ["Seeds"], ["Episodes"], ["Reward"]];
  if (costly) heads.push(["Cost", "word"], ["Mean"], ["Limit"], ["Violations"], ["Strong violation"], ["Total cost"]);
  heads.push(["Solved after"], ["Regret"], ["Strong regret"]);
  const head = put(put(table, "thead"), "tr");
  for (const [text, kind] of heads) put(head, "th", { scope: "col", text, className: kind || "" });
  const body = put(table, "tbody");
  const titles = new Map(DATA.algorithms.map((a) => [a.name, a.title]));
  const value = (row, mean, low, high, span) => {
    const cell = put(row, "td", { rowSpan: span || 1, text: show(mean) });
    put(cell, "small", { text: range(low, high) });
    return cell;
  };
  for (let i = 0; i < env.table.length; ) {
    const first = env.table[i];
    let span = 1;
    while (i + span < env.table.length && env.table[i + span].algorithm === first.algorithm) span++;
    for (let j = 0; j < span; j++) {
      const row = env.table[i + j];
      const line = put(body, "tr");
      if (j === 0) {
        put(line, "th", { scope: "row", rowSpan: span, text: titles.get(row.algorithm) || row.algorithm });
        put(line, "td", { rowSpan: span, text: many(row.seeds) });
        put(line, "td", { rowSpan: span, text: many(row.episodes) });
        value(line, row.reward, row.reward_low, row.reward_high, span);
      }
      if (costly) {
        put(line, "td", { className: "word", text: row.cost_name });
        const cell = value(line, row.cost, row.cost_low, row.cost_high);
        if (row.limit !== null && row.cost_low > row.limit) put(cell, "small", { className: "over", text: "▲ above limit" });
        put(line, "td", { text: row.floor === null ? show(row.limit) : `${show(row.floor)} to ${show(row.limit)}` });
        const limited = row.limit !== null || row.floor !== null;
        put(line, "td", { text: limited ? percent(row.violations) : "–" });
        put(line, "td", { text: limited ? show(row.strong_violation) : "–" });
        put(line, "td", { text: show(row.cumulative) });
      }
      if (j === 0) {
        const solved = put(line, "td", { rowSpan: span, text: row.solved === null ? "–" : many(row.solved) });
        if (env.best !== null) put(solved, "small", { text: `${row.solved_seeds} of ${plural(row.seeds, "seed")}` });
        put(line, "td", { rowSpan: span, text: show(row.regret) });
        put(line, "td", { rowSpan: span, text: show(row.strong_regret) });
      }
    }
    i += span;
  }
  put(section, "p", { className: "soft", text: `${DATA.words.final} ${DATA.words.violations}` });
}

// -- all of it -------------------------------------------------------------------------------------------------

// Figures are made when they come near the window: a study of many environments opens at once.
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

document.addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("main");
  main.replaceChildren();
  header();
  failures(main);
  whatWasRun(main);
  DATA.environments.forEach((env, i) => {
    const section = put(main, "section", { id: `env-${i}`, className: "environment" });
    put(section, "h2", { text: env.title });
    put(section, "p", { className: "soft", text: env.facts });
    put(section, "h3", { text: "Learning curves" });
    learningCurves(section, env);
    put(section, "h3", { text: "Results" });
    resultsTable(section, env);
    put(section, "h3", { text: "Budget explorer" });
    budgetExplorer(section, env);
  });
  window.addEventListener("beforeprint", () => [...waiting.keys()].forEach(make));
  document.documentElement.dataset.ready = "yes";
});
