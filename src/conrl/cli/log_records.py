"""What logs say about policies, as plain values: `conrl assess` and `conrl monitor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conrl.cli.json_records import Record, value_record

if TYPE_CHECKING:  # each command loads its own
    from conrl.estimation.assess import Assessment
    from conrl.estimation.monitor import Monitoring


def assess_record(policy: str, log: str, found: Assessment) -> Record:
    """What a log says about a policy."""
    names, other = found.cost_names, found.importance
    record: Record = {
        "policy": policy,
        "log": log,
        "episodes": found.episodes,
        "message": found.message,
        "level": found.level,
        "models": found.draws.shape[0],
        "mean": value_record(names, found.mean.value),
        "low": value_record(names, found.low.value),
        "high": value_record(names, found.high.value),
        "limits": [row._asdict() for row in found.limits],
        "probability": found.probability,
        "basis": found.basis._asdict(),
        "coverage": [row._asdict() for row in found.coverage],
        "needs": [row._asdict() for row in found.needs],
    }
    if other is not None:
        record["importance"] = {
            "mean": value_record(names, other.mean.value),
            "low": value_record(names, other.low.value),
            "high": value_record(names, other.high.value),
            "effective": other.effective,
            "worthless": other.worthless,
            "message": other.message,
        }
    return record


def monitor_record(policy: str, log: str, found: Monitoring) -> Record:
    """What a log says about the promises of a policy."""
    return {
        "policy": policy,
        "log": log,
        "alarm": found.alarm,
        "verdict": found.verdict,
        "alpha": found.alpha,
        "episodes": found.episodes,
        "skip": found.skip,
        "left_out": found.left_out,
        "stuck": None if found.stuck is None else found.stuck._asdict(),
        "given_up": found.given_up,
        "unfinished": found.unfinished,
        "totals": [{**total._asdict(), "verdict": total.verdict} for total in found.totals],
        "odd": found.odd._asdict(),
        "strange": {**found.strange._asdict(), "told": found.strange.told},
        "outside": [told for _, told in found.outside],
    }
