"use strict";
// What the policy does: on the map, or as a diagram of the next steps and a table of the most visited states.

const UNIT = 1e-4; // of stored probabilities
const HARDLY = 1e-26; // units: stands for a stored 0, which is reached, but too seldom to count
const DUST = 1e-3; // probability: less may be what rounding to units takes of a long list
const COUNTED = 5e-9; // visits at a step, below which they may be stored as 0
const RARE = 0.01; // probability of being there below which arrows are pale; the legend says so
const LISTED = 20;
const CELL = 40;
const PAUSE = 450; // milliseconds a step

// Pairs (difference of keys, value) as a map from keys to probabilities, added to what is there with a weight.
function addTo(found, flat, weight) {
  for (let i = 0, key = 0; i < flat.length; i += 2) {
    key += flat[i];
    found.set(key, (found.get(key) || 0) + weight * (flat[i + 1] || HARDLY) * UNIT);
  }
}

// Expected visits in so many steps.
function visitsText(visits, steps) {
  const least = COUNTED * steps;
  return visits < least ? `<1e${Math.ceil(Math.log10(least))}` : show(visits, 3);
}

function describe(entry, actions) {
  const shares = [...entry.shares].filter(([, p]) => p >= 0.0005).sort((a, b) => b[1] - a[1]);
  const parts = shares.map(([a, p]) => (p > 0.9995 ? actions[a] : `${actions[a]} (${percent(p)})`));
  if (entry.ended > 0) parts.push(parts.length ? `ended (${percent(entry.ended / (entry.visits + entry.ended))})` : "ended: it stays there, whatever is done");
  return parts.join(", ");
}

// Everything about the policy of a mixture: what is shown of it, and by which step.
class PolicyView {
  constructor(parent, data) {
    this.data = data;
    this.places = data.places;
    this.last = (data.steps || 1) - 1;
    this.step = 0;
    this.timer = null;
    this.width = data.actions.length + 1;
    this.whole = true; // the whole policy at first sight; the steps when asked
    if (data.steps !== null) this.controls(parent);
    this.map = this.places.map ? new GridMap(parent, this.places.map, data.actions) : null;
    this.flow = !this.map && this.places.moves && this.last > 0 ? new FlowPicture(parent, this) : null;
    const list = this.map ? put(parent, "details") : put(parent, "div");
    if (this.map) put(list, "summary", { text: "The most visited cells as a table" });
    this.list = put(scrolling(list, "Most visited places"), "table");
    this.rest = put(list, "p", { className: "soft" });
  }

  controls(parent) {
    const tools = put(parent, "div", { className: "tools" });
    this.playButton = put(tools, "button", { type: "button", text: "▶ Play", "aria-pressed": "false" });
    this.playButton.addEventListener("click", () => (this.timer === null ? this.play() : this.stop()));
    this.stepText = put(tools, "label", { htmlFor: newId() });
    this.all = put(put(tools, "label"), "input", { type: "checkbox", checked: this.whole });
    this.all.after("Whole episode");
    this.all.addEventListener("change", () => {
      this.stop();
      this.whole = this.all.checked;
      this.update();
    });
    this.stepper = put(parent, "input", { type: "range", id: this.stepText.htmlFor, min: 0, max: this.last, step: 1, value: 0, className: "step-slider" });
    this.stepper.addEventListener("input", () => {
      this.stop();
      this.setStep(Number(this.stepper.value));
    });
  }

  setStep(step) {
    this.step = step;
    this.stepper.value = step;
    if (this.whole) this.whole = this.all.checked = false;
    this.update();
  }

  play() {
    this.playButton.textContent = "❚❚ Pause";
    this.playButton.setAttribute("aria-pressed", "true");
    this.setStep(this.step >= this.last ? 0 : this.step);
    this.timer = setInterval(() => {
      if (this.step >= this.last) this.stop();
      else this.setStep(this.step + 1);
    }, PAUSE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = "▶ Play";
    this.playButton.setAttribute("aria-pressed", "false");
  }

  show(weights) {
    this.weights = weights;
    this.update();
  }

  // Keys with their probabilities at a step.
  rho(step) {
    const found = new Map();
    for (const [i, w] of this.weights) addTo(found, this.places.visits[i][step], w);
    return found;
  }

  // By place: visits, shares of actions, and how likely the episode has come to its end there.
  table(steps) {
    const found = new Map();
    for (const step of steps) {
      for (const [key, p] of this.rho(step)) {
        const where = Math.floor(key / this.width), action = key % this.width;
        if (!found.has(where)) found.set(where, { visits: 0, ended: 0, shares: new Map() });
        const entry = found.get(where);
        if (action === this.width - 1) entry.ended = p; // of a whole episode, at the last step
        else {
          entry.visits += p;
          entry.shares.set(action, (entry.shares.get(action) || 0) + p);
        }
      }
    }
    for (const entry of found.values()) for (const [a, p] of entry.shares) entry.shares.set(a, p / entry.visits);
    return found;
  }

  second() {
    const found = new Map();
    if (!this.map || !this.places.map.second) return found;
    for (const [i, w] of this.weights) addTo(found, this.places.second[i][this.whole ? this.last : this.step], w);
    return found;
  }

  update() {
    if (this.stepText) {
      this.stepText.textContent = this.whole ? `all steps, 0 to ${this.last}` : `Step ${this.step} of 0 to ${this.last}`;
      this.stepper.setAttribute("aria-valuetext", `step ${this.step}`);
    }
    const steps = this.whole ? Array.from({ length: this.last + 1 }, (_, h) => h) : [this.step];
    const table = this.table(steps);
    if (this.map) this.map.show(table, this.second(), this.whole, this.step, this.last + 1);
    if (this.flow) this.flow.show();
    this.showList(table);
  }

  name(i) {
    const map = this.places.map;
    if (!map) return this.places.names[i];
    const columns = map.rows[0].length;
    const kind = map.kinds[map.rows[Math.floor(i / columns)][i % columns]];
    return `row ${Math.floor(i / columns)}, column ${i % columns}` + (kind ? ` (${kind})` : "");
  }

  showList(table) {
    const size = (entry) => entry.visits + entry.ended;
    const order = [...table].sort((a, b) => size(b[1]) - size(a[1]) || a[0] - b[0]).slice(0, LISTED);
    const most = this.whole ? Math.max(...order.map(([, entry]) => size(entry))) : 1;
    this.list.replaceChildren();
    const head = put(put(this.list, "thead"), "tr");
    const value = this.data.steps === null ? this.data.counts : this.whole ? "Expected visits" : "Probability";
    for (const text of [this.map ? "Cell" : "State", value, "", "What is done"]) {
      put(head, "th", { scope: "col", text, className: text === "What is done" ? "word" : "" });
    }
    const body = put(this.list, "tbody");
    for (const [where, entry] of order) {
      const row = put(body, "tr");
      put(row, "th", { scope: "row", text: this.name(where) });
      put(row, "td", { text: this.whole ? visitsText(size(entry), this.last + 1) : percent(size(entry)) });
      put(put(row, "td", { className: "barred" }), "span", { className: "bar" }).style.width = `${(100 * size(entry)) / most}%`;
      put(row, "td", { className: "word", text: describe(entry, this.data.actions) });
    }
    this.rest.textContent = this.left(table.size - order.length, this.elsewhere(table, order.map(([, entry]) => size(entry))));
  }

  // The probability of places that are not shown, at one step: of a long list the page holds the most visited ones.
  elsewhere(table, shown) {
    const sum = (sizes) => sizes.reduce((all, one) => all + one, 0);
    if (this.places.all) return sum([...table.values()].map((entry) => entry.visits + entry.ended)) - sum(shown);
    return 1 - sum(shown) < DUST ? 0 : 1 - sum(shown);
  }

  left(count, share) {
    const most = this.places.all ? "" : "Of each step this page holds the most visited places only.";
    if (this.whole || (this.places.all ? count === 0 : share === 0)) return most;
    const places = this.places.all ? `${plural(count, "other place")} with ${percent(share)} together.` : `The other ${percent(share)} is in places that are not listed.`;
    return `${places} ${most}`.trim();
  }
}

// -- the next steps ----------------------------------------------------------------------------------------------

const NODES = 6; // of a step, and one for all others
const TALL = 150; // of probability 1
const SLOT = 34; // least room for a node's two lines
const OTHERS = -1;

// Time runs to the right: the likeliest states of a few steps, and where they lead.
class FlowPicture {
  constructor(parent, view) {
    this.view = view;
    this.fitted = new Map();
    const figure = put(parent, "figure");
    this.svg = draw(figure, "svg", { class: "flow", role: "img" });
    put(figure, "figcaption", { className: "soft", text: "The likeliest states and where they lead. Heights and widths are probabilities." });
    matchMedia("(max-width: 45rem)").addEventListener("change", () => this.show());
  }

  show() {
    const { view, svg } = this;
    const narrow = matchMedia("(max-width: 45rem)").matches;
    const columns = Math.min(narrow ? 2 : 4, view.last + 1);
    const begin = Math.min(view.whole ? 0 : view.step, view.last + 1 - columns);
    const width = narrow ? 350 : 620;
    const steps = Array.from({ length: columns }, (_, k) => this.nodes(begin + k));
    const room = width / columns;
    steps.forEach((nodes, k) => {
      let y = 24;
      for (const node of nodes.values()) {
        [node.x, node.y, node.out, node.into] = [k * room + 2, y, 0, 0];
        y += Math.max(SLOT, node.p * TALL + 8);
      }
      nodes.height = y;
    });
    svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(...steps.map((nodes) => nodes.height))}`);
    svg.replaceChildren();
    const links = draw(svg, "g", { class: "links" });
    for (let k = 0; k + 1 < columns; k++) this.links(links, begin + k, steps[k], steps[k + 1]);
    steps.forEach((nodes, k) => {
      draw(svg, "text", { x: k * room + 2, y: 13, class: "when" }, `step ${begin + k}`);
      for (const [where, node] of nodes) this.node(where, node, room);
    });
    const top = [...steps[0]][0];
    svg.setAttribute("aria-label", `Likeliest states from step ${begin} on${top ? `; first: ${this.name(top[0])} with ${percent(top[1].p)}` : ""}. The table holds the numbers.`);
  }

  name(where) {
    return where === OTHERS ? "other states" : this.view.name(where);
  }

  // The likeliest states of a step, and the others together.
  nodes(step) {
    const table = this.view.table([step]);
    const all = [...table].map(([where, entry]) => ({ where, entry, p: entry.visits + entry.ended }));
    all.sort((a, b) => b.p - a.p || a.where - b.where);
    const few = all.length <= NODES + 1 ? all : all.slice(0, NODES);
    const found = new Map(few.map(({ where, entry, p }) => [where, { entry, p }]));
    const left = this.view.elsewhere(table, few.map(({ p }) => p));
    if (all.length > few.length || left > DUST) found.set(OTHERS, { entry: null, p: left });
    return found;
  }

  links(parent, step, from, to) {
    const flows = new Map();
    const add = (a, b, p) => {
      const key = `${from.has(a) ? a : OTHERS},${to.has(b) ? b : OTHERS}`;
      flows.set(key, (flows.get(key) || 0) + p);
    };
    for (const [key, p] of this.view.rho(step)) {
      const where = Math.floor(key / this.view.width);
      const leads = this.view.places.moves[key];
      if (!leads) add(where, where, p); // it has ended
      else for (let i = 0; i < leads.length; i += 2) add(where, leads[i], p * leads[i + 1]);
    }
    const order = [...flows].map(([key, p]) => [...key.split(",").map(Number), p]);
    const rank = (nodes, where) => [...nodes.keys()].indexOf(where);
    order.sort((a, b) => rank(from, a[0]) - rank(from, b[0]) || rank(to, a[1]) - rank(to, b[1]));
    for (const [a, b, p] of order) {
      const [u, v] = [from.get(a), to.get(b)];
      if (!u || !v) continue; // what is left out of both lists
      const thick = p * TALL;
      const [x1, y1, x2, y2] = [u.x + 8, u.y + u.out + thick / 2, v.x, v.y + v.into + thick / 2];
      u.out += thick;
      v.into += thick;
      if (p < 0.002) continue;
      const middle = (x1 + x2) / 2;
      const link = draw(parent, "path", { d: `M${x1} ${y1.toFixed(1)}C${middle} ${y1.toFixed(1)} ${middle} ${y2.toFixed(1)} ${x2} ${y2.toFixed(1)}`, "stroke-width": Math.max(0.6, thick).toFixed(2) });
      draw(link, "title", {}, `${this.name(a)} → ${this.name(b)}: ${percent(p)}`);
    }
  }

  // A text of the picture in so much room, cut where it is longer. What fits is remembered: measuring takes time.
  fit(element, text, room) {
    const key = `${element.getAttribute("class")} ${Math.round(room)} ${text}`;
    const long = (words) => {
      element.textContent = words;
      return element.getComputedTextLength() > room;
    };
    if (!this.fitted.has(key)) {
      let [fits, not] = [1, text.length + 1]; // characters
      if (!long(text)) fits = text.length;
      while (fits < text.length && not - fits > 1) {
        const middle = Math.floor((fits + not) / 2);
        if (long(clipped(text, middle))) not = middle;
        else fits = middle;
      }
      this.fitted.set(key, clipped(text, fits));
    }
    element.textContent = this.fitted.get(key);
  }

  node(where, node, room) {
    draw(this.svg, "rect", { x: node.x, y: node.y, width: 8, height: Math.max(1.5, node.p * TALL), class: where === OTHERS ? "node others" : "node" });
    const free = room - 20; // without the bar and a gap before the next
    const text = (y, kind) => draw(this.svg, "text", { x: node.x + 13, y: node.y + y, class: kind });
    const chance = text(11, "chance");
    chance.textContent = percent(node.p);
    const width = chance.getComputedTextLength();
    const words = text(11, "place");
    this.fit(words, this.name(where), free - width - 5);
    chance.setAttribute("x", node.x + 13 + words.getComputedTextLength() + 5);
    draw(words, "title", {}, this.name(where));
    if (!node.entry) return;
    const does = describe(node.entry, this.view.data.actions);
    const line = text(24, "does");
    this.fit(line, does, free);
    draw(line, "title", {}, does);
  }
}

// A name in so many characters, cut between words where there are some.
function clipped(text, most) {
  if (text.length <= most) return text;
  const cut = text.slice(0, most - 1);
  const space = cut.lastIndexOf(" ");
  return `${(space > most / 2 ? cut.slice(0, space) : cut).replace(/[\s,]+$/, "")}…`;
}

// -- the map -----------------------------------------------------------------------------------------------------

class GridMap {
  constructor(parent, data, actions) {
    this.data = data;
    this.names = actions;
    this.columns = data.rows[0].length;
    const [width, height] = [this.columns * CELL, data.rows.length * CELL];
    const figure = put(parent, "figure");
    this.svg = draw(figure, "svg", { class: "map", viewBox: `-1 -1 ${width + 2} ${height + 2}`, role: "img" });
    this.svg.style.maxWidth = `${Math.max(260, this.columns * 62)}px`;
    this.cells = new Map();
    data.rows.forEach((row, r) => [...row].forEach((sign, c) => this.ground(r, c, sign)));
    this.legend(figure);
  }

  ground(r, c, sign) {
    const cell = draw(this.svg, "g", { transform: `translate(${c * CELL} ${r * CELL})` });
    const box = (inset, kind) => draw(cell, "rect", { x: inset, y: inset, width: CELL - 2 * inset, height: CELL - 2 * inset, class: kind });
    if (this.data.walls.includes(sign)) {
      box(0, "wall");
      return;
    }
    const visit = box(0, "visit");
    box(0, "floor");
    const kind = this.data.kinds[sign];
    const marks = { S: "start", G: "good", P: "harm", H: "harm", C: "harm" };
    if (marks[sign]) box(2, marks[sign]);
    if (kind && sign !== "X") draw(cell, "text", { x: 4.5, y: 10, class: "kind" }, kind.split(" ")[0]);
    const title = draw(cell, "title");
    const play = draw(cell, "g");
    this.cells.set(r * this.columns + c, { visit, title, play });
  }

  show(table, second, whole, step, steps) {
    const most = whole ? Math.max(...[...table.values()].map((e) => Math.max(e.visits, e.ended)), 1e-9) : 1;
    for (const [i, { visit, title, play }] of this.cells) {
      const entry = table.get(i) || { visits: 0, ended: 0, shares: new Map() };
      const there = entry.visits + entry.ended;
      visit.setAttribute("fill-opacity", (0.85 * Math.sqrt(Math.min(1, there / most))).toFixed(3));
      title.textContent = there > 0 ? `${whole ? visitsText(there, steps) : percent(there)}: ${describe(entry, this.names)}` : "not reached";
      play.replaceChildren();
      const piece = second.get(i) || 0;
      if (piece >= UNIT) {
        draw(play, "rect", { x: 6, y: 6, width: CELL - 12, height: CELL - 12, class: "piece", "stroke-opacity": Math.max(0.25, Math.sqrt(piece)).toFixed(3) });
      }
      this.actions(play, entry, whole);
      const text = whole ? (there >= 0.005 ? show(there, 2) : "") : there >= 0.0005 ? percent(there) : "";
      if (text) draw(play, "text", { x: CELL - 3, y: CELL - 3.5, class: "where", "text-anchor": "end" }, text);
    }
    this.ramp(most, whole);
    const when = whole ? "over the whole episode" : `at step ${step}`;
    const top = [...table].sort((a, b) => b[1].visits + b[1].ended - a[1].visits - a[1].ended)[0];
    const likely = top ? `; likeliest cell: row ${Math.floor(top[0] / this.columns)}, column ${top[0] % this.columns}` : "";
    this.svg.setAttribute("aria-label", `Map of the policy and its visits ${when}${likely}. The table holds the numbers.`);
  }

  // A lone arrow is centred; several leave the centre. Opacity is the probability of the action.
  actions(parent, entry, whole) {
    const shown = [...entry.shares].filter(([, p]) => p >= 0.005).sort((a, b) => a[1] - b[1]);
    const pale = entry.visits < RARE ? 0.35 : 1;
    const lone = shown.length === 1;
    for (const [action, share] of shown) {
      const opacity = (pale * Math.max(0.12, share)).toFixed(3);
      const direction = this.data.directions[this.data.arrows[action]];
      const middle = CELL / 2;
      if (!direction) {
        draw(parent, "text", { x: middle, y: middle, class: "sign", opacity }, this.data.arrows[action]);
        continue;
      }
      const angle = (Math.atan2(direction[1], direction[0]) * 180) / Math.PI;
      const [tail, tip] = lone ? [-9, 9] : [1.5, 11.5];
      draw(parent, "path", {
        d: `M${tail} 0H${tip - 3}M${tip} 0L${tip - 5} 3.2L${tip - 5} -3.2Z`, class: "arrow", opacity,
        transform: `translate(${middle} ${middle}) rotate(${angle.toFixed(1)})`,
      });
    }
  }

  ramp(most, whole) {
    this.rampTitle.textContent = whole ? "expected visits" : "probability of being there";
    this.rampTexts.forEach(([text, share]) => (text.textContent = whole ? show(share * most, 2) : percent(share)));
  }

  legend(figure) {
    const list = put(figure, "ul", { className: "legend" });
    const ramp = put(list, "li");
    const scale = put(ramp, "span", { className: "ramp", "aria-hidden": "true" });
    const shares = [0.01, 0.1, 0.25, 0.5, 1];
    for (const share of shares) put(scale, "i").style.opacity = (0.85 * Math.sqrt(share)).toFixed(3);
    this.rampTexts = shares.map((share) => [put(scale, "span"), share]);
    this.rampTitle = put(ramp, "span");
    const key = (text, marks) => {
      const item = put(list, "li");
      const svg = draw(item, "svg", { class: "map-key map", width: 18, height: 18, viewBox: "0 0 40 40", "aria-hidden": "true" });
      svg.style.width = "18px";
      marks(svg);
      put(item, "span", { text });
    };
    const arrow = (svg, opacity) =>
      draw(svg, "path", { d: "M4 20H30M36 20L25 13L25 27Z", class: "arrow", opacity, "stroke-width": 4 });
    key("action; fainter: less likely", (svg) => arrow(svg, 0.9));
    key("pale: reached with probability below 1%", (svg) => arrow(svg, 0.35));
    const square = (kind) => (svg) => draw(svg, "rect", { x: 4, y: 4, width: 32, height: 32, class: kind });
    const kinds = this.data.kinds;
    if (kinds.S) key("start", square("start"));
    if (kinds.G) key("goal", square("good"));
    for (const sign of "PHC") if (kinds[sign]) key(kinds[sign], square("harm"));
    if (this.data.second) key("box; fainter: less likely there (of a whole episode: at its last step)", square("piece"));
    if (this.data.rows.some((row) => [...row].some((sign) => this.data.walls.includes(sign)))) key("wall", square("wall"));
    if ("GPHC".split("").some((sign) => kinds[sign])) put(list, "li", { text: "where episodes end, the number is the probability of having ended there" });
    this.data.arrows.forEach((sign, a) => {
      if (!this.data.directions[sign]) put(list, "li", { text: `${sign} ${this.names[a]}` });
    });
  }
}
