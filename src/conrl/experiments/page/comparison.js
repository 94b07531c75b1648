"use strict";
// Algorithms compared: interquartile means, pairs, and performance profiles, in all environments together or in one.

const titleOf = (name) => (DATA.algorithms.find((a) => a.name === name) || { title: name }).title;

function choice(parent, text, options) {
  const label = put(parent, "label", { text });
  const select = put(label, "select");
  for (const [value, title] of options) put(select, "option", { value, text: title });
  return select;
}

function plainTable(parent, label, heads, rows) {
  const box = put(parent, "div", { className: "scroll wide", tabIndex: 0, role: "region", "aria-label": label });
  const table = put(box, "table");
  const head = put(put(table, "thead"), "tr");
  for (const text of heads) put(head, "th", { scope: "col", text });
  const body = put(table, "tbody");
  for (const [name, ...cells] of rows) {
    const line = put(body, "tr");
    put(line, "th", { scope: "row", text: name });
    for (const [value, below] of cells) {
      const cell = put(line, "td", { text: value });
      if (below) put(cell, "small", { text: below });
    }
  }
}

// A number with its interval below it.
const withRange = (value, low, high) => (value === null ? ["–"] : [show(value, 3), low === null ? "no interval" : `[${show(low, 3)}, ${show(high, 3)}]`]);

function aggregatesTable(parent, scope) {
  const measures = DATA.comparison.measures.filter((m) => scope.aggregates.some((row) => row.measure === m.name));
  const algorithms = DATA.algorithms.filter((a) => scope.aggregates.some((row) => row.algorithm === a.name));
  const rows = algorithms.map((algorithm) => {
    const own = (measure) => scope.aggregates.find((row) => row.algorithm === algorithm.name && row.measure === measure.name);
    const runs = Math.max(...measures.map((m) => (own(m) ? own(m).runs : 0)));
    return [algorithm.title, [many(runs)], ...measures.map((m) => (own(m) ? withRange(own(m).iqm, own(m).low, own(m).high) : ["–"]))];
  });
  const heads = measures.map((m) => `${m.title[0].toUpperCase()}${m.title.slice(1)} ${m.higher ? "↑" : "↓"}`);
  plainTable(parent, `Interquartile means, ${scope.title}`, ["Algorithm", "Runs", ...heads], rows);
}

function pairsTable(parent, scope, measure) {
  const pairs = scope.pairs.filter((row) => row.measure === measure.name);
  if (!pairs.length) return;
  const word = measure.higher ? "higher" : "lower";
  put(parent, "h3", { text: `Pairs, by ${measure.title} (${word} is better)` });
  const rows = pairs.map((row) => [
    `${titleOf(row.first)} against ${titleOf(row.second)}`,
    withRange(row.difference, row.difference_low, row.difference_high),
    withRange(row.improvement, row.improvement_low, row.improvement_high),
    [many(row.pairs)], [many(row.environments)],
  ]);
  plainTable(parent, `Pairs, ${scope.title}`, ["First against second", "Difference", "Probability that first is better", "Pairs of seeds", "Environments"], rows);
  put(parent, "p", { className: "soft", text: DATA.words.pairs });
}

// Where less is better, much lies near 0 and some far away: an axis that is linear there, and logarithmic further out.
const scaled = (measure, x) => (measure.higher ? x : Math.asinh(x / 0.01));

function profileTraces(profiles, measure) {
  const found = [], x = profiles.x.map((value) => scaled(measure, value));
  const sign = measure.higher ? "&gt;" : "≤";
  for (const line of profiles.lines) {
    const { colour, dash } = look(line.algorithm);
    const title = plain(titleOf(line.algorithm));
    const common = { x, type: "scatter", mode: "lines", showlegend: false };
    const banded = line.low.every((y) => y !== null);
    if (banded) {
      const edge = { ...common, line: { width: 0, shape: "hv", color: colour }, hoverinfo: "skip" };
      found.push({ ...edge, y: line.low }, { ...edge, y: line.high, fill: "tonexty", fillcolor: faded(colour, 0.15) });
    }
    found.push({
      ...common, y: line.share, name: title, line: { color: colour, width: 2, dash, shape: "hv" },
      customdata: line.low.map((low, i) => [low, line.high[i], profiles.x[i]]),
      hovertemplate: `${title}: %{y:.0%}${banded ? " [%{customdata[0]:.0%}, %{customdata[1]:.0%}]" : ""} ${sign} %{customdata[2]:.3~g}<extra></extra>`,
    });
  }
  return found;
}

function profileLayout(profiles, measure) {
  const ink = colourOf("ink"), line = colourOf("line"), soft = colourOf("soft");
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: soft };
  const ticks = [0, 0.01, 0.1, 1, 10, 100, 1000];
  const nonlinear = measure.higher ? {} : { tickvals: ticks.map((x) => scaled(measure, x)), ticktext: ticks.map(String), zeroline: false, range: [-0.1, scaled(measure, Math.max(0.01, profiles.x[profiles.x.length - 1] || 0))] };
  return {
    height: 330, margin: { l: 58, r: 14, t: 34, b: 48 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily }, hovermode: "x unified",
    hoverlabel: { bgcolor: colourOf("paper"), bordercolor: soft, font: { color: ink } },
    xaxis: { ...axis, title: { text: measure.title }, tickformat: "~g", unifiedhovertitle: { text: `runs by ${measure.title}` }, ...nonlinear },
    yaxis: { ...axis, range: [-0.02, 1.02], tickformat: ".0%", title: { text: "share of runs" } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink }, showlegend: false, dragmode: COARSE ? false : "zoom",
  };
}

function profileFigure(parent) {
  const legend = put(parent, "ul", { className: "legend" });
  const plot = put(parent, "div", { className: "plot", role: "group" });
  plot.style.height = "330px";
  put(parent, "p", { className: "soft", text: DATA.words.profile });
  let made = false, shown = null;
  const redraw = () => {
    legend.replaceChildren();
    for (const line of shown.profiles.lines) {
      const item = put(legend, "li");
      const { colour, stroke } = look(line.algorithm);
      const sample = draw(item, "svg", { width: 34, height: 10, "aria-hidden": "true" });
      draw(sample, "line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": stroke });
      put(item, "span", { text: titleOf(line.algorithm) });
    }
    plot.setAttribute("aria-label", `Performance profiles by ${shown.measure.title}, ${shown.scope}; the tables above hold the means.`);
    if (made) Plotly.react(plot, profileTraces(shown.profiles, shown.measure), profileLayout(shown.profiles, shown.measure), ROUTINE);
  };
  whenSeen(plot, () => setTimeout(() => {
    loadPlotly();
    made = true;
    redraw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }, 50));
  return (scope, measure) => {
    shown = { scope: scope.title, measure, profiles: scope.profiles[measure.name] };
    redraw();
  };
}

// What the numbers do not cover.
function coverage(parent, measure) {
  const notes = [];
  const left = DATA.comparison.leftOut[measure.name].map(titleOf), without = DATA.comparison.unknown[measure.name];
  if (left.length) notes.push(`Not in all environments, so not in the ${measure.title} over all of them: ${left.join(", ")}.`);
  if (without.length) notes.push(`The ${measure.title} is not known in ${without.join(", ")}.`);
  if (notes.length) put(parent, "p", { className: "soft", text: notes.join(" ") });
}

function algorithmsCompared(main) {
  const { scopes, measures } = DATA.comparison;
  if (!scopes.length) return;
  const section = put(main, "section", { id: "comparison", "aria-label": "Algorithms compared" });
  put(section, "h2", { text: "Algorithms compared" });
  const tools = put(section, "div", { className: "tools" });
  const where = choice(tools, "In", scopes.map((scope, i) => [i, scope.title]));
  const means = put(section, "div");
  put(section, "p", { className: "soft", text: `${DATA.words.compared} ${DATA.words.intervals}` });
  const more = put(section, "div", { className: "tools" });
  const by = choice(more, "Pairs and profiles by", measures.map((measure, i) => [i, measure.title]));
  const pairs = put(section, "div");
  put(section, "h3", { text: "Performance profiles" });
  const profiles = profileFigure(section);

  function update() {
    const scope = scopes[Number(where.value)];
    const known = measures.filter((m) => scope.profiles[m.name] && scope.profiles[m.name].lines.length);
    for (const option of by.options) option.disabled = !known.includes(measures[Number(option.value)]);
    if (known.length && !known.includes(measures[Number(by.value)])) by.value = String(measures.indexOf(known[0]));
    const measure = measures[Number(by.value)];
    means.replaceChildren();
    aggregatesTable(means, scope);
    coverage(means, measure);
    pairs.replaceChildren();
    pairsTable(pairs, scope, measure);
    profiles(scope, measure);
  }
  where.addEventListener("change", update);
  by.addEventListener("change", update);
  update();
}
