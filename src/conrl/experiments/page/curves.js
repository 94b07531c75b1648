"use strict";
// Learning curves: one figure an environment, a row each for the reward, the costs, the regret and the sums of costs.

// Okabe and Ito (2008), in the order of the figures; null is the colour of the text.
const COLOURS = ["#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9", null, "#B3A100"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const STROKES = ["", "7 4", "2 3", "7 3 2 3", "11 4", "11 3 2 3"];
const ROW = 230, GAP = 46, TOP = 50, BOTTOM = 48; // pixels

const COARSE = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page; it does not draw boxes
const ROUTINE = {
  responsive: true, displaylogo: false, plotlyServerURL: "",
  // These and no others: Plotly's own choice has one that uploads the figure.
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  ...(COARSE ? { displayModeBar: false } : {}),
};

// Plotly takes a browser a moment to read: it lies in the page as text until the first figure is wanted.
function loadPlotly() {
  if (window.Plotly) return;
  put(document.head, "script", { textContent: document.getElementById("plotly").textContent });
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function look(algorithm) {
  const i = DATA.algorithms.findIndex((a) => a.name === algorithm);
  const k = i % COLOURS.length; // of 48 no two have the same colour and dashes
  const dashes = (k + Math.floor(i / COLOURS.length)) % DASHES.length;
  return { colour: COLOURS[k] || colourOf("ink"), dash: DASHES[dashes], stroke: STROKES[dashes] };
}

// Plotly reads tags, entities and %{...} in texts; names are to be shown as they are.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%/g, "&#37;");

// Titles stand in one line with what the dashed lines mean.
function short(name) {
  const most = matchMedia("(max-width: 45rem)").matches ? 12 : 50;
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function faded(colour, alpha) {
  const n = parseInt(colour.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${alpha})`;
}

function rowsOf(env) {
  const rows = [{ measure: "reward", cost: null, title: "Reward per episode", lines: [] }];
  if (env.best !== null) rows[0].lines.push({ y: env.best, text: `optimum ${show(env.best)}`, dash: "dot" });
  for (const cost of env.costs) {
    const lines = [];
    if (cost.limit !== null) lines.push({ y: cost.limit, text: `limit ${show(cost.limit)}`, dash: "dash" });
    if (cost.floor !== null) lines.push({ y: cost.floor, text: `floor ${show(cost.floor)}`, dash: "longdash" });
    const at = (bound) => bound !== null && Math.abs(cost.best - bound) <= 1e-6 * Math.max(1, Math.abs(bound));
    if (cost.best !== null && !at(cost.limit) && !at(cost.floor)) {
      lines.push({ y: cost.best, text: `optimum ${show(cost.best)}`, dash: "dot" });
    }
    rows.push({ measure: "cost", cost: cost.name, title: `Cost per episode: ${short(cost.name)}`, lines });
  }
  if (env.curves.some((c) => c.measure === "regret")) {
    rows.push({ measure: "regret", cost: null, title: "Regret so far", lines: [{ y: 0, text: "optimum", dash: "dot" }] });
  }
  for (const cost of env.costs) {
    const lines = [];
    if (cost.limit !== null) lines.push({ slope: cost.limit, text: "limit × episodes", dash: "dash" });
    if (cost.floor !== null) lines.push({ slope: cost.floor, text: "floor × episodes", dash: "longdash" });
    rows.push({ measure: "cumulative", cost: cost.name, title: `Total cost so far: ${short(cost.name)}`, lines });
  }
  return rows;
}

function learningCurves(section, env) {
  const present = DATA.algorithms.filter((a) => env.curves.some((c) => c.algorithm === a.name));
  const chosen = new Set(present.map((a) => a.name));
  const state = { log: false, from: null, to: null, made: false };
  const most = Math.max(1, ...env.curves.map((c) => c.x[c.x.length - 1]));

  const fields = put(section, "fieldset");
  put(fields, "legend", { text: "Algorithms shown" });
  const choices = put(fields, "div", { className: "choices" });
  const boxes = present.map((algorithm) => {
    const label = put(choices, "label");
    const box = put(label, "input", { type: "checkbox", checked: true });
    const { colour, stroke } = look(algorithm.name);
    const sample = draw(label, "svg", { width: 34, height: 10, "aria-hidden": "true" });
    draw(sample, "line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": stroke });
    put(label, "span", { text: algorithm.title });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(algorithm.name);
      else chosen.delete(algorithm.name);
      choose();
    });
    return [algorithm.name, box];
  });
  for (const [text, on] of [["All", true], ["None", false]]) {
    put(choices, "button", { type: "button", text }).addEventListener("click", () => {
      chosen.clear();
      for (const [name, box] of boxes) {
        box.checked = on;
        if (on) chosen.add(name);
      }
      choose();
    });
  }

  const tools = put(section, "div", { className: "tools" });
  const log = put(put(tools, "label", {}), "input", { type: "checkbox" });
  log.after("Logarithmic episodes");
  const end = (text, value) => {
    const label = put(tools, "label", { text });
    const field = put(label, "input", { type: "number", min: 1, max: most, value });
    field.addEventListener("change", () => zoom(Number(from.value) || 1, Number(to.value) || most));
    return field;
  };
  const from = end("From episode", 1);
  const to = end("to", most);
  put(tools, "button", { type: "button", text: "Whole range" }).addEventListener("click", () => zoom(1, most));

  const plot = put(section, "div", { className: "plot", role: "group" });
  plot.setAttribute("aria-label", `Learning curves in ${env.title}; the table below holds the final numbers.`);
  const rows = rowsOf(env);
  plot.style.height = `${TOP + rows.length * ROW + (rows.length - 1) * GAP + BOTTOM}px`;
  put(section, "p", { className: "soft", text: `${DATA.words.band} Reward and cost are smoothed: ${DATA.words.smoothed}. ${COARSE ? "Zoom by the fields above." : "Drag to zoom, double-click to go back."}` });

  log.addEventListener("change", () => {
    state.log = log.checked;
    redraw();
  });

  function choose() {
    if (!state.made) return;
    const curves = plot.data.map((trace, i) => [trace.meta, i]).filter(([name]) => name !== null);
    Plotly.restyle(plot, { visible: curves.map(([name]) => chosen.has(name)) }, curves.map(([, i]) => i));
  }

  function zoom(first, last) {
    [first, last] = [Math.max(1, Math.min(first, last)), Math.min(most, Math.max(first, last))];
    [from.value, to.value] = [first, last];
    [state.from, state.to] = first === 1 && last === most ? [null, null] : [first, last];
    redraw();
  }

  function traces() {
    const found = [];
    const ink = colourOf("ink");
    rows.forEach((row, r) => {
      const axes = { xaxis: "x", yaxis: r ? `y${r + 1}` : "y" };
      const mine = env.curves.filter((c) => c.measure === row.measure && c.cost === row.cost);
      for (const curve of mine) {
        const { colour, dash } = look(curve.algorithm);
        const common = { ...axes, type: "scatter", mode: "lines", meta: curve.algorithm, visible: chosen.has(curve.algorithm), showlegend: false };
        if (curve.seeds >= DATA.leastSeeds) {
          found.push({
            ...common, x: [...curve.x, ...[...curve.x].reverse()], y: [...curve.high, ...[...curve.low].reverse()],
            fill: "toself", fillcolor: faded(colour, 0.18), line: { width: 0 }, hoverinfo: "skip",
          });
        }
        const title = plain(DATA.algorithms.find((a) => a.name === curve.algorithm).title);
        const interval = curve.seeds >= DATA.leastSeeds ? " [%{customdata[0]:.4g}, %{customdata[1]:.4g}]" : ` (${plural(curve.seeds, "seed")})`;
        found.push({
          ...common, x: curve.x, y: curve.mean, name: title, customdata: curve.low.map((low, i) => [low, curve.high[i]]),
          line: { color: colour, width: 2, dash }, hovertemplate: `${title}: %{y:.4g}${interval}<extra></extra>`,
        });
      }
      for (const line of row.lines) {
        const y = line.slope === undefined ? [line.y, line.y] : [line.slope, line.slope * most];
        found.push({
          ...axes, x: [1, most], y, type: "scatter", mode: "lines", meta: null, hoverinfo: "skip", showlegend: false,
          line: { color: ink, width: 1.3, dash: line.dash },
        });
      }
    });
    return found;
  }

  function layout() {
    const ink = colourOf("ink"), line = colourOf("line"), soft = colourOf("soft");
    const height = TOP + rows.length * ROW + (rows.length - 1) * GAP + BOTTOM;
    const inner = height - TOP - BOTTOM;
    const scale = (x) => (state.log ? Math.log10(x) : x);
    const x = {
      type: state.log ? "log" : "linear", title: { text: "episodes" }, gridcolor: line, zerolinecolor: line, linecolor: soft,
      anchor: rows.length > 1 ? `y${rows.length}` : "y", hoverformat: ",d", tickformat: ",~r", unifiedhovertitle: { text: "episode %{x}" },
      ...(state.log ? { dtick: 1 } : {}),
      ...(state.from === null ? { autorange: true } : { range: [scale(state.from), scale(state.to)], autorange: false }),
    };
    const found = {
      height, margin: { l: 58, r: 14, t: TOP, b: BOTTOM }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily }, hovermode: "x unified",
      hoverlabel: { bgcolor: colourOf("paper"), bordercolor: soft, font: { color: ink } }, xaxis: x, annotations: [],
      modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink }, showlegend: false, dragmode: COARSE ? false : "zoom",
    };
    rows.forEach((row, r) => {
      const top = 1 - (r * (ROW + GAP)) / inner;
      const axis = r ? `yaxis${r + 1}` : "yaxis";
      found[axis] = {
        domain: [Math.max(0, top - ROW / inner), top], anchor: "x", gridcolor: line, zerolinecolor: line, linecolor: soft,
        automargin: false, tickformat: "~g", nticks: 6,
      };
      found.annotations.push({
        text: `<b>${plain(row.title)}</b>`, xref: "paper", x: 0, xanchor: "left", yref: "paper", y: top, yanchor: "bottom", showarrow: false,
        font: { size: 13, color: ink },
      });
      const marks = { dash: "╌╌", dot: "····", longdash: "— —" };
      found.annotations.push({
        text: row.lines.map((mark) => `${marks[mark.dash]} ${mark.text}`).join("  "), xref: "paper", x: 1, xanchor: "right", yref: "paper", y: top,
        yanchor: "bottom", showarrow: false, font: { size: 11, color: soft },
      });
    });
    return found;
  }

  const redraw = () => state.made && Plotly.react(plot, traces(), layout(), ROUTINE);
  // After a moment, in which the rest of the page is shown.
  whenSeen(plot, () => setTimeout(() => {
    loadPlotly();
    state.made = true;
    redraw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }, 50));
}
