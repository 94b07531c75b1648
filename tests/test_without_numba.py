"""Compiled kernels run without numba: the same bits, and never code that was made for something else."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
import pytest
from launch import PATIENCE, launch
from test_cache import DAMAGE
from test_kernels import models

import conrl
from conrl import kernels, without_numba
from conrl.kernels import compiling, linking
from conrl.kernels.cache import HealingCache
from conrl.signals import interruptible_command

pytestmark = pytest.mark.skipif(not without_numba.possible(), reason="another system, or other settings of numba")


def many(x: Any, k: Any, given: Any) -> Any:
    """All that a kernel may take and give: numbers, arrays, tuples; a new array, a part of one, an error."""
    a, b = given
    if k > 100:
        raise ValueError("too many")
    made = np.zeros((k, x.size), dtype=np.float32)
    for i in range(k):
        for j in range(x.size):
            made[i, j] = np.exp(a[j]) / x[j] + i
    return made, x[1:], (k * b, x.sum(), k > 1)


def twice(x: Any) -> Any:
    return x + x


def four_times(x: Any) -> Any:
    return doubled(doubled(x))


doubled: Any = None


def eight_times(x: Any) -> Any:
    return times(x, 8)


def product(x: Any, k: Any) -> Any:
    return x * k


times: Any = None


def never() -> Any:
    raise AssertionError("numba is not needed")


TYPEOF: Any = numba.typeof
LITERAL: Any = numba.types.literal
GIVEN = (np.array([1.0, 2.5, 3.0]), 3, (np.arange(3, dtype=np.int32), 0.5))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.linked"))


def compiled(function: Callable[..., Any], *args: Any) -> Any:
    """As numba runs it, which leaves a file."""
    return compiling.compiled(function)(*args)


def kernel(function: Any, make: Callable[[], Any] = never) -> Any:
    return without_numba.Kernel(function, make)


def same(one: Any, two: Any) -> bool:
    if isinstance(one, tuple):
        return isinstance(two, tuple) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.tobytes(), one.flags.writeable) == (two.dtype, two.tobytes(), two.flags.writeable)
    return type(one) is type(two) and bool(one == two)


def test_the_same_bits_come_out(place: Path) -> None:
    expected = compiled(many, *GIVEN)
    assert len(files(place)) == 1
    run = kernel(many)
    for _ in range(3):
        assert same(run(*GIVEN), expected)


def test_what_is_given_is_given_back() -> None:
    compiled(many, *GIVEN)
    run, x = kernel(many), GIVEN[0]
    before = sys.getrefcount(x)
    for _ in range(50):
        made, part, _ = run(*GIVEN)
    assert np.shares_memory(part, x)
    del made, part
    assert sys.getrefcount(x) == before


def test_errors_are_raised() -> None:
    compiled(many, *GIVEN)
    with pytest.raises(ValueError, match=r"^too many$"):
        kernel(many)(GIVEN[0], 101, GIVEN[2])


def test_an_interrupt_waits_for_the_end_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a long kernel is noticed when it asks for the class of the array it returns; an error there is lost."""

    class Interrupted:
        def __contains__(self, data: bytes) -> bool:
            signal.raise_signal(signal.SIGINT)
            return True

    expected = compiled(many, *GIVEN)
    monkeypatch.setitem(without_numba._as_numba.__globals__, "ARRAYS", Interrupted())
    monkeypatch.setattr(without_numba, "ARRAYS", set())
    answers: list[Any] = []

    def run_and_wait() -> None:
        with interruptible_command():
            answers.append(kernel(many)(*GIVEN))
            time.sleep(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        run_and_wait()
    assert same(answers[0], expected)


def test_threads_load_a_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = compiled(many, *GIVEN)
    loaded: list[str] = []
    plain = without_numba.load

    def load(function: Any, kinds: str) -> Any:
        loaded.append(kinds)
        return plain(function, kinds)

    monkeypatch.setattr(without_numba, "load", load)
    run = kernel(many)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: run(*GIVEN), range(64)))
    assert all(same(answer, expected) for answer in answers)
    assert len(loaded) == 1


VALUES: list[Any] = [
    *(np.zeros(3, dtype=kind) for kind in "?bhilBHILfd"),
    np.zeros(()),
    np.zeros((2, 3)),
    np.zeros((2, 3), order="F"),
    np.zeros((2, 6))[:, ::2],
    np.zeros((1, 1), order="F"),
    np.zeros((0, 3)),
    np.broadcast_to(np.zeros(3), (2, 3)),
    3,
    -(2**63),
    2**63 - 1,
    2.0,
    True,
    *(np.dtype(kind).type(1) for kind in "?bhilBHILfd"),
    (),
    (1, 2),
    (1, 2.0, (np.zeros(1), True)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__} {TYPEOF(value)}")
def test_types_are_told_apart_as_numba_does(value: Any) -> None:
    assert without_numba.kinds_of([value]) == linking.kinds_of([TYPEOF(value)])


def test_what_differs_for_numba_has_another_name() -> None:
    types = {TYPEOF(value) for value in VALUES}
    assert len({linking.kinds_of([kind]) for kind in types}) == len(types)


@pytest.mark.parametrize(
    "value",
    [2**63, None, "text", [1], 1j, np.zeros(1, dtype=complex), np.zeros(1, dtype="M8[s]"), np.zeros(1, dtype="U3")],
    ids=repr,
)
def test_of_other_types_nothing_is_known(value: Any) -> None:
    with pytest.raises((KeyError, TypeError)):
        without_numba.kinds_of([value])


def test_other_arrays_are_not_taken_for_usual_ones() -> None:
    usual = without_numba.kinds_of([np.zeros(2)])
    unaligned = np.zeros(17, dtype=np.uint8)[1:].view(np.float64)
    for array in (unaligned, np.zeros(2, dtype=">f8")):
        assert without_numba.kinds_of([array]) != usual


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_not_run_and_written_anew(place: Path, damage: Callable[[bytes], bytes]) -> None:
    compiled(twice, 3)
    (file,) = files(place)
    good = file.read_bytes()
    file.write_bytes(damage(good))
    with pytest.raises((ValueError, KeyError)):
        without_numba.load(twice, "<i8")  # type: ignore[arg-type]
    assert kernel(twice, lambda: compiling.compiled(twice))(3) == 6
    assert file.read_bytes() == good
    assert kernel(twice)(3) == 6
    assert not list(place.rglob("*.tmp*"))


def test_the_file_of_other_types_is_not_run(place: Path) -> None:
    compiled(twice, 3)
    compiled(twice, 1.5)
    one, two = files(place)
    one.write_bytes(two.read_bytes())
    ran = kernel(twice, lambda: compiling.compiled(twice))
    assert (ran(3), ran(1.5)) == (6, 3.0)


@pytest.mark.parametrize("what", ["_surroundings", "_stamp"])
def test_code_from_elsewhere_is_not_run(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    compiled(twice, 3)
    monkeypatch.setattr(without_numba, what, lambda *_: ["another processor, version or source"])
    with pytest.raises(ValueError, match="was made for something else"):
        without_numba.load(twice, "<i8")  # type: ignore[arg-type]


def test_what_code_depends_on_is_looked_at() -> None:
    text = json.dumps(without_numba._surroundings())
    for file in Path(kernels.__file__).parent.glob("*.py"):
        assert str(file) in text
    for part in (sys.version, np.__version__, numba.__version__):
        assert json.dumps(part)[1:-1] in text


def test_a_name_without_an_address_is_refused(place: Path) -> None:
    """LLVM would end the process."""
    compiled(twice, 3)
    (file,) = files(place)
    about, code = without_numba.read(twice, "<i8", file)  # type: ignore[arg-type]
    file.write_bytes(without_numba.packed(about | {"needs": ["no_such_function"]}, code))
    with pytest.raises(AttributeError, match="no_such_function"):
        without_numba.load(twice, "<i8")  # type: ignore[arg-type]


def test_all_names_of_the_code_are_known() -> None:
    """Those that it needs are listed, or a later version of LLVM would find out in the middle of a command."""
    dispatcher: Any = compiling.compiled(many)
    dispatcher(*GIVEN)
    (result,) = dispatcher.overloads.values()
    names = set(linking.undefined(result.library._get_compiled_object()))
    assert {"exp", "NRT_MemInfo_alloc_aligned", "NRT_adapt_ndarray_from_python", "PyExc_TypeError"} <= names
    assert set(without_numba.addresses(names)) == names


def test_where_numba_links_otherwise_nothing_is_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llvmlite.binding.address_of_symbol", lambda name: 1)
    assert compiled(twice, 3) == 6
    assert not files(place)


def test_code_with_bounds_checks_is_not_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled(twice, 1.5) == 3.0  # numba reads its settings again, as the fixture has changed one
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    assert compiled(twice, 3) == 6
    assert len(files(place)) == 1


def test_under_other_settings_numba_is_loaded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert not without_numba.possible()
    assert compiled(twice, 3) == 6
    assert not files(place)


def test_settings_in_a_file_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert without_numba.possible()
    Path(".numba_config.yaml").touch()
    assert not without_numba.possible()


def test_types_without_a_name_are_left_to_numba(place: Path) -> None:
    ran = kernel(twice, lambda: compiling.compiled(twice))
    assert ran("ab") == "abab"
    assert not files(place)


def test_named_arguments_are_left_to_numba() -> None:
    assert kernel(twice, lambda: compiling.compiled(twice))(x=2) == 4


def test_many_calls_are_left_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(twice, 3)
    monkeypatch.setattr(without_numba, "MANY", 2)
    ran = kernel(twice, lambda: lambda x: "numba")
    assert [ran(3) for _ in range(4)] == [6, 6, "numba", "numba"]


def test_numba_meets_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that has no file calls another one: numba compiles both, after it was loaded as the program asked."""
    monkeypatch.setattr(without_numba, "WANTED", True)
    loaded: list[int] = []
    monkeypatch.setattr(without_numba, "BEFORE_NUMBA", [lambda: loaded.append(1)])
    monkeypatch.setitem(globals(), "doubled", compiling.compiled(twice))
    outer = compiling.compiled(four_times)
    assert isinstance(doubled, without_numba.Kernel)
    assert outer(3) == 12
    assert isinstance(getattr(doubled, "_cache", None), HealingCache)
    assert loaded == [1]


def test_where_numba_is_loaded_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_numba, "WANTED", False)
    loaded: list[int] = []
    without_numba.begin(lambda: loaded.append(1))
    assert not without_numba.WANTED
    assert loaded == [1]


writable = pytest.mark.skipif(
    not os.access(Path(kernels.__file__).parent, os.W_OK), reason="kernels are not kept beside their sources"
)
PLAN = """
import sys
from conrl.cli.main import main
try:
    main(["plan", "mars-rover", "--set", "rock_reward=1"])
finally:
    print("numba" in sys.modules, file=sys.stderr)
"""


@writable
def test_a_plan_needs_no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once its kernels are compiled; and it is the plan that numba makes."""
    monkeypatch.delenv("NUMBA_CACHE_DIR")  # where kernels are compiled already, most often
    code = [sys.executable, "-c", PLAN]
    launch(code)
    without = launch(code)
    assert (without.returncode, without.stderr) == (0, "False\n")
    with_numba = launch(code, env=os.environ | {"NUMBA_OPT": "3"})
    assert (with_numba.returncode, with_numba.stderr) == (0, "True\n")
    assert without.stdout == with_numba.stdout


BOTH = """
import sys
from conrl import without_numba
without_numba.begin(lambda: None)
import conrl
first = conrl.plan(conrl.envs.mars_rover())
assert "numba" not in sys.modules
for name in conrl.kernels.__all__:
    if isinstance(kernel := getattr(conrl.kernels, name), without_numba.Kernel):
        kernel.numba()
second = conrl.plan(conrl.envs.mars_rover())
assert "numba" in sys.modules
assert (first.reward, first.bound) == (second.reward, second.bound)
del first
"""


@writable
def test_numba_may_be_loaded_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """It then has the same memory, and arrays made before are freed after."""
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    launch([sys.executable, "-c", PLAN])
    done = launch([sys.executable, "-c", BOTH])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


INTERPRETED = """
import sys
from conrl import without_numba
without_numba.begin(lambda: None)
import conrl
compiled, interpreted = without_numba.load, []
def load(function, kinds):
    if function.__module__ == "conrl.kernels.layout":
        interpreted.append(function.__name__)
        raise FileNotFoundError
    return compiled(function, kinds)
without_numba.load = load
plan = conrl.plan(conrl.envs.mars_rover(rock_reward=1))
assert "numba" not in sys.modules
print(*interpreted, plan.reward.hex(), plan.bound.hex())
"""


@writable
def test_what_is_little_work_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it load numba; and the plan is the same."""
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    launch([sys.executable, "-c", PLAN])
    done = launch([sys.executable, "-c", INTERPRETED])
    plan = conrl.plan(conrl.envs.mars_rover(rock_reward=1))
    names = "arranged reachable occupied_blocks interleave in_order"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{names} {plan.reward.hex()} {plan.bound.hex()}\n"


INTERPRETABLE = ["arranged", "interleave", "in_order", "actions_of", "occupation_deterministic"]


def test_python_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all kernels that may be interpreted, for all kinds of models."""
    met: set[str] = set()

    def both(name: str, run: Any) -> Callable[..., Any]:
        function = run.py_func
        names = {key: getattr(value, "py_func", value) for key, value in function.__globals__.items()}
        ran = without_numba.Kernel(FunctionType(function.__code__, names, name), never, lambda *_: 0)

        def call(*args: Any) -> Any:
            met.add(name)
            mine = deepcopy(args)
            with warnings.catch_warnings(action="error"):
                found = ran(*mine)
            expected = run(*args)
            assert same(found, expected) or found is expected is None
            assert pickle.dumps(mine) == pickle.dumps(deepcopy(args))
            return expected

        return call

    for name in INTERPRETABLE:
        monkeypatch.setattr(kernels, name, both(name, getattr(kernels, name)))
    for mdp in [*models(), conrl.envs.pricing_hours()]:
        conrl.plan(mdp, dict.fromkeys(mdp.cost_names, 1000000.0)).policy.occupation(mdp)
    assert met == set(INTERPRETABLE)


def test_what_becomes_much_work_is_left_to_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_numba, "LITTLE", 10)
    ran = without_numba.Kernel(cast(FunctionType, twice), lambda: lambda x: "numba", lambda x: x)
    assert [ran(x) for x in (4, 5, 1, 1, 0)] == [8, 10, 2, "numba", "numba"]


def test_code_for_one_value_is_not_that_for_all(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that another calls with a constant may be compiled for that constant: its code is right for no other."""
    monkeypatch.setattr(sys.modules[__name__], "times", compiling.compiled(product))
    assert compiled(eight_times, 3) == 24
    with pytest.raises(FileNotFoundError):
        without_numba.load(cast(FunctionType, product), "<i8,<i8")
    signature = numba.types.int64, LITERAL(8)
    with pytest.raises(TypeError, match="Literal"):
        linking.kinds_of(signature)
