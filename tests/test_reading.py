"""Slices, padding, joins and gathers where compilers of this kind go wrong; numbers are those of our case list."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from support import DTYPES, INTEGERS, Batch, Case


def _case(name, f, args, **options):
    return Case(name, f, args, kernels=None, **options)


def _values(shape, dtype="float32"):
    return (np.arange(int(np.prod(shape))).reshape(shape) + 1).astype(jnp.dtype(dtype))


def _rank_0(s):
    return (
        lax.rev(s, ()),
        lax.dynamic_slice(s, (), ()),
        jnp.transpose(s),
        s.reshape(1, 1),
        jnp.sum(s),
        jnp.broadcast_to(s, (2, 2)),
        jnp.squeeze(s[None]) + 1,
        lax.pad(s, s, ()),
    )


def _padding(x):
    return (
        lax.pad(x, np.float32(0), ((-1, 2, 0),)),
        lax.pad(x, np.float32(9), ((1, -2, 1),)),
        jax.grad(lambda v: (jnp.pad(v, (2, 1)) ** 2).sum())(x),
        jax.grad(lambda v: v[1:-1:2].sum())(x),
        jnp.pad(x, 2, mode="edge"),
        jnp.pad(x, 2, mode="reflect"),
    )


def _iotas(x):
    return (
        lax.broadcasted_iota(jnp.int32, (2, 3), 0) + x,
        lax.broadcasted_iota(jnp.float32, (2, 3), 1),
        jnp.arange(3, dtype=jnp.uint8),
        jnp.eye(2),
        jnp.linspace(0.0, 1.0, 5),
        jnp.tri(3),
        jnp.arange(300, dtype=jnp.bfloat16),
    )


def _clamps(x, starts):
    def one(i):
        y = lax.dynamic_update_slice(x, jnp.array([8.0, 9.0]), (i,))
        return lax.dynamic_slice(x, (i,), (2,)), y, lax.dynamic_index_in_dim(x, i, keepdims=False)

    return [one(i) for i in starts]


def _gathers(x, n, i):
    return (
        x[i],
        jnp.take(x, i),
        jnp.take(n, i),
        x.at[i].get(mode="fill", fill_value=-9),
        x.at[i].get(mode="clip"),
        jnp.take_along_axis(x, i, 0),
        n[i.astype(jnp.uint8)],
    )


def _numpy_indexing(x, i, j):
    return (
        x[i],
        x[:, i],
        x[i, j],
        x[j, :, i],
        x[:, 1:, j],
        x[0, ..., j],
        x[i[..., None], j, 1],
        jax.vmap(lambda row, k: row[k])(x, i[:, 0]),
        jax.vmap(lambda row, k: lax.dynamic_slice(row, (k, 0), (2, 2)))(x, i[:, 0]),
    )


def _stencil(x):
    """Shifted reads of one array."""
    inner = x[1:-1, 1:-1]
    sides = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return x.at[1:-1, 1:-1].get() * 0.5 + sides / 8, jnp.roll(x, 3, 1) - jnp.roll(x, -1, 0), inner[::-1, ::2].T


def _joins(x, y):
    return (
        jnp.concatenate([x, y * 2, x[:0], x + 1]),
        jnp.concatenate([x.T, (y * 2).T], axis=1),
        jnp.stack([x[0], y[0], x[1] - y[1]], axis=1),
        jnp.repeat(x, 3, axis=1),
        jnp.tile(x, (2, 3)),
        jnp.split(x, 2, axis=1),
        jnp.hstack([x[:, :1], x[:, 1:]]),
    )


EDGES = {
    dtype: [
        np.dtype(dtype).type(v)
        for v in (0, 3, 99, -1, -9, np.iinfo(dtype).max, np.iinfo(dtype).min)
        if v in range(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    ]
    for dtype in INTEGERS
}

CASES = [
    _case("34 rank 0", _rank_0, (np.float32(2.5),)),
    _case("37 padding", _padding, (np.arange(1, 6, dtype=np.float32),)),
    _case("40 iota", _iotas, (np.int32(1),), ulp=1),
    _case("66 starts are clamped", _clamps, (_values((4,)), [np.int32(v) for v in (0, 3, 9, -1, -9)])),
    *(
        _case(
            f"66 starts of dtype {dtype}",
            lambda x, starts: [lax.dynamic_slice(x, (i, i), (2, 3)) for i in starts],
            (_values((5, 4)), starts),
            x64=True,
        )
        for dtype, starts in EDGES.items()
    ),
    _case(
        "68 indices outside",
        _gathers,
        (_values((3,)) * 10, _values((3,), "int32") * 10, np.array([0, 2, -1, 3, -4, 99], np.int32)),
    ),
    _case("indexing as in NumPy", _numpy_indexing, (_values((2, 3, 4)), np.array([[0, 2], [1, -1]]), np.array([3, 0]))),
    _case("a table", lambda t, i: t[i] * 2, (_values((50, 33)), np.arange(77) * 13 % 57 - 3)),
    _case("an empty table", lambda t, i: (t[i], t[:0].sum(0)), (_values((4, 3)), np.zeros((0, 2), int))),
    _case("a stencil", _stencil, (_values((9, 70)),), ulp=2),
    _case("joins", _joins, (_values((2, 6)), -_values((3, 6))[:2])),
    *(
        _case(
            f"every dtype {dtype}",
            lambda x: (
                x[::-1, 1:],
                lax.pad(x, x[0, 0], ((1, 0, 1), (0, 2, 0))),
                x.T,
                jnp.concatenate([x, x], 1),
                x[jnp.array([2, 0])],
            ),
            ((np.arange(70 * 3).reshape(3, 70) % 5 - 1).astype(jnp.dtype(dtype)),),
            x64=True,
        )
        for dtype in DTYPES
    ),
]

BATCH = Batch(CASES)


@BATCH.parametrize()
def test_case(name) -> None:
    BATCH.check(name)
