"""The network of the paper's experiments: what a state looks like -> action probabilities and a value.

    image [C, m, n]  ->  3x3 convolution with 16 channels  ->  ReLU  ->  64 units  ->  ReLU  ->  policy and value heads

(Brantley et al. 2020, Appendix E, and the program behind it.) Features that are no image skip the convolution. There
are finitely many states, so the 3x3 patches of all of them are cut out once, those that are equal are kept once, and
the convolution is a matrix product. All weights are one flat vector where they are drawn and saved, and a list of
matrices and biases where they are trained: slices of one vector made the gradient three times slower. Needs the extra
`deep`.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl._types import Array, Float32
from conrl.errors import SpecError

FEW = 7  # right-hand sides for which OpenBLAS solves a triangular system on one thread
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def import_jax() -> tuple[Any, Any]:
    """jax and optax, or what to install. A small network is trained on one thread, which also makes it reproducible."""
    ours = "jax" not in sys.modules  # settings of a program that uses jax itself stay as they are
    if ours:
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_cpu_multi_thread_eigen" not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
    try:
        jax, optax = import_module("jax"), import_module("optax")
    except ImportError as error:
        raise SpecError(f"A2C needs the extra: pip install 'conrl[deep]' ({error})") from None
    if ours:
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # each update is waited for: no second thread
    return jax, optax


class Network:
    """The shape of the network for given features [S, ...] and actions; weights are passed in."""

    def __init__(self, features: Array, num_actions: int, channels: int = 16, hidden: int = 64) -> None:
        S = features.shape[0]
        image = features.ndim in (3, 4) and min(features.shape[-2:]) >= 3
        seen, which = features.reshape(S, -1), np.arange(S)
        if image:
            cut = _patches(features if features.ndim == 4 else features[:, None])
            seen, which = np.unique(cut.reshape(-1, cut.shape[2]), axis=0, return_inverse=True)
        self.inputs: Float32 = np.ascontiguousarray(seen, dtype=np.float32)  # [distinct patches, width]
        self.which: NDArray[np.int32] = which.reshape(S, -1).astype(np.int32)  # [S, cells]: into them
        self.image = image
        cells, width = self.which.shape[1], self.inputs.shape[1]
        body = [(width, channels), (cells * channels, hidden)] if image else [(width, hidden)]
        self.shapes = [*body, (hidden, num_actions), (hidden, 1)]  # of the matrices; a bias has the columns of its own
        self.size = sum((rows + 1) * columns for rows, columns in self.shapes)  # weights

    def initial(self, generator: np.random.Generator, gain: float | None = None) -> Float32:
        """Orthogonal matrices times a gain, biases of 0.

        Without a gain: sqrt(2) before a ReLU, 0.01 for the policy, 1 for the value.
        """
        count = len(self.shapes)
        gains = [2.0**0.5] * (count - 2) + [0.01, 1.0] if gain is None else [gain] * count
        layers = zip(self.shapes, gains, strict=True)
        return join((own * _orthogonal(generator, *shape), np.zeros(shape[1])) for shape, own in layers)

    def split(self, weights: Any) -> list[tuple[Any, Any]]:
        """The matrix and the bias of each layer."""
        parts, at = [], 0
        for rows, columns in self.shapes:
            middle, end = at + rows * columns, at + (rows + 1) * columns
            parts.append((weights[at:middle].reshape(rows, columns), weights[middle:end]))
            at = end
        return parts

    def forward(self, parts: list[tuple[Any, Any]], inputs: Any, which: Any) -> tuple[Any, Any]:
        """Logits [n, A] and values [n] of n states, in jax; `inputs` and rows of `which` as in the attributes."""
        jax, _ = import_jax()
        *body, policy, value = parts
        if self.image:
            matrix, bias = body.pop(0)
            inputs = jax.nn.relu(inputs @ matrix + bias)
        x = inputs[which].reshape(which.shape[0], -1)
        for matrix, bias in body:
            x = jax.nn.relu(x @ matrix + bias)
        return x @ policy[0] + policy[1], (x @ value[0] + value[1])[:, 0]


def join(parts: Any) -> Float32:
    """The flat vector of matrices and biases."""
    return np.concatenate([np.asarray(array, dtype=np.float32).reshape(-1) for part in parts for array in part])


def _orthogonal(generator: np.random.Generator, rows: int, columns: int) -> Array:
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
    """X -> X L^-T with X'X = LL': the orthogonal factor of X, in one compiled pass.

    FEW rows at a time: for more, the library behind jax starts threads, which wait for each other on a busy machine.
    """
    jax, _ = import_jax()
    jnp, solve = jax.numpy, jax.scipy.linalg.solve_triangular

    def factor(x: Any) -> Any:
        lower = jnp.linalg.cholesky(x.T @ x)
        parts = jnp.pad(x, ((0, -x.shape[0] % FEW), (0, 0))).reshape(-1, FEW, x.shape[1])
        return jax.lax.map(lambda part: solve(lower, part.T, lower=True).T, parts).reshape(-1, x.shape[1])[: x.shape[0]]

    return jax.jit(factor)


def _patches(images: Array) -> Array:
    """[S, m*n, 9C] of images [S, C, m, n]: what a 3x3 convolution sees at each cell, zeros beyond the edge."""
    S, C, m, n = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    shifted = [padded[:, :, i : i + m, j : j + n] for i in range(3) for j in range(3)]
    return np.stack(shifted, axis=-1).reshape(S, C, m * n, 9).transpose(0, 2, 1, 3).reshape(S, m * n, 9 * C)
