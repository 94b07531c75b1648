"""LANES numbers at a time, as tuples that the compiler keeps in vector registers."""

from typing import Any

from conrl.kernels.compiling import Array, emitted, inlined

Lanes = tuple[Any, ...]

LANES = 8  # doubles in a cache line


@inlined
def every(x: Any) -> Lanes:
    return (x, x, x, x, x, x, x, x)


@inlined
def row(table: Array, i: Any) -> Lanes:
    return (
        table[i, 0],
        table[i, 1],
        table[i, 2],
        table[i, 3],
        table[i, 4],
        table[i, 5],
        table[i, 6],
        table[i, 7],
    )


@inlined
def put(table: Array, i: Any, x: Lanes) -> None:
    table[i, 0] = x[0]
    table[i, 1] = x[1]
    table[i, 2] = x[2]
    table[i, 3] = x[3]
    table[i, 4] = x[4]
    table[i, 5] = x[5]
    table[i, 6] = x[6]
    table[i, 7] = x[7]


def _single(typing: Any, V: Any, i: Any) -> Any:
    """V[i], loaded by itself. Left to itself the compiler makes one instruction of the LANES loads of `gather`, which
    takes a fifth longer on AMD's processors; loads that are atomic stay apart."""

    from numba.core import types

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        at = context.cast(builder, arguments[1], signature.args[1], types.uint64)
        return builder.load_atomic(builder.gep(array.data, [at]), "unordered", 8)

    return V.dtype(V, i), load


def _checked(V: Array, i: Any) -> Any:
    return V[i]


single = emitted(_single, _checked)


@inlined
def gather(V: Array, t: Lanes) -> Lanes:
    """The numbers V[t], V being contiguous doubles."""
    return (
        single(V, t[0]),
        single(V, t[1]),
        single(V, t[2]),
        single(V, t[3]),
        single(V, t[4]),
        single(V, t[5]),
        single(V, t[6]),
        single(V, t[7]),
    )


@inlined
def add(q: Lanes, p: Lanes, v: Lanes) -> Lanes:
    return (
        q[0] + p[0] * v[0],
        q[1] + p[1] * v[1],
        q[2] + p[2] * v[2],
        q[3] + p[3] * v[3],
        q[4] + p[4] * v[4],
        q[5] + p[5] * v[5],
        q[6] + p[6] * v[6],
        q[7] + p[7] * v[7],
    )


@inlined
def where(c: Lanes, a: Any, x: Lanes, y: Lanes) -> Lanes:
    """x where c is a, else y."""
    return (
        x[0] if c[0] == a else y[0],
        x[1] if c[1] == a else y[1],
        x[2] if c[2] == a else y[2],
        x[3] if c[3] == a else y[3],
        x[4] if c[4] == a else y[4],
        x[5] if c[5] == a else y[5],
        x[6] if c[6] == a else y[6],
        x[7] if c[7] == a else y[7],
    )


@inlined
def pick(q: Lanes, c: Lanes, tie: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """x where q beats c by more than tie, else y."""
    return (
        x[0] if q[0] > c[0] + tie[0] else y[0],
        x[1] if q[1] > c[1] + tie[1] else y[1],
        x[2] if q[2] > c[2] + tie[2] else y[2],
        x[3] if q[3] > c[3] + tie[3] else y[3],
        x[4] if q[4] > c[4] + tie[4] else y[4],
        x[5] if q[5] > c[5] + tie[5] else y[5],
        x[6] if q[6] > c[6] + tie[6] else y[6],
        x[7] if q[7] > c[7] + tie[7] else y[7],
    )
