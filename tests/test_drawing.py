"""Pictures and text drawings show what they should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from conrl import drawing
from conrl import policy_map as play
from conrl.envs import box, make, mars_rover
from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout
from conrl.planners import Plan
from conrl.planners.frontier import frontier
from conrl.planning import plan
from conrl.problem import Linear


@pytest.fixture(scope="module")
def rover() -> Plan:
    return plan(mars_rover(rock_reward=1.0))


def lone(**rest: object) -> ConstrainedMDP:
    """One state, two actions that pay differently, one cost."""
    stay = np.ones((1, 2, 1))
    return ConstrainedMDP(stay, [[1.0, 0.0]], np.array([[[1.0], [0.0]]]), horizon=4, **rest)  # type: ignore[arg-type]


def words(figure: Figure) -> str:
    texts = [figure.axes[0].get_title(), figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()]
    texts += [text.get_text() for text in figure.axes[0].texts]
    legends = [*figure.legends, figure.axes[0].get_legend()]
    texts += [text.get_text() for legend in legends if legend is not None for text in legend.get_texts()]
    return "\n".join(texts)


# -- what is shown ----------------------------------------------------------------------------------------


def test_play_agrees_with_the_occupation_measure(rover: Plan) -> None:
    mdp = rover.mdp
    rho = rover.policy.occupation(mdp).sum(axis=0)  # [S, A]
    for done in (play.grid_play(mdp, rover.policy), play.grid_play(mdp, rover.mixture)):
        free = np.array([sign in "S0" for row in mdp.layout.rows for sign in row]) if mdp.layout else None
        assert free is not None
        np.testing.assert_allclose(done.visits[free], rho.sum(axis=1)[free], atol=1e-12)
        np.testing.assert_allclose(done.shares[free] * done.visits[free, None], rho[free], atol=1e-12)
        assert (done.visits[~free] == 0.0).all()


def test_ends_are_probabilities_of_the_last_state(rover: Plan) -> None:
    mdp = rover.mdp
    done = play.grid_play(mdp, rover.policy)
    # What is lost from the free cells after the last step is where episodes ended.
    last = rover.policy.occupation(mdp)[-1].ravel()  # [S*A]
    after = mdp.transitions.T @ last
    ended = np.isin(np.array(list("".join(mdp.layout.rows))) if mdp.layout else [], ("G", "P"))
    np.testing.assert_allclose(done.ends[ended], after[ended], atol=1e-12)
    assert (done.ends[~ended] == 0.0).all()


def test_box_adds_up_all_places_of_the_box() -> None:
    found = plan(box())
    done = play.grid_play(found.mdp, found.mixture)
    goal = "".join(found.mdp.layout.rows).index("G") if found.mdp.layout else -1
    assert done.visits.sum() + 30 * (1 - done.ends.sum()) >= 7.0  # at least seven steps from start to goal
    assert 0.99 < done.ends[goal] <= 1.0
    assert done.ends.sum() == pytest.approx(done.ends[goal])


def test_a_state_that_stays_but_pays_by_action_is_no_end() -> None:
    mdp = lone(limits=[1.0])
    done = play.state_play(mdp, plan(mdp).mixture)
    assert done.visits == pytest.approx([4.0])
    assert done.shares[0] == pytest.approx([0.25, 0.75])
    assert done.actions(0) == [1, 0]
    assert done.ends == pytest.approx([0.0])


def test_a_second_action_must_have_a_tenth() -> None:
    done = play.Play(np.ones(3), np.array([[0.5, 0.5], [0.91, 0.09], [0.0, 1.0]]), np.zeros(3))
    assert [done.actions(i) for i in range(3)] == [[0, 1], [0], [1]]


# -- text -------------------------------------------------------------------------------------------------


def test_rover_as_text(rover: Plan) -> None:
    rows = play.policy_text(rover.mdp, rover.policy)
    assert rows == play.policy_text(rover.mdp, rover.mixture)
    assert [len(row) for row in rows] == [8] * 8
    assert len({len(text) for row in rows for text, _ in row}) == 1
    assert rows[0][0][0].strip() == "S→"
    assert rows[0][3] == (rows[0][3][0], "bold magenta")  # the detour round the rock is a matter of chance
    assert rows[0][3][0].strip() == "→↓"
    assert rows[2][3][0].strip() == "P 15%"
    assert rows[7][7][0].strip() == "G 83%"
    assert rows[7][0][1] == "dim"  # hardly ever visited


def test_box_as_text() -> None:
    found = plan(box())
    rows = play.policy_text(found.mdp, found.policy)
    assert set(rows[0][0][0].strip()) == {"█"}
    assert rows[1][2][0].strip() == "S←"
    assert "X box at the start" in play.policy_legend(found.mdp)
    assert "█ wall" in play.policy_legend(found.mdp)


def test_signs_that_are_no_arrows_are_explained() -> None:
    mdp = make("gymnasium:Taxi-v4", horizon=20)
    assert "+ pick up" in play.policy_legend(mdp)
    figure = drawing.policy_figure(plan(mdp))
    assert "pick up" in words(figure)


def test_never_visited_cells() -> None:
    mdp = make("gymnasium:CliffWalking-v1", horizon=20)
    rows = play.policy_text(mdp, plan(mdp).policy)
    assert rows[0][0] == ("·" + rows[0][0][0][1:], "dim")


@pytest.mark.parametrize(
    "layout",
    [
        None,
        Layout((), np.array([-1])),
        Layout(("ab", "c"), np.array([0])),
        Layout(("ab",), np.array([5])),
        Layout(("ab",), np.array([0]), ("↑",)),
    ],
)
def test_without_a_usable_map(layout: Layout | None) -> None:
    mdp = lone(layout=layout)
    found = plan(mdp)
    with pytest.raises(SpecError, match="map"):
        play.policy_text(mdp, found.policy)
    with pytest.raises(SpecError, match="map"):
        drawing.policy_figure(found)


# -- pictures ---------------------------------------------------------------------------------------------


def test_rover_as_picture(rover: Plan) -> None:
    figure = drawing.policy_figure(rover)
    done = play.grid_play(rover.mdp, rover.mixture)
    arrows = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) == sum(len(done.actions(i)) for i in range(64))
    assert len(arrows) > (done.visits > 0).sum()  # some cells have two
    text = words(figure)
    for piece in ("1.53629", "crash 0.3 (limit 0.3)", "start", "goal\n83%", "rock\n15%", "mixed", "over the episode"):
        assert piece in text
    assert figure.axes[1].get_ylabel() == "expected visits per episode"


@pytest.mark.parametrize("model", ["gymnasium:FrozenLake-v1", "box"])
def test_legend_lies_within_the_picture(model: str, tmp_path: Path) -> None:
    figure = drawing.policy_figure(plan(make(model)))
    drawing.save_figure(figure, tmp_path / "a.png")
    outline = figure.legends[0].get_window_extent()
    assert outline.x0 >= 0.0
    assert outline.x1 <= figure.bbox.width


def test_draws_onto_the_callers_axes(rover: Plan) -> None:
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    drawing.draw_policy(left, rover)
    drawing.draw_frontier(right, frontier(rover.mdp))
    assert left.patches
    assert right.lines


def test_frontier_picture(rover: Plan) -> None:
    curve = frontier(rover.mdp)
    figure = drawing.frontier_figure(curve)
    text = words(figure)
    for piece in ("crash", "all 393 vertices", "limit 0.3: reward 1.53629", "price 0.193", "infeasible", "1.81682"):
        assert piece in text
    line = figure.axes[0].lines[0]
    np.testing.assert_array_equal(np.asarray(line.get_xdata())[:-1], curve.limits)
    np.testing.assert_array_equal(np.asarray(line.get_ydata())[:-1], curve.rewards)


@pytest.mark.parametrize(
    ("limit", "piece"),
    [(-0.5, "infeasible"), (1000.0, "further right"), (np.inf, "without a limit"), (2.0, "limit 2: reward")],
)
def test_limits_anywhere(limit: float, piece: str, tmp_path: Path) -> None:
    mdp = lone(limits=[limit], cost_names=["$x^$"])
    figure = drawing.frontier_figure(frontier(mdp))
    drawing.save_figure(figure, tmp_path / "a.png")  # a dollar sign is not mathematics
    assert piece in words(figure)


def test_frontier_of_one_vertex_and_incomplete(tmp_path: Path) -> None:
    mdp = ConstrainedMDP(np.ones((1, 1, 1)), [[1.0]], [[[1.0]]], horizon=3, limits=[5.0])
    figure = drawing.frontier_figure(frontier(mdp))
    drawing.save_figure(figure, tmp_path / "a.svg")
    assert "the only vertex" in words(figure)
    assert "at most" in words(drawing.frontier_figure(frontier(box(), max_vertices=4)))


def test_figures_are_saved_by_suffix(tmp_path: Path) -> None:
    figure = drawing.frontier_figure(frontier(box()))
    with pytest.raises(SpecError, match=r"\.png, \.pdf, \.svg"):
        drawing.save_figure(figure, tmp_path / "a.jpg")
    assert list(tmp_path.iterdir()) == []


def test_a_title_with_long_names_fits_its_picture() -> None:
    names = [
        "$x_1$ cost <b>",
        "a name that is really long, longer than forty characters",
        "another name of quite some length",
    ]
    mdp = ConstrainedMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], np.ones((1, 2, 3)), horizon=4, cost_names=names)
    found = plan(mdp, Linear({names[0]: 123456.7}, {names[1]: 0.123456}))
    axes = found.plot()
    figure = axes.figure
    figure.canvas.draw()
    box = axes.title.get_window_extent()
    assert axes.get_title().startswith("reward 4")
    assert box.x0 >= 0.0
    assert box.x1 <= figure.bbox.x1
    assert box.y1 <= figure.bbox.y1


def test_the_frontier_of_a_probability_has_no_limit_below_0() -> None:
    pays = [[[0.0], [1.0]]]
    mdp = ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], pays, 2, cost_names=["crash"])
    figure = drawing.frontier_figure(frontier(mdp, chance={"crash": 0}))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "limit on P(crash > 0)"
    assert "infeasible" not in words(figure)
    assert axes.get_xlim()[1] <= 1.0
