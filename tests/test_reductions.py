"""Reductions, running totals and windows where compilers of this kind go wrong; numbers are those of our case list.

NaN, signed zeros, ties, nothing to reduce, dtypes that stay or grow, long sums, and what follows a reduction.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support import DTYPES, FLOATS, INTEGERS, Batch, Case

import juju

NAN, INF = np.float32(np.nan), np.float32(np.inf)
RNG = np.random.RandomState(5)


def f32(*values):
    return np.array(values, np.float32)


def _normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def _case(name, f, args, **options):
    return Case(name, f, args, kernels=None, **options)


SPECIAL = f32(
    [NAN, 1, 2], [1, NAN, 2], [1, 2, NAN], [0, 0, 0], [-0.0] * 3, [INF, -INF, 1], [-INF, -INF, -INF], [-INF, NAN, INF]
)
ZEROS = f32(
    [0, -0.0, 0], [-0.0, 0, -0.0], [0, -0.0, -0.0], [-0.0, -0.0, 0], [-0.0] * 3, [0] * 3, [-0.0, 0, 1], [-1, -0.0, 0]
)
TIES = f32([3, 1, 3, 3], [1, NAN, 5, NAN], [-INF] * 4, [0, -0.0, 0, -0.0])


def _empty(z):
    return (
        z + 1,
        jnp.sum(z),
        jnp.sum(z, 0),
        jnp.sum(z, 1),
        jnp.prod(z, 0),
        jnp.max(z, initial=-5.0),
        jnp.any(z),
        jnp.all(z, 0),
        jax.nn.softmax(z, 1),
        jnp.mean(z, 0),
        lax.reduce_max(z, (0,)),
        lax.reduce_min(z.astype(jnp.int8), (0,)),
        lax.reduce_and(z.astype(jnp.uint16), (0,)),
        lax.cumsum(z, 1),
    )


def _consumers(a):
    return a / a.max(), a - a.mean(), (a - a.min()) / (a.max() - a.min()), jax.nn.softmax(a), jax.nn.logsumexp(a)


def _rows(x):
    mean = x.mean(-1, keepdims=True)
    deviation = jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-6)
    return (x - mean) / deviation, jax.nn.log_softmax(x), jnp.linalg.norm(x, axis=1), x.std(1), x.var()


def _options(x):
    return (
        jnp.sum(x, (0, -1), where=x > 2, initial=10.0),
        jnp.max(x, 1, where=x < 5, initial=-1.0),
        x.min((0, 2), keepdims=True),
        jnp.mean(x, where=x > 100),
        jnp.ptp(x, 2),
        jnp.prod(x + 1, (0, 1, 2)),
    )


def _reducers(x, i):
    def argmin(a, b):
        return jax.tree.map(lambda p, q: jnp.where(a[0] <= b[0], p, q), a, b)

    return (
        lax.reduce(x, np.float32(-np.inf), lambda a, b: jnp.logaddexp(a, b), (0,)),
        lax.reduce((x, i), (np.float32(np.inf), np.int32(99)), argmin, (0,)),
        lax.reduce(i, np.int32(0), lax.bitwise_xor, (0,)),
        lax.cumlogsumexp(x),
    )


def _arguments(x):
    return (
        jnp.argmax(x, 1),
        jnp.argmin(x, 1),
        jnp.argmax(x),
        jnp.argmax(x > 2, 0),
        jnp.nanargmax(x[:2], 1),
    )


def _running(x, u):
    def multiply_add(a, b):
        return a[0] * b[0], a[0] * b[1] + a[1]

    return (
        lax.cumsum(x, 0, reverse=True),
        lax.cumprod(x, 0, reverse=True),
        lax.cummax(jnp.array([1.0, jnp.nan, 3.0])),
        lax.cummin(x, reverse=True),
        jnp.cumsum(u),
        lax.associative_scan(multiply_add, (x, x), reverse=True),
    )


def _views(x):
    return x.transpose(2, 0, 1).sum(1), x[:, ::2, 1::2].max((0, 2)), jnp.cumsum(x.T, 1)[0], jnp.argmax(x[::-1], 0)


def _broadcasts(x):
    return (
        jnp.broadcast_to(x, (3, 4)).sum(1),
        jnp.broadcast_to(x, (3, 4)).sum(0),
        jnp.broadcast_to(x.T, (4, 3)).max(1),
        (x + jnp.zeros((3, 1))).sum(),
    )


def _promotions(b, i8, u8, h):
    return (
        jnp.sum(b),
        jnp.sum(i8),
        jnp.sum(u8),
        lax.reduce_sum(i8, (0,)),
        lax.reduce_prod(u8, (0,)),
        jnp.mean(i8),
        jnp.prod(u8),
        jnp.cumsum(i8),
        jnp.cumsum(b),
        jnp.sum(h),
        jnp.mean(h),
        jnp.max(h),
        jnp.any(h > 1),
        jnp.count_nonzero(i8),
    )


def _pools(x):
    return (
        lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "SAME"),
        lax.reduce_window(x, np.float32(0), lax.add, (3, 3), (1, 1), "VALID") / 9,
        jax.grad(lambda v: (lax.reduce_window(v, -np.inf, lax.max, (2, 2), (1, 1), "SAME") ** 2).sum())(x),
    )


CASES = [
    _case(
        "NaN and signed zeros",
        lambda x: [f(x, 1) for f in (jnp.max, jnp.min, jnp.sum, jnp.prod, jnp.argmax, jnp.argmin)],
        (SPECIAL,),
    ),
    _case("NaN and signed zeros in columns", lambda x: [f(x, 0) for f in (jnp.max, jnp.min, jnp.sum)], (SPECIAL.T,)),
    _case("NaN in running extremes", lambda x: (lax.cummax(x, 1), lax.cummin(x, 1)), (SPECIAL,)),
    _case("31 empty", _empty, (np.zeros((0, 3), np.float32),)),
    _case("35 sum after broadcast", _broadcasts, (np.arange(4, dtype=np.float32).reshape(1, 4),)),
    _case("39 reductions of views", _views, (RNG.permutation(24).reshape(2, 3, 4).astype(np.float32),)),
    # A reduction and the loop that reads its result must not become one loop.
    _case("41 a reduction and its readers", _consumers, (np.linspace(0, 3, 3).astype(np.float32),), ulp=2),
    _case("41 a reduction and its readers, longer", _consumers, (_normal(4097),), scale=2e-6),
    _case("41 rows", _rows, (_normal(7, 33),), scale=2e-6),
    _case("41 one row", _rows, (_normal(1, 300),), scale=2e-6),
    _case("43 where, initial, keepdims", _options, (np.arange(8, dtype=np.float32).reshape(2, 2, 2),), ulp=2),
    _case("44 reducers", _reducers, (f32(1, -2, 0.5), np.array([10, 20, 30], np.int32)), ulp=2),
    _case("45 ties and NaN", _arguments, (TIES,)),
    _case("45 a late tie", lambda x: (jnp.argmax(x), jnp.argmin(x)), (np.tile(f32(1, 2, 0), 1000),)),
    _case("45 a late NaN", lambda x: (jnp.argmax(x), jnp.argmin(x)), (np.append(_normal(4000), [NAN, 9, NAN]),)),
    _case("49 running totals", _running, (f32(1, 2, 3), np.array([200, 100], np.uint8)), ulp=1),
    _case(
        "49 long running totals",
        lambda x: [f(x, axis, rev) for f in (lax.cumsum, lax.cummax) for axis in (0, 1) for rev in (False, True)],
        (_normal(5, 1000),),
        scale=1e-5,
    ),
    _case(
        "promotions",
        _promotions,
        (
            np.arange(300) % 3 == 0,
            (np.arange(300) % 100).astype(np.int8),
            (np.arange(300) % 7 + 1).astype(np.uint8),
            (np.arange(300) / 100).astype(np.float16),
        ),
        ulp=1,
    ),
    _case("windows and their gradient", _pools, (RNG.randint(0, 5, (6, 7)).astype(np.float32),), ulp=4),
    *(
        _case(
            f"lone sums {shape} {dtype}",
            lambda x: [f(x, axis) for f in (jnp.sum, jnp.max) for axis in (None, 0, 1)],
            ((_normal(*shape) * 8).astype(jnp.dtype(dtype)),),
            scale={"bfloat16": 1e-2, "float16": 2e-3}.get(dtype, 1e-6),
        )
        for shape in ((1, 1), (3, 65), (65, 3), (1, 1000), (1000, 1), (33, 257))
        for dtype in (("float32", "bfloat16", "int16") if shape == (33, 257) else ("float32",))
    ),
    *(
        _case(
            f"every reduction {dtype}",
            lambda x, dtype=dtype: [
                *(f(x, axes) for f in (lax.reduce_max, lax.reduce_min) for axes in ((0,), (1,), (0, 1))),
                *([f(x, (1,)) for f in (lax.reduce_sum, lax.reduce_prod)] if dtype != "bool" else []),
                *([f(x, (1,)) for f in (lax.reduce_and, lax.reduce_or, lax.reduce_xor)] if dtype not in FLOATS else []),
                *(f(x, axis, jnp.int32) for f in (lax.argmax, lax.argmin) for axis in (0, 1)),
            ],
            (
                (RNG.randint(-3, 4, (5, 18)) if dtype not in INTEGERS[4:] else RNG.randint(0, 5, (5, 18))).astype(
                    jnp.dtype(dtype)
                ),
            ),
            x64=True,
        )
        for dtype in DTYPES
    ),
]

BATCH = Batch(CASES)


@BATCH.parametrize()
def test_case(name) -> None:
    BATCH.check(name)


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_of_zeros_the_greatest_is_the_positive_one(along) -> None:
    """As `lax.max` has it; which zero a reduction of XLA gives depends on how it was vectorised."""
    columns = list(ZEROS.T)
    x, axis = (ZEROS, 1) if along == "rows" else (ZEROS.T, 0)
    got = juju.fuse(lambda x: (x.max(axis), x.min(axis)))(x)
    for value, step in zip(got, (lax.max, lax.min), strict=True):
        want = functools.reduce(step, columns)
        np.testing.assert_array_equal(np.asarray(value).view(np.int32), np.asarray(want).view(np.int32))


@pytest.mark.parametrize("shape", [(1_000_000,), (1_000_000, 1), (1000, 1000)], ids=str)
def test_47_sums_of_many_terms(shape) -> None:
    """One accumulator gives 100958 for a million times 0.1; columns of ones stick at 16777216."""
    x = np.full(shape, 0.1, np.float32)
    total, columns, rows = juju.fuse(lambda x: (jnp.sum(x), jnp.sum(x, 0), jnp.sum(x, -1)))(x)
    for got, want in ((total, x.astype(np.float64).sum()), (columns, x.astype(np.float64).sum(0))):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    np.testing.assert_allclose(rows, x.astype(np.float64).sum(-1), rtol=1e-5)


def test_47_a_column_of_twenty_million_ones() -> None:
    ones = np.ones((20_000_000, 1), np.float32)
    column, total = juju.fuse(lambda o: (jnp.sum(o, 0), jnp.sum(o)))(ones)
    assert (column.tolist(), float(total)) == ([2e7], 2e7)
