"""A pump that acts from a policy file in another program, watched every night until its world changes.

A tank takes the rain of a few streets; what it cannot hold runs into the cellars. `pump/pump.csv` is what its builders
know, `pump/station.py` is the station: a program that does not know conrl. It reads the policy from JSON and writes a
log. From day 200 on, more houses send their rain here, and nobody says so.

1. What does the plan promise, and is it kept?
2. When does the monitor notice the change?
3. What can be promised after some weeks of careful operation by hand, and is that kept?

Run: python examples/pump_watch.py [picture.png]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from conrl.drawing import save_figure

STATION = Path(__file__).parent / "pump" / "station.py"
CHANGE, BY_HAND, AFTER, MOST = 200, 90, 200, 400  # days: before the change, by hand, watched again, until an alarm
LIMIT = {"overflow": 0.2}
DRY, WET = (0.7, 0.25, 0.05), (0.6, 0.3, 0.1)  # the probabilities of 0, 1, 2 of rain in an hour


def station(policy: str, first: int, last: int, folder: Path) -> conrl.Log:
    """The log of the station for these days."""
    command = [sys.executable, str(STATION), policy, str(first), str(last)]
    with (folder / "log.csv").open("w") as file:
        subprocess.run(command, stdout=file, cwd=folder, check=True)
    return conrl.load_episodes(folder / "log.csv")


def nightly(file: conrl.PolicyFile, log: conrl.Log) -> list[conrl.Monitoring]:
    """What the monitor says after each day, up to its first alarm."""
    found = []
    for days in range(1, len(log.episodes) + 1):
        until = conrl.Log(log.episodes[:days], log.cost_names, log.state_names, log.action_names)
        found.append(conrl.monitor(file, until))
        if found[-1].alarm:
            break
    return found


def wetter(folder: Path) -> conrl.ConstrainedMDP:
    """The pump in the rain of more houses: what nobody knows."""
    text = STATION.with_name("pump.csv").read_text(encoding="utf-8")
    for before, after in zip(DRY, WET, strict=True):
        text = text.replace(f",{before:g},", f",{after:g},")
    (folder / "wet.csv").write_text(text, encoding="utf-8")
    return conrl.load_model(folder / "wet.csv", horizon=24, initial="empty")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        watch(Path(temporary))


def watch(folder: Path) -> None:
    dry, wet = conrl.load_model(STATION.with_name("pump.csv"), horizon=24, initial="empty"), wetter(folder)
    plan = conrl.plan(dry, LIMIT)
    plan.save(folder / "policy.json")
    print(f"promised: {-plan.reward:.2f} hours of pumping and {plan.costs[0]:.2f} of overflow a day")
    first = station("policy.json", 0, MOST, folder)
    watched = nightly(conrl.PolicyFile.load(folder / "policy.json"), first)
    alarm = len(watched)
    print(f"day {CHANGE}, before the change: {described(watched[CHANGE - 1])}")
    print(f"day {alarm}: {described(watched[-1])}")
    late = conrl.monitor(plan, first).totals[1].over_since
    print(f"alarm {alarm - CHANGE} days after the change; had nobody acted, the limit was refuted on day {late}")
    hand = station("careful", alarm, alarm + BY_HAND, folder)
    told = conrl.assess(plan, hand, LIMIT)
    print(f"the old policy by {BY_HAND} days by hand: the limit is kept with probability {told.probability:.3f}")
    print(f"in truth it has {conrl.evaluate(wet, plan.policy).costs[0]:.3f} of overflow a day")
    model = conrl.estimate(hand)
    new = conrl.plan(model, LIMIT, confidence=0.9)
    new.save(folder / "new.json")
    print(f"promised now: {-new.reward:.2f} hours of pumping and {new.costs[0]:.3f} of overflow a day")
    value, best = conrl.evaluate(wet, new.policy), conrl.plan(wet, LIMIT)
    print(f"in truth: {-value.reward:.2f} hours and {value.costs[0]:.3f}; the optimum is {-best.reward:.2f}")
    second = station("new.json", alarm + BY_HAND, alarm + BY_HAND + AFTER, folder)
    again = nightly(conrl.PolicyFile.load(folder / "new.json"), second)
    print(f"day {alarm + BY_HAND + len(again)}: {described(again[-1])}")
    if len(sys.argv) > 1:
        days = [*first.episodes[:alarm], *hand.episodes, *second.episodes]
        draw(watched, again, np.array([day.total for day in days]), sys.argv[1])
        print(f"wrote {sys.argv[1]}")


def described(found: conrl.Monitoring) -> str:
    """Both totals of a monitoring: means and verdicts."""
    return "; ".join(f"{total.name} {total.mean:.3f} {total.verdict}" for total in found.totals)


def draw(watched: list[conrl.Monitoring], again: list[conrl.Monitoring], totals: Any, path: str) -> None:
    """Above: the evidence against the promise, night by night. Below: what overflows, as means of 30 days."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 6.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    alarm, start = len(watched), len(watched) + BY_HAND
    bar = len(watched[0].totals) / watched[0].alpha  # odds at which a total raises the alarm
    for first, found in ((0, watched), (start, again)):
        nights = first + 1 + np.arange(len(found))
        for i, (color, label) in enumerate((("#D55E00", "hours of pumping"), ("#0072B2", "overflow"))):
            odds = [night.totals[i].odds for night in found]
            above.plot(nights, odds, color=color, lw=2, label=label if first == 0 else None)
    above.axhline(bar, color="black", ls="--", lw=1)
    above.text(4, bar * 1.1, "alarm", va="bottom", fontsize=10)
    above.set(yscale="log", ylim=(0.9, 100.0), ylabel="evidence: 1 in ...")
    above.set_yticks([1, 3, 10, 30], ["1", "3", "10", "30"])
    above.minorticks_off()
    above.set_title("evidence against the promise, each night", fontsize=11)
    above.legend(frameon=False, fontsize=10, loc="upper left", bbox_to_anchor=(0.0, 0.82))
    for axes in (above, below):
        axes.axvspan(alarm, start, color="#eeeeee", lw=0)
        axes.axvline(CHANGE, color="gray", ls=":", lw=1.5)
        axes.spines[["top", "right"]].set_visible(False)
    means = np.convolve(totals[:, 1], np.full(30, 1.0 / 30.0), mode="valid")
    below.plot(np.arange(30, len(totals) + 1), means, color="#0072B2", lw=2)
    below.axhline(LIMIT["overflow"], color="black", ls="--", lw=1)
    below.text(len(totals) - 4, LIMIT["overflow"] * 1.04, "limit", ha="right", va="bottom", fontsize=10)
    top = 1.15 * means.max()
    below.set(ylim=(0.0, top), xlim=(0.0, len(totals)), xlabel="day", ylabel="overflow a day, means of 30")
    for x, text, side in (
        (CHANGE - 3, "more\nhouses", "right"),
        ((alarm + start) / 2, "by hand", "center"),
        (start + 100, "new plan", "center"),
    ):
        below.text(x, top, text, ha=side, va="top", fontsize=10)
    save_figure(figure, path)


if __name__ == "__main__":
    main()
