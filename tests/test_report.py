"""The report shows what it should, alone in a browser: no network, no errors, by mouse or by keyboard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import chromium, split_words, until, watched
from test_analysis import write_run

from conrl.envs import box, make, mars_rover
from conrl.experiments import Study, load
from conrl.experiments.analysis import Failure
from conrl.experiments.environments import Environment
from conrl.experiments.records import RunRecord
from conrl.experiments.report import contents, explorer, render, write_report
from conrl.explorer import subject
from conrl.explorer.pages import asset
from conrl.model import ConstrainedMDP
from conrl.planning import plan
from conrl.problem import Linear
from conrl.wording import percent

NO_FLOOR = np.array([-np.inf])
EVIL = "<script>alert(1)</script>"
IMAGE = "%{x}</script><img src=x onerror=alert(2)>&amp;"


def record(env: str, algorithm: str, seed: int, mdp: ConstrainedMDP, episodes: int = 60) -> RunRecord:
    """A made-up run that approaches the optimum."""
    rng = np.random.default_rng([seed, len(algorithm)])
    best = plan(mdp)
    pull = 1.0 - np.exp(-np.arange(episodes) / 15.0)
    rewards = best.reward * pull + 0.05 * rng.normal(size=episodes)
    costs = best.costs + np.outer(1.0 - pull, np.ones(mdp.num_costs)) * rng.uniform(0.5, 1.0)
    limits = np.full(mdp.num_costs, np.inf) if mdp.limits is None else mdp.limits
    values = np.column_stack((rewards, costs))
    return RunRecord(
        environment=env,
        algorithm=algorithm,
        seed=seed,
        directory=Path(),
        wanted=episodes,
        cost_names=mdp.cost_names,
        problem=Linear(limits),
        config={},
        seen=values,
        expected=values,
        limits=limits,
        floors=np.full(mdp.num_costs, -np.inf),
        largest=np.ones(1 + mdp.num_costs),
        prices=None,
        steps=np.full(episodes, mdp.horizon),
        exploring=np.arange(1, episodes + 1) % 4 == 0,
    )


class Made(Study):
    """A study whose models are given."""

    models: dict[str, tuple[str, ConstrainedMDP]]

    @property
    def environments(self) -> dict[str, Environment]:
        found = {}
        for name, (title, mdp) in self.models.items():
            limits = np.full(mdp.num_costs, np.inf) if mdp.limits is None else np.array(mdp.limits)
            found[name] = Environment(
                name, title, mdp, mdp.cost_names, limits, np.full(mdp.num_costs, -np.inf), plan(mdp)
            )
        return found


def study(directory: Path) -> Study:
    """A map, a map with a box and a model of two costs without a map; with names that are not kind."""
    models = {
        EVIL: (f"Rover {EVIL}", mars_rover(rock_reward=1.0)),
        "box": ("Box", box()),
        "cluster": ("Cluster", make("cluster")),
    }
    titles = {"conrl": "ConRL", IMAGE: IMAGE}
    lengths = {"conrl": 60, IMAGE: 75}
    runs = [record(n, a, seed, mdp, K) for n, (_, mdp) in models.items() for a, K in lengths.items() for seed in (0, 1)]
    failures = [Failure(EVIL, "conrl", 7, f"Traceback: {EVIL}")]
    found = Made(directory, "made", f"A study {IMAGE}", runs, failures, list(titles), titles, [f"where: {EVIL}"])
    object.__setattr__(found, "models", models)
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(study(tmp_path_factory.mktemp("study")))


@pytest.fixture(scope="module")
def data(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


# -- the file ---------------------------------------------------------------------------------------------


def test_names_are_escaped(page: Path, data: dict[str, Any]) -> None:
    text = page.read_text()
    assert EVIL not in text
    assert "<img" not in re.sub(r'<script type="text/plain" id="plotly">.*?</script>', "", text, flags=re.DOTALL)
    assert data["title"] == f"A study {IMAGE}"
    assert data["environments"][0]["name"] == EVIL
    assert data["failures"][0]["text"] == f"Traceback: {EVIL}"


def test_numbers_are_rounded_once_and_as_on_the_command_line(tmp_path: Path) -> None:
    made = study(tmp_path)
    told, known = contents(made), made.rows()
    tables = [row for env in told["environments"] for row in env["table"]]
    assert [row["reward"] for row in tables] == pytest.approx([row["reward"] for row in known], rel=1e-11, abs=0.0)
    together = [row for scope in told["comparison"]["scopes"] for row in scope["aggregates"]]
    assert sorted(row["iqm"] for row in together) == pytest.approx(
        sorted(row.iqm for row in made.aggregates()), rel=1e-11, abs=0.0
    )
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    rng = np.random.default_rng(0)
    ties = [0.125, 0.375, 0.0125, 1.125, 2.625, 12.5, 0.5, 0.25, 0.98849886, 0.02649999, 0.0265, 0.0951, 0.0949, 0.0096]
    numbers = [*ties, *rng.uniform(0.0, 1.0, 300).tolist(), *(rng.integers(0, 400, 300) / 400).tolist()]
    functions = "\n".join(
        re.search(rf"^function {name}\(.*?^}}", asset("frame.js"), flags=re.MULTILINE | re.DOTALL).group()  # type: ignore[union-attr]
        for name in ("fixed", "show", "percent")
    )
    script = f"{functions}\nconst all = {json.dumps(numbers)};\n"
    script += "console.log(JSON.stringify(all.map((x) => [show(x, 3), show(-x), percent(x)])));"
    (tmp_path / "numbers.js").write_text(script)
    done = subprocess.run([node, tmp_path / "numbers.js"], capture_output=True, text=True, check=True)
    for x, (three, minus, share) in zip(numbers, json.loads(done.stdout), strict=True):
        assert float(three) == float(f"{x:.3g}")
        assert float(minus) == float(f"{-x:.4g}")
        assert share == percent(x)


def test_nothing_is_fetched(page: Path) -> None:
    found: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.append((tag, dict(attrs)))  # type: ignore[method-assign]
    parser.feed(page.read_text())
    assert {tag for tag, _ in found}.isdisjoint({"link", "img", "iframe", "object", "embed", "base"})
    for tag, attributes in found:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    policy = next(a["content"] for _, a in found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'; script-src 'sha256-" in policy
    style = re.search(r"<style>(.*?)</style>", page.read_text(), re.DOTALL)
    assert style is not None
    assert not re.search(r"@import|url\(", style[1])


def test_marks_of_the_template_in_names_stay() -> None:
    assert b"{{data}} {{no}}" in render({"title": "{{data}} {{no}}"})


def test_a_directory_is_reported_beside_its_runs(tmp_path: Path) -> None:
    from conrl.experiments import parse_spec
    from conrl.experiments.execution import execute
    from conrl.experiments.runner import write_study

    spec = parse_spec('name = "two"\nepisodes = 3\nseeds = 1\n[environment.bidding]\n[algorithm.conrl]')
    write_study(spec, tmp_path)
    for job in spec.jobs:
        assert execute(job, tmp_path, lambda kind, episodes, text: None, spec.worlds)
    assert write_report(tmp_path) == tmp_path / "report.html"
    assert write_report(load(tmp_path), tmp_path / "other.html").read_bytes() == (tmp_path / "report.html").read_bytes()


# -- the explorer -----------------------------------------------------------------------------------------


def test_every_environment_has_the_explorer_at_its_limits(data: dict[str, Any]) -> None:
    for env in data["environments"]:
        lines = env["explorer"]["lines"]
        assert [line["name"] for line in lines] == [cost["name"] for cost in env["costs"]]
        assert [line["opening"] for line in lines] == [cost["limit"] for cost in env["costs"]]


def test_what_cannot_be_explored_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = make("bidding")
    env = Environment("e", "e", mdp, mdp.cost_names, np.array([4.0]), NO_FLOOR, plan(mdp))
    assert "note" not in explorer(env)
    unknown = Environment("e", "e", None, mdp.cost_names, np.array([4.0]), NO_FLOOR, None)
    assert "not known" in explorer(unknown)["note"]
    never = Environment("e", "e", mdp, mdp.cost_names, np.array([-1.0]), NO_FLOOR, None)
    assert "cannot be kept" in explorer(never)["note"]
    monkeypatch.setattr(subject, "MOST_WORK", 10)
    assert "too large" in explorer(env)["note"]


def test_large_models_stay_small_in_the_page() -> None:
    mdp = make("random", states=1500, horizon=60, costs=1)
    env = Environment("e", "e", mdp, mdp.cost_names, np.asarray(mdp.limits), NO_FLOOR, plan(mdp))
    found = explorer(env)
    assert len(json.dumps(found, separators=(",", ":"))) < 2e6
    assert len(found["rewards"]) >= 12


# -- in a browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Any, page: Path) -> Iterator[Any]:
    """The page, open."""
    with watched(browser, page) as opened:
        yield opened


def explorer_of(tab: Any, i: int) -> Any:
    tab.locator(f"#env-{i} h3", has_text="Budget explorer").scroll_into_view_if_needed()
    tab.evaluate(f"document.getElementById('env-{i}').scrollIntoView({{block: 'end'}})")
    found = tab.locator(f"#env-{i} .explorer")
    found.wait_for()
    return found


def test_names_are_shown_as_they_are(tab: Any) -> None:
    assert tab.title() == f"A study {IMAGE}"
    assert tab.locator("h1").text_content() == f"A study {IMAGE}"
    assert tab.locator("#env-0 h2").text_content() == f"Rover {EVIL}"
    assert EVIL in tab.locator(".failures pre").text_content()
    assert tab.locator("img").count() == 0
    tab.locator("#env-0 .plot").scroll_into_view_if_needed()
    tab.locator("#env-0 .js-plotly-plot").wait_for()
    box = tab.locator("#env-0 .plot .nsewdrag").first.bounding_box()
    for shift in (0, 20):
        tab.mouse.move(box["x"] + box["width"] / 2 + shift, box["y"] + box["height"] / 2)
    tab.locator("#env-0 .hoverlayer .legendtext").first.wait_for()
    assert "onerror=alert(2)>&amp;" in "".join(tab.locator("#env-0 .hoverlayer .legendtext").all_text_contents())


def test_each_policy_has_a_table_of_its_own(tab: Any, page: Path) -> None:
    """With the numbers of the study's table, where exact values are known."""
    match = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert match is not None
    for i, env in enumerate(json.loads(match[1])["environments"]):
        known = any(row["last_iterate_reward"] is not None for row in env["table"])
        table = tab.locator(f"#env-{i} [aria-label^='Each policy by itself'] table")
        assert table.count() == known
        if known:
            heads = table.locator("thead th").all_text_contents()
            first = dict(zip(heads, table.locator("tbody tr").first.locator("th, td").all(), strict=True))
            row = env["table"][0]
            for head, key in {"Last iterate: reward": "last_iterate_reward", "Strong regret": "strong_regret"}.items():
                text = first[head].evaluate("cell => cell.firstChild.textContent")  # without what is below
                assert float(text.replace(",", "")) == pytest.approx(row[key], rel=1e-3)
            share = first["Violating episodes"].text_content()
            assert float(share.rstrip("%")) == pytest.approx(100 * row["violating"], abs=0.5)


def test_results_say_their_episodes_and_add_up(tab: Any, data: dict[str, Any]) -> None:
    """Runs of different lengths: sums over the episodes that all have, and how many of the last ones explored."""
    for i, env in enumerate(data["environments"]):
        section, row = tab.locator(f"#env-{i}"), env["table"][0]
        assert section.locator(f"h3:text-is('Results over {env['over']}')").count() == 1
        table = section.locator("[aria-label^='Results'] table")
        heads = table.locator("thead th").all_text_contents()
        first = dict(zip(heads, table.locator("tbody tr").first.locator("th, td").all(), strict=True))
        assert env["over"] == "the first 60 episodes, which all runs have (the longest: 75)"
        assert first["Episodes"].text_content() == "602 of last 6 explore"  # 56 and 60
        if row["cumulative_regret"] is not None:
            text = first["Regret"].evaluate("cell => cell.firstChild.textContent")
            assert float(text.replace(",", "")) == pytest.approx(row["cumulative_regret"], rel=1e-3)
        if row["limit"] is not None:
            text = first["Total cost"].locator("small").text_content()
            assert float(text.removesuffix(" over").replace(",", "")) == pytest.approx(
                row["cumulative_violation"], rel=1e-3
            )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_two_of_thirty_algorithms_are_drawn_alike(scheme: str, browser: Any, tmp_path: Path) -> None:
    mdp, names = box(), [f"algorithm-{i:02d}" for i in range(30)]
    runs = [record("box", name, 0, mdp, 12) for name in names]
    found = Made(tmp_path, "made", "made", runs, [], names, dict(zip(names, names, strict=True)))
    object.__setattr__(found, "models", {"box": ("Box", mdp)})
    with watched(browser, write_report(found), 1200, scheme) as tab:
        for place, per_algorithm in (("#env-0 .plot", 4), ("#comparison .plot", 1)):
            tab.locator(place).first.scroll_into_view_if_needed()
            tab.locator(place.replace(".plot", ".js-plotly-plot")).first.wait_for()
            lines = tab.evaluate(
                f"document.querySelector('{place}').data.filter(line => /^algorithm/.test(line.name || ''))"
                ".map(line => [line.name, line.line.color, line.line.dash].join())"
            )
            assert len(lines) == 30 * per_algorithm
            assert len(set(lines)) == len({line.split(",", 1)[1] for line in lines}) == 30
        samples = tab.locator("#env-0 fieldset svg line").evaluate_all(
            "all => all.map(line => [line.getAttribute('stroke'), line.getAttribute('stroke-dasharray')].join())"
        )
        assert len(set(samples)) == len(samples) == 30


def test_algorithms_are_compared_in_all_environments_and_in_each(tab: Any, data: dict[str, Any]) -> None:
    """By whatever is chosen; of two seeds there is no interval."""
    section, (whole, *each) = tab.locator("#comparison"), data["comparison"]["scopes"]
    assert [scope["title"] for scope in each] == [env["title"] for env in data["environments"]]
    where, by = section.locator("select").all()

    def means() -> list[str]:
        return list(
            section.locator("[aria-label^='Interquartile means'] tbody tr").first.locator("td").all_text_contents()
        )

    def pairs() -> str:
        return str(section.locator("[aria-label^='Pairs'] tbody").inner_text())

    def wanted(scope: dict[str, Any]) -> float:
        rows = [row for row in scope["aggregates"] if (row["measure"], row["algorithm"]) == ("score", "conrl")]
        return float(rows[0]["iqm"])

    assert means()[0] == str(2 * len(each))
    assert means()[1].endswith("no interval")
    assert float(means()[1].removesuffix("no interval")) == pytest.approx(wanted(whole), rel=1e-2)
    assert IMAGE in pairs()
    where.select_option(index=2)
    assert float(means()[1].removesuffix("no interval")) == pytest.approx(wanted(each[1]), rel=1e-2)
    before = pairs()
    by.select_option(label="distance")
    assert pairs() != before
    assert "Pairs, by distance (lower is better)" in section.inner_text()
    section.locator(".plot").scroll_into_view_if_needed()
    section.locator(".js-plotly-plot").wait_for()
    shares = "document.querySelector('#comparison .plot').data.map(line => line.y)"
    assert tab.evaluate(shares) == [line["share"] for line in each[1]["profiles"]["distance"]["lines"]]


def test_profiles_have_bands_if_there_are_seeds_enough(browser: Any, tmp_path: Path) -> None:
    mdp = mars_rover(rock_reward=1.0)
    runs = [record("rover", name, seed, mdp) for name in ("a", "b") for seed in range(4)]
    found = Made(tmp_path, "made", "made", runs, [], ["a", "b"], {"a": "a", "b": "b"})
    object.__setattr__(found, "models", {"rover": ("Rover", mdp)})
    with watched(browser, write_report(found), 390) as tab:
        section = tab.locator("#comparison")
        assert section.locator("select").first.locator("option").all_text_contents() == ["Rover"]  # it is all of them
        assert "[" in section.locator("[aria-label^='Interquartile means']").inner_text()
        section.locator(".plot").scroll_into_view_if_needed()
        section.locator(".js-plotly-plot").wait_for()
        kinds = "document.querySelector('#comparison .plot').data.map(line => line.fill || '')"
        assert tab.evaluate(kinds) == ["", "tonexty", ""] * 2
        tab.locator("#env-0 .plot").scroll_into_view_if_needed()
        tab.locator("#env-0 .js-plotly-plot").wait_for()
        curves = (
            "document.querySelector('#env-0 .plot').data.filter(line => line.meta === 'a').map(line => line.fill || '')"
        )
        assert tab.evaluate(curves) == ["toself", ""] * 4
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
    with watched(browser, tmp_path / "report.html", 1280) as tab:
        table = tab.locator("[aria-label^='Results']").first
        assert table.evaluate("box => box.scrollWidth - box.clientWidth") <= 0


def test_floors_are_drawn_and_what_is_below_one_is_flagged(browser: Any, tmp_path: Path) -> None:
    """Of two costs one has a floor and a limit, the other a floor alone, which is not kept."""
    problem = {"kind": "Linear", "limits": [0.75, None], "floors": [0.1, 0.5]}
    for seed in range(3):
        place = ("elsewhere", "conrl", seed)
        costs: dict[str, Any] = {name: np.full(60, mean + 0.01 * seed) for name, mean in (("a", 0.5), ("b", 0.25))}
        write_run(tmp_path, np.ones(60), costs, place=place, problem=problem)
    with watched(browser, write_report(tmp_path), 1000) as tab:
        table = tab.locator("#env-0 [aria-label^='Results'] table").inner_text()
        assert table.count("below floor") == 1
        assert "above limit" not in table
        assert "0.1 to 0.75" in table
        assert "at least 0.5" in table
        tab.locator("#env-0 .plot").scroll_into_view_if_needed()
        tab.locator("#env-0 .js-plotly-plot").wait_for()
        told = "document.querySelector('#env-0 .plot').layout.annotations.map(note => note.text).join(' ')"
        words = tab.evaluate(told)
        assert [words.count(text) for text in ("limit 0.75", "floor 0.1", "floor 0.5", "floor ×")] == [1, 1, 1, 2]


def test_the_limit_moves_numbers_and_policy(tab: Any) -> None:
    explorer = explorer_of(tab, 0)
    slider, dial, drawing = (explorer.locator(at) for at in (".limit-slider", ".dial", "svg.map[role=img]"))
    texts, pictures = set(), set()
    for position in ("0", "120", "700", "1000"):
        slider.fill(position)
        texts.add(dial.inner_text())
        pictures.add(drawing.inner_html())
    assert len(texts) == len(pictures) == 4
    assert "No limit" in dial.inner_text()
    explorer.get_by_role("button", name="Back to the start").click()
    best = plan(mars_rover(rock_reward=1.0))
    assert f"{best.reward:.5g}" in explorer.locator(".summary").inner_text()
    assert f"{best.prices[0]:.4g}".rstrip("0") in dial.inner_text()


PAUSE_AT = """step => new Promise(done => {
  const stepper = document.querySelector("#env-0 .step-slider");
  const button = [...document.querySelectorAll("#env-0 button")].find(b => b.textContent.includes("Pause"));
  const timer = setInterval(() => {
    if (Number(stepper.value) < step) return;
    clearInterval(timer);
    button.click();
    done(stepper.value);
  }, 10);
})"""


def test_sliders_work_by_keyboard_and_steps_play(tab: Any) -> None:
    explorer = explorer_of(tab, 0)
    slider, stepper = explorer.locator(".limit-slider"), explorer.locator(".step-slider")
    before = slider.get_attribute("aria-valuetext")
    slider.focus()
    tab.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != before
    stepper.focus()
    tab.keyboard.press("ArrowRight")
    assert "Step 1 of" in explorer.inner_text()
    assert not explorer.get_by_label("Whole episode").is_checked()
    explorer.get_by_role("button", name="Play").press("Enter")
    shown = int(tab.evaluate(PAUSE_AT, 3))  # by the page itself: it would play on while somebody slow finds the button
    assert 3 <= shown < mars_rover(rock_reward=1.0).horizon - 1
    assert explorer.get_by_role("button", name="Play").get_attribute("aria-pressed") == "false"
    tab.wait_for_timeout(1000)  # two steps
    assert stepper.input_value() == str(shown)


def test_other_costs_and_models_without_a_map(tab: Any) -> None:
    explorer = explorer_of(tab, 2)
    assert explorer.locator("svg.map").count() == 0
    assert explorer.locator("table", has_text="Expected visits").locator("tbody tr").count() == 20
    assert explorer.locator(".dial h4").all_text_contents() == ["energy", "latency"]
    explorer.get_by_label("Limit", exact=True).select_option(label="limit on latency")
    assert "limit on latency" in explorer.locator(".curve").get_attribute("aria-label")


def test_algorithms_are_chosen_and_axes_changed(tab: Any) -> None:
    shown = "document.querySelector('#env-0 .plot').data.filter(t => t.meta === 'conrl' && t.visible).length"
    tab.locator("#env-0 .plot").scroll_into_view_if_needed()
    tab.locator("#env-0 .js-plotly-plot").wait_for()
    lines = tab.locator("#env-0 .plot .scatterlayer .trace")
    buttons = [b.get_attribute("aria-label") for b in tab.locator("#env-0 .modebar-btn").all()]
    assert buttons == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
    count, every = tab.evaluate(shown), lines.count()
    assert count == 4  # four rows, a line each; two seeds have no band
    box = tab.locator("#env-0").get_by_label("ConRL", exact=True)
    box.focus()
    tab.keyboard.press("Space")
    until(tab, f"{shown} === 0")
    assert lines.count() == every - count
    box.check()
    until(tab, f"{shown} === {count}")
    tab.locator("#env-0").get_by_label("Logarithmic").check()
    until(tab, "document.querySelector('#env-0 .plot')._fullLayout.xaxis.type === 'log'")
    tab.locator("#env-0").get_by_label("From episode").fill("10")
    tab.keyboard.press("Enter")
    until(tab, "document.querySelector('#env-0 .plot')._fullLayout.xaxis.range[0] === 1")


def test_narrow_screens_do_not_scroll_sideways(browser: Any, page: Path) -> None:
    with watched(browser, page, 390) as tab:
        for i in range(3):
            explorer_of(tab, i)
            tab.locator(f"#env-{i} .plot").scroll_into_view_if_needed()
            tab.locator(f"#env-{i} .js-plotly-plot").wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        assert split_words(tab) == []


def test_contents_of_nothing_but_failures(tmp_path: Path) -> None:
    found = Study(tmp_path, "n", "n", [], [Failure("e", "a", 0, "boom")], [], {})
    assert contents(found)["environments"] == contents(found)["comparison"]["scopes"] == []
    write_report(found)
