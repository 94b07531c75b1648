"""To and from Gymnasium: the simulator, its registration and drawing, and models read from toy-text environments."""

from __future__ import annotations

import sys
import textwrap
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from launch import launch

from conrl import ConRL, envs, learn, registration
from conrl.envs.maps import MOVES
from conrl.envs.numbering import Numbered
from conrl.errors import ModelError, RunError, SpecError
from conrl.model import ConstrainedMDP, Task

IDS = [entry.gymnasium_id for entry in envs.available()]
AHEAD = {"↑": (-1, 0), "↓": (1, 0), "←": (0, -1), "→": (0, 1)}


def run_python(program: str) -> str:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = launch(command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def two_costs() -> ConstrainedMDP:
    """Two states; action 1 is missing in state 1. Pay is per pair."""
    transitions = np.array([[[0.25, 0.75], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])
    available = [[True, True], [True, False]]
    costs = np.array([[[0.5, 1.0], [0.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]])
    return ConstrainedMDP(transitions, [[1.0, 2.0], [0.0, 0.0]], costs, horizon=4, available=available)


# -- registration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", IDS)
def test_check_env_passes_without_a_warning(env_id: str) -> None:
    env = gymnasium.make(env_id, disable_env_checker=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("env_id", IDS)
def test_made_with_the_default_wrappers_it_runs_to_the_horizon(env_id: str) -> None:
    short = {"traffic": [0.5] * 5, "worth": [0.0] * 5} if "Hours" in env_id else {"horizon": 5}
    env = gymnasium.make(env_id, **short)
    inner: Any = env.unwrapped
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    assert (info["cost"], info["costs"].tolist()) == (0.0, [0.0] * inner.mdp.num_costs)
    ends = []
    for _ in range(5):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info.get("action_mask")))
        assert type(reward) is float
        assert type(info["cost"]) is float
        assert info["costs"].dtype == np.float64
        assert info["cost"] == info["costs"].sum()
        ends.append((terminated, truncated))
    assert ends == [(False, False)] * 4 + [(False, True)]
    with pytest.raises(gymnasium.error.ResetNeeded, match="over after 5 steps"):
        env.step(0)


def test_parameters_go_to_the_model() -> None:
    env = gymnasium.make("conrl/MarsRover-v0", rock_reward=1.0, limits=[0.2])
    inner: Any = env.unwrapped
    assert isinstance(inner, envs.CMDPEnv)
    assert inner.mdp.task.reward_range == (0.0, 1.0)
    assert inner.mdp.rewards[:, 0].sum() > envs.mars_rover().rewards[:, 0].sum()
    assert inner.cost_limits.tolist() == [0.2]
    assert inner.cost_names == ("crash",)
    with pytest.raises(SpecError, match="did you mean 'rock_reward'"):
        gymnasium.make("conrl/MarsRover-v0", rock_rewrd=1.0)


def test_registering_again_changes_nothing() -> None:
    before = dict(gymnasium.registry)
    registration.register()
    assert dict(gymnasium.registry) == before
    assert set(IDS) <= set(before)
    assert IDS[0] == "conrl/MarsRover-v0"


@pytest.mark.parametrize(
    ("imports", "env_id"),
    [
        ("import gymnasium, conrl.registration", "conrl/MarsRover-v0"),
        ("import conrl.registration, gymnasium", "conrl/MarsRover-v0"),
        ("import gymnasium", "conrl.registration:conrl/MarsRover-v0"),
    ],
)
def test_a_fresh_process_finds_the_environments(imports: str, env_id: str) -> None:
    program = f"""
        {imports}
        env = gymnasium.make({env_id!r}, rock_reward=1.0)
        print(env.reset(seed=0)[0], env.unwrapped.cost_limits, gymnasium.__spec__.loader is gymnasium.__loader__)
    """
    assert run_python(program) == "0 [0.3] True"


def test_registration_imports_nothing_heavy() -> None:
    program = """
        import sys, conrl.registration
        before = [m for m in ("gymnasium", "numpy", "numba", "scipy") if m in sys.modules]
        import gymnasium
        print(before, [m for m in ("numba", "scipy") if m in sys.modules], "conrl/Box-v0" in gymnasium.registry)
    """
    assert run_python(program) == "[] [] True"


# -- vector environments --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:os.fork")  # jax, loaded by another test, warns of it
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments_keep_fractions(mode: str) -> None:
    """The first cost is 0, from which an integer array could be made; later ones are 1/H."""
    env = gymnasium.make_vec("conrl/Box-v0", num_envs=3, vectorization_mode=mode, horizon=8, slip=0.0)
    try:
        _, info = env.reset(seed=1)
        assert (info["cost"].dtype, info["costs"].dtype, info["costs"].shape) == (np.float64, np.float64, (3, 1))
        # Left into a free cell costs nothing; then back, and down, which pushes the box into a corner.
        for action, cost in ((2, 0.0), (3, 0.0), (1, 1 / 8), (0, 1 / 8)):
            _, rewards, _, _, info = env.step(np.full(3, action))
            assert info["cost"].dtype == info["costs"].dtype == np.float64
            assert info["costs"].tolist() == [[cost]] * 3
            assert info["cost"].tolist() == [cost] * 3
            assert rewards.tolist() == [0.0] * 3
    finally:
        env.close()


# -- simulation -----------------------------------------------------------------------------------------------------


def walk(env: gymnasium.Env[Any, Any], seed: int, steps: int = 30) -> list[tuple[int, float, float]]:
    env.reset(seed=seed)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(steps):
        observation, reward, _, _, info = env.step(int(rng.integers(4)))
        seen.append((observation, float(reward), info["cost"]))
    return seen


def test_the_seed_decides_the_episode() -> None:
    env, other = (envs.CMDPEnv(envs.mars_rover()) for _ in range(2))
    assert walk(env, 3) == walk(env, 3) == walk(other, 3)
    assert walk(env, 3) != walk(env, 4)


def test_simulated_frequencies_and_pay_are_those_of_the_model() -> None:
    """From r2c2, right leads onto a rock with probability 0.925; that outcome, and only that, costs 1."""
    mdp = envs.mars_rover(rock_reward=1.0)
    here = mdp.state_names.index("r2c2")
    env = envs.CMDPEnv(mdp.replace(initial=here))
    env.reset(seed=0)
    n = 4000
    counts: dict[str, int] = {}
    for _ in range(n):
        env.reset()
        observation, reward, _, _, info = env.step(3)
        name = mdp.state_name(observation)
        counts[name] = counts.get(name, 0) + 1
        assert (reward, info["cost"]) == ((1.0, 1.0) if name == "r2c3" else (0.0, 0.0))
    assert set(counts) == {"r2c3", "r1c2", "r3c2", "r2c1"}
    for name, count in counts.items():
        p = 0.925 if name == "r2c3" else 0.025
        assert abs(count - n * p) < 5.0 * np.sqrt(n * p * (1.0 - p))


def test_the_first_state_is_drawn_from_the_initial_distribution() -> None:
    env = envs.CMDPEnv(envs.random_cmdp(4, 2, 2, 1, 0).replace(initial=[0.0, 0.5, 0.5, 0.0]))
    env.reset(seed=0)
    first = np.bincount([env.reset()[0] for _ in range(1000)], minlength=4)
    assert first[[0, 3]].tolist() == [0, 0]
    assert abs(first[1] - 500) < 5.0 * np.sqrt(250.0)


def test_missing_actions_are_masked_and_refused() -> None:
    env = envs.CMDPEnv(two_costs())
    _, info = env.reset(seed=0)
    assert (info["action_mask"].dtype, info["action_mask"].tolist()) == (np.int8, [1, 1])
    assert env.cost_limits.tolist() == [np.inf, np.inf]
    assert isinstance(env.action_space, spaces.Discrete)
    observation, reward, _, _, info = env.step(0)
    assert (reward, info["cost"], info["costs"].tolist()) == (1.0, 1.5, [0.5, 1.0])
    while observation == 0:
        env.reset()
        observation, _, _, _, info = env.step(0)
    assert info["action_mask"].tolist() == [1, 0]
    assert env.action_space.sample(info["action_mask"]) == 0
    with pytest.raises(SpecError, match="action '1' does not exist in state '1'"):
        env.step(1)
    assert env.step(0)[0] == 0  # a refused action changes nothing
    assert "action_mask" not in envs.CMDPEnv(envs.box()).reset()[1]


class Alternating(gymnasium.Env[Any, Any]):
    """One state; action 0 pays at even steps, action 1 at odd ones."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.step_of = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        paid = float(int(action) == self.step_of % 2)
        self.step_of += 1
        return 0, paid, False, False, {}


def test_what_depends_on_the_step_is_learned_by_step() -> None:
    known: dict[str, Any] = {"horizon": 4, "limits": [], "cost_names": []}
    task = Task.from_gymnasium(Alternating(), **known, step_dependent=True, initial=0)
    assert (task.step_dependent, task.initial) == (True, 0)
    assert repr(task).endswith("initial=0, step_dependent=True)")
    assert "step_dependent" not in repr(Task.from_gymnasium(Alternating(), **known))
    history = learn(Alternating(), ConRL(task), 60, seed=0)
    assert history.rewards[-5:].tolist() == [4.0] * 5
    with pytest.raises(ModelError, match="initial is 3; it must be a state index"):
        Task.from_gymnasium(Alternating(), **known, initial=3)


def test_bad_actions_and_calls_out_of_order() -> None:
    env = envs.CMDPEnv(envs.box())
    with pytest.raises(gymnasium.error.ResetNeeded, match="no episode has begun"):
        env.step(0)
    env.reset(seed=0)
    for action in (4, -1, 1.5, "up"):
        with pytest.raises(SpecError, match=r"whole number in 0\.\.3"):
            env.step(action)  # type: ignore[arg-type]
    assert env.step(np.int64(1))[0] in env.observation_space  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="did you mean 'ansi'"):
        envs.CMDPEnv(envs.box(), render_mode="ansii")


# -- drawing --------------------------------------------------------------------------------------------------------


def test_text_shows_agent_box_and_rocks() -> None:
    env = envs.CMDPEnv(envs.box(slip=0.0), render_mode="ansi")
    env.reset(seed=0)
    env.step(1)
    drawn = """
        step 1 of 30, state agent r2c2 box r3c2
        W W W W W W
        W . S W W W
        W . @ . . W
        W W X . . W
        W W W . G W
        W W W W W W
    """
    assert env.render() == textwrap.dedent(drawn).lstrip("\n")
    rover = envs.CMDPEnv(envs.mars_rover(), render_mode="ansi")
    rover.reset(seed=0)
    assert str(rover.render()).splitlines()[3] == ". . . P . . P ."


def test_pictures_show_the_state() -> None:
    env = envs.CMDPEnv(envs.box(slip=0.0), render_mode="rgb_array")
    env.reset(seed=0)
    before = np.asarray(env.render())
    env.step(1)
    after = np.asarray(env.render())
    assert (str(before.dtype), before.shape) == ("uint8", (288, 288, 3))
    cells = (before != after).reshape(6, 48, 6, 48, 3).any(axis=(1, 3, 4))
    # The agent moved from (1, 2) to (2, 2), and the box from there to (3, 2).
    assert np.argwhere(cells).tolist() == [[1, 2], [2, 2], [3, 2]]


@pytest.mark.parametrize("states", [1, 7, 100_000])
def test_models_without_a_map_are_drawn_too(states: int) -> None:
    mdp = envs.random_cmdp(states, 1, 1, 1, 0)
    image = envs.CMDPEnv(mdp, render_mode="rgb_array")
    image.reset(seed=0)
    assert max(np.asarray(image.render()).shape) <= 512
    text = envs.CMDPEnv(mdp, render_mode="ansi")
    text.reset(seed=0)
    assert "state 0" in str(text.render())


# -- models from Gymnasium --------------------------------------------------------------------------------------------


def test_frozen_lake_adds_up_duplicates_and_absorbs() -> None:
    mdp = envs.from_gymnasium("FrozenLake-v1", cost=lambda s, a, t, r, end: float(end and r == 0), limits=[0.5])
    assert (mdp.num_states, mdp.num_actions, mdp.horizon, mdp.num_costs) == (16, 4, 100, 1)
    p = mdp.transitions.toarray().reshape(16, 4, 16)
    # In the corner, slipping left and going up or left all stay: two thirds, listed twice in P.
    assert p[0, 0, 0] == pytest.approx(2 / 3)
    assert p[0, 0, 4] == pytest.approx(1 / 3)
    for hole in (5, 7, 11, 12, 15):
        assert p[hole, :, hole].tolist() == [1.0] * 4
        assert mdp.rewards[hole].tolist() == mdp.costs[hole, :, 0].tolist() == [0.0] * 4
    assert mdp.rewards[14, 2] == pytest.approx(1 / 3)
    assert mdp.costs[1, 1, 0] == pytest.approx(1 / 3)
    assert mdp.action_names == ("left", "down", "right", "up")


def test_frozen_lake_matches_its_own_simulator() -> None:
    """Always going right for 100 steps: the chance of the goal, exactly and simulated by Gymnasium."""
    env = gymnasium.make("FrozenLake-v1")
    mdp = envs.from_gymnasium(env)
    forward = mdp.transitions.toarray().reshape(16, 4, 16)[:, 2]
    exact = float((np.linalg.matrix_power(forward, 100))[0, 15])
    rewards = []
    for episode in range(2000):
        env.reset(seed=0 if episode == 0 else None)
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(2)
            over = terminated or truncated
        rewards.append(float(reward))
    assert abs(np.mean(rewards) - exact) < 5.0 * np.sqrt(exact * (1.0 - exact) / 2000)


def test_cliff_walking_needs_a_horizon() -> None:
    with pytest.raises(ModelError, match=r"CliffWalking-v1 states no time limit; give a horizon"):
        envs.from_gymnasium("CliffWalking-v1")
    mdp = envs.from_gymnasium("CliffWalking-v1", lambda s, a, t, r, end: r == -100, 50, cost_names=["fall"])
    assert (mdp.num_states, mdp.horizon, mdp.cost_names) == (48, 50, ("fall",))
    assert mdp.state_name(int(mdp.initial.argmax())) == "r3c0"
    assert (mdp.rewards[36, 1], mdp.costs[36, 1, 0]) == (-100.0, 1.0)
    assert mdp.transitions.toarray()[36 * 4 + 1].argmax() == 36
    assert (mdp.rewards[47].tolist(), mdp.rewards[35, 2]) == ([0.0] * 4, -1.0)


def test_a_time_limit_of_ones_own_is_used() -> None:
    env = gymnasium.make("CliffWalking-v1", max_episode_steps=25)
    assert envs.from_gymnasium(env).horizon == 25


def test_taxi_keeps_its_states() -> None:
    mdp = envs.from_gymnasium("Taxi-v4")
    assert (mdp.num_states, mdp.num_actions, mdp.horizon, mdp.num_costs) == (500, 6, 200, 0)
    assert np.flatnonzero(mdp.initial).size == 300
    names = mdp.state_names
    aboard = names.index("taxi r0c0 passenger aboard to r")
    done = names.index("taxi r0c0 passenger r to r")
    assert mdp.rewards[aboard, 5] == 20.0
    assert mdp.transitions.toarray()[aboard * 6 + 5].argmax() == done
    assert mdp.rewards[done].tolist() == [0.0] * 6
    assert mdp.transitions.toarray()[done * 6 : done * 6 + 6, done].tolist() == [1.0] * 6


def test_a_time_limit_is_found_in_a_wrapper() -> None:
    env = gymnasium.wrappers.TimeLimit(gymnasium.make("CliffWalking-v1").unwrapped, 9)
    env.unwrapped.spec = None
    assert env.spec is None
    assert envs.from_gymnasium(env).horizon == 9


def test_of_several_time_limits_the_least_counts() -> None:
    limited = gymnasium.wrappers.TimeLimit
    assert [envs.from_gymnasium(limited(gymnasium.make("FrozenLake-v1"), n)).horizon for n in (200, 20)] == [100, 20]
    mdp = envs.make("box")
    for steps in (10, 100):
        env = limited(envs.CMDPEnv(mdp), steps)
        assert envs.from_gymnasium(env).horizon == min(steps, mdp.horizon)
        assert Task.from_gymnasium(env).horizon == min(steps, mdp.horizon)
    assert envs.from_gymnasium(limited(envs.CMDPEnv(mdp), 10), horizon=12).horizon == 12
    assert envs.make("gymnasium:conrl/Box-v0", max_episode_steps=5).horizon == 5


def test_the_fickle_passenger_is_refused() -> None:
    with pytest.raises(ModelError, match=r"Taxi-v4: with fickle_passenger .* not in P"):
        envs.from_gymnasium(gymnasium.make("Taxi-v4", fickle_passenger=True))
    rainy = envs.from_gymnasium(gymnasium.make("Taxi-v4", is_rainy=True))
    assert rainy.graph.probability.min() < 0.2


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_arrows_point_where_the_actions_lead(env_id: str) -> None:
    kwargs = {"is_slippery": False} if env_id == "FrozenLake-v1" else {}
    mdp = envs.from_gymnasium(gymnasium.make(env_id, **kwargs), horizon=10)
    layout = mdp.layout
    assert layout is not None
    assert len(layout.arrows) == mdp.num_actions
    columns = len(layout.rows[0])
    moved = set()
    source = np.repeat(np.arange(mdp.num_pairs), np.diff(mdp.graph.start))
    for k, t in zip(source, mdp.graph.successor, strict=True):
        here, there = (divmod(int(layout.cell[s]), columns) for s in (mdp.pair_state[k], t))
        arrow = layout.arrows[mdp.action[k]]
        if here != there and arrow in AHEAD and mdp.rewards[mdp.pair_state[k], mdp.action[k]] != -100.0:
            assert (there[0] - here[0], there[1] - here[1]) == AHEAD[arrow]
            moved.add(arrow)
    assert moved == set(AHEAD)


def test_arrows_of_grid_worlds() -> None:
    layout = envs.box().layout
    assert layout is not None
    assert [AHEAD[arrow] for arrow in layout.arrows] == list(MOVES.values())


class Loop(gymnasium.Env[Any, Any]):
    """Three states in a ring; going on from state 1 ends the episode with probability 1/2, in state 2."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(1)

    def __init__(self) -> None:
        self.P: Any = {
            0: {0: [(1.0, 1, 0.0, False)]},
            1: {0: [(0.5, 2, 7.0, True), (0.5, 2, 1.0, False)]},
            2: {0: [(1.0, 0, 2.0, False)]},
        }
        self.initial_state_distrib: Any = np.array([1.0, 0.0, 0.0])


def test_an_end_that_is_also_an_ordinary_state_becomes_one_more() -> None:
    mdp = envs.from_gymnasium(Loop(), cost=lambda s, a, t, r, end: [float(end), r], horizon=6)
    assert mdp.state_names == ("0", "1", "2", "end")
    p = mdp.transitions.toarray()
    assert p[1].tolist() == [0.0, 0.0, 0.5, 0.5]
    assert p[3].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert mdp.rewards[:, 0].tolist() == [0.0, 4.0, 2.0, 0.0]
    assert mdp.costs[:, 0].tolist() == [[0.0, 0.0], [0.5, 4.0], [0.0, 2.0], [0.0, 0.0]]


def test_an_end_where_episodes_start_becomes_one_more() -> None:
    env = Loop()
    env.P[1][0] = [(1.0, 2, 7.0, True)]
    assert envs.from_gymnasium(env, horizon=6).num_states == 3
    assert envs.from_gymnasium(env, horizon=6, initial=[0.5, 0.0, 0.5]).num_states == 4
    assert envs.from_gymnasium(env, horizon=6, initial=1).initial.tolist() == [0.0, 1.0, 0.0]


def test_what_cannot_be_read_is_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match=r"observation space of CartPole-v1 .* needs Discrete"):
        envs.from_gymnasium("CartPole-v1")
    env = Loop()
    env.initial_state_distrib = None
    with pytest.raises(ModelError, match="pass initial="):
        envs.from_gymnasium(env, horizon=3)
    with pytest.raises(ModelError, match="initial is 9"):
        envs.from_gymnasium(env, horizon=3, initial=9)
    env.P = None
    with pytest.raises(ModelError, match=r"no env.unwrapped.P.* learn it with conrl.learn"):
        envs.from_gymnasium(env, horizon=3)
    env.P = {0: {0: [(1.0, 0)]}}
    with pytest.raises(ModelError, match="P does not hold lists"):
        envs.from_gymnasium(env, horizon=3, initial=0)
    with pytest.raises(ModelError, match="TransformReward, which its dynamics"):
        envs.from_gymnasium(
            gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: 2.0 * float(r))
        )


def test_a_cost_function_is_told_the_state_that_the_environment_tells() -> None:
    """Not the state "end" that the model needs, where an episode may also start in a state that ends it."""
    env = Loop()
    env.P[1][0] = [(1.0, 2, 7.0, True)]
    told = set()

    def falls(s: int, a: int, next_s: int, reward: float, terminated: bool) -> float:
        told.add((s, next_s, terminated))
        return float(next_s == 2 and terminated)

    mdp = envs.from_gymnasium(env, falls, horizon=6, limits=[0.2], initial=[0.0, 0.5, 0.5])
    assert mdp.num_states == 4
    assert (1, 2, True) in told
    assert max(next_s for _, next_s, _ in told) < 3
    assert mdp.costs[:, 0, 0].tolist() == [0.0, 1.0, 0.0, 0.0]


def test_wrappers_that_pay_or_see_otherwise_are_refused() -> None:
    class Doubled(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            state, reward, *rest = self.env.step(action)
            return state, 2.0 * float(reward), *rest

    class Named(gymnasium.Wrapper[Any, Any, Any, Any]):
        """Changes nothing."""

    for kind in (Doubled, gymnasium.wrappers.NormalizeReward, Numbered):
        with pytest.raises(ModelError, match=f"{kind.__name__}, which its dynamics"):
            envs.from_gymnasium(kind(gymnasium.make("FrozenLake-v1")))
    passing = gymnasium.wrappers.RecordEpisodeStatistics(Named(gymnasium.make("FrozenLake-v1")))
    assert envs.from_gymnasium(passing).num_states == 16


@pytest.mark.parametrize("bad", ["dear", [[1.0]], None])
def test_bad_cost_functions_are_named(bad: Any) -> None:
    with pytest.raises(ModelError, match=r"cost\(0, 0, .*it must be a finite number or a list"):
        envs.from_gymnasium("FrozenLake-v1", cost=lambda *_: bad)


def test_a_cost_function_gives_as_many_each_time() -> None:
    with pytest.raises(ModelError, match="it must be finite numbers, 1 as the first time"):
        envs.from_gymnasium("FrozenLake-v1", cost=lambda s, *_: [1.0] * (1 + s))


def test_there_and_back_again() -> None:
    mdp = envs.from_gymnasium("conrl/Box-v0", horizon=12, limits=[0.2])
    assert mdp.limits is not None
    assert (mdp.horizon, mdp.limits.tolist(), mdp.cost_names) == (12, [0.2], ("corner",))
    with pytest.raises(ModelError, match="costs of its own"):
        envs.from_gymnasium("conrl/Box-v0", cost=lambda *_: 1.0)


# -- six values from step -----------------------------------------------------------------------------------------


def test_the_six_tuple_and_back() -> None:
    plain = envs.CMDPEnv(envs.mars_rover())
    six = envs.SafetyGymnasiumAdapter(envs.CMDPEnv(envs.mars_rover()))
    back = envs.FromSafetyGymnasium(envs.SafetyGymnasiumAdapter(envs.CMDPEnv(envs.mars_rover())))
    plain.reset(seed=5)
    six.reset(seed=5)
    _, info = back.reset(seed=5)
    assert (info["cost"], info["costs"].tolist()) == (0.0, [0.0])
    paid = 0.0
    for step in range(30):
        action = (1, 3)[step % 2]
        o, r, end, cut, info = plain.step(action)
        assert six.step(action)[:5] == (o, r, info["cost"], end, cut)
        o2, r2, end2, cut2, info2 = back.step(action)
        assert (o2, r2, end2, cut2, info2["cost"]) == (o, r, end, cut, info["cost"])
        assert type(info2["cost"]) is float
        assert info2["costs"].dtype == np.float64
        paid += info["cost"]
    assert paid > 0.0


def test_adapters_say_what_is_missing() -> None:
    six = envs.SafetyGymnasiumAdapter(gymnasium.make("FrozenLake-v1"))
    six.reset(seed=0)
    with pytest.raises(RunError, match=r'no info\["cost"\]; known keys: prob'):
        six.step(0)
    five = envs.FromSafetyGymnasium(gymnasium.make("FrozenLake-v1"))
    five.reset(seed=0)
    with pytest.raises(RunError, match="gave 5 values"):
        five.step(0)


def two(state: int, action: int, next_state: int, reward: float, terminated: bool) -> list[float]:
    return [1.0, float(terminated)]


def test_names_of_costs_come_from_the_limits() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    mdp = envs.from_gymnasium(lake, two, 20, limits={"fuel": 12, "wreck": 0.3})
    assert (mdp.cost_names, np.asarray(mdp.limits).tolist()) == (("fuel", "wreck"), [12.0, 0.3])
    assert envs.from_gymnasium(lake, two, 20, limits={"cost1": 0.3}).cost_names == ("cost0", "cost1")
    swapped = envs.from_gymnasium(lake, two, 20, {"wreck": 0.3}, ["fuel", "wreck"])
    assert np.asarray(swapped.limits).tolist() == [np.inf, 0.3]
    with pytest.raises(ModelError, match=r"limits names 1 cost and there are 2; say what all are called.*cost_names"):
        envs.from_gymnasium(lake, two, 20, limits={"wreck": 0.3})
