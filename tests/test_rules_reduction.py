"""Rules of reductions and running totals, through the interpreter, against `jax.jit`."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreter import assert_interpreted, interpret
from jax import lax
from support import DTYPES, FLOATS, INTEGERS, edge_values
from test_rules_shape import sample

from juju._trace import trace
from juju.dialect.body import ReduceOp
from juju.errors import UnsupportedPrimitive
from juju.rules import lower_program

NAN, INF = np.nan, np.inf
TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 1e-6, "float64": 1e-14}

ORDERED = (jnp.max, jnp.min)


def reduce_kinds(f, *args) -> list[str]:
    module = lower_program(trace(f, args, {}, name="f").program).module
    return [op.kind.data for op in module.walk() if isinstance(op, ReduceOp)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype) -> None:
    """Lone values, several axes, no axis; integers keep their dtype and wrap around."""
    axes = [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()]
    bits = [lax.reduce_or_p, lax.reduce_and_p, lax.reduce_xor_p] if dtype in ("bool", *INTEGERS) else []
    sums = [lax.reduce_sum_p] if dtype != "bool" else []
    products = [lax.reduce_prod_p] if dtype != "bool" else []

    def f(x):
        outs = []
        for a in axes:
            outs += [p.bind(x, axes=a, out_sharding=None) for p in sums]
            outs += [p.bind(x, axes=a) for p in (*products, lax.reduce_max_p, lax.reduce_min_p, *bits)]
        return outs

    x = np.random.RandomState(0).randint(-2, 3, (2, 3, 4)) if dtype not in FLOATS else sample((2, 3, 4)) / 8 - 1
    assert_interpreted(f, x.astype(jnp.dtype(dtype)), scale=TOLERANCE.get(dtype, 0))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (1,), (1, 3), (3, 1), ()], ids=str)
def test_empty_and_short_axes(shape) -> None:
    def f(x, m):
        axes = [a for n in range(len(shape) + 1) for a in itertools.combinations(range(len(shape)), n)]
        return [
            [g(x, a) for a in axes for g in (jnp.sum, jnp.prod)],
            [lax.reduce_max(v, a) for a in axes for v in (x, m, x.astype(int))],
            [lax.reduce_min(v, a) for a in axes for v in (x, m, x.astype(jnp.uint8))],
            [lax.reduce_and(v, a) for a in axes for v in (m, x.astype(jnp.int8), x.astype(jnp.uint16))],
            [lax.reduce_or(m, a) for a in axes],
        ]

    assert_interpreted(f, sample(shape), sample(shape, "bool"))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_signed_zero(dtype) -> None:
    rows = [
        [NAN, 1, 2],
        [1, NAN, 2],
        [1, 2, NAN],
        [0, -0.0, 0],
        [-0.0, 0, -0.0],
        [-0.0] * 3,
        [INF, -INF, 1],
        [-INF] * 3,
    ]
    x = np.array(rows).astype(jnp.dtype(dtype))
    assert_interpreted(lambda x: [g(x, 1) for g in (jnp.max, jnp.min, jnp.sum, jnp.prod)], x)
    assert_interpreted(lambda x: [lax.cummax(x, 1), lax.cummin(x, 1), lax.cummax(x, 1, reverse=True)], x)


def test_front_end_options() -> None:
    def f(x):
        return (
            jnp.sum(x, (0, -1), where=x > 2, initial=10.0),
            jnp.max(x, 1, where=x < 5, initial=-1.0),
            x.min((0, 2), keepdims=True),
            jnp.mean(x, where=x > 100),
            jnp.ptp(x, 2),
            jnp.prod(x + 1, (0, 1, 2)),
            jnp.any(x > 6, 0),
            jnp.all(x > -1),
            jnp.var(x, 1),
            jax.nn.softmax(x, 1),
            jax.nn.logsumexp(x),
            jnp.linalg.norm(x, axis=2),
        )

    assert_interpreted(f, np.arange(8, dtype=np.float32).reshape(2, 2, 2), ulp=4)


@pytest.mark.parametrize("index_dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_argmax(dtype, index_dtype) -> None:
    edges = edge_values(dtype)
    x = np.resize(np.concatenate([edges, edges[::-1]]), (4, 3, 5))

    def f(x):
        return [g(x, axis, jnp.dtype(index_dtype)) for g in (lax.argmax, lax.argmin) for axis in range(3)]

    assert_interpreted(f, x)


def test_argmax_of_ties_and_nan() -> None:
    rows = [[3.0, 1.0, 3.0, 3.0], [1.0, NAN, 5.0, NAN], [-INF] * 4, [INF] * 4, [0.0, -0.0, 0.0, -0.0]]

    def f(x):
        return (
            jnp.argmax(x, 1),
            jnp.argmin(x, 1),
            jnp.argmax(x),
            jnp.argmin(x),
            jnp.argmax(x > 2, 0),
            jnp.argmax(x[:, :1], 1),
            jnp.argmax(x[:0], 1),
            jnp.nanargmax(x[:2], 1),
        )

    assert_interpreted(f, np.array(rows, np.float32))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_running_totals(dtype) -> None:
    def f(x):
        totals = [lax.cumsum, lax.cumprod, lax.cummax, lax.cummin]
        totals += [lax.cumlogsumexp] if dtype in FLOATS else []
        return [g(x, axis, reverse) for g in totals for axis in range(3) for reverse in (False, True)]

    x = (sample((2, 3, 4)) / 8 - 1) if dtype in FLOATS else sample((2, 3, 4)) - 3
    assert_interpreted(f, x.astype(jnp.dtype(dtype)), scale=TOLERANCE.get(dtype, 0))


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 3), (1, 4), (4, 1)], ids=str)
def test_running_totals_of_little(shape) -> None:
    def f(x):
        return [
            g(x, axis, reverse)
            for g in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)
            for axis in range(len(shape))
            for reverse in (False, True)
        ]

    assert_interpreted(f, sample(shape), ulp=2)


def test_cumlogsumexp_of_infinities() -> None:
    x = np.array([-INF, -INF, 1, INF, -INF, NAN, 2], np.float32)
    assert_interpreted(
        lambda x: (lax.cumlogsumexp(x), lax.cumlogsumexp(x[:3]), lax.cumlogsumexp(x[:3], reverse=True)), x
    )


SIMPLE = [
    (lax.add, 0.0, "add"),
    (lax.mul, 1.0, "mul"),
    (lax.max, -INF, "max"),
    (lambda a, b: lax.min(b, a), INF, "min"),
]


@pytest.mark.parametrize(("step", "first", "kind"), SIMPLE, ids=[k for *_, k in SIMPLE])
def test_simple_computations_are_recognised(step, first, kind) -> None:
    x = sample((2, 3))
    for init in (np.float32(first), np.float32(2.5), np.float32(NAN), np.float32(-0.0)):
        # One with an operation more keeps lax.reduce from recognising it before we do.
        assert_interpreted(lambda x, i: lax.reduce_p.bind(x, i, **_params(step, (1,))), x, init)
        assert_interpreted(lambda x, i=init: lax.reduce_p.bind(x, i, **_params(step, (0, 1))), x, ulp=1)
    assert reduce_kinds(lambda x: lax.reduce_p.bind(x, np.float32(9), **_params(step, (1,))), x) == [kind]


def _params(step, dimensions):
    scalar = jax.ShapeDtypeStruct((), np.float32)
    return {
        "computation": step,
        "jaxpr": jax.make_jaxpr(lambda a, b: [step(a, b)])(scalar, scalar),
        "dimensions": dimensions,
    }


def test_any_computation() -> None:
    def argmin(a, b):
        return jax.tree.map(lambda p, q: jnp.where(a[0] <= b[0], p, q), a, b)

    def f(x, i, e):
        return (
            lax.reduce(x, np.float32(-INF), lambda a, b: jnp.logaddexp(a, b), (0,)),
            lax.reduce((x, i), (np.float32(INF), np.int32(99)), argmin, (0,)),
            lax.reduce((x, i), (np.float32(INF), np.int32(99)), argmin, (1,)),
            lax.reduce((x, i), (np.float32(INF), np.int32(99)), argmin, (0, 1)),
            lax.reduce(i, np.int32(0), lax.bitwise_xor, (0,)),
            lax.reduce(i, np.int32(7), lambda a, b: (a + b) % 11, (1,)),
            lax.reduce(i, np.int32(7), lambda a, b: jnp.clip(a + b, 0, 25), (1,)),
            lax.reduce(e, np.float32(3), lambda a, b: a + 2 * b, (1,)),
            lax.reduce((e, e), (np.float32(3), np.float32(4)), lambda a, b: (a[0] + b[1], a[1] + b[0]), (1,)),
            lax.reduce(x, np.float32(3), lambda a, b: a + 2 * b, ()),
            lax.reduce(x[0, 0], np.float32(3), lambda a, b: a + 2 * b, ()),
            lax.reduce(x, np.float32(3), lambda a, b: np.float32(2), (1,)),
        )

    x = np.array([[1.0, -2.0, 0.5], [1.0, 3.0, -0.5]], np.float32)
    assert_interpreted(f, x, np.array([[10, 20, 30], [40, 50, 60]], np.int32), np.zeros((2, 0), np.float32), ulp=2)


def test_a_first_value_that_is_computed() -> None:
    def f(x, y):
        return lax.reduce(x, y[0] * 2, lax.add, (0,)), lax.reduce(x, y[1], lambda a, b: jnp.logaddexp(a, b), (0,))

    assert_interpreted(f, sample((3,)), sample((2,)), ulp=2)


def test_gradients() -> None:
    def f(x):
        return [
            jax.grad(lambda v, g=g: (g(v, 1) ** 2).sum())(x)
            for g in (jnp.sum, jnp.max, jnp.min, jnp.mean, jnp.prod, lax.cumsum, lax.cumprod, lax.cummax)
        ]

    assert_interpreted(f, sample((2, 4)), scale=1e-6)


def test_a_computation_on_arrays_is_named() -> None:
    x = sample((2, 3))
    with pytest.raises(UnsupportedPrimitive, match="in its computation: it works on arrays"):
        interpret(
            lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + jnp.linalg.det(b * jnp.ones((2, 2))), (1,)), x
        )
