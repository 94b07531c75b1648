"use strict";
// The best mixture of the columns within the limits: a linear program with a row for each limit and one for the weights,
//
//   maximise  sum_i w_i reward_i   subject to   sum_i w_i use_ri <= h_r,   sum_i w_i = 1,   w >= 0,
//
// by the simplex method on a dense table. Its dual values just beyond a limit are the prices. Cuts and walls are what is
// proven about all policies, held here or not: no reward above a cut, no policy at all beyond a wall.

const PIVOT = 1e-11; // a smaller entry is rounding
const KEPT = 1e-9; // by how much of its unit a limit may be exceeded, as in Python
const BEYOND = 1e-7; // of its unit, by which a limit is loosened to see its price
const GREEDY = 300; // pivots by the steepest column; then by the first, which cannot go round in circles
const MOST_PIVOTS = 20 * GREEDY; // but for rounding
const EXACT = 1.1e-5; // of what the limits take of the reward, as in Python, and a tenth for rounding

class Program {
  constructor(data) {
    this.rewards = data.rewards;
    this.uses = data.uses;
    this.cuts = data.cuts;
    this.held = data.lines.map((_, r) => r).filter((r) => data.lines[r].held);
    this.walls = [...data.walls].sort((a, b) => this.holds(a) - this.holds(b)); // the best proofs first
    this.n = this.rewards.length;
    const spread = (values) => [Math.min(...values), Math.max(...values)];
    const [least, most] = spread(this.rewards);
    this.most = most;
    this.gain = most - least || Math.max(1, Math.abs(most));
    this.rows = data.lines.map((line, r) => {
      const [low, high] = spread(this.uses.map((use) => use[r]));
      return { low, unit: high - low || Math.max(1, Math.abs(high)) };
    });
    [this.best, this.leastLoss] = [data.best, data.least_loss];
  }

  // Weights, reward, uses and dual values at limits h (Infinity for none); null if no mixture of the columns keeps them.
  solve(h) {
    const active = [];
    const right = [];
    for (let r = 0; r < h.length; r++) {
      if (h[r] === Infinity) continue;
      const b = (h[r] - this.rows[r].low) / this.rows[r].unit;
      if (b < -KEPT) return null;
      if (b >= 1 + KEPT) continue; // every column keeps it
      active.push(r);
      right.push(Math.max(b, 0));
    }
    const { n } = this;
    const m = active.length + 1; // the last row: the weights add up to 1
    const width = n + m + 1;
    const T = new Float64Array((m + 1) * width); // the last row is the objective
    const basis = new Int32Array(m);
    for (let i = 0; i < m; i++) {
      const row = i * width;
      for (let j = 0; j < n; j++) {
        T[row + j] = i === m - 1 ? 1 : (this.uses[j][active[i]] - this.rows[active[i]].low) / this.rows[active[i]].unit;
      }
      T[row + n + i] = 1;
      T[row + width - 1] = i === m - 1 ? 1 : right[i];
      basis[i] = n + i;
    }
    // First as much weight as the limits allow: all of it, or they cannot be kept.
    for (let j = 0; j < n; j++) T[m * width + j] = -1;
    this.pivots(T, basis, m, width);
    if (T[m * width + width - 1] < 1 - KEPT) return null;
    const slack = n + m - 1;
    for (let i = 0; i < m; i++) {
      if (basis[i] !== slack) continue;
      // It is 0 by now and must stay so: anything else may take its place.
      let best = 0;
      for (let j = 1; j < slack; j++) if (Math.abs(T[i * width + j]) > Math.abs(T[i * width + best])) best = j;
      pivot(T, basis, i, best, m, width);
    }
    // Then the reward: in units of all that rewards differ by, and then of what they differ by here. A huge penalty
    // that is not mixed would hide that.
    const reward = this.climb(T, basis, m, width, slack, this.most, this.gain);
    const unit = Math.max(1e3 * (this.most - reward), 1e-4 * this.gain);
    if (unit >= this.gain) return this.answer(T, basis, m, width, active, this.gain);
    this.climb(T, basis, m, width, slack, reward, unit);
    return this.answer(T, basis, m, width, active, unit);
  }

  // The best reward, counted from `zero` in such units.
  climb(T, basis, m, width, slack, zero, unit) {
    const value = (j) => (j < this.n ? (this.rewards[j] - zero) / unit : 0);
    for (let j = 0; j < width; j++) {
      let z = j < width - 1 ? -value(j) : 0;
      for (let i = 0; i < m; i++) z += value(basis[i]) * T[i * width + j];
      T[m * width + j] = z;
    }
    this.pivots(T, basis, m, width, slack);
    return zero + unit * T[m * width + width - 1];
  }

  // Columns enter while one gains; never `barred`.
  pivots(T, basis, m, width, barred = -1) {
    for (let count = 0; count < MOST_PIVOTS; count++) {
      let enter = -1;
      let most = -1e-10;
      for (let j = 0; j < width - 1; j++) {
        const z = T[m * width + j];
        if (j === barred || z >= most) continue;
        enter = j;
        if (count > GREEDY) break;
        most = z;
      }
      if (enter < 0) return;
      let leave = -1;
      let least = Infinity;
      for (let i = 0; i < m; i++) {
        const entry = T[i * width + enter];
        if (entry <= PIVOT) continue;
        const ratio = T[i * width + width - 1] / entry;
        if (ratio < least - 1e-14 || (ratio <= least + 1e-14 && basis[i] < basis[leave])) [leave, least] = [i, Math.min(ratio, least)];
      }
      if (leave < 0) return;
      pivot(T, basis, leave, enter, m, width);
    }
  }

  answer(T, basis, m, width, active, unit) {
    const weights = [];
    for (let i = 0; i < m; i++) {
      const w = T[i * width + width - 1];
      if (basis[i] < this.n && w > 1e-10) weights.push([basis[i], w]);
    }
    const total = weights.reduce((sum, [, w]) => sum + w, 0);
    weights.forEach((entry) => (entry[1] /= total));
    weights.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    const duals = this.rows.map(() => 0);
    active.forEach((r, i) => {
      const dual = T[m * width + this.n + i];
      duals[r] = dual > 1e-9 ? (dual * unit) / this.rows[r].unit : 0;
    });
    return { weights, duals, reward: mean(weights, (i) => this.rewards[i]), uses: this.rows.map((_, r) => mean(weights, (i) => this.uses[i][r])) };
  }

  // What a unit more of each limit gains, at first. At a corner the dual values are anything between two slopes; beyond
  // it they are the slope.
  prices(h, duals) {
    return duals.map((dual, r) => {
      if (dual === 0) return 0;
      const loosened = h.map((bound, i) => (i === r ? bound + BEYOND * this.rows[r].unit : bound));
      return this.solve(loosened).duals[r];
    });
  }

  // No policy earns more within the limits; `whatever` the quantiles that are held.
  upper(h, whatever = false) {
    let least = Infinity;
    for (const cut of this.cuts) {
      if (whatever && this.holds(cut)) continue;
      let bound = cut[0];
      for (let r = 0; r < h.length && bound < Infinity; r++) if (cut[r + 1] > 0) bound += cut[r + 1] * h[r];
      if (bound < least) least = bound;
    }
    return least;
  }

  // Whether so much more is nothing, against what the limits take of the best reward.
  exact(reward, more) {
    return more <= EXACT * Math.max(this.best - reward, this.leastLoss);
  }

  // Whether a bound is one for policies that keep a CVaR by the quantile that is held.
  holds(bound) {
    return this.held.some((r) => bound[r + 1] > 0);
  }

  // The rows of a proof that the limits cannot be kept together; null without one.
  wall(h) {
    for (const wall of this.walls) {
      let sum = 0;
      for (let r = 0; r < h.length; r++) if (wall[r + 1] > 0) sum += wall[r + 1] * h[r];
      if (sum < wall[0] - KEPT) return h.map((_, r) => r).filter((r) => wall[r + 1] > 0);
    }
    return null;
  }
}

function pivot(T, basis, leave, enter, m, width) {
  const row = leave * width;
  const scale = 1 / T[row + enter];
  for (let j = 0; j < width; j++) T[row + j] *= scale;
  for (let i = 0; i <= m; i++) {
    const factor = T[i * width + enter];
    if (i === leave || factor === 0) continue;
    const at = i * width;
    for (let j = 0; j < width; j++) T[at + j] -= factor * T[row + j];
    T[at + enter] = 0;
  }
  basis[leave] = enter;
}

const mean = (weights, value) => weights.reduce((sum, [i, w]) => sum + w * value(i), 0);
