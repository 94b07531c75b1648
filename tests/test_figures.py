"""The paper's figures from studies: which panels, what is in them, the same bytes each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import cbook
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from test_analysis import write_run

import conrl
from conrl.drawing import save_figure
from conrl.experiments import Run, Study, load, load_spec, parse_spec
from conrl.experiments.figures import save_study_figure, study_figure
from conrl.experiments.profiles import profile_figure
from conrl.experiments.runner import write_study

FIGURE1 = """\
name = "figure1"
episodes = 30
seeds = 2

[environment.mars-rover]
title = "Mars rover"
set = { rock_reward = 1.0 }

[environment.box]
title = "Box"

[algorithm.conrl-value-iteration]
title = "ConRL-value iteration"
learner = "conrl"

[algorithm.ucbvi]
title = "UCBVI"
episodes = 60

[algorithm.tfw-ucrl2]
title = "TFW-UCRL2"
episodes = 40
environments = ["mars-rover"]
"""
FIGURE2 = """\
name = "figure2"
episodes = 10
[environment.mars-rover]
[algorithm.tfw-1e-2]
learner = "tfw-ucrl2"
[algorithm.tfw-1e-3]
learner = "tfw-ucrl2"
options.reward_weight = 1e-3
"""


def play(text: str, out: Path) -> Path:
    """A study, played here."""
    spec = parse_spec(text)
    out.mkdir(exist_ok=True)
    write_study(spec, out)
    for job in spec.jobs:
        Run(job, out).play()
    return out


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(FIGURE1, tmp_path_factory.mktemp("figure1"))


def panels(figure: Figure) -> list[list[Axes]]:
    """Rows of panels."""
    shape = figure.axes[0].get_gridspec()
    assert shape is not None
    found: list[list[Any]] = [[None] * shape.ncols for _ in range(shape.nrows)]
    for axes in figure.axes:
        place = axes.get_subplotspec()
        assert place is not None
        found[place.rowspan.start][place.colspan.start] = axes
    return found


def labelled(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def across(axes: Axes) -> list[float]:
    """The heights of straight lines over the whole panel."""
    lines = [line for line in axes.lines if line.get_transform() == axes.get_yaxis_transform(which="grid")]
    return [float(np.asarray(line.get_ydata())[0]) for line in lines]


def curves(axes: Axes) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    own = [line for line in axes.lines if len(np.atleast_1d(line.get_xdata())) > 2]
    return [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in own]


def test_figure_1_is_three_by_three(directory: Path) -> None:
    study = load(directory)
    rows = panels(study_figure(study, "A note."))
    assert [len(row) for row in rows] == [3, 3, 3]
    assert [axes.get_ylabel() for axes in (row[0] for row in rows)] == ["reward", "cost", "cumulative cost"]
    assert [axes.get_title() for axes in rows[0]] == [
        "Mars rover",
        "Box",
        "Mars rover, against TFW-UCRL2\n(average over trajectories so far)",
    ]
    assert [axes.get_xscale() for axes in rows[0]] == ["linear", "linear", "log"]
    assert [[len(curves(axes)) for axes in row] for row in rows] == [[2, 2, 2]] * 3
    assert [across(axes) for axes in rows[1]] == [[0.3], [0.1], [0.3]]
    assert [labelled(axes) for axes in rows[1]] == [["limit 0.3"], ["limit 0.1"], ["limit 0.3"]]
    assert across(rows[0][0]) == pytest.approx([1.5362884], abs=1e-6)
    assert labelled(rows[0][1]) == ["optimum 1.75"]
    assert across(rows[0][2]) == []  # means over all trajectories are not compared with it
    bands = [c for c in rows[0][0].collections if isinstance(c, PolyCollection)]
    assert len(bands) == 2  # the standard deviation of each algorithm
    figure = rows[0][0].figure
    assert isinstance(figure, Figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ConRL-value iteration", "UCBVI", "TFW-UCRL2"]
    caption = figure.get_supxlabel()
    assert "over 2 seeds" in caption
    said = " ".join(caption.split())
    assert "means of the last 100. Averages are running means of these and, of TFW-UCRL2, of realized pay" in said
    assert caption.endswith("\nA note.")


def test_the_lines_are_the_curves_of_the_study(directory: Path) -> None:
    study = load(directory)
    rows = panels(study_figure(study))
    measures = ("reward", "cost", "cumulative")
    for j, environment in enumerate(("mars-rover", "box")):
        found = study.curves(environment, 300)
        for i, measure in enumerate(measures):
            wanted = [c for c in found if c.measure == measure and c.algorithm != "tfw-ucrl2"]
            for (x, y), curve in zip(curves(rows[i][j]), wanted, strict=True):
                assert np.array_equal(x, curve.x)
                assert np.array_equal(y, curve.mean)
    average = study.curves("mars-rover", 300, average=True, log=True)
    wanted = [c for c in average if c.measure == "reward" and c.algorithm != "ucbvi"]
    for (x, y), curve in zip(curves(rows[0][2]), wanted, strict=True):
        assert np.array_equal(x, curve.x)
        assert np.array_equal(y, curve.mean)


def test_the_threshold_of_appropo_is_drawn(directory: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(directory, tmp_path / "copy"))
    for path in (out / "box" / "ucbvi").rglob("config.json"):
        config = json.loads(path.read_text())
        config["learner"] |= {"learner": "appropo", "threshold": 1.58}
        path.write_text(json.dumps(config))
    rows = panels(study_figure(load(out)))
    assert across(rows[0][1]) == pytest.approx([1.58, 1.7496766], abs=1e-6)
    assert "ApproPO's threshold 1.58" in labelled(rows[0][1])
    assert len(across(rows[0][0])) == 1


def test_figure_2_has_two_rows(tmp_path: Path) -> None:
    study = load(play(FIGURE2, tmp_path))
    rows = panels(study_figure(study))
    assert [len(row) for row in rows] == [1, 1]
    assert [len(curves(row[0])) for row in rows] == [2, 2]
    assert [row[0].get_xscale() for row in rows] == ["log", "log"]
    caption = rows[0][0].figure.get_supxlabel()
    assert "last 100" not in caption
    assert "running means of realized pay per step" in " ".join(caption.split())
    assert not [c for c in rows[0][0].collections if isinstance(c, PolyCollection)]  # one seed has no spread


def test_pictures_have_the_same_bytes_each_time(directory: Path, tmp_path: Path) -> None:
    first = save_study_figure(load(directory), tmp_path / "first")
    second = save_study_figure(load(directory), tmp_path / "second")
    assert [path.name for path in first] == ["first.png", "first.pdf"]
    for one, other, magic in zip(first, second, (b"\x89PNG", b"%PDF"), strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.read_bytes().startswith(magic)
        assert len(one.read_bytes()) > 10_000


def test_a_study_of_a_model_without_costs_and_one_without_episodes(tmp_path: Path) -> None:
    text = 'episodes = 6\n[environment.ice]\nmodel = "gymnasium:FrozenLake-v1"\nhorizon = 10\n[algorithm.ucbvi]\n'
    study = load(play(text, tmp_path / "ice"))
    rows = panels(study_figure(study))
    assert [len(curves(row[0])) for row in rows] == [1]  # reward alone
    for path in (tmp_path / "ice").rglob("progress.csv"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(conrl.SpecError, match="no finished episodes"):
        study_figure(load(tmp_path / "ice"))


def test_every_cost_has_its_panels(tmp_path: Path) -> None:
    text = 'name = "two"\nepisodes = 4\n[environment.cluster]\n[environment.box]\n[algorithm.ucbvi]\n'
    figure = study_figure(load(play(text, tmp_path)))
    shown = [axes for axes in figure.get_axes() if axes.axison]
    labels = [axes.get_ylabel() for axes in shown]
    wanted = ["cost: energy", "cost: latency", "cumulative cost: energy", "cumulative cost: latency"]
    assert sorted(labels) == sorted(["reward", "reward", *wanted, "cost: corner", "cumulative cost: corner"])
    ends = {axes.get_ylabel() for axes in shown if axes.get_xlabel()}  # the lowest panel of each column has the axis
    assert ends == {"cumulative cost: latency", "cumulative cost: corner"}


NEGATIVE = """\
name = "odd $x_1$ names"
episodes = 12
seeds = 2
[environment.odd]
model = "odd.npz"
title = 'A $\\q$ title, $5'
limits = { balance = -1.0, paid = 3.0 }
floors = { paid = 0.25 }
[algorithm.conrl]
title = 'lr $\\q$ 2'
[algorithm.ucbvi]
title = "$1_a$"
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A cost that is never positive, one with a floor, and names with dollar signs."""
    folder = tmp_path_factory.mktemp("odd")
    rng = np.random.default_rng(3)
    costs = np.stack([-3.0 * rng.random((3, 2)), rng.random((3, 2)), np.ones((3, 2))], axis=2)
    names = ["balance", "paid", "from $50 to $100_x"]
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), costs, 4, cost_names=names)
    conrl.save_model(folder / "odd.npz", mdp)
    (folder / "s.toml").write_text(NEGATIVE)
    spec = load_spec(folder / "s.toml")
    (folder / "out").mkdir()
    write_study(spec, folder / "out")
    for job in spec.jobs:
        Run(job, folder / "out").play()
    return load(folder / "out")


def test_negative_costs_are_within_the_picture(odd: Study) -> None:
    for measure in ("cost", "cumulative"):
        axes = odd.plot(measure=measure, cost="balance")
        low, high = axes.get_ylim()
        for x, y in curves(axes):
            assert x.size
            assert low < y.min() <= y.max() < high
        assert odd.plot(measure=measure, cost="paid").get_ylim()[0] == 0.0
        bands = [np.asarray(band.get_paths()[0].vertices)[:, 1] for band in axes.collections]
        assert min(band.min() for band in bands) < min(y.min() for _, y in curves(axes))  # not cut off


def test_limits_and_floors_are_marked(odd: Study) -> None:
    assert {"limit 3", "floor 0.25"} <= set(labelled(odd.plot(measure="cost", cost="paid")))
    assert {"limit -1"} <= set(labelled(odd.plot(measure="cost", cost="balance")))
    (row,) = [row for row in panels(study_figure(odd)) if row[0].get_ylabel() == "cost: paid"]
    assert {"limit 3", "floor 0.25"} <= set(labelled(row[0]))


def test_dollar_signs_are_no_mathematics(odd: Study, tmp_path: Path) -> None:
    """An odd one is no mathematics, and would be refused."""
    axes = odd.plot(measure="cost", cost="from $50 to $100_x")
    for figure in (axes.get_figure(root=True), study_figure(odd, note="a $\\q$ note"), profile_figure(odd)):
        assert figure is not None
        save_figure(figure, tmp_path / "picture.svg")
        words = [text.get_text() for text in figure.findobj(Text) if "$" in text.get_text()]
        assert words
        assert all(cbook.is_math_text(word) is False for word in words), words
    assert axes.get_title() == r"A \$\q\$ title, \$5"


def test_no_two_of_thirty_algorithms_are_drawn_alike(tmp_path: Path) -> None:
    """By color and dashes, and by color and mark; in curves and profiles, and in the entries of their legends."""
    values = np.tile([1.0, 0.2], (12, 1))
    names = [f"algorithm-{i:02d}" for i in range(30)]
    for i, name in enumerate(names):
        write_run(tmp_path, values[:, 0] + i, {"crash": values[:, 1]}, values, place=("mars-rover", name, 0))
    study = load(tmp_path)
    axes = study.plot()
    profiles = profile_figure(study)
    paper = study_figure(study)
    legends: list[Any] = [axes.get_legend(), profiles.legends[0], paper.legends[0]]
    drawn = [[line for line in axes.lines if line.get_label() in names]]
    drawn += [[line for line in panel.lines if line.get_drawstyle() == "steps-post"] for panel in profiles.axes]
    drawn += [[line for line in panel.lines if np.size(line.get_xdata()) == 12] for panel in paper.axes]
    drawn += [legend.get_lines() for legend in legends]
    for lines in drawn:
        assert len(lines) == 30
        dashes = [(line.get_color(), str(line._unscaled_dash_pattern)) for line in lines]  # type: ignore[attr-defined]
        assert len(set(dashes)) == 30
        marks = {line.get_marker() for line in lines}
        assert marks == {"None"} or len({(line.get_color(), line.get_marker()) for line in lines}) == 30
    for legend in legends:
        assert [text.get_text() for text in legend.get_texts()] == names
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    panel, beside = axes.get_window_extent(), axes.get_legend().get_window_extent()  # type: ignore[union-attr]
    assert beside.x0 >= panel.x1 - 1.0  # what is drawn is not hidden,
    assert panel.height > 200.0  # nor squeezed
