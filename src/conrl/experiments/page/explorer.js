"use strict";
// The budget explorer: the best policy at any limit, mixed from those of the two vertices beside it.

const UNIT = 1e-4; // of stored probabilities
const HARDLY = 0.2; // stands for a stored 0: reached, but with less than half a unit
const RARE = 0.01; // probability of being there below which arrows are pale; the legend says so
const LISTED = 12;
const POSITIONS = 1000; // of the slider
const CELL = 40;
const PAUSE = 450; // milliseconds a step

// Pairs (difference of keys, value) as a map from keys to probabilities.
function unpack(flat) {
  const found = new Map();
  for (let i = 0, key = 0; i < flat.length; i += 2) {
    key += flat[i];
    found.set(key, (flat[i + 1] || HARDLY) * UNIT);
  }
  return found;
}

function mixed(one, other, t) {
  const found = new Map();
  if (t < 1) for (const [key, p] of one) found.set(key, (1 - t) * p);
  if (t > 0) for (const [key, p] of other) found.set(key, (found.get(key) || 0) + t * p);
  return found;
}

// Where a limit lies on the curve: between vertices k and k + 1 with weight t on the latter.
function locate(curve, limit) {
  const x = curve.limits, last = x.length - 1;
  if (limit >= x[last]) return { k: last, t: 0, price: 0 };
  let k = 0;
  while (k + 1 <= last && x[k + 1] <= limit) k++;
  const t = Math.max(0, (limit - x[k]) / (x[k + 1] - x[k]));
  return { k, t, price: (curve.rewards[k + 1] - curve.rewards[k]) / (x[k + 1] - x[k]) };
}

class Explorer {
  constructor(section, env) {
    this.env = env;
    this.data = env.explorer;
    this.step = 0;
    this.whole = true; // the whole policy at first sight; the steps when asked
    this.timer = null;
    this.root = put(section, "div", { className: "explorer" });
    this.controls();
    const left = put(this.root, "div");
    this.stepControls(left);
    this.places = this.data.rows ? new GridMap(left, this.data) : null;
    const right = put(this.root, "div");
    this.picture = new FrontierPicture(right, (limit) => this.setLimit(limit));
    this.numbers = put(right, "dl", { className: "numbers" });
    this.parts = put(put(right, "div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Policies that are mixed" }), "table");
    this.note = put(right, "p", { className: "soft" });
    const list = this.places ? put(left, "details") : put(left, "div");
    if (this.places) put(list, "summary", { text: "The most visited cells as a table" });
    const box = put(list, "div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Most visited places" });
    this.list = put(box, "table");
    this.rest = put(list, "p", { className: "soft" });
    this.choose(0);
  }

  // -- controls ------------------------------------------------------------------------------------------------

  controls() {
    const box = put(this.root, "div", { className: "full limit" });
    put(box, "p", {
      className: "soft",
      text: "Move the limit: the policy, where it goes and what it earns are those of the exact optimum at that limit. " + this.data.more,
    });
    if (this.data.frontiers.length > 1) {
      const tools = put(box, "div", { className: "tools" });
      const id = newId();
      put(tools, "label", { text: "Cost", htmlFor: id });
      const select = put(tools, "select", { id });
      this.data.frontiers.forEach((curve, i) => put(select, "option", { value: i, text: this.costName(curve) }));
      select.addEventListener("change", () => this.choose(Number(select.value)));
    }
    const id = newId();
    this.label = put(box, "label", { htmlFor: id });
    this.slider = put(box, "input", { type: "range", id, min: 0, max: POSITIONS, step: 1, className: "limit-slider" });
    this.slider.addEventListener("input", () => this.setLimit(this.at(Number(this.slider.value)), true));
    this.summary = put(box, "output", { htmlFor: id });
    this.ownButton = put(put(box, "div", { className: "tools" }), "button", { type: "button" });
    this.ownButton.addEventListener("click", () => this.setLimit(this.curve.own));
  }

  stepControls(parent) {
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
    this.stepper = put(parent, "input", {
      type: "range", id: this.stepText.htmlFor, min: 0, max: this.data.horizon - 1, step: 1, value: 0, className: "step-slider",
    });
    this.stepper.addEventListener("input", () => {
      this.stop();
      this.setStep(Number(this.stepper.value));
    });
  }

  costName(curve) {
    return this.env.costs[curve.cost].name;
  }

  choose(i) {
    const curve = (this.curve = this.data.frontiers[i]);
    const x = curve.limits, last = x[x.length - 1];
    const span = last - x[0] || Math.max(Math.abs(last), 1);
    const near = curve.own !== null && curve.own <= last + 2 * span;
    this.low = x[0];
    this.high = Math.max(last + 0.06 * span, near ? curve.own + 0.03 * span : last);
    const feasible = curve.own !== null && curve.own >= x[0];
    this.ownButton.hidden = !feasible;
    this.ownButton.textContent = feasible ? `Back to the study's limit, ${show(curve.own)}` : "";
    this.picture.show(curve, this.low, this.high, this.costName(curve));
    this.setLimit(feasible ? curve.own : last);
  }

  at(position) {
    return this.low + ((this.high - this.low) * position) / POSITIONS;
  }

  setLimit(limit, bySlider = false) {
    this.limit = Math.max(this.low, limit);
    if (!bySlider) this.slider.value = Math.round((POSITIONS * (this.limit - this.low)) / (this.high - this.low));
    this.update();
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
    this.setStep(this.step >= this.data.horizon - 1 ? 0 : this.step);
    this.timer = setInterval(() => {
      if (this.step >= this.data.horizon - 1) this.stop();
      else this.setStep(this.step + 1);
    }, PAUSE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = "▶ Play";
    this.playButton.setAttribute("aria-pressed", "false");
  }

  // -- what is shown -------------------------------------------------------------------------------------------

  // By position: visits, shares of actions, and how likely the episode has come to its end there.
  table(position) {
    const width = this.data.actions.length + 1;
    const found = new Map();
    const add = (step) => {
      const next = Math.min(position.k + 1, this.curve.limits.length - 1);
      const rho = mixed(unpack(this.curve.visits[position.k][step]), unpack(this.curve.visits[next][step]), position.t);
      for (const [key, p] of rho) {
        const where = Math.floor(key / width), action = key % width;
        if (!found.has(where)) found.set(where, { visits: 0, ended: 0, shares: new Map() });
        const entry = found.get(where);
        if (action === width - 1) entry.ended = p; // of a whole episode, at the last step
        else {
          entry.visits += p;
          entry.shares.set(action, (entry.shares.get(action) || 0) + p);
        }
      }
    };
    if (this.whole) for (let h = 0; h < this.data.horizon; h++) add(h);
    else add(this.step);
    for (const entry of found.values()) for (const [a, p] of entry.shares) entry.shares.set(a, p / entry.visits);
    return found;
  }

  second(position) {
    if (!this.data.second) return new Map();
    const next = Math.min(position.k + 1, this.curve.limits.length - 1);
    const step = this.whole ? this.data.horizon - 1 : this.step;
    return mixed(unpack(this.curve.second[position.k][step]), unpack(this.curve.second[next][step]), position.t);
  }

  update() {
    const position = locate(this.curve, this.limit);
    const name = this.costName(this.curve);
    const last = this.data.horizon - 1;
    this.label.textContent = `Limit on the expected total of ${name}: ${show(this.limit)}`;
    this.slider.setAttribute("aria-valuetext", show(this.limit));
    this.stepText.textContent = this.whole ? `all steps, 0 to ${last}` : `Step ${this.step} of 0 to ${last}`;
    this.stepper.setAttribute("aria-valuetext", `step ${this.step}`);
    const table = this.table(position);
    if (this.places) this.places.show(table, this.second(position), this.whole, this.step);
    this.showList(table);
    this.showNumbers(position);
    this.picture.move(this.limit, this.rewardAt(position));
  }

  between(position, values) {
    return position.t > 0 ? (1 - position.t) * values[position.k] + position.t * values[position.k + 1] : values[position.k];
  }

  rewardAt(position) {
    return this.between(position, this.curve.rewards);
  }

  showNumbers(position) {
    const { curve, env } = this;
    const binding = position.price > 0;
    const spent = this.between(position, curve.costs.map((c) => c[curve.cost]));
    this.summary.textContent = `Best reward ${show(this.rewardAt(position), 5)}, ${this.costName(curve)} used ${show(spent)}, shadow price ${show(position.price)}`;
    const rows = [
      ["Limit", show(this.limit), `on ${this.costName(curve)}`],
      ["Best reward", show(this.rewardAt(position), 5), ""],
    ];
    env.costs.forEach((cost, i) => {
      const used = this.between(position, curve.costs.map((c) => c[i]));
      const limit = i === curve.cost ? this.limit : cost.limit;
      rows.push([`Used: ${cost.name}`, show(used), limit === null ? "no limit" : `of ${show(limit)}`]);
    });
    rows.push(["Shadow price", show(position.price), binding ? `reward gained per unit more of ${this.costName(curve)}` : "the limit does not bind: more of it earns nothing"]);
    this.numbers.replaceChildren();
    for (const [term, value, note] of rows) {
      put(this.numbers, "dt", { text: term });
      const dd = put(this.numbers, "dd", { text: value });
      if (note) put(dd, "small", { text: note });
    }
    this.showParts(position);
    const own = curve.own;
    const notes = [];
    if (own !== null && own < curve.limits[0]) {
      notes.push(`The study's limit ${show(own)} cannot be kept: no policy costs less than ${show(curve.limits[0])}.`);
    }
    const others = env.costs.filter((c, i) => i !== curve.cost && c.limit !== null);
    if (others.length) notes.push(`The other limits stay: ${others.map((c) => `${c.name} ${show(c.limit)}`).join(", ")}.`);
    if (curve.error > 0) notes.push(`The curve has ${curve.limits.length} of its vertices: between them the exact optimum is at most ${show(curve.error, 2)} higher.`);
    this.note.textContent = notes.join(" ");
  }

  showParts(position) {
    const { curve, env } = this;
    const weights = [[position.k, 1 - position.t]];
    if (position.t > 0) weights.push([position.k + 1, position.t]);
    this.parts.replaceChildren();
    put(this.parts, "caption", { className: "soft", text: weights.length > 1 ? "One of these is drawn at the start of each episode" : "Played in every episode" });
    const head = put(put(this.parts, "thead"), "tr");
    for (const text of ["Policy", "Weight", "Reward", ...env.costs.map((c) => c.name)]) put(head, "th", { scope: "col", text });
    const body = put(this.parts, "tbody");
    weights.forEach(([k, weight], i) => {
      const row = put(body, "tr");
      const th = put(row, "th", { scope: "row", text: "AB"[i] });
      if (curve.policies[k] > 1) put(th, "small", { className: "soft", text: ` (mixes ${curve.policies[k]})` });
      for (const text of [percent(weight), show(curve.rewards[k]), ...curve.costs[k].map((c) => show(c))]) put(row, "td", { text });
    });
  }

  cellName(i) {
    if (!this.data.rows) return this.data.names[i];
    const columns = this.data.rows[0].length;
    const sign = this.data.rows[Math.floor(i / columns)][i % columns];
    const kind = this.data.kinds[sign];
    return `row ${Math.floor(i / columns)}, column ${i % columns}` + (kind ? ` (${kind})` : "");
  }

  showList(table) {
    const size = (entry) => entry.visits + entry.ended;
    const order = [...table].sort((a, b) => size(b[1]) - size(a[1]) || a[0] - b[0]).slice(0, LISTED);
    const most = this.whole ? Math.max(...order.map(([, entry]) => size(entry))) : 1;
    this.list.replaceChildren();
    const head = put(put(this.list, "thead"), "tr");
    const value = this.whole ? "Expected visits" : "Probability";
    for (const text of [this.data.rows ? "Cell" : "State", value, "", "Action"]) {
      put(head, "th", { scope: "col", text, className: text === "Action" ? "word" : "" });
    }
    const body = put(this.list, "tbody");
    for (const [where, entry] of order) {
      const row = put(body, "tr");
      put(row, "th", { scope: "row", text: this.cellName(where) });
      put(row, "td", { text: this.whole ? show(size(entry), 3) : percent(size(entry)) });
      put(put(row, "td", { className: "barred" }), "span", { className: "bar" }).style.width = `${(100 * size(entry)) / most}%`;
      put(row, "td", { className: "word", text: describe(entry, this.data.actions) });
    }
    const left = table.size - order.length;
    const missing = [...table.values()].reduce((sum, entry) => sum + size(entry), 0) - order.reduce((sum, [, entry]) => sum + size(entry), 0);
    this.rest.textContent = left > 0 && !this.whole ? `${plural(left, "other place")} with ${percent(missing)} together.` : "";
  }
}

function describe(entry, actions) {
  const parts = [...entry.shares].sort((a, b) => b[1] - a[1]).map(([a, p]) => (p > 0.9995 ? actions[a] : `${actions[a]} ${percent(p)}`));
  if (entry.ended > 0) parts.push(parts.length ? `ended ${percent(entry.ended / (entry.visits + entry.ended))}` : "ended: nothing more happens");
  return parts.join(", ");
}

// -- the map -----------------------------------------------------------------------------------------------------

class GridMap {
  constructor(parent, data) {
    this.data = data;
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

  show(table, second, whole, step) {
    const most = whole ? Math.max(...[...table.values()].map((e) => Math.max(e.visits, e.ended)), 1e-9) : 1;
    for (const [i, { visit, title, play }] of this.cells) {
      const entry = table.get(i) || { visits: 0, ended: 0, shares: new Map() };
      const there = entry.visits + entry.ended;
      visit.setAttribute("fill-opacity", (0.85 * Math.sqrt(Math.min(1, there / most))).toFixed(3));
      title.textContent = there > 0 ? `${whole ? show(there, 3) : percent(there)}: ${describe(entry, this.data.actions)}` : "not reached";
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
      if (!this.data.directions[sign]) put(list, "li", { text: `${sign} ${this.data.actions[a]}` });
    });
  }
}

// -- the curve ---------------------------------------------------------------------------------------------------

class FrontierPicture {
  constructor(parent, choose) {
    this.svg = draw(put(parent, "figure"), "svg", { class: "curve", viewBox: "0 0 380 230", role: "img" });
    const pick = (event) => {
      const box = this.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * 380;
      choose(Math.min(this.high, Math.max(this.low, this.low + ((x - this.left) / (this.right - this.left)) * (this.high - this.low))));
    };
    this.svg.addEventListener("pointerdown", (event) => {
      this.svg.setPointerCapture(event.pointerId);
      pick(event);
    });
    this.svg.addEventListener("pointermove", (event) => event.buttons && pick(event));
    [this.left, this.right, this.top, this.bottom] = [56, 366, 22, 182];
  }

  show(curve, low, high, name) {
    [this.low, this.high] = [low, high];
    const y = curve.rewards, last = y.length - 1;
    const rise = y[last] - y[0] || Math.max(1, Math.abs(y[last]));
    [this.least, this.most] = [y[0] - 0.03 * rise, y[last] + 0.06 * rise];
    const svg = this.svg;
    svg.replaceChildren();
    draw(svg, "path", { d: `M${this.left} ${this.top}V${this.bottom}H${this.right}`, class: "axis" });
    if (curve.own !== null && curve.own >= low && curve.own <= high) {
      draw(svg, "line", { x1: this.x(curve.own), x2: this.x(curve.own), y1: this.top, y2: this.bottom, class: "own" });
      const right = this.x(curve.own) > 260;
      draw(svg, "text", { x: this.x(curve.own) + (right ? -4 : 4), y: this.bottom - 6, "text-anchor": right ? "end" : "start" }, "study's limit");
    }
    const points = curve.limits.map((x, i) => `${this.x(x).toFixed(2)},${this.y(y[i]).toFixed(2)}`);
    points.push(`${this.right},${this.y(y[last]).toFixed(2)}`);
    draw(svg, "polyline", { points: points.join(" "), class: "line" });
    curve.limits.forEach((x, i) => draw(svg, "circle", { cx: this.x(x), cy: this.y(y[i]), r: 2.2, class: "vertex" }));
    const text = (x, y, anchor, words) => draw(svg, "text", { x, y, "text-anchor": anchor }, words);
    text(this.left, this.bottom + 16, "middle", show(low, 3));
    text(this.right, this.bottom + 16, "end", show(high, 3));
    text((this.left + this.right) / 2, this.bottom + 34, "middle", `limit on ${name.length > 30 ? name.slice(0, 29) + "…" : name}`);
    text(this.left - 5, this.y(y[0]) + 2, "end", show(y[0], 3));
    if (last) text(this.left - 5, this.y(y[last]) + 4, "end", show(y[last], 3));
    text(4, 13, "start", "best reward");
    this.drop = draw(svg, "line", { class: "drop" });
    this.dot = draw(svg, "circle", { r: 6, class: "dot" });
  }

  x(limit) {
    return this.left + ((this.right - this.left) * (limit - this.low)) / (this.high - this.low);
  }

  y(reward) {
    return this.bottom - ((this.bottom - this.top) * (reward - this.least)) / (this.most - this.least);
  }

  move(limit, reward) {
    const x = Math.min(this.x(limit), this.right), y = this.y(reward);
    for (const [key, value] of Object.entries({ cx: x, cy: y })) this.dot.setAttribute(key, value.toFixed(2));
    for (const [key, value] of Object.entries({ x1: x, x2: x, y1: y, y2: this.bottom })) this.drop.setAttribute(key, value.toFixed(2));
    this.svg.setAttribute("aria-label", `Best reward against the limit; at ${show(limit)} it is ${show(reward, 5)}.`);
  }
}

function budgetExplorer(section, env) {
  if (env.explorer.note) {
    put(section, "p", { text: env.explorer.note });
    return;
  }
  const holder = put(section, "div");
  holder.style.minHeight = "40rem"; // so that what follows does not jump
  whenSeen(holder, () => {
    holder.style.minHeight = "";
    new Explorer(holder, env);
  });
}
