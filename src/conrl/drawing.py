"""Pictures of plans and frontiers.

Pictures are drawn onto the caller's axes, or onto a figure made here; there is no global state, and matplotlib is
loaded only for them. The colours are those of Okabe and Ito (2008) and of Tol (2021), which the colour-blind can tell
apart.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from conrl.errors import SpecError
from conrl.io.files import atomic_write
from conrl.model.layout import Layout
from conrl.planners import Frontier, Plan
from conrl.policy_map import DIRECTIONS, FREE, KINDS, RARE, SHOWN, WALLS, Play, grid_layout, grid_play
from conrl.problem import Linear
from conrl.wording import counted, percent, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure


PICTURES = (".png", ".pdf", ".svg")

FILLS = {"G": "#009E73", "P": "#D55E00", "H": "#D55E00", "C": "#D55E00"}
EDGES: dict[str, Literal["-", ":"]] = {"S": "-", "X": ":"}
INK, MARK, CURVE, BEST, WALL = "#222222", "#AA3377", "#0072B2", "#009E73", "#666666"
TITLE = 60  # characters of a line of a title
SHADES = ("#ffffff", "#b5d6ec", "#62a9d8")


def save_figure(figure: Figure, path: str | Path, follow: bool = True) -> None:
    """Write a picture, whole or not at all, in the format that the suffix names. The bytes hold no times.

    `follow`: as in `conrl.io.files.atomic_write`.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = Path(path)
    if path.suffix not in PICTURES:
        raise SpecError(f"{path}: a picture is written as {', '.join(PICTURES)}")
    dates: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
    FigureCanvasAgg(figure)
    with (
        matplotlib.rc_context({"svg.hashsalt": "conrl"}),
        warnings.catch_warnings(),
        atomic_write(path, follow) as file,
    ):
        warnings.simplefilter("ignore")  # a name with a sign that the font lacks is drawn as a box
        figure.savefig(file, format=path.suffix[1:], dpi=200, metadata=dates[path.suffix])


def policy_figure(plan: Plan) -> Figure:
    """A new figure with `draw_policy` on it."""
    from matplotlib.figure import Figure

    layout = grid_layout(plan.mdp)
    rows, columns = len(layout.rows), len(layout.rows[0])
    cell = min(0.75, 12.0 / max(rows, columns))
    figure = Figure(figsize=(max(6.6, cell * columns + 1.6), max(3.0, cell * rows + 1.9)), layout="constrained")
    draw_policy(figure.subplots(), plan)
    return figure


def draw_policy(axes: Axes, plan: Plan) -> None:
    """The map of a grid world with the plan's actions as arrows; shade is how often a cell is visited."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    layout, done = grid_layout(plan.mdp), grid_play(plan.mdp, plan.mixture)
    rows, columns = len(layout.rows), len(layout.rows[0])
    norm = Normalize(0.0, max(float(done.visits.max()), RARE))
    shade = ScalarMappable(norm, LinearSegmentedColormap.from_list("visits", SHADES))
    for r, row in enumerate(layout.rows):
        for c, sign in enumerate(row):
            i = r * columns + c
            _draw_ground(axes, c, r, sign, shade.to_rgba(done.visits[i]))
            _draw_label(axes, c, r, sign, done.ends[i])
            _draw_actions(axes, c, r, layout, done, i)
    axes.set(xlim=(-0.52, columns - 0.48), ylim=(rows - 0.48, -0.52), aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(value_text(plan), fontsize=10)
    note = "most played actions over the episode; the policy itself may change with the step"
    axes.set_xlabel(note, fontsize=8, color=INK)
    _draw_keys(axes, plan, done, shade)


def value_text(plan: Plan) -> str:
    """The reward and the first costs, with their limits and floors; as a title, in lines that fit a picture."""
    rows = (plan.linear or Linear()).rows(plan.mdp)
    lines = [f"reward {plan.reward:.6g}"]
    for i, (name, cost) in enumerate(zip(plan.mdp.cost_names[:3], plan.costs, strict=False)):
        bounds = [
            f"{word} {sign * bound:.6g}"
            for word, sign in (("limit", 1.0), ("floor", -1.0))
            for bound in rows.bound[(rows.cost == i) & (rows.sign == sign)]
        ]
        piece = f"{short(name)} {cost:.6g}" + (f" ({', '.join(bounds)})" if bounds else "")
        if len(lines[-1]) + len(piece) <= TITLE:
            lines[-1] += f",  {piece}"
        else:
            lines.append(piece)
    return plain("\n".join(lines) + (", ..." if plan.mdp.num_costs > 3 else ""))


def _draw_ground(axes: Axes, c: int, r: int, sign: str, shade: Any) -> None:
    from matplotlib.patches import Rectangle

    def square(half: float, **look: Any) -> None:
        axes.add_patch(Rectangle((c - half, r - half), 2 * half, 2 * half, **look))

    square(0.5, facecolor=WALL if sign in WALLS else shade, edgecolor="#bbbbbb", linewidth=0.6, zorder=1)
    if sign in FILLS:
        square(0.46, facecolor=FILLS[sign], alpha=0.25, edgecolor="none", zorder=2)
        square(0.46, facecolor="none", edgecolor=FILLS[sign], linewidth=1.6, zorder=2)
    elif sign in EDGES:
        square(0.45, facecolor="none", edgecolor=INK, linestyle=EDGES[sign], linewidth=1.4, zorder=2)


def _draw_label(axes: Axes, c: int, r: int, sign: str, end: float) -> None:
    if sign in FREE + WALLS:
        return
    word = plain(KINDS.get(sign, sign).split()[0])
    share = percent(end) if end >= SHOWN else ""
    if sign in FILLS:
        axes.text(c, r, f"{word}\n{share}".strip(), ha="center", va="center", fontsize=7, color=INK, zorder=5)
    else:
        axes.text(c - 0.4, r - 0.4, f"{word} {share}", ha="left", va="top", fontsize=6.5, color=INK, zorder=5)


def _draw_actions(axes: Axes, c: int, r: int, layout: Layout, done: Play, i: int) -> None:
    """The actions of cell i, at column c and row r: arrows, or their signs where they do not move."""
    from matplotlib.patches import FancyArrowPatch

    shown = done.actions(i)
    mixed = len(shown) > 1
    alpha = 1.0 if done.visits[i] >= RARE else 0.25
    look: dict[str, Any] = {"color": MARK if mixed else INK, "alpha": alpha, "zorder": 4}
    signs = [plain(layout.arrows[a]) for a in shown if layout.arrows[a] not in DIRECTIONS]
    if signs:
        axes.text(c, r + 0.34 if mixed else r, " ".join(signs), ha="center", va="center", fontsize=9, **look)
    for a in shown:
        if layout.arrows[a] in DIRECTIONS:
            dx, dy = DIRECTIONS[layout.arrows[a]]
            # A lone arrow is centred; those of a mixed cell leave the centre, each as long as its share.
            tail, tip = (0.0, 0.14 + 0.32 * float(done.shares[i, a])) if mixed else (-0.26, 0.26)
            ends = (c + tail * dx, r + tail * dy), (c + tip * dx, r + tip * dy)
            style = "-|>,head_length=3.2,head_width=2.0"
            axes.add_patch(FancyArrowPatch(*ends, arrowstyle=style, shrinkA=0.0, shrinkB=0.0, linewidth=1.5, **look))


def _draw_keys(axes: Axes, plan: Plan, done: Play, shade: ScalarMappable) -> None:
    """The legend below the map and the scale of visits beside it."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def arrow(label: str, **look: Any) -> Line2D:
        return Line2D([], [], marker=">", markersize=5, linewidth=1.5, label=label, **look)

    layout = grid_layout(plan.mdp)
    cells = np.array([sign for row in layout.rows for sign in row])
    signs = set(cells.tolist())
    keys: list[Any] = [
        arrow("one action", color=INK),
        arrow("mixed: length is the share", color=MARK),
        arrow(f"in a cell visited < {RARE:g} times", color=INK, alpha=0.25),
    ]
    for sign, name in zip(layout.arrows, plan.mdp.action_names, strict=True):
        if sign not in DIRECTIONS:
            keys.append(Line2D([], [], linestyle="none", label=plain(f"{sign}  {name}")))
    for sign, style in EDGES.items():
        if sign in signs:
            keys.append(Patch(facecolor="none", edgecolor=INK, linestyle=style, linewidth=1.4, label=KINDS[sign]))
    for sign, colour in FILLS.items():
        if sign in signs:
            ends = bool((done.ends[cells == sign] >= SHOWN).any())
            label = KINDS[sign] + (": % of episodes end there" if ends else "")
            keys.append(Patch(facecolor=colour, alpha=0.5, edgecolor=colour, label=label))
    if signs & set(WALLS):
        keys.append(Patch(facecolor=WALL, label="wall"))
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.legend(handles=keys, loc="outside lower center", ncols=3, fontsize=7.5, frameon=False)
    bar = figure.colorbar(shade, ax=axes, shrink=0.7, aspect=24, pad=0.02)
    bar.set_label("expected visits per episode", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


def frontier_figure(curve: Frontier) -> Figure:
    """A new figure with `draw_frontier` on it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    draw_frontier(figure.subplots(), curve)
    return figure


def draw_frontier(axes: Axes, curve: Frontier) -> None:
    """The best reward against the limit of one cost; the model's own limit is marked, with its price as the slope."""
    name = curve.mdp.cost_names[curve.cost]
    x, y = curve.limits, curve.rewards
    own = np.inf if curve.mdp.limits is None else float(curve.mdp.limits[curve.cost])
    span = float(x[-1] - x[0]) or max(abs(float(x[0])), 1.0)
    near = x[0] - span <= own <= x[-1] + span
    left = min(x[0], own if near else x[0]) - 0.08 * span
    share = curve.asked is not None and curve.asked.chance is not None  # the limit is on a probability
    right = max(x[-1], own if near else x[-1]) + 0.15 * span

    blocked: dict[str, Any] = {"facecolor": "#e4e4e4", "hatch": "///", "edgecolor": "#c4c4c4", "linewidth": 0.0}
    right = min(right, 1.0) if share else right  # no probability is above 1, or below 0
    if not (share and x[0] <= 0.0):
        axes.axvspan(left, float(x[0]), label=f"infeasible: limit below {x[0]:.4g}", **blocked)
    axes.plot([*x, right], [*y, y[-1]], color=CURVE, linewidth=1.8, zorder=3, label="best reward")
    # Hundreds of round markers would hide the curve that they lie on.
    marker = "o" if x.size <= 60 else "|"
    axes.plot(x, y, marker, color=CURVE, markersize=4.5, zorder=3, label=_count(curve))
    best = f"without a limit: reward {y[-1]:.6g}, {name} {x[-1]:.4g}"
    axes.plot(x[-1], y[-1], "D", color=BEST, markersize=7, zorder=4, label=plain(best))
    if np.isfinite(own):
        _draw_own(axes, curve, own, span if near else None)

    axes.set_xlim(left, right)
    if x.size == 1:  # flat: leave space for the legend
        level, size = float(y[0]), max(abs(float(y[0])), 1.0)
        axes.set_ylim(level - size, level + 0.3 * size)
    what = "the expected total cost" if name == "cost" else f"the expected total of {name}"
    axes.set_xlabel(plain(f"limit on {name if share else what}"))
    axes.set_ylabel("best expected total reward")
    axes.grid(color="#e8e8e8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=8, framealpha=0.9, edgecolor="none")


def _count(curve: Frontier) -> str:
    size = curve.limits.size
    if curve.complete:
        return f"all {size} vertices" if size > 1 else "the only vertex"
    return f"{counted(size, 'vertex', 'vertices')}; the curve is at most {curve.error:.1g} higher"


def _draw_own(axes: Axes, curve: Frontier, own: float, span: float | None) -> None:
    """The model's limit; without a span it lies outside the picture."""
    if not curve.feasible(own):
        axes.axvline(own, color=MARK, linestyle="--", linewidth=1.2, label=f"the limit {own:.4g}: infeasible")
        return
    reward, price = curve.reward(own), curve.price(own)
    label = f"the limit {own:.4g}: reward {reward:.6g}"
    if span is None:
        axes.plot([], [], "s", color=MARK, label=f"{label} (further right)")
        return
    axes.axvline(own, color=MARK, linestyle=":", linewidth=1.0, zorder=2)
    axes.plot(own, reward, "s", color=MARK, markersize=7, zorder=5, label=label)
    # The tangent stays within the picture: right of the infeasible part, and no taller than the curve.
    reach = 0.2 * span
    if price > 0.0:
        reach = min(reach, 0.3 * float(curve.rewards[-1] - curve.rewards[0]) / price)
    ends = np.array([max(own - reach, curve.limits[0]), own + reach])
    tangent = reward + price * (ends - own)
    label = f"its price {price:.4g} is the slope"
    axes.plot(ends, tangent, color=MARK, linestyle="--", linewidth=1.4, zorder=4, label=label)


def plain(text: str, most: int | None = None) -> str:
    """A text as it is, of at most so many characters: matplotlib would read mathematics between dollar signs."""
    text = text if most is None or len(text) <= most else text[: most - 3] + "..."
    return text.replace("$", r"\$")
