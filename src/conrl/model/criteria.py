"""What is added up where there is no horizon: `Discounted`, `Average` and `Total`, in the place of a number of steps.

With pay_t the reward and the costs of step t, a policy's value vector is

    Discounted(g)   E sum_t g^t pay_t
    Average()       lim 1/T E sum_{t<T} pay_t, the pay of a step in the long run
    Total()         E sum_t pay_t, until the process stays where nothing is paid

Limits are in the same units. With a discount of g, the value is also that of an episode that ends after each step with
probability 1 - g. (Puterman 1994, Chapters 6 to 9; Altman 1999, Chapters 3, 4 and 8.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conrl.arguments import is_number, setter
from conrl.errors import ModelError, shown
from conrl.wording import worded

LARGEST_DISCOUNT = 1.0 - 1e-9  # a billion steps count


@dataclass(frozen=True)
class Discounted:
    """The pay of step t (from 0) counts `discount` ** t."""

    discount: float

    def __post_init__(self) -> None:
        if not is_number(self.discount) or not 0.0 <= self.discount <= LARGEST_DISCOUNT:
            raise ModelError(
                f"discount is {shown(self.discount)}; it must be a number of at least 0 and at most "
                f"{LARGEST_DISCOUNT}; for no discount, Average() or Total()",
                key=("discount",),
            )
        setter(self)("discount", float(self.discount))

    def __str__(self) -> str:
        return f"discount {self.discount:.10g}"


@dataclass(frozen=True)
class Average:
    """The mean pay of a step in the long run."""

    def __str__(self) -> str:
        return "average of a step"


@dataclass(frozen=True)
class Total:
    """Everything that is paid until the process stays where nothing is paid."""

    def __str__(self) -> str:
        return "total until it ends"


Criterion = Discounted | Average | Total

DISCOUNTED = "discounted"  # goes with a discount
WORDS = (DISCOUNTED, "average", "total")  # for criteria, in files


def word_of(criterion: Criterion) -> str:
    """The word for a criterion, one of `WORDS`."""
    return type(criterion).__name__.lower()


def criterion_of(word: str, discount: Any = None) -> Criterion:
    """The criterion that a word of `WORDS` stands for."""
    if word == DISCOUNTED:
        return Discounted(discount)
    return Average() if word == word_of(Average()) else Total()


def need_steps(horizon: Any, who: str) -> int:
    """The horizon, where it is a number of steps; `who` needs it."""
    if isinstance(horizon, Criterion):
        raise ModelError(
            f"{who} needs a horizon, an episode of so many steps, and the model has {horizon!r}; "
            f"give it one with {worded('mdp.replace(horizon=H)', '--horizon H')}",
            key=("horizon",),
        )
    steps: int = horizon
    return steps
