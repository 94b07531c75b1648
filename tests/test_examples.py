"""Every script in examples/ runs as it stands, says nothing on stderr, and prints the numbers it is about."""

from __future__ import annotations

import functools
import json
import random
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from launch import launch, launched, wait_until

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@functools.cache
def run(name: str) -> str:
    done = launch([sys.executable, "-W", "error", str(EXAMPLES / name)])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def numbers(text: str, start: str) -> list[float]:
    """The numbers in the line that starts so."""
    line = next(line for line in text.splitlines() if line.strip().startswith(start))
    return [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e[+-]\d+)?", line.strip().removeprefix(start))]


def test_there_are_examples() -> None:
    assert {p.name for p in SCRIPTS} >= {"discretized.py", "fair_allocation.py", "imitation.py", "live_loop.py"}


@pytest.mark.parametrize("name", [p.name for p in SCRIPTS])
def test_runs(name: str) -> None:
    assert run(name).strip()


def test_fair_allocation() -> None:
    text = run("fair_allocation.py")
    assert numbers(text, "as many as possible")[:4] == [240.0, 240.0, 0.0, 0.0]  # 24 hours of 10
    for level in (5.0, 10.0, 20.0):
        total, *served, forgone, gap = numbers(text, f"at least {level:g} everywhere")
        assert min(served) == pytest.approx(level, abs=0.01)
        assert sum(served) == pytest.approx(total, abs=0.05)
        assert forgone == pytest.approx(100.0 * (1.0 - total / 240.0), abs=0.1)
        assert 0.0 <= gap <= 1e-4
    totals = [numbers(text, f"at least {level} everywhere")[0] for level in (5, 10, 20)]
    assert 240.0 > totals[0] > totals[1] > totals[2]
    assert totals == pytest.approx([214.96, 189.92, 139.82], abs=0.02)
    assert numbers(text, "the least served first")[1:4] == pytest.approx([29.95] * 3, abs=0.01)
    assert numbers(text, "sum of log(1 + served)")[1:4] == pytest.approx([81.67, 47.73, 14.57], abs=0.05)
    assert numbers(text, "One more person for each of the least served costs") == pytest.approx([5.015], abs=0.01)
    assert "infeasible: constraint 1 cannot be met" in text
    shares = [float(x) for x in re.findall(r"^ +([\d.]+) %: centre", text, re.MULTILINE)]
    assert sum(shares) == pytest.approx(100.0, abs=0.3)
    assert len(shares) <= 4


def test_imitation() -> None:
    text = run("imitation.py")
    expert = numbers(text, "expert, as seen")
    assert sum(expert[1:]) == pytest.approx(20.0, abs=0.05)  # visits of 20 steps
    assert expert[3] == 0.0  # never through the yard
    rewards = [expert[0]]
    for radius in (1.0, 2.0, 4.0, 8.0, 12.0, 16.0):
        reward, *visits, away, price, gap = numbers(text, f"within {radius:g} of it")
        assert sum(visits) == pytest.approx(20.0, abs=0.05)
        assert away <= radius + 1e-3
        assert price >= 0.0
        assert 0.0 <= gap <= 1e-4
        rewards.append(reward)
    assert rewards == sorted(rewards)
    assert rewards[1] == pytest.approx(8.353, abs=0.02)
    free = numbers(text, "without the expert")
    assert rewards[-1] == pytest.approx(free[0], abs=2e-3)
    assert free[0] == pytest.approx(18.125, abs=2e-3)


def live(folder: Path, days: int = 30, stock: int = 100) -> list[str]:
    options = ["--days", str(days), "--stock", str(stock), "--folder", str(folder)]
    return [sys.executable, "-W", "error", str(EXAMPLES / "live_loop.py"), *options]


def test_live_loop_sells_no_more_than_it_has() -> None:
    text = run("live_loop.py")
    days, sold, stock, revenue = numbers(text, "")[:4]
    assert (days, stock) == (120.0, 480.0)
    assert 400.0 < sold <= stock
    assert 0.5 * numbers(text, "a seller who knows the demand earns")[0] < revenue


def test_live_loop_loses_nothing_when_it_is_killed(tmp_path: Path) -> None:
    whole = launch(live(tmp_path / "whole"))
    assert (whole.returncode, whole.stderr) == (0, "")
    moments = random.Random(5)
    journal = tmp_path / "killed" / "journal.jsonl"
    for _ in range(5):
        size = journal.stat().st_size if journal.exists() else 0
        with launched(live(tmp_path / "killed"), stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: journal.exists() and journal.stat().st_size > size, process)  # noqa: B023
            time.sleep(moments.uniform(0.0, 0.3))
            process.kill()
    last = launch(live(tmp_path / "killed"))
    assert (last.returncode, last.stderr) == (0, "")
    assert "resuming after" in last.stdout
    for name in ("journal.jsonl", "shop.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_live_loop_draws_the_same_after_a_kill_in_mid_day(tmp_path: Path) -> None:
    """Its policies are lotteries at some hours. A kill just before one of them is a journal that ends there."""
    whole = tmp_path / "whole"
    whole.mkdir()
    assert launch(live(whole, 40, 160)).returncode == 0
    lines, books = ((whole / name).read_bytes().splitlines(keepends=True) for name in ("journal.jsonl", "shop.jsonl"))
    entries = [json.loads(line) for line in lines]
    cuts = lotteries(entries)
    assert len(cuts) > 1
    for number, cut in enumerate(cuts):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(b"".join(lines[:cut]))
        answered = sum("hour" in entry for entry in entries[:cut])
        (folder / "shop.jsonl").write_bytes(b"".join(books[:answered]))
        again = launch(live(folder, 40, 160))
        assert "resuming after" in again.stdout
        for name in ("journal.jsonl", "shop.jsonl"):
            assert (folder / name).read_bytes() == (whole / name).read_bytes()


def lotteries(entries: list[dict[str, Any]]) -> list[int]:
    """Where in the journal an hour begins whose price was drawn at random."""
    loop: Any = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "live_loop.py")))
    learner: Any = loop.new_learner(40, 160.0)
    day: list[dict[str, Any]] = []
    found: list[int] = []
    for i, entry in enumerate(entries):
        if entry["day"] < 0:
            continue
        if "sold" in entry:
            row = learner.propose()._row(entry["hour"], day[-1]["state"])
            found += [i] if (row > 0.0).sum() > 1 and entry["hour"] > 0 else []
        day.append(entry)
        if "end" in entry:
            learner.observe(loop.episode_of(day))
            day = []
    return found


def test_discretized() -> None:
    """CartPole is learned; what MountainCar's plan promises within its limit is not all delivered, as the page says."""
    text = run("discretized.py")
    _, _, reward, cost, _ = numbers(text, "CartPole-v1    off center <= 20")
    assert reward > 400.0
    assert cost < 30.0
    promised, pushes, delivered, pushed, _ = numbers(text, "MountainCar-v0 pushes <= 80")
    assert pushes <= 80.0 + 1e-6
    assert -200.0 < delivered < promised
    assert 80.0 < pushed < 120.0
    assert numbers(text, "Acrobot-v1     no limit")[2] > -500.0


def test_pricing_stock() -> None:
    text = run("pricing_stock.py")
    assert numbers(text, "With 4 units a day: revenue")[:2] == [290.7, 4.0]
    assert numbers(text, "One more unit is worth") == [53.0]
    assert numbers(text, "The best lottery of two fixed prices:") == [279.0, 96.0]
    assert numbers(text, "stock 2: revenue") == [168.1, 73.0]


def test_ad_pacing_never_exceeds_its_budget() -> None:
    text = run("ad_pacing.py")
    assert numbers(text, "Knowing everything:") == [525.0, 600.0]
    clicks, _, dearest = numbers(text.replace(" (three runs)", ""), "Learning:")
    assert dearest <= 600.0
    assert clicks > 1.5 * numbers(text, "Bidding high until the money is gone:")[0]


def test_rover_compared() -> None:
    text = run("rover_compared.py")
    found = {name: numbers(text, name) for name in ("ConRL  ", "OptCMDP", "RCPO", "UCBVI, which ignores the limit")}
    assert found["ConRL  "][0] == pytest.approx(1.536, abs=0.05)
    assert found["ConRL  "][1] <= 0.35
    assert found["UCBVI, which ignores the limit"][1] > 1.5
    assert found["ConRL  "][2] < found["RCPO"][2]


def test_fleet_repairs() -> None:
    text = run("fleet_repairs.py")
    assert numbers(text, "500 machines: reward")[0] == 265138.0
    assert numbers(text, "One more of money is worth") == [1.73, 30.0]
    mixing, units = numbers(text, "Machines that toss a coin:")
    assert mixing <= 27.0  # as many as there are limits
    assert units == 500.0
    share, most = numbers(text, "200 runs with the guard:")
    assert share > 98.0
    assert most <= 12000.0
    assert 30.0 < numbers(text, "200 runs without it: money exceeded in")[0] < 60.0
    assert numbers(text, "The same money for every type:") == [95.0]


def test_ward_log() -> None:
    """Plans with confidence keep the limit where plain ones do not; small logs support none."""
    text = run("ward_log.py")
    plain, sure = (
        re.findall(r"(\d+) of (\d+)", next(x for x in text.splitlines() if x.startswith(f"{what}: plans within")))
        for what in ("no caution", "confidence 0.95")
    )
    assert [int(n) for _, n in plain] == [6] * 6
    assert sum(int(k) for k, _ in plain) <= 12
    assert sum(int(n) for _, n in sure[-3:]) == 18
    assert sum(int(k) for k, _ in sure) >= 0.9 * sum(int(n) for _, n in sure)
    promised, reward, kept, earned = numbers(text, "confidence 0.95: promises")
    assert promised < 0.2
    assert earned < numbers(text, "Log(episodes=2000")[-1]
    assert kept < 0.2
    assert reward > 10.0


def test_drone_reserve() -> None:
    """The story's table, and that its model is the one of the example."""
    page = (EXAMPLES.parent / "docs" / "stories" / "drone.md").read_text(encoding="utf-8")
    assert f"```csv drone.csv\n{(EXAMPLES / 'drone.csv').read_text(encoding='utf-8')}```" in page
    text = run("drone_reserve.py")
    names = ("expected:", "chance:", "chance and never:", "CVaR:", "never:")
    found = [numbers(text, name) for name in names]
    told = [
        [float(x) for x in re.findall(r"\d+\.?\d*", " ".join(row))]
        for row in re.findall(r"^\|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", page, re.MULTILINE)
        if row[0].strip() not in ("reward", "---")
    ]
    assert told == [[reward, *tail] for reward, _, *tail in found]
    assert found[0][2:4] == [39.32, 9.62]
    assert max(row[-1] for row in found[2:]) == 100.0
    assert numbers(text, "mean of the worst 5%:")[:2] == [114.9, 80.0]
    assert numbers(text, "an expected limit as safe as the chance:") == [48.5, 56.92, 1.0]
    assert numbers(text, "risk 1%: reward") == [70.39, 3.88]
    assert numbers(text, "risk 5%: reward") == [79.09, 0.72]
    assert numbers(text, "10,000 flights of chance and never:") == [89.0, 100.0]


def test_pump_watch() -> None:
    """The story's numbers; its model and its station are those of the example."""
    page = (EXAMPLES.parent / "docs" / "stories" / "pump.md").read_text(encoding="utf-8")
    for language, name in (("csv", "pump.csv"), ("python", "station.py")):
        assert f"```{language} {name}\n{(EXAMPLES / 'pump' / name).read_text(encoding='utf-8')}```" in page
    text = run("pump_watch.py")
    assert numbers(text, "promised:") == [5.98, 0.2]
    assert "day 200, before the change: reward -6.140 as promised; overflow 0.200 as promised\n" in text
    assert "day 248: reward -6.641 lower than promised (since episode 248); overflow 0.262 as promised\n" in text
    assert numbers(text, "alarm ") == [48.0, 311.0]
    assert numbers(text, "the old policy by 90 days by hand:") == [0.035]
    assert numbers(text, "in truth it has") == [0.536]
    assert numbers(text, "promised now:") == [10.0, 0.082]
    assert numbers(text, "in truth:") == [9.97, 0.139, 9.7]
    assert "day 538: reward -10.095 as promised; overflow 0.125 as promised\n" in text
