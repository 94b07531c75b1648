"""The network of the paper's experiments: what a state looks like -> action probabilities and a value.

    image [C, m, n]  ->  3x3 convolution with 16 channels  ->  ReLU  ->  64 units  ->  ReLU  ->  policy and value heads

(REPRODUCTION of Brantley et al. 2020, Appendix E.) Features that are no image skip the convolution. There are finitely
many states, so the 3x3 patches of all of them are cut out once, and the convolution is a matrix product. All weights
are one flat vector, which is what is trained and saved. Needs the extra `deep` (jax).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl.errors import SpecError

Float32 = NDArray[np.float32]

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def import_jax() -> tuple[Any, Any]:
    """jax and optax, or what to install. A small network is trained on one thread, which also makes it reproducible."""
    if "jax" not in sys.modules:
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_cpu_multi_thread_eigen" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
    try:
        import jax
        import optax
    except ImportError as error:
        raise SpecError(f"A2C needs the extra: pip install 'conrl[deep]' ({error})") from None
    return jax, optax


@dataclass(frozen=True)
class Layer:
    """A part of the flat vector: a matrix [rows, columns] and its bias [columns]."""

    rows: int
    columns: int
    begin: int

    @property
    def end(self) -> int:
        return self.begin + (self.rows + 1) * self.columns


class Network:
    """The shape of the network for given features [S, ...] and actions; weights are passed in."""

    def __init__(self, features: NDArray[Any], num_actions: int, channels: int = 16, hidden: int = 64) -> None:
        S = features.shape[0]
        image = features.ndim in (3, 4) and min(features.shape[-2:]) >= 3
        inputs = (
            _patches(features if features.ndim == 4 else features[:, None]) if image else features.reshape(S, 1, -1)
        )
        self.inputs: Float32 = np.ascontiguousarray(inputs, dtype=np.float32)  # [S, places, width]
        self.image = image
        self.layers: list[Layer] = []
        width = self.inputs.shape[2]
        if image:
            self._add(width, channels)
            width = self.inputs.shape[1] * channels
        self._add(width, hidden)
        self._add(hidden, num_actions)
        self._add(hidden, 1)

    def _add(self, rows: int, columns: int) -> None:
        self.layers.append(Layer(rows, columns, self.size))

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.layers[-1].end if self.layers else 0

    def initial(self, generator: np.random.Generator) -> Float32:
        """Orthogonal matrices, biases of 0. Gains: sqrt(2) before a ReLU, 0.01 for the policy, 1 for the value."""
        weights = np.zeros(self.size, dtype=np.float32)
        gains = [2.0**0.5] * (len(self.layers) - 2) + [0.01, 1.0]
        for layer, gain in zip(self.layers, gains, strict=True):
            matrix = gain * _orthogonal(generator, layer.rows, layer.columns)
            weights[layer.begin : layer.begin + matrix.size] = matrix.reshape(-1)
        return weights

    def forward(self, weights: Any, inputs: Any) -> tuple[Any, Any]:
        """Logits [n, A] and values [n] of inputs [n, places, width], in jax."""
        jax, _ = import_jax()
        x = inputs
        for layer in self.layers[:-2]:
            x = jax.nn.relu(_linear(weights, layer, x))
            x = x.reshape(x.shape[0], -1) if x.ndim == 3 else x
        if x.ndim == 3:
            x = x.reshape(x.shape[0], -1)
        return _linear(weights, self.layers[-2], x), _linear(weights, self.layers[-1], x)[:, 0]


def _linear(weights: Any, layer: Layer, x: Any) -> Any:
    split = layer.begin + layer.rows * layer.columns
    matrix = weights[layer.begin : split].reshape(layer.rows, layer.columns)
    return x @ matrix + weights[split : layer.end]


def _orthogonal(generator: np.random.Generator, rows: int, columns: int) -> NDArray[Any]:
    """Uniform among the matrices with orthogonal columns (rows, if there are fewer)."""
    tall, narrow = max(rows, columns), min(rows, columns)
    drawn = generator.standard_normal((tall, narrow))
    if tall >= 4 * narrow and tall * narrow >= 10_000:  # well conditioned: no need of LAPACK and its threads
        q = np.asarray(_by_cholesky()(drawn.astype(np.float32)))
    else:
        q, r = np.linalg.qr(drawn)
        q = q * np.sign(np.diag(r))
    return q if rows >= columns else q.T


@lru_cache
def _by_cholesky() -> Any:
    """X -> X L^-T with X'X = LL': the orthogonal factor of X, in one compiled pass."""
    jax, _ = import_jax()
    jnp = jax.numpy

    def factor(x: Any) -> Any:
        lower = jnp.linalg.cholesky(x.T @ x)
        return jax.scipy.linalg.solve_triangular(lower, x.T, lower=True).T

    return jax.jit(factor)


def _patches(images: NDArray[Any]) -> NDArray[Any]:
    """[S, m*n, 9C] of images [S, C, m, n]: what a 3x3 convolution sees at each cell, zeros beyond the edge."""
    S, C, m, n = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    shifted = [padded[:, :, i : i + m, j : j + n] for i in range(3) for j in range(3)]
    return np.stack(shifted, axis=-1).reshape(S, C, m * n, 9).transpose(0, 2, 1, 3).reshape(S, m * n, 9 * C)
