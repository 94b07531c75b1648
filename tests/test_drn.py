"""Storm's text format: what Storm writes is read as it means it, what is written reads back bit for bit, and every
mistake is named by its line."""

from __future__ import annotations

import re
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ok, record, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from test_io import NAMES, PAYS, assert_identical, complaint

import conrl
from conrl.errors import ModelError
from conrl.io.drn_files import UNNAMED
from conrl.io.drn_states import read_number
from conrl.model import ConstrainedMDP

# As Storm 2.0 exports this PRISM program, with --buildfull --buildchoicelab --buildstateval, and --exact or not:
#   module m  s : [0..2] init 0;
#     [go] s=0 -> 1/3:(s'=1) + 2/3:(s'=2);   [wait] s=0 -> 1:(s'=0);   [go] s=1 -> 1:(s'=0);   [] s=2 -> 1:(s'=2);
#   rewards "gain" [go] true : 2;   rewards "fuel" s=1 : 0.5;  [go] s=0 : 1/3;
EXACT = """\
// Exported by storm
// Original model type: MDP
@type: MDP
@value_type: rational
@parameters

@reward_models
fuel gain 
@nr_states
3
@nr_choices
4
@model
state 0 [0, 0] init
//[s=0]
	action go [1/3, 2]
		1 : 1/3
		2 : 2/3
	action wait [0, 0]
		0 : 1
state 1 [1/2, 0]
//[s=1]
	action go [0, 2]
		0 : 1
state 2 [0, 0] done "two words"
//[s=2]
	action __NOLABEL__ [0, 0]
		2 : 1
"""  # noqa: W291 - Storm writes a blank after each name
DOUBLE = EXACT.replace("rational", "double").replace("1/3", "0.3333333333").replace("2/3", "0.6666666667")
DOUBLE = DOUBLE.replace("1/2", "0.5")
# Storm's answers for that program: R{"gain"}max=? [C<=5], R{"fuel"}min=?, R{"fuel"}max=? [C<=5].
STORM = {"gain": 3.7777777777777777, "-fuel": 0.0, "fuel": 0.7037037037037037}


def written(folder: Path, text: str, name: str = "m.drn") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str, **more: Any) -> ConstrainedMDP:
    return conrl.load_model(written(folder, text), **{"horizon": 5, "reward": "gain", **more})


# -- reading what Storm writes ----------------------------------------------------------------------------------


def test_a_model_as_storm_exports_it(tmp_path: Path) -> None:
    mdp = load(tmp_path, EXACT, limits={"fuel": 1.0})
    assert (mdp.num_states, mdp.num_actions, mdp.cost_names) == (3, 3, ("fuel",))
    assert mdp.state_names == ("s=0", "s=1", "s=2")
    assert mdp.action_names == ("go", "wait", "__NOLABEL__")
    assert mdp.transitions.toarray()[0].tolist() == [0.0, 1 / 3, 2 / 3]
    assert mdp.rewards.tolist() == [[2.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert mdp.costs[..., 0].tolist() == [[1 / 3, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]  # a state's, on leaving
    assert mdp.initial.tolist() == [1.0, 0.0, 0.0]
    assert mdp.limits is not None
    assert mdp.outcome_pay is None
    assert mdp.horizon == 5


@pytest.mark.parametrize("text", [EXACT, DOUBLE], ids=["exact", "ten digits"])
@pytest.mark.parametrize("reward", STORM)
def test_plans_agree_with_what_storm_computes(reward: str, text: str, tmp_path: Path) -> None:
    assert conrl.plan(load(tmp_path, text, reward=reward)).reward == pytest.approx(STORM[reward], abs=1e-9)


def test_limits_bind_as_in_a_linear_program_by_hand(tmp_path: Path) -> None:
    """Two steps, fuel at most 0.2: `go` first with probability q costs q/3 + q/6, and pays 2q + 2q/3."""
    mdp = load(tmp_path, EXACT, horizon=2)
    q = 0.2 / (1 / 3 + 1 / 6)
    late = 2.0 * 3  # a unit of fuel spent on `go` in the last step pays 6; spent in the first, (2 + 2/3) / (1/2)
    assert conrl.plan(mdp, {"fuel": 0.2}).reward == pytest.approx(max(0.2 * late, q * (2 + 2 / 3)), abs=1e-9)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/3", 1 / 3),
        ("-7/2", -3.5),
        ("+2", 2.0),
        ("1e-05", 1e-5),
        (".5", 0.5),
        ("3.", 3.0),
        (f"1/{10**40}", 1e-40),
        (f"{10**400 + 1}/{3 * 10**400}", 1 / 3),
    ],
)
def test_numbers_are_the_nearest_doubles(text: str, value: float) -> None:
    assert read_number(text) == value
    assert float(Fraction(text.rstrip("."))) == value


@pytest.mark.parametrize("text", ["", "p", "1/0", "1/p", "1_0", "nan", "inf", "0x1", "1/3/4", "1 2", "9" * 5000 + "/7"])
def test_what_is_no_number(text: str) -> None:
    assert read_number(text) is None


def test_a_chain_may_leave_actions_out(tmp_path: Path) -> None:
    chain = (
        "@type: DTMC\n@nr_states\n2\n@model\nstate 0 [1] init\n1 : 0.5\n0 : 0.5\nstate 1 [0]\n\taction 0 [0]\n1 : 1\n"
    )
    mdp = load(tmp_path, chain, reward="rew0")
    assert (mdp.num_actions, mdp.action_names) == (1, ("0",))
    assert conrl.plan(mdp).reward == pytest.approx(sum(0.5**t for t in range(5)))


def test_unnamed_reward_models_and_choices_of_one_name(tmp_path: Path) -> None:
    """PRISM has both: `rewards ... endrewards` without a name is an empty word, and two commands may share a label."""
    text = EXACT.replace("fuel gain ", "fuel  ").replace("action wait", "action go")
    mdp = load(tmp_path, text, reward=UNNAMED)
    assert mdp.cost_names == ("fuel",)
    assert mdp.action_names == ("go", "go'", "__NOLABEL__")
    with pytest.raises(ModelError, match=f"reward='fuel'.*there are fuel, {UNNAMED}$"):
        load(tmp_path, text, reward=None)
    assert load(tmp_path, EXACT.replace("fuel gain ", " gain "), reward="gain").cost_names == (UNNAMED,)


def test_rewards_that_are_not_there(tmp_path: Path) -> None:
    bare = re.sub(r" \[[^\]]*\]", "", EXACT).replace("fuel gain ", "")
    mdp = load(tmp_path, bare, reward=None)
    assert mdp.num_costs == 0
    assert not mdp.rewards.any()
    late = bare.replace("action __NOLABEL__", "action __NOLABEL__ [7, 3]")
    late = late.replace("@reward_models\n\n", "@reward_models\na b\n")
    mdp = load(tmp_path, late, reward="b")
    assert mdp.rewards[2, 2] == 3.0
    assert mdp.rewards[:2].tolist() == [[0.0] * 3] * 2


def test_names_of_states_are_taken_if_all_have_one(tmp_path: Path) -> None:
    assert load(tmp_path, EXACT.replace("//[s=1]\n", "")).state_names == ("0", "1", "2")
    assert load(tmp_path, EXACT.replace("//[s=1]", "//[s=0]")).state_names == ("0", "1", "2")
    assert load(tmp_path, EXACT.replace("//[s=1]", "//[!b\t& s=1]")).state_names[1] == "!b & s=1"
    assert load(tmp_path, EXACT.replace("//[s=1]", "// by hand\n//[s=1]")).state_names == ("0", "1", "2")


def test_an_empty_name_is_a_name(tmp_path: Path) -> None:
    mdp = ConstrainedMDP(np.full((2, 1, 2), 0.5), np.ones((2, 1)), None, 3, state_names=["", "two words"])
    conrl.save_model(tmp_path / "m.drn", mdp)
    assert conrl.load_model(tmp_path / "m.drn", horizon=3).state_names == ("", "two words")


def test_blanks_may_be_tabs_and_lines_end_as_on_any_machine(tmp_path: Path) -> None:
    expected = load(tmp_path, EXACT)
    (tmp_path / "m.drn").write_bytes(
        EXACT.replace("state ", "state\t").replace(" [", "\t[").replace("\n", "\r\n").encode()
    )
    assert_identical(conrl.load_model(tmp_path / "m.drn", horizon=5, reward="gain"), expected)


def test_actions_called_by_numbers_keep_them(tmp_path: Path) -> None:
    text = EXACT.replace("go", "1").replace("wait", "0").replace("__NOLABEL__", "2")
    mdp = load(tmp_path, text)
    assert mdp._names.actions is None
    assert mdp.available.tolist() == [[True, True, False], [False, True, False], [False, False, True]]


def test_where_an_episode_starts(tmp_path: Path) -> None:
    several = EXACT.replace("state 1 [1/2, 0]", 'state 1 [1/2, 0] "init"')
    with pytest.raises(ModelError, match=r"2 states are labelled init \(0, 1\), which is no distribution; say where"):
        load(tmp_path, several)
    assert load(tmp_path, several, initial="s=1").initial.tolist() == [0.0, 1.0, 0.0]
    assert load(tmp_path, several, initial="1").initial.tolist() == [0.0, 1.0, 0.0]
    assert load(tmp_path, several, initial=[0.5, 0.5, 0.0]).initial.tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(ModelError, match="no state is labelled init; say where an episode starts"):
        load(tmp_path, EXACT.replace(" init", ""))
    with pytest.raises(ModelError, match="unknown state 's=9'"):
        load(tmp_path, EXACT, initial="s=9")


# -- the round trip -----------------------------------------------------------------------------------------------


def second_reader(text: str) -> dict[str, Any]:
    """The same file by another way: regular expressions over the whole text, into dictionaries."""
    names = re.search(r"^@reward_models\n(.*)$", text, flags=re.MULTILINE)
    assert names is not None
    pairs: dict[tuple[int, str], tuple[list[float], dict[int, float]]] = {}
    for block in re.split(r"^state ", text.split("@model\n")[1], flags=re.MULTILINE)[1:]:
        state = int(block.split()[0])
        for choice in re.split(r"^\taction ", block, flags=re.MULTILINE)[1:]:
            head, *rows = choice.rstrip("\n").split("\n")
            name, pay = re.fullmatch(r"(\S+) \[(.*)\]", head).groups()  # type: ignore[union-attr]
            outcomes = {int(t): float(p) for t, p in (row.split(" : ") for row in rows)}
            pairs[state, name] = [float(x) for x in pay.split(", ")], outcomes
    initial = [int(s) for s in re.findall(r"^state (\d+) init$", text, flags=re.MULTILINE)]
    return {"names": names[1].split(), "pairs": pairs, "initial": initial}


@st.composite
def models(draw: st.DrawFn) -> ConstrainedMDP:
    """What the format can keep: pay per pair, one first state; any names, missing actions, tiny probabilities."""
    S, A, d = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    available = rng.random((S, A)) < 0.7
    available[0] = True  # names are numbered by first appearance
    available[np.arange(S), rng.integers(0, A, S)] = True
    P = rng.dirichlet(np.full(S, draw(st.sampled_from([0.01, 1.0]))), (S, A))
    P[P < 1e-300] = 0.0
    P /= P.sum(axis=-1, keepdims=True)
    pay = np.array(draw(st.lists(PAYS, min_size=S * A * (1 + d), max_size=S * A * (1 + d)))).reshape(S, A, 1 + d)
    rest: dict[str, Any] = {}
    for name, size in (("state_names", S), ("action_names", A), ("cost_names", d)):
        fit = NAMES.filter(lambda text: text not in ("", "reward") and not text.isdecimal())
        listed = st.lists(NAMES if name == "state_names" else fit, min_size=size, max_size=size, unique=True)
        rest[name] = draw(listed if name == "cost_names" else st.none() | listed)
    first = draw(st.integers(0, S - 1))
    return ConstrainedMDP(P, pay[..., 0], pay[..., 1:], 7, first, available=available, **rest)


@settings(max_examples=200, deadline=None)
@given(models())
def test_what_is_written_reads_back_bit_for_bit(mdp: ConstrainedMDP) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.drn"
        conrl.save_model(path, mdp)
        back = conrl.load_model(path, horizon=7)
        assert_identical(mdp, back)
        conrl.save_model(Path(folder) / "again.drn", back)
        text = path.read_text(encoding="utf-8")
        assert (Path(folder) / "again.drn").read_text(encoding="utf-8") == text
    if not text.isascii():
        return  # other blanks than ours end the words of the second reader
    other = second_reader(text)
    assert len(other["names"]) == 1 + mdp.num_costs
    assert other["initial"] == np.flatnonzero(mdp.initial).tolist()
    dense = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, mdp.num_states)
    there = np.argwhere(mdp.available)
    assert len(other["pairs"]) == len(there)
    for (s, a), ((state, _), (pay, outcomes)) in zip(there.tolist(), other["pairs"].items(), strict=True):
        assert state == s
        assert pay == [mdp.rewards[s, a], *mdp.costs[s, a]]
        assert outcomes == {t: p for t, p in enumerate(dense[s, a].tolist()) if p}


def test_plans_of_a_model_that_went_through_a_file(tmp_path: Path) -> None:
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    conrl.save_model(tmp_path / "rover.drn", rover, means=True)
    back = conrl.load_model(tmp_path / "rover.drn", horizon=rover.horizon, limits=[0.2])
    assert back.state_names == rover.state_names
    assert back.outcome_pay is None
    assert conrl.plan(back).reward == pytest.approx(conrl.plan(rover, [0.2]).reward, abs=1e-9)


def test_what_the_format_cannot_keep(tmp_path: Path) -> None:
    path = tmp_path / "m.drn"
    mdp = load(tmp_path, EXACT, limits=[1.0])
    before = path.read_bytes()
    cases = {
        "the model's bonus; save it as .npz": mdp.with_bonus(np.ones((3, 3))),
        r"pay that varies by outcome; save its means with means=True": conrl.envs.pricing().replace(initial=0),
        "a model that depends on the step": conrl.envs.pricing_hours(),
        r"a distribution over first states; choose one": mdp.replace(initial=[0.2, 0.5, 0.3]),
        "a cost called 'reward'": ConstrainedMDP([[[1.0]]], [[1.0]], [[[1.0]]], 2, cost_names=["reward"]),
        "the empty name of action 0": ConstrainedMDP([[[1.0]]], [[1.0]], None, 2, action_names=[""]),
    }
    for words, model in cases.items():
        with pytest.raises(ModelError, match=f"^{re.escape(str(path))}: a DRN file cannot keep {words}"):
            conrl.save_model(path, model)
        assert path.read_bytes() == before
    conrl.save_model(path, conrl.envs.pricing().replace(initial=0), means=True)
    with pytest.raises(conrl.SpecError, match="means is 2; it must be True or False"):
        conrl.save_model(path, mdp, means=2)  # type: ignore[arg-type]


# -- mistakes -----------------------------------------------------------------------------------------------------

MISTAKES = [
    ("@type: MDP", "@type: CTMC", "line 3: the model's type is CTMC, which runs in continuous time"),
    ("@type: MDP", "@type: Markov Automaton", "line 3: the model's type is Markov Automaton, which runs in continuous"),
    ("@type: MDP", "@type: POMDP", "line 3: the model's type is POMDP, which is partially observable"),
    ("@type: MDP", "@type: Mpd", "line 3: the model's type is Mpd, which is none of MDP, DTMC, which conrl reads"),
    ("@type: MDP\n", "", "line 12: no section @type: above @model"),
    ("@type: MDP", "@type: MDP\n@type: MDP", "line 4: section @type: is there twice"),
    ("@nr_states\n3", "", "line 12: no section @nr_states above @model"),
    (
        "rational",
        "double-interval",
        "line 4: values are of type 'double-interval'; conrl reads",
    ),
    ("@parameters\n", "@parameters\np q", "line 6: the model is parametric in p q; export it with values"),
    ("@parameters\n\n", "@parameters\n", "line 6: the line that belongs below @parameters is missing"),
    ("@nr_states", "@placeholders\n$0 : p+1\n@nr_states", "line 9: placeholders stand for expressions of a parametric"),
    ("@nr_states", "@nr_state", "line 9: unknown section '@nr_state'; did you mean '@nr_states'?; is this a DRN file?"),
    ("@nr_states\n3", "@nr_states\n-3", "line 10: '-3' is not a whole number"),
    ("@nr_states\n3", "@nr_states\n0", "line 10: a model has at least one state"),
    ("@nr_states\n3", "@nr_states\n4", "line 28: the file ends after 3 states; @nr_states says 4"),
    ("@nr_states\n3", "@nr_states\n2", "line 18: successor 2 is not in 0..1"),
    ("@nr_choices\n4", "@nr_choices\n5", "line 28: the file has 4 choices; @nr_choices says 5"),
    ("fuel gain ", "fuel", "line 8: 1 reward models, but the lists have 2 rewards"),
    ("fuel gain ", "gain gain", "line 8: a reward model is there twice"),
    ("state 1 [1/2, 0]", "state 2 [1/2, 0]", "line 21: state 2 where state 1 is due; states are in order, from 0"),
    (
        "state 1 [1/2, 0]",
        "state 1 !3.5 [1/2, 0]",
        "line 21: state 1 has an exit rate: the model runs in",
    ),
    ("state 1 [1/2, 0]", "state 1 {2} [1/2, 0]", "line 21: state 1 has an observation: the model is a POMDP"),
    ("state 1 [1/2, 0]", "state 1 [1/2, 0", "line 21: a list of rewards without its closing bracket ]"),
    (
        "state 0 [0, 0] init",
        "state 0 init [0, 0]",
        "line 14: '[0,' among the labels of state 0; rewards are one list, be",
    ),
    ("state 1 [1/2, 0]", "state 1 [1/2, 0] [1, 1]", "line 21: '[1,' among the labels of state 1; rewards are one list"),
    ("state 1 [1/2, 0]", "state 1 [1/2, 0] // no init", "line 21: '//' among the labels of state 1; a comment has a l"),
    ("state 1 [1/2, 0]", 'state 1 [1/2, 0] "no init', "line 21: '\"no' among the labels of state 1; a label in quota"),
    ("fuel gain ", "// fuel gain", "line 8: the line that belongs below @reward_models is missing; it may be empty"),
    ("state 1 [1/2, 0]", "state 1 [1/2]", "line 21: 1 rewards in a list; the lists above have 2"),
    ("state 1 [1/2, 0]", "state 1 [x, 0]", "line 21: a reward is 'x'; it must be a finite number such as 0.25 or 1/4"),
    ("1 : 1/3", "1 : [0.1, 0.4]", "line 17: a probability is '[0.1, 0.4]', an interval; conrl reads single numbers"),
    ("1 : 1/3", "1 : $0", "line 17: a probability is '$0', a placeholder of a parametric model"),
    ("1 : 1/3", "1 : 1/0", "line 17: a probability is '1/0'; it must be a finite number"),
    ("1 : 1/3", "1 : -1/3", "line 17: the probability is -1/3; it is at least 0"),
    ("1 : 1/3", "1 : 1/4", "line 16: the probabilities of state 0, action 'go' sum to 0.916666666667; a distribution"),
    ("1 : 1/3", "7 : 1/3", "line 17: successor 7 is not in 0..2"),
    (
        "1 : 1/3",
        "1 = 1/3",
        "line 17: '1 = 1/3' is no line of a model; expected state, action, or",
    ),
    ("\t\t2 : 1\n", "", "line 27: state 2, action '__NOLABEL__' has no outcome"),
    (
        "\taction __NOLABEL__ [0, 0]\n\t\t2 : 1\n",
        "",
        "line 25: state 2 has no action; if it is never left, give it one that stays there",
    ),
    ("\taction __NOLABEL__ [0, 0]\n", "", "line 27: an outcome above the first action of its state"),
    ("\taction wait", "\taction", "line 19: an action without a name"),
    ("@type: MDP", "@type: DTMC", "line 19: state 0 has a second action; a DTMC has one for each state"),
    ("state 0 [0, 0] init", "", "line 16: an action before the first state"),
]


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES)
def test_mistakes_are_named_by_their_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in EXACT
    told = complaint(written(tmp_path, EXACT.replace(old, new, 1)), horizon=3, reward="gain")
    assert told is not None
    assert told.startswith(f"{tmp_path / 'm.drn'}, {words}")
    assert "\n" not in told


def test_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "m.drn"
    for data, words in (
        (b"", "line 0: the file ends before @model; is this a DRN file?"),
        (b"mdp\nmodule m\nendmodule\n", "line 1: unknown section 'mdp'; known: @type:"),
        (b"\x1f\x8b\x08\0\0\0\0", "line 1: a NUL byte; a DRN file is plain text: unpack it, or export it again"),
        (b"// \xff\n", "line 1: byte 0xff is not UTF-8; a DRN file is plain text"),
        (b"@type: MDP\n@nr_states\n999999999999999999\n@model\nstate 0 init\n", "line 5: state 0 has no action"),
    ):
        path.write_bytes(data)
        told = complaint(path, horizon=3)
        assert told is not None
        assert told.startswith(f"{path}, {words}")


def test_arguments(tmp_path: Path) -> None:
    path = written(tmp_path, EXACT)
    assert complaint(path, reward="gain") == f"{path}: a DRN file holds no horizon; give one"
    assert complaint(path, horizon=3, reward="gian") == f"{path}: unknown reward model 'gian'; did you mean 'gain'?"
    assert "reward is 3; it must be the name of a reward model" in str(complaint(path, horizon=3, reward=3))
    assert "say which is the reward, the others are costs: reward='fuel'" in str(complaint(path, horizon=3))
    conrl.save_model(tmp_path / "m.npz", load(tmp_path, EXACT))
    assert "reward= is for .drn files" in str(complaint(tmp_path / "m.npz", reward="gain"))
    assert "a model file ends in .npz, .csv, .tsv, .xlsx or .drn" in str(complaint(tmp_path / "m.drn.gz"))
    named = EXACT.replace("fuel gain", "fuel reward")
    assert conrl.load_model(written(tmp_path, named), horizon=3).cost_names == ("fuel",)


# -- the command line -----------------------------------------------------------------------------------------------


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, EXACT)
    asked = ("m.drn", "--horizon", 5, "--set", "reward=gain")
    found = record("plan", *asked, "--limit", "fuel=0.5")
    mdp = load(tmp_path, EXACT, limits={"fuel": 0.5})
    assert found["reward"] == pytest.approx(conrl.plan(mdp).reward, abs=1e-9)
    assert record("plan", *asked, "--start", "s=1")["reward"] == pytest.approx(
        conrl.plan(load(tmp_path, EXACT, initial=1)).reward
    )
    assert "fuel" in ok("frontier", *asked)
    ok("learn", *asked, "--limit", "fuel=0.5", "--episodes", 3)
    told = refused("plan", "m.drn", "--horizon", 5)
    assert "reward='fuel' (--set reward=fuel)" in told
    assert refused("plan", *asked[:3], "--set", "reward=gian").startswith("--set reward: m.drn: unknown reward model")
    assert "did you mean 'reward'?" in refused("plan", *asked[:3], "--set", "rewards=gain")
    assert refused("plan", "m.drn", "--set", "reward=gain").startswith("--horizon: m.drn: a DRN file holds no horizon")
    written(tmp_path, EXACT.replace("state 1 [1/2, 0]", "state 1 [1/2, 0] init"), "two.drn")
    assert "2 states are labelled init" in refused("plan", "two.drn", *asked[1:])
    assert record("plan", "two.drn", *asked[1:], "--start", "s=1")["reward"] > 0.0
    assert "unknown state 's=9'" in refused("plan", "two.drn", *asked[1:], "--start", "s=9")


def test_a_list_that_is_no_list_is_refused(tmp_path: Path) -> None:
    """A tab is a blank; what sticks to a name, or follows a list, would be lost without a word."""
    plain = load(tmp_path, EXACT)
    tabs = load(tmp_path, re.sub(r"^(\s*action \S+) \[", r"\1\t[", EXACT, flags=re.MULTILINE))
    np.testing.assert_array_equal(tabs.pay, plain.pay)
    stuck = re.sub(r"^(\s*action \S+) \[", r"\1[", EXACT, count=1, flags=re.MULTILINE)
    assert "put a blank between them" in str(complaint(written(tmp_path, stuck), horizon=3, reward="gain"))
    more = re.sub(r"^(\s*action \S+ \[.*\])$", r"\1 5", EXACT, count=1, flags=re.MULTILINE)
    assert "nothing belongs there" in str(complaint(written(tmp_path, more), horizon=3, reward="gain"))
    none = re.sub(r" \[[^]]*\]", "", EXACT)
    assert "reward models, but the lists have 0 rewards" in str(complaint(written(tmp_path, none), horizon=3))
