"""`juju-simplify` keeps JAX's results: each rule on edge values of every dtype beside `jax.jit`, and what it leaves."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.scipy.stats import norm
from support import DTYPES, FLOATS, INTEGERS, Batch, Case, edge_values

import juju
from juju.dialect.fold import fold, numpy_dtype
from juju.dialect.ops import SCALARS
from juju.dialect.types import ELEMENT_TYPES, kind_of


def _signs(x: Any) -> list[Any]:
    minus = -x
    return [-minus, x - (-x), x + (-x), (-x) * (-x), (-x) * 3, abs(-x), abs(abs(x)), abs(x) * abs(x), -x + x]


def _units(x: Any) -> list[Any]:
    one, zero, minus = (jnp.asarray(v).astype(x.dtype) for v in (1, 0, -1))
    return [lax.mul(x, one), lax.div(x, one), lax.sub(x, zero), lax.mul(x, minus), lax.sub(x, x), lax.max(x, x)]


def _float_units(x: Any) -> list[Any]:
    zero, minus = (jnp.asarray(v).astype(x.dtype) for v in (0.0, -0.0))
    infinite = [jnp.asarray(v).astype(x.dtype) for v in (jnp.inf, -jnp.inf)]
    extremes = [f(*pair) for inf in infinite for pair in ((x, inf), (inf, x)) for f in (lax.max, lax.min)]
    return [lax.add(x, minus), lax.sub(minus, x), lax.sub(zero, x), lax.mul(x, zero), *extremes]


def _powers(x: Any) -> list[Any]:
    return [lax.integer_pow(x, n) for n in (0, 1, 2, 3)]


def _float_powers(x: Any) -> list[Any]:
    return [lax.integer_pow(x, -1), lax.integer_pow(x, -2), *(lax.pow(x, jnp.asarray(y, x.dtype)) for y in (0, 1, 2))]


def _divisions(x: Any) -> list[Any]:
    return [x / jnp.asarray(d, x.dtype) for d in (2.0, -4.0, 0.125, 3.0, 0.1)] + [(-x) / 3, (-x) / (-abs(x))]


def _integer_divisions(x: Any) -> list[Any]:
    ds = [jnp.asarray(d, x.dtype) for d in (1, 2, 7, 64)]
    return [lax.div(x, d) for d in ds] + [lax.rem(x, d) for d in ds]


def _bits(x: Any) -> list[Any]:
    zero, every = jnp.zeros((), x.dtype), ~jnp.zeros((), x.dtype)
    return [f(x, c) for f in (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor) for c in (zero, every, x)] + [~~x]


def _integers(x: Any) -> list[Any]:
    zero = jnp.zeros((), x.dtype)
    shifted = [f(x, zero) for f in (lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)]
    return [*shifted, lax.mul(x, zero), lax.add(x, zero), lax.sub(zero, x)]


def _comparisons(x: Any) -> list[Any]:
    return [f(x, x) for f in (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)]


def _choices(x: Any) -> list[Any]:
    positive = x > jnp.zeros((), x.dtype)
    twice = jnp.where(positive, jnp.where(positive, x, 1), jnp.where(positive, 2, x + 3))
    return [jnp.where(~positive, x, x + 1), jnp.where(positive, x, x), twice, jnp.where(positive, True, False)]


def _conversions(x: Any) -> list[Any]:
    middle = [d for d in DTYPES if d != "bool"]
    return [x.astype(a).astype(b) for a, b in itertools.product(middle, ("bool", "int8", "uint16", "float32", x.dtype))]


RULES = [
    *(Case(f"signs {d}", _signs, (edge_values(d),)) for d in FLOATS + INTEGERS),
    *(Case(f"units {d}", _units, (edge_values(d),)) for d in FLOATS + INTEGERS),
    *(Case(f"float units {d}", _float_units, (edge_values(d),)) for d in FLOATS),
    *(Case(f"powers {d}", _powers, (edge_values(d),), ulp=1) for d in FLOATS + INTEGERS),
    *(Case(f"float powers {d}", _float_powers, (edge_values(d),), ulp=1) for d in FLOATS),
    *(Case(f"divisions {d}", _divisions, (edge_values(d),), ulp=1) for d in FLOATS),  # XLA multiplies by 1/3
    *(Case(f"integer divisions {d}", _integer_divisions, (edge_values(d),)) for d in INTEGERS),
    *(Case(f"bits {d}", _bits, (edge_values(d),)) for d in ("bool", *INTEGERS)),
    *(Case(f"integers {d}", _integers, (edge_values(d),)) for d in INTEGERS),
    *(Case(f"comparisons {d}", _comparisons, (edge_values(d),)) for d in DTYPES),
    *(Case(f"choices {d}", _choices, (edge_values(d),)) for d in FLOATS + INTEGERS),
    *(Case(f"conversions {d}", _conversions, (edge_values(d),)) for d in DTYPES),
    *(
        Case(f"sine and cosine {d}", lambda x: (jnp.sin(x), jnp.cos(-x), jnp.cos(abs(x))), (edge_values(d),), ulp=2)
        for d in FLOATS
    ),
]
for case in RULES:
    case.x64 = True
BATCH = Batch(RULES)


@BATCH.parametrize()
def test_rule(name: str) -> None:
    BATCH.check(name)


def _mojo(f: Any, *args: Any) -> str:
    return juju.fuse(f).lower(*args).as_text("mojo")


X = jax.ShapeDtypeStruct((64,), jnp.float32)


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="JAX 0.11 writes norm.cdf in another way")
def test_normal_distribution_is_one_error_function() -> None:
    text = _mojo(norm.cdf, X)
    assert text.count("erfc(") == 1
    assert "erf(" not in text
    text = _mojo(jax.vmap(jax.value_and_grad(norm.cdf)), X)
    assert text.count("error_functions(") == 1
    assert not any(f" {f}(" in text for f in ("erf", "erfc", "exp"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_distribution(dtype: str) -> None:
    with jax.enable_x64(True):
        x = jnp.concatenate([jnp.asarray(edge_values(dtype)), jnp.linspace(-9, 9, 4001, dtype=dtype)])
        value, slope = juju.fuse(jax.vmap(jax.value_and_grad(norm.cdf)))(x)
        wide = np.asarray(x, np.float64)
        want, steep = jax.jit(jax.vmap(jax.value_and_grad(norm.cdf)))(wide)
        small = 100 * float(jnp.finfo(dtype).eps)  # a rounding error of x is one of x * x in the result, and |x| < 9
        near = np.abs(wide) < 9
        np.testing.assert_allclose(value[near], want[near], rtol=small)
        np.testing.assert_allclose(slope[near], steep[near], rtol=small)
        np.testing.assert_array_equal(np.isnan(value), np.isnan(want))
        np.testing.assert_allclose(value[~near], want[~near], atol=small)


def test_16_bit_floats_keep_the_rounding_of_the_square() -> None:
    """exp(-x * x) with x * x rounded to 16 bits is far from what float32 gives."""
    text = _mojo(lambda x: (lax.erfc(x), jnp.exp(-x * x)), jax.ShapeDtypeStruct((64,), jnp.bfloat16))
    assert "error_functions" not in text


def test_equal_work_is_done_once() -> None:
    def f(x, y):
        return jnp.exp(x * y) + jnp.exp(y * x), jnp.where(x > y, 1.0, 2.0) * jnp.where(y < x, 1.0, 2.0)

    text = _mojo(f, X, X)
    assert text.count("exp(") == 1
    assert text.count(".select(") == 1


def test_unread_operands_are_not_loaded() -> None:
    text = _mojo(lambda x, y: jnp.where(jnp.asarray(True), x, y) + 1.0, X, X)
    assert text.count("= load[") == 1


FOLDED = ["add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "rem"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_folded_constants_are_what_jax_computes(dtype: str) -> None:
    ty = ELEMENT_TYPES[dtype]
    values = edge_values(dtype)
    with jax.enable_x64(True):
        for name in FOLDED:
            if (dtype == "bool" and name in ("add", "mul")) or kind_of(ty) not in SCALARS[name].ROW.kinds:
                continue
            x, y = np.repeat(values, len(values)), np.tile(values, len(values))
            want = np.asarray(jax.jit(getattr(lax, name))(x, y))
            element = ELEMENT_TYPES[str(want.dtype)]
            folded = 0
            for a, b, w in zip(x, y, want, strict=True):
                got = fold(name, [numpy_dtype(ty).type(a), numpy_dtype(ty).type(b)], element)
                if got is not None:
                    folded += 1
                    same = got.tobytes() == w.tobytes() or (got != got and w != w)
                    assert same, f"{name}({a!r}, {b!r}) is {w!r}, not {got!r}"
            assert folded or name == "rem"


@pytest.mark.parametrize("dtype", DTYPES)
def test_folded_conversions_are_what_jax_computes(dtype: str) -> None:
    ty, values = ELEMENT_TYPES[dtype], edge_values(dtype)
    with jax.enable_x64(True):
        for other in DTYPES:
            want = np.asarray(jax.jit(lambda x, other=other: lax.convert_element_type(x, other))(values))
            for a, w in zip(values, want, strict=True):
                got = fold("convert", [numpy_dtype(ty).type(a)], ELEMENT_TYPES[other])
                if got is not None:
                    assert got.tobytes() == w.tobytes() or (got != got and w != w), (
                        f"{a!r} to {other}: {w!r}, not {got!r}"
                    )


@pytest.mark.parametrize("name", ["exp", "log", "sin", "pow", "erf", "tanh", "rsqrt", "cbrt"])
def test_transcendental_functions_are_not_folded(name: str) -> None:
    operands = [np.float32(1)] * (2 if name == "pow" else 1)
    assert fold(name, operands, ELEMENT_TYPES["float32"]) is None


def test_subnormal_numbers_are_not_folded() -> None:
    f32, bf16 = ELEMENT_TYPES["float32"], ELEMENT_TYPES["bfloat16"]
    assert fold("mul", [np.float32(1e-20), np.float32(1e-20)], f32) is None
    assert fold("add", [np.float32(1e-40), np.float32(1)], f32) is None
    assert fold("mul", [ml_dtypes.bfloat16(1e-20), ml_dtypes.bfloat16(1e-20)], bf16) is None
    assert fold("mul", [np.float32(1e-30), np.float32(1e-30)], f32) == 0
