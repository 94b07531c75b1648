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

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from conrl._types import Array, Bool, Float, Float32, Int
from conrl.arguments import is_int, is_number, read_choice, read_number
from conrl.errors import SpecError, shown
from conrl.model import ConstrainedMDP
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
            read_number(getattr(self, name), name, 0.0)
        for name in ("channels", "hidden"):
            if not is_int(getattr(self, name)) or getattr(self, name) < 1:
                raise SpecError(f"{name} is {shown(getattr(self, name))}; it must be a whole number of at least 1")
        if self.gain is not None and not (is_number(self.gain) and self.gain > 0.0):
            raise SpecError(f"gain is {shown(self.gain)}; it must be a number above 0")


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
        self.settings = settings
        self._network = Network(features, num_actions, settings.channels, settings.hidden)
        self._compiled = _compile(self._network, settings, None if available is None else available.tobytes())
        self.draw(generator)

    def draw(self, generator: np.random.Generator) -> None:
        """New weights and a new optimiser."""
        self._restore(self._network.initial(generator, self.settings.gain), 0, None, None)

    def reset_optimiser(self) -> None:
        """Forget Adam's averages."""
        self._restore(join(self._weights), 0, None, None)

    def _restore(self, weights: Float32, count: int, mean: Float32 | None, square: Float32 | None) -> None:
        zeros = np.zeros_like(weights)
        parts = self._compiled.split(weights)
        means, squares = (self._compiled.split(zeros if x is None else x) for x in (mean, square))
        self._weights, self._optimiser = parts, (np.array(count, np.int32), means, squares)
        self.table: Float = np.asarray(self._compiled.table(parts), dtype=np.float64)

    def train(self, states: Array, actions: Array, rewards: Float, length: int) -> None:
        """One step of Adam on an episode of `length` steps that earned `rewards` [length]; rows beyond do not count."""
        L = int(rewards.size)
        returns = np.zeros(length, dtype=np.float32)
        returns[:L] = np.cumsum(rewards[::-1])[::-1]
        s, a = np.zeros(length, dtype=np.int32), np.zeros(length, dtype=np.int32)
        s[:L], a[:L] = states[:L], actions[:L]
        counted = (np.arange(length) < L).astype(np.float32)
        self._weights, self._optimiser, table = self._compiled.step(
            self._weights, self._optimiser, s, a, returns, counted
        )
        self.table = np.asarray(table, dtype=np.float64)

    def state(self) -> dict[str, Array]:
        count, mean, square = self._optimiser
        averages = {"mean": join(mean), "square": join(square)}
        return {"weights": join(self._weights), "count": np.array(count)} | averages

    def load_state(self, state: Mapping[str, Array]) -> None:
        shape = (self._network.size,)
        for name, wanted in (("weights", shape), ("mean", shape), ("square", shape), ("count", ())):
            if state[name].shape != wanted or not np.isfinite(state[name]).all():
                raise SpecError(f"not the state of this network: {name} has shape {state[name].shape}")
        weights, mean, square = (state[name].astype(np.float32) for name in ("weights", "mean", "square"))
        self._restore(weights, int(state["count"]), mean, square)


@dataclass(frozen=True)
class _Compiled:
    step: Any
    table: Any
    split: Any


_KEEP: dict[Any, _Compiled] = {}
_KEEPING = threading.Lock()


def _compile(network: Network, settings: A2CSettings, available: bytes | None) -> _Compiled:
    """The compiled update and table of a network; networks of one shape on the same features share them."""
    shape = (network.inputs.shape, network.which.shape)
    key = (network.inputs.tobytes(), network.which.tobytes(), shape, tuple(network.layers), settings, available)
    with _KEEPING:
        if key not in _KEEP:
            if len(_KEEP) >= 16:
                _KEEP.pop(next(iter(_KEEP)))
            _KEEP[key] = _make(network, settings, available)
        return _KEEP[key]


def _make(network: Network, settings: A2CSettings, available: bytes | None) -> _Compiled:
    jax, optax = import_jax()
    jnp = jax.numpy
    inputs, which = jnp.asarray(network.inputs), jnp.asarray(network.which)
    S, A = network.which.shape[0], network.layers[-2].columns
    mask = None if available is None else jnp.asarray(np.frombuffer(available, dtype=bool).reshape(S, A))
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

    return _Compiled(jax.jit(step, donate_argnums=(0, 1)), jax.jit(table), jax.jit(network.split))


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
            last call, a new optimiser; `"continue"`: both of the last call.
        episodes: fictitious episodes for each direction.
        final_episodes: for the policy that is returned at last.
        seed: of weights and episodes; by default that of the learner that it plans for, else 0.

    Its weights are its state: one object serves one learner.
    """

    preset: str = "default"
    settings: A2CSettings | None = None
    reset: str = "none"
    episodes: int = 1
    final_episodes: int = 10
    seed: int | None = None
    _kept: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _learner: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)  # its seed

    def __post_init__(self) -> None:
        read_choice(self.preset, "preset", PRESETS)
        read_choice(self.reset, "reset", RESETS)
        if self.settings is not None and not isinstance(self.settings, A2CSettings):
            raise SpecError(f"settings is {shown(self.settings)}; it must be A2CSettings")
        for name in ("episodes", "final_episodes"):
            if not is_int(getattr(self, name)) or getattr(self, name) < 1:
                raise SpecError(f"{name} is {shown(getattr(self, name))}; it must be a whole number of at least 1")
        if self.seed is not None and (not is_int(self.seed) or self.seed < 0):
            raise SpecError(f"seed is {shown(self.seed)}; it must be a whole number of at least 0")
        import_jax()

    def reseed(self, seed: int) -> None:
        """The seed of the learner that it plans for, unless it has one of its own."""
        self._learner["seed"] = seed

    @property
    def numbers(self) -> A2CSettings:
        return A2CSettings(**PRESETS[self.preset]) if self.settings is None else self.settings

    def __call__(self, mdp: ConstrainedMDP) -> Fictitious:
        """Answers for a model."""
        calls = int(self._kept.get("calls", 0))
        seed = self._learner.get("seed") if self.seed is None else self.seed
        generator = randomness(seed, calls + 1, TRAIN)  # of this call
        agent: Agent | None = self._kept.get("agent")
        features, available, origin = _seen(mdp)
        if agent is None:
            agent = Agent(features, available, mdp.num_actions, self.numbers, randomness(seed, 0, TRAIN))
            if (saved := self._kept.pop("saved", None)) is not None:
                agent.load_state(saved)
        if self.reset == "none":
            agent.draw(generator)
        elif self.reset == "warm-start":
            agent.reset_optimiser()
        self._kept.update(agent=agent, calls=calls + 1)
        return Fictitious(mdp, agent, origin, generator, self.episodes, self.final_episodes)

    def state(self) -> dict[str, Array]:
        """Weights, optimiser and the number of calls, as arrays to save."""
        agent: Agent | None = self._kept.get("agent")
        saved = self._kept.get("saved", {}) if agent is None else agent.state()
        return {**saved, "calls": np.array(self._kept.get("calls", 0))} if self._kept else {}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` gave."""
        self._kept.clear()
        if state:
            weights = {name: array for name, array in state.items() if name != "calls"}
            self._kept["calls"] = int(state["calls"])
            if weights:
                self._kept["saved"] = weights


def _seen(mdp: ConstrainedMDP) -> tuple[Array, Bool | None, Int]:
    """What the network sees, of all states of the task; which actions exist; and the task's state at each place."""
    if mdp.origin is not None:
        return mdp.origin
    features = one_hot(mdp.num_states) if mdp.features is None else mdp.features
    return features, None if mdp.available.all() else mdp.available, np.arange(mdp.num_states)


class Fictitious:
    """`Responder` of a model: trains on episodes drawn from it, with the scalar pay w.(r, c) + |w|.b."""

    def __init__(
        self,
        mdp: ConstrainedMDP,
        agent: Agent,
        origin: Int,
        generator: np.random.Generator,
        episodes: int,
        final_episodes: int,
    ) -> None:
        self.mdp = mdp
        self.agent = agent
        self._origin = origin
        self._generator = generator
        self._episodes = episodes
        self._final = final_episodes
        self._dynamics = Dynamics(mdp)

    def respond(self, w: Float) -> Policy:
        """The policy after training a little more, for w."""
        return self._train(w, self._episodes)

    def finish(self, w: Float) -> Policy:
        """The same with the training of a final policy."""
        return self._train(w, self._final)

    def _train(self, w: Float, episodes: int) -> Policy:
        mdp = self.mdp
        pay = mdp.pay_along(w)
        H = mdp.horizon
        for _ in range(episodes):
            table = self.agent.table[self._origin][None]
            drawn = self._dynamics.rollout(table, pay[:, None], self._generator.random((H + 1, 2)), deterministic=False)
            self.agent.train(self._origin[drawn.states[:H]], drawn.actions, drawn.paid[:, 0], H)
        return stationary(self.agent.table[self._origin], H)


def stationary(table: Float, horizon: int) -> Policy:
    """The Markov policy that plays table [S, A] at every step."""
    return Policy._trusted(np.broadcast_to(table / table.sum(axis=1, keepdims=True), (horizon, *table.shape)))
