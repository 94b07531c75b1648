"use strict";
// Pictures of numbers: the frontier of one limit, the reward over two limits, the totals of single episodes.

const POINTS = 120; // of a curve
const SQUARES = 36; // of each side of the picture of two limits
const BANDS = 9;
const BARS = 32;

// The least and the most of what is there, with a little room.
function span(values, room = 0.05) {
  const low = Math.min(...values), high = Math.max(...values);
  const more = room * (high - low) || Math.max(1e-9, 0.05 * Math.abs(high));
  return [low - more, high + more];
}

// Who keeps limits that no mixture of the page keeps, by what is proven.
const NOBODY = "no policy", WITH_QUANTILE = "no policy with this quantile", OF_PAGE = "no policy of this page";
const least = (all) => [OF_PAGE, WITH_QUANTILE, NOBODY].find((words) => all.includes(words));

// The end of an axis: what is nothing against its length is 0.
const end = (x, length) => show(Math.abs(x) < 1e-4 * length ? 0 : x, digitsWithin(x, length, 3));

// Calls with the place in a picture where a pointer is pressed or drawn, in shares of its inner box.
function pressed(svg, box, choose) {
  const pick = (event) => {
    const outer = svg.getBoundingClientRect();
    const { width, height } = svg.viewBox.baseVal;
    const share = (at, low, high) => Math.min(1, Math.max(0, (at - low) / (high - low)));
    const x = ((event.clientX - outer.left) / outer.width) * width, y = ((event.clientY - outer.top) / outer.height) * height;
    choose(share(x, box.left, box.right), share(y, box.bottom, box.top));
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    pick(event);
  });
  svg.addEventListener("pointermove", (event) => event.buttons && pick(event));
}

// The best reward against one limit, the others where they are.
class CurvePicture {
  constructor(parent, choose) {
    this.box = { left: 62, right: 430, top: 14, bottom: 190 };
    const figure = put(parent, "figure");
    put(figure, "figcaption", { className: "axis-name", text: "↑ best reward" });
    this.svg = draw(figure, "svg", { class: "curve", viewBox: "0 0 440 212", role: "img" });
    this.name = put(figure, "figcaption", { className: "axis-name right" });
    this.key = put(figure, "figcaption", { className: "soft" });
    pressed(this.svg, this.box, (share) => choose(this.low + share * (this.high - this.low)));
  }

  // `at` gives the answer at a value of the limit, `upper` what is proven, `nobody` who keeps it where there is no answer.
  show({ low, high, name, value, own, at, upper, nobody, limit, reward }) {
    [this.low, this.high] = [low, high];
    const { left, right, top, bottom } = this.box;
    const values = Array.from({ length: POINTS + 1 }, (_, i) => low + ((high - low) * i) / POINTS);
    if (value >= low && value <= high) values.push(value);
    values.sort((a, b) => a - b);
    const answers = values.map((x) => [x, at(x)]);
    const points = answers.filter(([, answer]) => answer !== null).map(([x, answer]) => [x, answer.reward, upper(x)]);
    const none = answers.filter(([, answer]) => answer === null).map(([x]) => x);
    const svg = this.svg;
    svg.replaceChildren();
    this.name.textContent = `${name} →`;
    draw(svg, "path", { d: `M${left} ${top}V${bottom}H${right}`, class: "axis" });
    const text = (x, y, anchor, words) => draw(svg, "text", { x, y, "text-anchor": anchor }, words);
    text(left, bottom + 16, "start", end(low, high - low));
    text(right, bottom + 16, "end", end(high, high - low));
    const px = (x) => left + ((right - left) * (x - low)) / (high - low || 1);
    const blocked = (from, to) => to - from > 1e-9 * (high - low) && draw(svg, "rect", { x: px(from), y: top, width: px(to) - px(from), height: bottom - top, class: "blocked" });
    const shaded = none.length ? `Shaded: ${least(none.map(nobody))} keeps all limits.` : "";
    if (!points.length) {
      blocked(low, high);
      this.key.textContent = shaded;
      svg.setAttribute("aria-label", `Nowhere along ${name} are all limits kept. ${shaded}`);
      return;
    }
    const rewards = points.map((p) => p[1]);
    const [lowest, most] = span(rewards);
    const py = (y) => bottom - ((bottom - top) * (y - lowest)) / (most - lowest);
    const first = points[0][0], last = points[points.length - 1][0];
    blocked(low, first);
    blocked(last, high);
    const line = (values, kind) => draw(svg, "polyline", { points: values.map(([x, y]) => `${px(x).toFixed(2)},${py(y).toFixed(2)}`).join(" "), class: kind });
    const apart = points.filter((p) => p[2] < Infinity).map((p) => [p[0], Math.min(p[2], most)]);
    const differs = points.some((p) => p[2] < Infinity && p[2] - p[1] > 0.004 * (most - lowest));
    if (differs) line(apart, "bound");
    line(points, "line");
    const [worst, best] = [Math.min(...rewards), Math.max(...rewards)];
    const mark = (y) => text(left - 6, py(y) + 4, "end", end(y, best - worst));
    mark(worst);
    if (py(worst) - py(best) > 14) mark(best);
    if (own !== null && own >= low && own <= high) {
      draw(svg, "line", { x1: px(own), x2: px(own), y1: top, y2: bottom, class: "own" });
      const late = px(own) > 300;
      text(px(own) + (late ? -5 : 5), bottom - 6, late ? "end" : "start", "as asked");
    }
    if (reward !== null) {
      const x = Math.min(right, Math.max(left, px(value)));
      draw(svg, "line", { x1: x, x2: x, y1: py(reward), y2: bottom, class: "drop" });
      draw(svg, "circle", { cx: x, cy: py(reward), r: 6, class: "dot" });
    }
    this.key.textContent = [differs ? `Dotted: ${limit}.` : "", shaded].filter(Boolean).join(" ");
    svg.setAttribute("aria-label", `Best reward against ${name}${reward === null ? "" : `; at ${show(value)} it is ${show(reward, 5)}`}.`);
  }
}

// The best reward over two limits, in bands; grey where nothing keeps both.
class HeatPicture {
  constructor(parent, choose) {
    this.box = { left: 52, right: 430, top: 8, bottom: 300 };
    const figure = put(parent, "figure");
    this.upright = put(figure, "figcaption", { className: "axis-name" });
    this.svg = draw(figure, "svg", { class: "heat", viewBox: "0 0 440 322", role: "img" });
    this.across = put(figure, "figcaption", { className: "axis-name right" });
    this.key = put(figure, "figcaption", { className: "soft" });
    this.cells = draw(this.svg, "g", { "shape-rendering": "crispEdges" });
    this.marks = draw(this.svg, "g");
    pressed(this.svg, this.box, (x, y) => choose(this.x.low + x * (this.x.high - this.x.low), this.y.low + y * (this.y.high - this.y.low)));
  }

  // `x` and `y` are { low, high, name }, `at` the best reward at two limits, or null; `nobody`: who then keeps them.
  fill(x, y, at, nobody) {
    [this.x, this.y] = [x, y];
    const { left, right, top, bottom } = this.box;
    const side = Array.from({ length: SQUARES }, (_, i) => (i + 0.5) / SQUARES);
    const along = (axis, share) => axis.low + share * (axis.high - axis.low);
    const values = side.map((v) => side.map((u) => at(along(x, u), along(y, v))));
    // Bands of rewards; where there is none, whether that is proven.
    const words = new Set();
    const kind = (u, v) => {
      const who = nobody(u, v);
      words.add(who);
      return who === OF_PAGE ? "unknown" : "blocked";
    };
    const kinds = values.map((row, j) => row.map((value, i) => (value === null ? kind(along(x, side[i]), along(y, side[j])) : null)));
    const there = values.flat().filter((value) => value !== null);
    const lowest = Math.min(...there), most = Math.max(...there);
    this.cells.replaceChildren();
    const [w, h] = [(right - left) / SQUARES, (bottom - top) / SQUARES];
    values.forEach((row, j) => {
      // Neighbours of one colour are one rectangle.
      for (let i = 0; i < SQUARES; ) {
        const kind = kinds[j][i] ?? band(row[i], lowest, most);
        let end = i + 1;
        while (end < SQUARES && (kinds[j][end] ?? band(row[end], lowest, most)) === kind) end++;
        const shape = { x: left + i * w, y: bottom - (j + 1) * h, width: (end - i) * w, height: h };
        draw(this.cells, "rect", typeof kind === "string" ? { ...shape, class: kind } : { ...shape, class: "level", "fill-opacity": (0.06 + (0.84 * kind) / (BANDS - 1)).toFixed(3) });
        i = end;
      }
    });
    this.upright.textContent = `↑ ${y.name}`;
    this.across.textContent = `${x.name} →`;
    this.key.replaceChildren();
    if (there.length) this.ramp(lowest, most);
    const proven = least([...words].filter((who) => who !== OF_PAGE));
    if (proven) this.key.append(`Gray: ${proven} keeps all limits. `);
    if (words.has(OF_PAGE)) this.key.append(`Pale gray: ${OF_PAGE} ${proven ? "does" : "keeps all limits"}.`);
  }

  ramp(lowest, most) {
    this.key.append(`Best reward: ${end(lowest, most - lowest)} `);
    const ramp = put(this.key, "span", { className: "bands", "aria-hidden": "true" });
    for (let k = 0; k < BANDS; k++) put(ramp, "i").style.opacity = (0.06 + (0.84 * k) / (BANDS - 1)).toFixed(3);
    this.key.append(` ${end(most, most - lowest)}. `);
  }

  move(x, y, text) {
    const { left, right, top, bottom } = this.box;
    const inside = (share) => Math.min(1, Math.max(0, share));
    const px = left + (right - left) * inside((x - this.x.low) / (this.x.high - this.x.low || 1));
    const py = bottom - (bottom - top) * inside((y - this.y.low) / (this.y.high - this.y.low || 1));
    this.marks.replaceChildren();
    draw(this.marks, "path", { d: `M${left} ${top}V${bottom}H${right}`, class: "axis" });
    draw(this.marks, "path", { d: `M${px} ${top}V${bottom}M${left} ${py}H${right}`, class: "drop" });
    draw(this.marks, "circle", { cx: px, cy: py, r: 6, class: "dot" });
    const label = (x, y, anchor, words) => draw(this.marks, "text", { x, y, "text-anchor": anchor }, words);
    label(left, bottom + 16, "start", end(this.x.low, this.x.high - this.x.low));
    label(right, bottom + 16, "end", end(this.x.high, this.x.high - this.x.low));
    label(left - 5, bottom, "end", end(this.y.low, this.y.high - this.y.low));
    label(left - 5, top + 9, "end", end(this.y.high, this.y.high - this.y.low));
    this.svg.setAttribute("aria-label", text);
  }
}

function band(value, least, most) {
  return most > least ? Math.min(BANDS - 1, Math.floor((BANDS * (value - least)) / (most - least))) : BANDS - 1;
}

// The total of one cost in a single episode: how likely each is, the limit, and how many episodes are above it.
class TotalsPicture {
  constructor(parent, totals, name) {
    this.totals = totals;
    this.shares = totals.shares.map((flat) => unpackTotals(flat, totals.values.length));
    const card = put(parent, "section", { className: "card", "aria-label": `Total of ${name} in one episode` });
    put(card, "h4", { text: name });
    this.svg = draw(card, "svg", { class: "totals", viewBox: "0 0 360 128", role: "img" });
    this.words = put(card, "p", { className: "soft" });
    // What every column leaves out is not drawn.
    const seen = totals.values.map((_, k) => this.shares.some((share) => share[k] >= 1e-4));
    this.first = Math.max(0, seen.indexOf(true));
    this.last = Math.max(this.first, seen.lastIndexOf(true));
  }

  mixed(weights) {
    const found = new Float64Array(this.totals.values.length);
    for (const [i, w] of weights) this.shares[i].forEach((p, k) => (found[k] += w * p));
    return found;
  }

  show(weights, limit) {
    const p = this.mixed(weights), x = this.totals.values;
    const [low, high] = [x[this.first], x[this.last]];
    const bars = this.bars(p, low, high, limit);
    const top = Math.max(...bars.map((bar) => bar.p), 1e-9);
    const [left, right, floor, height] = [8, 352, 100, 84];
    const width = (right - left) / bars.length;
    const svg = this.svg;
    svg.replaceChildren();
    const px = (value) => left + width / 2 + ((right - left - width) * (value - low)) / (high - low || 1);
    for (const bar of bars) {
      const tall = (height * bar.p) / top;
      const one = draw(svg, "rect", { x: px(bar.x) - 0.42 * width, y: floor - tall, width: 0.84 * width, height: tall, class: bar.over ? "bar over" : "bar" });
      draw(one, "title", {}, `${show(bar.x)}: ${percent(bar.p)}`);
    }
    draw(svg, "path", { d: `M${left} ${floor}H${right}`, class: "axis" });
    draw(svg, "text", { x: left, y: floor + 14 }, end(low, high - low));
    draw(svg, "text", { x: right, y: floor + 14, "text-anchor": "end" }, end(high, high - low));
    const inside = limit !== Infinity && limit >= low && limit <= high;
    if (inside) {
      const at = px(limit), late = at > 240;
      draw(svg, "line", { x1: at, x2: at, y1: 6, y2: floor, class: "own" });
      draw(svg, "text", { x: at + (late ? -4 : 4), y: 13, "text-anchor": late ? "end" : "start" }, `limit ${end(limit, high - low)}`);
    }
    const words = this.summary(p, limit);
    this.words.textContent = words;
    this.words.dataset.above = String(this.above(p, limit));
    svg.setAttribute("aria-label", words);
  }

  // Whether a total is above the limit, by more than rounding.
  over(total, limit) {
    const x = this.totals.values;
    return total > limit + 1e-9 * Math.max(Math.abs(x[0]), Math.abs(x[x.length - 1]));
  }

  above(p, limit) {
    return this.totals.values.reduce((sum, x, k) => sum + (this.over(x, limit) ? p[k] : 0), 0);
  }

  summary(p, limit) {
    const x = this.totals.values;
    const all = p.reduce((sum, q) => sum + q, 0);
    let sum = 0, at = 0;
    while (at < x.length - 1 && (sum += p[at]) < 0.95 * all - 1e-9) at++;
    const most = this.totals.width ? "At most " : "";
    const above = limit === Infinity ? "" : `${most}${percent(this.above(p, limit))} of episodes are above the limit. `;
    const worst = `95% are at ${show(x[at], digitsWithin(x[at], x[this.last] - x[this.first], 4))} or less.`;
    const grid = this.totals.width ? ` Totals are rounded up by at most ${show(this.totals.width, 2)}.` : "";
    return above + worst + grid;
  }

  bars(p, low, high, limit) {
    const x = this.totals.values.slice(this.first, this.last + 1);
    const even = x.every((value, k) => Math.abs(value - low - ((high - low) * k) / Math.max(1, x.length - 1)) <= 1e-6 * (high - low));
    if (even && x.length <= BARS) return x.map((value, k) => ({ x: value, p: p[this.first + k], over: this.over(value, limit) }));
    const found = Array.from({ length: BARS }, (_, k) => ({ x: low + ((high - low) * (k + 0.5)) / BARS, p: 0, over: false }));
    x.forEach((value, k) => {
      const bar = found[Math.min(BARS - 1, Math.floor((BARS * (value - low)) / (high - low)))];
      bar.p += p[this.first + k];
    });
    found.forEach((bar) => (bar.over = this.over(bar.x, limit)));
    return found;
  }
}

function unpackTotals(flat, size) {
  const found = new Float64Array(size);
  for (let i = 0, key = 0; i < flat.length; i += 2) {
    key += flat[i];
    found[key] = flat[i + 1] * 1e-7;
  }
  return found;
}
