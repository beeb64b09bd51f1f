"""Sorting and selecting: NaN, zeros, ties, several keys, all dtypes, any axis; the numbers of long and short rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support import DTYPES, FLOATS, Batch, Case, edge_values

import juju

LENGTHS = (1, 2, 3, 16, 32, 40, 41, 257, 1000, (1 << 14) + 3)
"""Around the lengths at which rows are sorted otherwise."""


def _case(name, f, args, **options):
    return Case(name, f, args, kernels=None, **options)


def _shuffled(dtype, count=300):
    """Edge values, many times each, in no order."""
    values = edge_values(dtype)
    return np.random.default_rng(0).permutation(np.resize(values, count))


def _special(dtype):
    x = np.array([2.0, np.nan, np.nan, -np.inf, 0.0, -0.0, 2.0, np.inf, -0.0, 0.0, -1.0]).astype(jnp.dtype(dtype))
    x[1] = -x[1]
    return x


def _falling(dtype):
    return np.arange(-3, 9).astype(jnp.dtype(dtype))[::-1] / 4


def _waves(*shape):
    return np.sin(np.arange(float(np.prod(shape)))).reshape(shape).astype(np.float32)


def _with_places(x):
    """The order itself, as no test could tell equal values apart otherwise."""
    return lax.sort((x, lax.iota(jnp.int32, x.size)), num_keys=1)


def _every_way(x):
    return jnp.sort(x), jnp.argsort(x), jnp.argsort(x, descending=True), jnp.sort(x, descending=True), _with_places(x)


def _rows(x):
    return jnp.sort(x), *_with_places(x[0])


def _short(x):
    return jnp.sort(x), lax.top_k(x, 3), lax.top_k(x, 17)


def _selected(x):
    return lax.top_k(x, 1), lax.top_k(x, 5), lax.top_k(x, x.shape[-1])


def _approximately(x):
    return lax.approx_max_k(x, 4), lax.approx_min_k(x, 4), lax.approx_max_k(x, 3, aggregate_to_topk=False)


def _axes(x):
    return (
        *(jnp.sort(x, axis) for axis in range(3)),
        *(jnp.argsort(x, axis) for axis in range(3)),
        *(lax.top_k(x, 2, axis=axis) for axis in range(3)),
        jnp.sort(x, None),
    )


def _lexsort(x, y, z):
    return (
        jnp.lexsort((x, y, z)),
        lax.sort((y, x, z), num_keys=2),
        lax.sort((z, x, y), num_keys=3),
        lax.sort((x, y), num_keys=1),
        lax.sort((y > 0, y), num_keys=2, is_stable=False),
    )


def _statistics(x):
    return (
        jnp.median(x),
        jnp.median(x, 0),
        jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]), axis=1),
        jnp.percentile(x, 30.0),
        jnp.sort(x, 1)[:, ::2] * 2,
    )


def _gradients(x):
    def weighted(v):
        return (jnp.sort(v) * jnp.arange(v.size)).sum() + lax.top_k(v, 3)[0].prod()

    return jax.grad(weighted)(x), jax.jvp(jnp.sort, (x,), (jnp.ones_like(x),)), jax.vmap(jnp.sort)(x[None])


def _degenerate(x, empty, flat_rows, s):
    return (
        jnp.sort(empty, 0),
        jnp.sort(empty, 1),
        jnp.argsort(empty, 1),
        jnp.sort(flat_rows),
        jnp.argsort(flat_rows),
        lax.top_k(x, 0),
        lax.top_k(empty.T, 0),
        jnp.sort(jnp.stack([s, s])),
        lax.sort((x, 2 * x[::-1]), num_keys=1),
    )


def _reused(x):
    """What is sorted is read again, and sorted again."""
    y = jnp.sort(x * 2)
    return y - x, jnp.sort(-y), y[::7], jnp.argsort(jnp.argsort(x))


NUMBERS = np.random.default_rng(1).standard_normal((4, 50)).astype(np.float32)
WIDE = np.random.default_rng(2).integers(-(2**62), 2**62, 500)

BATCH = Batch(
    [
        *(_case(f"sort, {d}", _every_way, (_shuffled(d),), x64=True) for d in DTYPES),
        *(_case(f"top_k, {d}", _selected, (_shuffled(d),), x64=True) for d in DTYPES),
        *(_case(f"special values, {d}", _every_way, (_special(d),), x64=True) for d in FLOATS),
        *(_case(f"special values of top_k, {d}", _selected, (_special(d),), x64=True) for d in FLOATS),
        *(
            _case(f"approx_top_k, {d}", _approximately, (np.arange(-3, 9).astype(jnp.dtype(d))[::-1] / 4,), x64=True)
            for d in FLOATS
        ),
        *(
            _case(f"rows of {n}", _rows, (np.sin(np.arange(2.0 * n)).reshape(2, n).astype(np.float32),))
            for n in LENGTHS
        ),
        *(_case(f"short rows, {d}", _short, (np.resize(_shuffled(d, 601), (50, 17)),), x64=True) for d in DTYPES),
        *(_case(f"short rows of {n}", jnp.sort, (_waves(67, n),)) for n in (2, 3, 4, 7, 9, 32, 33)),
        _case("64 bits", _every_way, (np.concatenate([WIDE, WIDE[:9] + 1, [0, -1]]),), x64=True),
        _case("64-bit floats", _every_way, (WIDE.view(np.float64),), x64=True),
        _case("equal digits", jnp.sort, (np.arange(100, dtype=np.int32) % 3,)),
        _case("axes", _axes, (_shuffled("float32", 60).reshape(3, 4, 5),)),
        _case(
            "several keys",
            _lexsort,
            (np.arange(200) % 7, (np.arange(200) % 5 - 2.0).astype(np.float32), np.arange(200) % 3 == 1),
            x64=True,
        ),
        _case("top 200 of rows", lambda x: lax.top_k(x, 200), (np.tile(_shuffled("float32"), (3, 1)),)),
        _case("statistics", _statistics, (NUMBERS,), ulp=4),
        _case("gradients", _gradients, (NUMBERS[0],), ulp=4),
        _case(
            "degenerate",
            _degenerate,
            (NUMBERS[0], np.zeros((3, 0), np.float32), np.ones((4, 1), np.int8), np.float32(3)),
        ),
        _case("read again", _reused, (NUMBERS[0],), scale=1e-6),
    ]
)


@BATCH.parametrize()
def test_like_jax(name: str) -> None:
    BATCH.check(name)


def test_nan_keeps_its_sign_and_zeros_their_order() -> None:
    x = np.array([0.0, -np.nan, -0.0, np.nan, 0.0, -1.0, -0.0], np.float32)
    got = np.asarray(juju.fuse(jnp.sort)(x))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x[[5, 0, 2, 4, 6, 1, 3]]))


def test_an_argsort_is_one_launch_and_a_sort_of_columns_three() -> None:
    rows, columns = juju.compile_all(
        [juju.fuse(f).lower(NUMBERS) for f in (lambda x: jnp.argsort(x, -1), lambda x: jnp.sort(x, 0))]
    )
    assert [len(exe.plan.launches) for exe in (rows, columns)] == [1, 3]


def test_the_text_of_a_call_names_its_kernel() -> None:
    exe = juju.fuse(lambda x: lax.top_k(x, 3)).lower(NUMBERS).compile()
    text = exe.plan.kernels[0].text
    assert "from juju_sort import top_rows" in text
    assert "top_rows[order=1](" in text


@pytest.mark.slow
def test_a_long_row() -> None:
    x = np.random.default_rng(3).standard_normal(1 << 20).astype(np.float32)
    exe = juju.fuse(lambda x: (jnp.sort(x), jnp.argsort(x))).lower(x).compile()
    values, places = exe.call_flat([jnp.asarray(x)])
    np.testing.assert_array_equal(values, np.sort(x))
    np.testing.assert_array_equal(places, np.argsort(x, stable=True))
