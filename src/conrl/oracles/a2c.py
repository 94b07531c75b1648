"""Advantage actor-critic (A2C): who answers a direction w approximately (Algorithm 3 of Brantley et al. 2020).

    L(theta) = sum_h  -log pi(a_h | s_h) (R(h) - V(s_h))  +  alpha (R(h) - V(s_h))^2,     R(h) = sum_{h' >= h} r_h'

one gradient step (Adam) per episode; the advantage R - V in the first term is held constant, as usual. There is no
discount, and the network does not see the step. The paper's tables and its program differ from Algorithm 3: there the
value error is a smooth L1, an entropy bonus of 1e-3 is added, and every layer starts with gain 1 (`preset="authors"`).
Sums are divided by the number of steps.

The network is tabulated over all states after each update, so that episodes are played by the same kernel as any other
policy's: fictitious ones from an estimated model (`Fictitious`, a `Responder`), or real ones through a learner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Array, Arrays, Bool, Float, Float32, Int
from conrl.arguments import is_int, read_choice, read_count, read_number, read_positive, sealed
from conrl.errors import RunError, SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.oracles.network import Network, import_jax, join
from conrl.policy import Policy
from conrl.sampling import TRAIN, Dynamics, randomness

RESETS = ("warm-start", "continue", "none")
LOSSES = ("squared", "smooth-l1")
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "authors": {"value_loss": "smooth-l1", "entropy": 1e-3, "gain": 1.0},
}


@dataclass(frozen=True)
class A2CSettings:
    """The numbers of A2C.

    Args:
        learning_rate: of Adam.
        value_coefficient: alpha.
        value_loss: `"squared"` (Algorithm 3) or `"smooth-l1"` (the program).
        entropy: weight of the entropy bonus.
        channels, hidden: of the network.
        gain: of the orthogonal first weights of every layer, 1 in the program; None: sqrt(2) before a ReLU, 0.01 for
            the policy and 1 for the value.
    """

    learning_rate: float = 1e-3
    value_coefficient: float = 0.5
    value_loss: str = "squared"
    entropy: float = 0.0
    channels: int = 16
    hidden: int = 64
    gain: float | None = None

    def __post_init__(self) -> None:
        read_choice(self.value_loss, "value_loss", LOSSES)
        for name in ("learning_rate", "value_coefficient", "entropy"):
            read_number(vars(self)[name], name, 0.0)
        for name in ("channels", "hidden"):
            read_count(vars(self)[name], name)
        if self.gain is not None:
            read_positive(self.gain, "gain")


class Agent:
    """A network with its optimiser. `table` [S, A] holds the action probabilities of every state."""

    def __init__(
        self,
        features: Array,
        available: Bool | None,
        num_actions: int,
        settings: A2CSettings,
        generator: np.random.Generator,
    ) -> None:
        mask = None if available is None else available.tobytes()
        array = features.tobytes(), features.dtype.str, features.shape
        self._compiled = _compile(*array, num_actions, settings, mask)
        self._restore(self._compiled.network.initial(generator, settings.gain))

    def reset_optimiser(self) -> None:
        """Forget Adam's averages."""
        self._restore(join(self._weights))

    def _restore(
        self, weights: Float32, count: int = 0, mean: Float32 | None = None, square: Float32 | None = None
    ) -> None:
        """Weights, how many steps Adam has made, and its averages of gradients and of their squares."""
        empty = np.zeros_like(weights)
        parts = weights, empty if mean is None else mean, empty if square is None else square
        self._weights, *averages = self._compiled.split(*parts)
        self._optimiser = np.array(count, np.int32), *averages
        self.table: Float = np.asarray(self._compiled.table(self._weights), dtype=np.float64)

    def train(self, states: Array, actions: Array, rewards: Float, length: int) -> None:
        """One step of Adam on an episode of `length` steps that earned `rewards` [length]; rows beyond do not count."""
        batch = kernels.to_go(states, actions, rewards, length)
        self._weights, self._optimiser, table = self._compiled.step(self._weights, self._optimiser, *batch)
        self.table = np.asarray(table, dtype=np.float64)

    def state(self) -> dict[str, Array]:
        count, mean, square = self._optimiser
        averages = {"mean": join(mean), "square": join(square)}
        return {"weights": join(self._weights), "count": np.array(count)} | averages

    def load_state(self, state: Arrays) -> None:
        shape = (self._compiled.network.size,)
        for name, wanted in (("weights", shape), ("mean", shape), ("square", shape), ("count", ())):
            array = state[name]
            if array.shape != wanted or array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise RunError(f"not the state of this network: its {name} make no sense, of shape {array.shape}")
        weights, mean, square = (state[name].astype(np.float32) for name in ("weights", "mean", "square"))
        self._restore(weights, int(state["count"]), mean, square)


@dataclass(frozen=True)
class _Compiled:
    network: Network
    step: Any
    table: Any
    split: Any


@lru_cache(maxsize=16)
def _compile(
    features: bytes,
    dtype: str,
    shape: tuple[int, ...],
    num_actions: int,
    settings: A2CSettings,
    available: bytes | None,
) -> _Compiled:
    """One step of Adam on L(theta) of an episode, and the table of action probabilities of all states, compiled.

    Agents of one shape on the same features share them: arrays are passed as bytes, by which they are told apart.
    """
    jax, optax = import_jax()
    jnp = jax.numpy
    S = shape[0]
    network = Network(np.frombuffer(features, dtype).reshape(shape), num_actions, settings.channels, settings.hidden)
    inputs, which = jnp.asarray(network.inputs), jnp.asarray(network.which)
    mask = None if available is None else jnp.asarray(np.frombuffer(available, bool).reshape(S, num_actions))
    optimiser = optax.adam(settings.learning_rate)

    def logits_and_values(weights: Any, states: Any) -> tuple[Any, Any]:
        logits, values = network.forward(weights, inputs, which[states])
        return (logits if mask is None else jnp.where(mask[states], logits, -1e9)), values

    def loss(weights: Any, states: Any, actions: Any, returns: Any, counted: Any) -> Any:
        logits, values = logits_and_values(weights, states)
        log = jax.nn.log_softmax(logits)
        chosen = log[jnp.arange(states.size), actions]
        error = returns - values
        if settings.value_loss == "squared":
            value_loss = error**2
        else:
            value_loss = jnp.where(jnp.abs(error) < 1.0, 0.5 * error**2, jnp.abs(error) - 0.5)
        entropy = -(jnp.exp(log) * jnp.where(jnp.exp(log) > 0.0, log, 0.0)).sum(axis=1)
        each = -chosen * jax.lax.stop_gradient(error) + settings.value_coefficient * value_loss
        return (counted * (each - settings.entropy * entropy)).sum() / counted.sum()

    def table(weights: Any) -> Any:
        return jax.nn.softmax(logits_and_values(weights, jnp.arange(S))[0])

    def step(weights: Any, state: Any, states: Any, actions: Any, returns: Any, counted: Any) -> Any:
        gradient = jax.grad(loss)(weights, states, actions, returns, counted)
        adam = optax.ScaleByAdamState(*state)
        update, (after, *_) = optimiser.update(gradient, (adam, optax.EmptyState()))
        weights = optax.apply_updates(weights, update)
        return weights, (after.count, after.mu, after.nu), table(weights)

    def split(*vectors: Any) -> list[Any]:
        return [network.split(vector) for vector in vectors]

    return _Compiled(network, jax.jit(step, donate_argnums=(0, 1)), jax.jit(table), jax.jit(split))


@lru_cache(maxsize=4)
def one_hot(num_states: int) -> Float32:
    """[S, S]: what a network sees where a task has no features."""
    return np.eye(num_states, dtype=np.float32)


# -- fictitious episodes ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class A2C:
    """A2C on fictitious episodes, to be given to a planner: `Lagrangian(oracle=A2C())`.

    Args:
        preset: `"default"` (Algorithm 3) or `"authors"` (the loss of the paper's program); `settings` overrides it.
        settings: `A2CSettings`.
        reset: what a planning call starts from: `"none"`: new weights and optimiser; `"warm-start"`: the weights of the
            last call, a new optimiser; `"continue"`: both of the last call. They are in the plan's `start`.
        episodes: fictitious episodes for each direction.
        final_episodes: for the policy that is returned at last.
        seed: of weights and episodes; by default that of the learner that it plans for, else 0.
    """

    preset: str = "default"
    settings: A2CSettings | None = None
    reset: str = "none"
    episodes: int = 1
    final_episodes: int = 10
    seed: int | None = None

    def __post_init__(self) -> None:
        read_choice(self.preset, "preset", PRESETS)
        read_choice(self.reset, "reset", RESETS)
        if self.settings is not None and not isinstance(self.settings, A2CSettings):
            raise SpecError(f"settings is {shown(self.settings)}; it must be A2CSettings")
        for name in ("episodes", "final_episodes"):
            read_count(vars(self)[name], name)
        if self.seed is not None and (not is_int(self.seed) or self.seed < 0):
            raise SpecError(f"seed is {shown(self.seed)}; it must be a whole number of at least 0")
        import_jax()

    @property
    def numbers(self) -> A2CSettings:
        return A2CSettings(**PRESETS[self.preset]) if self.settings is None else self.settings

    def __call__(self, mdp: ConstrainedMDP) -> Fictitious:
        """Answers for a model, from new weights."""
        return self.resume(mdp, None)

    def resume(self, mdp: ConstrainedMDP, learned: Arrays | None) -> Fictitious:
        """Answers for a model, from what the answers for the last one had learned."""
        calls = 0 if learned is None else _calls(learned)
        origin = mdp.origin
        seed = self.seed if self.seed is not None or origin is None else origin.seed
        generator = randomness(seed, calls + 1, TRAIN)  # of this call
        first = generator if self.reset == "none" else randomness(seed, 0, TRAIN)
        agent = Agent(*_seen(mdp), mdp.num_actions, self.numbers, first)
        if learned is not None and self.reset != "none":
            agent.load_state(learned)
            if self.reset == "warm-start":
                agent.reset_optimiser()
        states = np.arange(mdp.num_states) if origin is None else origin.state
        return Fictitious(mdp, agent, states, generator, self, calls + 1)


def _calls(learned: Arrays) -> int:
    """How many planning calls there were."""
    if learned.keys() != {"weights", "count", "mean", "square", "calls"}:
        raise RunError(f"start is not that of A2C: its oracle holds {', '.join(sorted(learned)) or 'nothing'}")
    calls = learned["calls"]
    if calls.shape != () or calls.dtype.kind not in "iu" or calls < 0:
        raise RunError("start is not that of A2C: its number of calls makes no sense")
    return int(calls)


def _seen(mdp: ConstrainedMDP) -> tuple[Array, Bool | None]:
    """What the network sees, of all states of the task; and which actions exist."""
    if mdp.step_dependent or (mdp.origin is not None and mdp.origin.task.step_dependent):
        raise SpecError("A2C's network does not see the step, on which the model depends; use an exact planner")
    if mdp.origin is not None:
        return mdp.origin.features, mdp.origin.available
    features = one_hot(mdp.num_states) if mdp.features is None else mdp.features
    return features, None if mdp.available.all() else mdp.available


class Fictitious:
    """`Responder` of a model: trains on episodes drawn from it, with the scalar pay w.(r, c) + |w|.b."""

    def __init__(
        self, mdp: ConstrainedMDP, agent: Agent, states: Int, generator: np.random.Generator, numbers: A2C, calls: int
    ) -> None:
        self.mdp = mdp
        self.agent = agent
        self._states = states  # [n]: the agent's state behind each of the model's
        self._generator = generator
        self._numbers = numbers
        self._calls = calls  # of the planner, this one included
        self._dynamics = Dynamics(mdp)

    def respond(self, w: Float) -> Policy:
        """The policy after training a little more, for w."""
        return self._train(w, self._numbers.episodes)

    def finish(self, w: Float) -> Policy:
        """The same with the training of a final policy."""
        return self._train(w, self._numbers.final_episodes)

    def learned(self) -> Arrays:
        """Weights, optimiser and the number of planning calls."""
        arrays = self.agent.state() | {"calls": np.array(self._calls)}
        return {name: sealed(array) for name, array in arrays.items()}  # a plan need not copy what nobody can change

    def _train(self, w: Float, episodes: int) -> Policy:
        mdp = self.mdp
        pay = mdp.pay_along(w)
        H = need_steps(mdp.horizon, "the oracle 'a2c'")
        for _ in range(episodes):
            table = self.agent.table[self._states][None]
            drawn = self._dynamics.rollout(table, pay[:, None], self._generator.random((H + 1, 2)))
            self.agent.train(self._states[drawn.states[:H]], drawn.actions, drawn.paid[:, 0], H)
        return stationary(self.agent.table[self._states], H)


def stationary(table: Float, horizon: int) -> Policy:
    """The Markov policy that plays table [S, A] at every step."""
    rows = table / table.sum(axis=1, keepdims=True)
    # As `np.broadcast_to` has it, in a tenth of the time.
    return Policy._trusted(np.ndarray((horizon, *rows.shape), rows.dtype, rows, 0, (0, *rows.strides)))
