"use strict";
// The budget explorer: a slider for every limit; the program of `program.js` mixes the columns at any position of them.

const POSITIONS = 1000; // of a slider
const LATER = 60; // milliseconds after which what takes longer follows a slider
const NARROW = 24; // letters of the names of costs beside which the other columns of a table fit

class Explorer {
  constructor(section, data) {
    this.data = data;
    this.program = new Program(data);
    const held = this.program.held.map((r) => data.lines[r].held);
    this.held = held.length ? `with ${held.join(" and ")}` : "";
    this.dials = [];
    this.h = data.lines.map((line) => (line.opening === null ? Infinity : line.opening));
    this.root = put(section, "div", { className: "explorer" });
    this.head(put(this.root, "div", { className: "full" }));
    const left = put(this.root, "div", { className: "column" });
    const right = put(this.root, "div", { className: "column" });
    this.policy = null;
    if (data.places) {
      put(left, "h3", { text: "What the policy does" });
      this.policy = new PolicyView(left, data);
    }
    this.types = data.types ? this.typeTable(left) : null;
    // A policy of a few lines leaves room beside the other pictures.
    const long = data.places && (data.places.map || Object.keys(data.places.names).length > 8);
    this.pictures(right, long ? right : left);
    this.totals = this.totalPictures();
    this.update(true);
  }

  // -- limits ----------------------------------------------------------------------------------------------------

  head(box) {
    for (const text of this.data.facts) put(box, "p", { className: "soft", text });
    this.summary = put(box, "p", { className: "summary", role: "status" });
    this.basis = this.data.basis ? put(box, "p", { className: "soft rests" }) : null;
    const grid = put(box, "div", { className: "dials" });
    this.data.lines.forEach((line, r) => {
      if (line.kind !== "fixed") this.dials.push(new Dial(grid, line, r, this.data.amount, (h) => this.set([[r, h]])));
    });
    const tools = put(box, "div", { className: "tools" });
    const button = (text, h) => put(tools, "button", { type: "button", text }).addEventListener("click", () => this.set(this.dials.map((dial) => [dial.r, h(dial.line)])));
    const number = (x) => (x === null ? Infinity : x);
    button("Back to the start", (line) => number(line.opening));
    if (this.data.lines.some((line) => line.own !== line.opening)) button("Limits as asked", (line) => number(line.own));
    button("No limits", () => Infinity);
  }

  set(changes) {
    for (const [r, h] of changes) this.h[r] = h;
    this.update(!changes.every(([r]) => this.axes.includes(r)));
  }

  // -- pictures --------------------------------------------------------------------------------------------------

  pictures(right, first) {
    const rows = this.dials.map((dial) => dial.r);
    const { duals } = this.program.solve(this.h) || { duals: [] };
    const weight = (r) => (duals[r] || 0) * this.program.rows[r].unit;
    const order = [...rows].sort((a, b) => weight(b) - weight(a) || a - b);
    this.chosen = order[0];
    this.axes = order.slice(0, 2).sort((a, b) => a - b);
    put(first, "h3", { text: "Reward against one limit" });
    const select = (parent, text, at, change) => {
      const tools = put(parent, "div", { className: "tools" });
      const field = put(null, "select", { id: newId() });
      put(tools, "label", { text, htmlFor: field.id });
      tools.append(field);
      for (const dial of this.dials) put(field, "option", { value: dial.r, text: dial.title, selected: dial.r === at });
      field.addEventListener("change", () => change(Number(field.value)));
      return field;
    };
    if (rows.length > 1) select(first, "Limit", this.chosen, (r) => this.redraw(() => (this.chosen = r)));
    this.curve = new CurvePicture(first, (value) => this.choose([[this.chosen, value]]));
    this.heat = null;
    if (rows.length > 1) {
      put(right, "h3", { text: "Reward over two limits" });
      if (rows.length > 2) {
        const fields = [0, 1].map((k) => select(right, k ? "Upward" : "Across", this.axes[k], (r) => this.turn(k, r, fields)));
      }
      this.heat = new HeatPicture(right, (x, y) => this.choose([[this.axes[0], x], [this.axes[1], y]]));
    }
    this.parts = null;
    if (this.data.types) return; // a fleet mixes for each unit
    const names = this.data.lines.filter((line) => line.kind === "limit" || line.kind === "chance").map((line) => line.name);
    const wide = names.length > 2 || names.join("").length > NARROW; // more columns than the right half of a page has room for
    const place = wide ? put(this.root, "div", { className: "full" }) : right;
    put(place, "h3", { text: "Policies that are mixed" });
    this.drawn = put(place, "p", { className: "soft" });
    this.parts = put(scrolling(place, "Policies that are mixed"), "table");
  }

  // Two axes are two rows: choosing the other's turns the picture.
  turn(k, r, fields) {
    this.redraw(() => {
      if (this.axes[1 - k] === r) this.axes[1 - k] = this.axes[k];
      this.axes[k] = r;
      fields.forEach((field, i) => (field.value = this.axes[i]));
    });
  }

  redraw(change) {
    change();
    this.update(true);
  }

  choose(places) {
    this.set(places.map(([r, value]) => [r, this.dials.find((dial) => dial.r === r).bound(value)]));
  }

  totalPictures() {
    if (!this.data.totals.length) return [];
    const box = put(this.root, "div", { className: "full" });
    put(box, "h3", { text: "Single episodes" });
    put(box, "p", { className: "soft", text: this.aboutTotals() });
    const cards = put(box, "div", { className: "cards" });
    return this.data.totals.map((totals) => new TotalsPicture(cards, totals, this.data.lines[totals.row].name));
  }

  aboutTotals() {
    const { totals, lines } = this.data;
    const words = ["A limit on an expectation says nothing about one episode: this is what single episodes cost in all."];
    const listed = (chosen) => (chosen.length === totals.length ? "" : ` (${chosen.map((one) => lines[one.row].name).join(", ")})`);
    const simulated = totals.filter((one) => !one.exact);
    const exact = totals.filter((one) => one.exact && !one.width);
    const means = totals.filter((one) => one.means);
    if (exact.length) words.push(`The distributions${listed(exact)} are exact.`);
    if (simulated.length) words.splice(1, 0, `From ${plural(simulated[0].episodes, "simulated episode")} of each policy${listed(simulated)}.`);
    if (means.length) words.push(`The model has one amount for each state and action${listed(means)}: if what is really paid varies, episodes scatter more.`);
    return words.join(" ");
  }

  // -- what is shown ---------------------------------------------------------------------------------------------

  at(changes) {
    const h = [...this.h];
    for (const [r, value] of changes) h[r] = this.dials.find((dial) => dial.r === r).bound(value);
    return h;
  }

  update(everything) {
    const answer = this.program.solve(this.h);
    if (answer) answer.prices = this.program.prices(this.h, answer.duals);
    this.root.classList.toggle("impossible", answer === null);
    for (const dial of this.dials) dial.show(this.h[dial.r], answer);
    this.say(answer);
    if (answer) {
      if (this.policy) this.policy.show(answer.weights);
      if (this.types) this.types(answer.weights);
      if (this.parts) this.showParts(answer);
      for (const picture of this.totals) picture.show(answer.weights, this.h[picture.totals.row]);
    }
    this.showCurve(answer);
    if (this.heat) this.showHeat(answer, everything);
  }

  say(answer) {
    const { summary, program } = this;
    summary.replaceChildren();
    if (answer === null) {
      const rows = program.wall(this.h);
      for (const key of ["reward", "more", "prices", "uses"]) delete summary.dataset[key];
      const plain = (rows || []).map((r) => this.data.lines[r].name);
      const twice = new Set(plain).size < plain.length;  // a limit and a floor of one cost
      const title = (r) => (this.dials.find((dial) => dial.r === r) || { title: this.data.lines[r].name }).title;
      const names = twice ? rows.map(title) : plain;
      const held = (rows || []).some((r) => program.held.includes(r));
      const nobody = held ? `${this.held.replace("with", "With")}, no policy` : "No policy";
      const other = held ? " With another quantile one may: conrl plan tells." : "";
      const proven = names.length ? `${nobody} keeps ${names.length > 1 ? "these limits together" : "this limit"}: ${names.join(", ")}.${other}` : "No policy of this page keeps these limits; conrl plan tells whether another does.";
      put(summary, "strong", { className: "over", text: proven });
      summary.append(" What is shown below belongs to the last limits that could be kept.");
      return;
    }
    const more = Math.max(0, program.upper(this.h) - answer.reward);
    summary.append("Best reward ");
    put(summary, "strong", { text: show(answer.reward, digitsWithin(answer.reward, program.gain, 5)) });
    put(summary, "span", { className: "proof", text: this.proof(answer, more) });
    if (this.basis) this.basis.textContent = this.rests(answer.weights);
    Object.assign(summary.dataset, { reward: answer.reward, more, prices: JSON.stringify(answer.prices), uses: JSON.stringify(answer.uses) });
  }

  // How exact it is.
  proof(answer, more) {
    const { program, held } = this;
    const exact = (above) => program.exact(answer.reward, Math.max(0, above - answer.reward));
    if (exact(program.upper(this.h, true))) return "exact: no policy within these limits earns more";
    if (exact(program.upper(this.h))) return `exact ${held}: with another, a policy may earn more`;
    return `at most ${show(more, 2)} more is possible within these limits${held ? `, ${held}` : ""}`;
  }

  // What the policy rests on, where the model was estimated.
  rests(weights) {
    const { steps, seldom, columns } = this.data.basis;
    const [all, few, none] = [0, 1, 2].map((k) => mean(weights, (i) => columns[i][k]));
    const share = (part) => (part > 0 && part < 0.01 * all ? "less than 1%" : `${Math.round((100 * part) / (all || 1))}%`);
    const unseen = none > 0 ? `, ${share(none)} pairs never seen` : "";
    return `This policy is estimated from ${plural(steps, "step")}; ${share(few)} of its steps use pairs seen fewer than ${seldom} times${unseen}.`;
  }

  // Who keeps limits that no mixture of the page keeps.
  nobody(h) {
    const rows = this.program.wall(h);
    return rows === null ? OF_PAGE : rows.some((r) => this.program.held.includes(r)) ? WITH_QUANTILE : NOBODY;
  }

  showCurve(answer) {
    const dial = this.dials.find((one) => one.r === this.chosen);
    this.curve.show({
      low: dial.low, high: dial.high, name: dial.title, value: dial.value(this.h[dial.r]), own: dial.line.own === null ? null : dial.value(dial.line.own),
      at: (value) => this.program.solve(this.at([[dial.r, value]])),
      upper: (value) => this.program.upper(this.at([[dial.r, value]])),
      nobody: (value) => this.nobody(this.at([[dial.r, value]])),
      limit: this.held ? `what no policy exceeds ${this.held}` : "what no policy exceeds",
      reward: answer ? answer.reward : null,
    });
  }

  showHeat(answer, everything) {
    const [x, y] = this.axes.map((r) => this.dials.find((dial) => dial.r === r));
    const side = (dial) => ({ low: dial.low, high: dial.high, name: dial.title });
    const place = () => {
      const words = `Best reward over ${x.title} and ${y.title}; now ${show(x.value(this.h[x.r]))} and ${show(y.value(this.h[y.r]))}${answer ? `, reward ${show(answer.reward, 5)}` : ""}.`;
      this.heat.move(x.value(this.h[x.r]), y.value(this.h[y.r]), words);
    };
    if (!everything) return place();
    const fill = () => {
      this.heat.fill(side(x), side(y), (u, v) => {
        const found = this.program.solve(this.at([[x.r, u], [y.r, v]]));
        return found && found.reward;
      }, (u, v) => this.nobody(this.at([[x.r, u], [y.r, v]])));
      place();
    };
    clearTimeout(this.later);
    if (this.heat.x) this.later = setTimeout(fill, LATER);
    else fill();
  }

  showParts(answer) {
    const { data, parts } = this;
    const lines = data.lines.map((line, r) => [line, r]).filter(([line]) => line.kind !== "floor" && line.kind !== "fixed");
    parts.replaceChildren();
    this.drawn.textContent = answer.weights.length > 1 ? `One of these is drawn at the start${data.steps === null ? "" : " of each episode"}.` : "Always played.";
    const head = put(put(parts, "thead"), "tr");
    for (const text of ["Policy", "Weight", "Reward", ...lines.map(([line]) => line.name)]) put(head, "th", { scope: "col", text });
    const body = put(parts, "tbody");
    answer.weights.forEach(([i, weight], k) => {
      const row = put(body, "tr");
      put(row, "th", { scope: "row", text: String.fromCharCode(65 + k) });
      const within = (x, length) => show(x, digitsWithin(x, length, 4));
      const uses = lines.map(([, r]) => within(data.uses[i][r] + data.lines[r].begins, this.program.rows[r].unit));
      for (const text of [percent(weight), within(data.rewards[i], this.program.gain), ...uses]) put(row, "td", { text });
    });
  }

  // What each type of a fleet gets: a function of the weights.
  typeTable(parent) {
    const { names, units, costs, values } = this.data.types;
    put(parent, "h3", { text: "What each type gets" });
    const table = put(scrolling(parent, "What each type earns and spends"), "table");
    return (weights) => {
      table.replaceChildren();
      const head = put(put(table, "thead"), "tr");
      for (const text of ["Type", "Units", "Reward", ...costs]) put(head, "th", { scope: "col", text });
      const body = put(table, "tbody");
      const sums = [0, ...costs.map(() => 0)];
      const rows = names.map((_, t) => sums.map((_, c) => mean(weights, (i) => values[i][t][c])));
      rows.forEach((row) => row.forEach((x, c) => (sums[c] += x)));
      rows.forEach((row, t) => {
        const line = put(body, "tr");
        put(line, "th", { scope: "row", text: names[t] });
        put(line, "td", { text: units[t].toLocaleString("en-US") });
        row.forEach((x, c) => {
          const cell = put(line, "td", { text: show(x) });
          if (sums[c] > 0) put(cell, "small", { text: percent(x / sums[c]) });
        });
      });
    };
  }
}

// One limit: its slider, a field for a number, what is used of it and its price.
class Dial {
  constructor(parent, line, r, amount, change) {
    Object.assign(this, { line, r, change });
    const ends = [line.low, line.high].map((h) => this.value(h));
    let [low, high] = [Math.min(...ends), Math.max(...ends)];
    const span = high - low || Math.max(Math.abs(high), 1);
    for (const own of [line.own, line.opening]) {
      if (own === null) continue;
      const value = this.value(own);
      if (value > high && value <= high + 2 * span) high = value;
      if (value < low && value >= low - 2 * span) low = value;
    }
    [this.low, this.high] = this.line.sign > 0 ? [low, high + 0.04 * span] : [low - 0.04 * span, high];
    this.title = { limit: `limit on ${line.name}`, floor: `floor of ${line.name}`, chance: `limit on ${line.name}` }[line.kind];
    this.build(parent, amount);
  }

  build(parent, amount) {
    const box = put(parent, "div", { className: "dial", role: "group", "aria-label": this.title });
    put(box, "h4", { text: this.line.name });
    const id = newId();
    const top = put(box, "div", { className: "dial-top" });
    this.label = put(top, "label", { htmlFor: id });
    this.field = put(top, "input", { type: "number", step: "any", placeholder: "none", "aria-label": `${this.title}, as a number` });
    this.field.addEventListener("change", () => {
      if (this.field.validity.badInput) this.field.value = this.text;  // what is no number changes nothing
      else this.change(this.field.value === "" ? Infinity : this.bound(Number(this.field.value)));
    });
    this.slider = put(box, "input", { type: "range", id, min: 0, max: POSITIONS, step: 1, className: "limit-slider", "aria-label": this.title });
    this.slider.addEventListener("input", () => this.change(this.at(Number(this.slider.value))));
    this.facts = put(box, "p", { className: "soft dial-facts" });
    this.label.textContent = { limit: `${amount} at most`, floor: `${amount} at least`, chance: "Probability at most" }[this.line.kind];
  }

  // Rows are sign * cost <= h; what people see is the cost, and what it begins with. The far end of a slider is no limit.
  value(h) {
    return this.line.sign * h + this.line.begins;
  }

  bound(value) {
    return this.line.sign * (value - this.line.begins);
  }

  at(position) {
    if (position === (this.line.sign > 0 ? POSITIONS : 0)) return Infinity;
    return this.bound(this.low + ((this.high - this.low) * position) / POSITIONS);
  }

  show(h, answer) {
    const value = this.value(h);
    const place = Math.round((POSITIONS * (value - this.low)) / (this.high - this.low));
    const none = h === Infinity;
    const wanted = none ? (this.line.sign > 0 ? POSITIONS : 0) : Math.min(POSITIONS, Math.max(0, place));
    if (Number(this.slider.value) !== wanted) this.slider.value = wanted;
    const digits = (x) => digitsWithin(x, this.high - this.low, 4);
    this.text = none ? "" : String(Number(value.toPrecision(Math.min(Math.max(digits(value), 6), 15))));
    if (document.activeElement !== this.field || this.field.value === "" || none) this.field.value = this.text;
    this.slider.setAttribute("aria-valuetext", none ? "none" : show(value, digits(value)));
    const price = answer ? answer.prices[this.r] : 0;
    const words = [];
    if (answer) {
      const used = this.value(answer.uses[this.r]);
      words.push(`Used ${show(used, digits(used))}.`);
      words.push(price > 0 ? `Price ${show(price)}: reward ${this.line.sign > 0 ? "gained" : "lost"} per unit more.` : none ? "No limit." : "Does not bind: price 0.");
    }
    this.facts.textContent = words.join(" ");
    this.facts.classList.toggle("binds", price > 0);
  }
}

function budgetExplorer(section, data) {
  if (data.note) {
    put(section, "p", { text: data.note });
    return;
  }
  const holder = put(section, "div");
  holder.style.minHeight = "40rem"; // so that what follows does not jump
  whenSeen(holder, () => {
    holder.style.minHeight = "";
    new Explorer(holder, data);
  });
}
