"""Rules of reductions over windows and of their derivatives, through the interpreter, against `jax.jit`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from interpreter import assert_interpreted, interpret
from jax import lax
from support import DTYPES, FLOATS
from test_rules_shape import has_reads, sample

from juju.errors import UnsupportedPrimitive

NAN, INF = np.nan, np.inf
TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 1e-6, "float64": 1e-14}


def pool(x, kind, *args, **kwargs):
    """`lax.reduce_window` by the primitive of its own."""
    step, first = {"sum": (lax.add, 0), "max": (lax.max, -INF), "min": (lax.min, INF)}[kind]
    if kind != "sum" and not jnp.issubdtype(x.dtype, jnp.floating):
        info = (False, True) if x.dtype == bool else (jnp.iinfo(x.dtype).min, jnp.iinfo(x.dtype).max)
        first = info[kind == "min"]
    return lax.reduce_window(x, np.asarray(first).astype(x.dtype)[()], step, *args, **kwargs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype) -> None:
    def f(x):
        kinds = ("sum", "max", "min") if dtype != "bool" else ("max", "min")
        return [
            pool(x, kind, window, strides, padding)
            for kind in kinds
            for window, strides, padding in [
                ((2, 3), (1, 1), "VALID"),
                ((2, 3), (2, 2), "SAME"),
                ((1, 3), (1, 2), ((0, 0), (3, 1))),
                ((1, 1), (2, 1), ((0, 0), (0, 0))),
                ((1, 1), (1, 1), ((1, 0), (0, 2))),
            ]
        ]

    x = np.random.RandomState(0).permutation(20).reshape(4, 5) - 8
    assert_interpreted(
        f, (x % 3 == 0) if dtype == "bool" else x.astype(jnp.dtype(dtype)), scale=TOLERANCE.get(dtype, 0)
    )


def test_windows_within_the_array_are_read_at_an_affine_place() -> None:
    assert not has_reads(lambda x: pool(x, "sum", (2, 3), (1, 2), "VALID", window_dilation=(2, 1)), sample((4, 5)))


def test_nothing_in_a_window() -> None:
    def f(x, z):
        return (
            [pool(x, kind, (2,), (3,), ((4, 5),)) for kind in ("sum", "max", "min")],
            [pool(z, kind, (2, 1), (1, 1), ((1, 2), (0, 0))) for kind in ("sum", "max")],
            pool(x, "sum", (9,), (1,), "VALID"),
            pool(x, "sum", (2,), (1,), ((-1, -1),)),
        )

    assert_interpreted(f, sample((4,)), np.zeros((0, 3), np.float32))


@st.composite
def windows(draw):
    """An array and any windows over it."""
    rank = draw(st.integers(1, 3))
    axes = range(rank)
    shape = tuple(draw(st.integers(1, 5)) for _ in axes)
    window = tuple(draw(st.integers(1, 3)) for _ in axes)
    strides = tuple(draw(st.integers(1, 3)) for _ in axes)
    padding = tuple((draw(st.integers(-1, 3)), draw(st.integers(-1, 3))) for _ in axes)
    base = tuple(draw(st.integers(1, 3)) for _ in axes)
    dilation = tuple(draw(st.integers(1, 2)) for _ in axes)
    for n, w, (low, high), b, d in zip(shape, window, padding, base, dilation, strict=True):
        assume((n - 1) * b + 1 + low + high >= (w - 1) * d + 1)
    values = np.random.RandomState(draw(st.integers(0, 99))).randint(-9, 9, shape).astype(np.float32)
    return values, window, strides, padding, base, dilation


@settings(max_examples=12, deadline=None, derandomize=True)
@given(windows())
def test_any_window(case) -> None:
    x, *rest = case

    def f(x):
        return (
            pool(x, "sum", *rest),
            pool(x, "max", *rest),
            lax.reduce_window(x, np.float32(2), lambda a, b: jnp.where(a > b, a, b), *rest),
            lax.reduce_window(x, np.float32(10), lax.add, *rest),
            lax.reduce_window(x, np.float32(1), lax.mul, *rest),
        )

    assert_interpreted(f, x)


def test_computations_over_several_arrays() -> None:
    def step(a, b):
        keep = a[0] >= b[0]
        return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])

    def f(x, i):
        firsts = np.float32(-INF), np.int32(-1)
        return [
            lax.reduce_window((x, i), firsts, step, (2, 2), (1, 2), padding) for padding in ("VALID", ((1, 0), (0, 2)))
        ]

    x = np.random.RandomState(1).permutation(20).reshape(4, 5).astype(np.float32)
    assert_interpreted(f, x, np.arange(20, dtype=np.int32).reshape(4, 5))


POOLS = [
    ((2, 2), (2, 2), "VALID"),
    ((3, 2), (2, 1), "SAME"),
    ((3, 3), (1, 1), ((1, 1), (2, 0))),
    ((2, 2), (3, 3), ((0, 1), (2, 1))),
    ((1, 3), (1, 2), "SAME"),
    ((1, 1), (2, 2), "VALID"),
    ((4, 5), (1, 1), "VALID"),
]


def grads(kind, config):
    return lambda x, g: jax.vjp(lambda v: pool(v, kind, *config), x)[1](g)[0]


def cotangent(x, kind, config):
    shape = jax.eval_shape(lambda v: pool(v, kind, *config), x).shape
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1).astype(x.dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_windows(dtype) -> None:
    """Ties select the first element, and cotangents of windows that share it add up."""
    configs = POOLS if dtype == "float32" else POOLS[:3]
    x = np.random.RandomState(2).randint(0, 4, (4, 5)).astype(jnp.dtype(dtype))
    gs = [cotangent(x, "max", config) for config in configs]

    def f(x, gs):
        return [grads(k, config)(x, g) for config, g in zip(configs, gs, strict=True) for k in ("max", "min", "sum")]

    assert_interpreted(f, x, gs, scale=TOLERANCE[dtype])


def test_gradients_with_infinities_and_nan() -> None:
    rows = [[-INF, -INF, -INF, 1], [-INF, -INF, -INF, -INF], [INF, 2, NAN, 3], [NAN, NAN, 1, NAN]]
    x = np.array(rows, np.float32)
    configs = [((2, 2), (2, 2), "VALID"), ((2, 2), (1, 1), "VALID"), ((2, 2), (1, 1), ((1, 1), (1, 1)))]
    gs = [cotangent(x, "max", config) for config in configs]

    def f(x, gs):
        return [grads(k, config)(x, g) for config, g in zip(configs, gs, strict=True) for k in ("max", "min")]

    assert_interpreted(f, x, gs)


def test_trimmed_windows() -> None:
    config = ((2, 2), (2, 1), ((-1, 1), (0, -2)))
    x = np.random.RandomState(4).permutation(30).reshape(5, 6).astype(np.float32)
    assert_interpreted(lambda x: pool(x, "max", *config), x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_tangents_of_windows(dtype) -> None:
    def f(x, t):
        outs = []
        for config in POOLS:
            for kind in ("max", "min"):
                outs.append(jax.jvp(lambda v, kind=kind, config=config: pool(v, kind, *config), (x,), (t,))[1])
        outs.append(
            jax.jvp(lambda v: pool(v, "max", (2, 2), (1, 1), "SAME", (2, 1), (1, 2)), (x,), (t,))[1],
        )
        return outs

    # Without ties: which of equal elements XLA takes depends on the order it walks through a window.
    x = np.random.RandomState(2).permutation(20).reshape(4, 5).astype(jnp.dtype(dtype))
    assert_interpreted(f, x, sample((4, 5), dtype))


def test_second_derivatives() -> None:
    def f(x):
        return jax.grad(lambda v: (jax.grad(lambda w: (pool(w, "max", (2,), (1,), "VALID") ** 2).sum())(v) ** 2).sum())(
            x
        )

    assert_interpreted(f, np.array([1, 5, 2, 7, 3], np.float32))


def test_cumulative_windows() -> None:
    def f(x):
        return pool(x, "sum", (5,), (1,), ((4, 0),)), pool(x, "max", (5,), (1,), ((0, 4),))

    assert_interpreted(f, sample((5,)))


def test_a_computation_on_arrays_is_named() -> None:
    def f(x, first):
        return lax.reduce_window(x, first, lambda a, b: a + lax.cumsum(b[None])[0], (2,), (1,), "VALID")

    with pytest.raises(UnsupportedPrimitive, match="in its computation: it works on arrays"):
        interpret(f, sample((3,)), np.float32(1))
