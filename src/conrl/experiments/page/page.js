"use strict";
// The frame of the page: what was run, failures, algorithms compared, and for each environment curves, table and explorer.
// Texts from the study are set as textContent only.

const many = (n) => (n === null ? "–" : Math.round(n).toLocaleString("en-US"));

function header() {
  const top = document.getElementById("top");
  put(top, "h1", { text: DATA.title });
  const sizes = [
    plural(DATA.runs, "run"), plural(DATA.environments.length, "environment"), plural(DATA.algorithms.length, "algorithm"),
  ].join(", ");
  put(top, "p", { className: "soft", text: DATA.name === DATA.title ? sizes : `${DATA.name}: ${sizes}` });
  const list = put(put(top, "nav", { "aria-label": "Contents" }), "ul");
  if (DATA.comparison.scopes.length) put(put(list, "li"), "a", { href: "#comparison", text: "Algorithms compared" });
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
  const words = ["curve", "final", "violations", "solved", "regret", "total", "single", "iterates", "violating", "strong", "slope"];
  for (const key of words) put(details, "p", { text: DATA.words[key] });
}

// -- the table -------------------------------------------------------------------------------------------------

function range(low, high) {
  return low === null ? "no interval" : `[${show(low)}, ${show(high)}]`;
}

// A table with a line for each algorithm and cost. A column is [heading, fill, kind]: `fill` puts something into the cell of
// a row; of kind "cost" there is a cell for each cost, else one for all costs of an algorithm.
function tableOf(section, label, env, columns) {
  const box = put(section, "div", { className: "scroll wide", tabIndex: 0, role: "region", "aria-label": `${label} in ${env.title}` });
  const table = put(box, "table");
  const head = put(put(table, "thead"), "tr");
  const shown = columns.filter(([, , kind]) => kind !== "cost" || env.table.some((row) => row.cost_name !== null));
  for (const [text] of shown) put(head, "th", { scope: "col", text, className: text === "Cost" ? "name" : "" });
  const body = put(table, "tbody");
  const titles = new Map(DATA.algorithms.map((a) => [a.name, a.title]));
  for (let i = 0; i < env.table.length; ) {
    const first = env.table[i];
    let span = 1;
    while (i + span < env.table.length && env.table[i + span].algorithm === first.algorithm) span++;
    for (let j = 0; j < span; j++) {
      const row = env.table[i + j];
      const line = put(body, "tr");
      for (const [text, fill, kind] of shown) {
        if (text === "Algorithm") {
          if (j === 0) put(line, "th", { scope: "row", rowSpan: span, text: titles.get(row.algorithm) || row.algorithm });
        } else if (kind === "cost") fill(put(line, "td", { className: text === "Cost" ? "name" : "" }), row);
        else if (j === 0) fill(put(line, "td", { rowSpan: span }), row);
      }
    }
    i += span;
  }
}

function bounds(row) {
  if (row.floor === null) return show(row.limit);
  return row.limit === null ? `at least ${show(row.floor)}` : `${show(row.floor)} to ${show(row.limit)}`;
}

const isLimited = (row) => row.limit !== null || row.floor !== null;

// Fills a cell with a number and, below it, a word or two.
const number = (key, below) => (cell, row) => {
  cell.textContent = show(row[key]);
  const text = below && below(row);
  if (text) put(cell, "small", { text });
};
const ifLimited = (fill) => (cell, row) => isLimited(row) ? fill(cell, row) : (cell.textContent = "–");

// How many of the episodes that final numbers are means of were planned to explore.
const explored = (row) => `${row.final_exploring === null ? "?" : show(row.final_exploring)} of last ${show(row.final_episodes)} explore`;

function resultsTable(section, env) {
  tableOf(section, "Results", env, [
    ["Algorithm"],
    ["Seeds", (cell, row) => (cell.textContent = many(row.seeds))],
    ["Episodes", number("episodes", explored)],
    ["Reward", number("reward", (row) => range(row.reward_low, row.reward_high))],
    ["Cost", (cell, row) => (cell.textContent = row.cost_name), "cost"],
    ["Mean", (cell, row) => {
      number("cost", () => range(row.cost_low, row.cost_high))(cell, row);
      if (row.cost_low === null) return;
      if (row.limit !== null && row.cost_low > row.limit) put(cell, "small", { className: "over", text: "▲ above limit" });
      if (row.floor !== null && row.cost_high < row.floor) put(cell, "small", { className: "over", text: "▼ below floor" });
    }, "cost"],
    ["Limit", (cell, row) => (cell.textContent = bounds(row)), "cost"],
    ["Violations", ifLimited((cell, row) => (cell.textContent = percent(row.violations))), "cost"],
    ["Total cost", number("cumulative", (row) => (isLimited(row) ? `${show(row.cumulative_violation)} over` : "")), "cost"],
    ["Solved after", (cell, row) => {
      cell.textContent = many(row.solved);
      if (env.best !== null) put(cell, "small", { text: `${row.solved_seeds} of ${plural(row.seeds, "seed")}` });
    }],
    ["Regret", number("cumulative_regret", (row) => (row.cumulative_safe_regret === null ? "" : `safe ${show(row.cumulative_safe_regret)}`))],
  ]);
  put(section, "p", { className: "soft", text: `${DATA.words.final} ${DATA.words.violations}` });
}

// What is known of each policy by itself; nothing, where no exact values are.
function policiesTable(section, env) {
  if (env.table.every((row) => row.last_iterate_reward === null && row.average_policy_reward === null)) return;
  put(section, "h3", { text: "Each policy by itself" });
  const off = (key, word) => (row) => (row[key] === null ? "" : `${show(row[key])} ${word}`);
  const slope = (x) => (x === "-inf" ? "−∞" : x === null ? "–" : x.toFixed(2).replace("-", "−"));
  tableOf(section, "Each policy by itself", env, [
    ["Algorithm"],
    ["Last iterate: reward", number("last_iterate_reward", off("last_iterate_shortfall", "short"))],
    ["Average policy: reward", number("average_policy_reward")],
    ["Strong regret", number("strong_regret")],
    ["Cost", (cell, row) => (cell.textContent = row.cost_name), "cost"],
    ["Last iterate: cost", number("last_iterate_cost", (row) => (isLimited(row) ? off("last_iterate_excess", "excess")(row) : "")), "cost"],
    ["Average policy: cost", number("average_policy_cost"), "cost"],
    ["Limit", (cell, row) => (cell.textContent = bounds(row)), "cost"],
    ["Violating episodes", ifLimited((cell, row) => (cell.textContent = row.violating === null ? "–" : percent(row.violating))), "cost"],
    ["Strong violation", ifLimited(number("strong_violation")), "cost"],
    ["Slope of excess", ifLimited((cell, row) => (cell.textContent = slope(row.excess_slope))), "cost"],
  ]);
  put(section, "p", { className: "soft", text: `${DATA.words.single} ${DATA.words.violating} ${DATA.words.slope}` });
}

// -- all of it -------------------------------------------------------------------------------------------------

document.addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("main");
  main.replaceChildren();
  header();
  failures(main);
  whatWasRun(main);
  algorithmsCompared(main);
  DATA.environments.forEach((env, i) => {
    const section = put(main, "section", { id: `env-${i}`, className: "environment" });
    put(section, "h2", { text: env.title });
    put(section, "p", { className: "soft", text: env.facts });
    put(section, "h3", { text: "Learning curves" });
    learningCurves(section, env);
    put(section, "h3", { text: `Results over ${env.over}` });
    resultsTable(section, env);
    policiesTable(section, env);
    put(section, "h3", { text: "Budget explorer" });
    budgetExplorer(section, env.explorer);
  });
  window.addEventListener("beforeprint", () => [...waiting.keys()].forEach(make));
  document.documentElement.dataset.ready = "yes";
});
