"""Semantic functions against `jax.jit`, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from harness import DTYPES, Entry, Library, check_equal
from jax import lax
from jax import numpy as jnp
from jax._src.lax import lax as internal
from values import ALL, FLOATS, HALVES, INTEGERS, floats, flushed, integers, jitted, pairs, values

UNARY = {
    "sign": (lax.sign, INTEGERS + FLOATS),
    "absolute": (jnp.abs, INTEGERS + FLOATS),
    "negate": (lax.neg, INTEGERS + FLOATS),
    "square": (lax.square, INTEGERS + FLOATS),
    "round_half_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS),
    "round_half_away": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), FLOATS),
    "is_finite": (lax.is_finite, FLOATS),
    "population_count": (lax.population_count, INTEGERS),
    "clz": (lax.clz, INTEGERS),
}
BINARY = {
    "maximum": (lax.max, ALL),
    "minimum": (lax.min, ALL),
    "int_div": (lax.div, INTEGERS),
    "int_rem": (lax.rem, INTEGERS),
    "float_rem": (lax.rem, FLOATS),
    "shift_left": (lax.shift_left, INTEGERS),
    "shift_right_logical": (lax.shift_right_logical, INTEGERS),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, INTEGERS),
    "nextafter": (lax.nextafter, HALVES + FLOATS),
    "mulhi": (lax.mulhi, INTEGERS),
}
PRECISIONS = ((8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (11, 52), (8, 10), (2, 1), (11, 20), (1, 0))
INTEGER_POWERS = (-7, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 31)


def widths(dtype: str) -> int:
    return min(64, 256 // DTYPES[dtype].itemsize)


@pytest.fixture(scope="module")
def library() -> Library:
    entries = []
    for name, (_, dtypes) in UNARY.items():
        for dt in dtypes:
            out = "bool" if name == "is_finite" else dt
            entries.append(Entry(f"{name}_{dt}", f"{name}(x0)", (dt,), (out,), widths(dt)))
    for name, (_, dtypes) in BINARY.items():
        entries += [Entry(f"{name}_{dt}", f"{name}(x0, x1)", (dt, dt), (dt,), widths(dt)) for dt in dtypes]
    for dt in ALL:
        entries.append(Entry(f"clamp_{dt}", "clamp(x0, x1, x2)", (dt, dt, dt), (dt,), widths(dt)))
    for dt in FLOATS:
        entries += [Entry(f"rp_{e}_{m}_{dt}", f"reduce_precision[{e}, {m}](x0)", (dt,), (dt,)) for e, m in PRECISIONS]
    for dt in INTEGERS + FLOATS:
        entries += [
            Entry(f"ipow_{y % 100}_{dt}", f"integer_pow[{y}](x0)", (dt,), (dt,))
            for y in INTEGER_POWERS
            if y >= 0 or dt in FLOATS
        ]
    for dt in INTEGERS:
        entries += [Entry(f"int_pow_{dt}_{e}", "int_pow(x0, x1)", (dt, e), (dt,), widths(dt)) for e in {dt, "int32"}]
    for dt in HALVES + FLOATS + INTEGERS:
        key = f"int{8 * DTYPES[dt].itemsize}"
        entries.append(Entry(f"key_{dt}", "total_order_key(x0)", (dt,), (key,)))
    return Library("semantic", entries)


@pytest.mark.parametrize(("name", "dtype"), [(n, dt) for n, (_, dts) in UNARY.items() for dt in dts])
def test_unary(library, name, dtype):
    x = values(dtype)
    check_equal(name, library(f"{name}_{dtype}", x), jitted(UNARY[name][0], x), x)


@pytest.mark.parametrize(("name", "dtype"), [(n, dt) for n, (_, dts) in BINARY.items() for dt in dts])
def test_binary(library, name, dtype):
    x, y = pairs(values(dtype), values(dtype))
    if name.startswith("shift"):
        amounts = np.arange(-3, 3 * 8 * DTYPES[dtype].itemsize).astype(dtype)
        x, y = pairs(values(dtype), np.concatenate([amounts, values(dtype)]))
    with np.errstate(all="ignore"):
        want = jitted(BINARY[name][0], x, y)
    if name == "float_rem":
        want = flushed(want)  # jax.jit gives subnormal remainders in some loops and zeros in others
    check_equal(name, library(f"{name}_{dtype}", x, y), want, x, y)


@pytest.mark.parametrize("dtype", ALL)
def test_clamp(library, dtype):
    v = values(dtype)[::5] if dtype != "bool" else np.array([False, True])
    lo, x, hi = (a.ravel() for a in np.meshgrid(v, values(dtype), v))
    check_equal("clamp", library(f"clamp_{dtype}", lo, x, hi), jitted(lax.clamp, lo, x, hi), lo, x, hi)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("exponent", "mantissa"), PRECISIONS)
def test_reduce_precision(library, dtype, exponent, mantissa):
    x = np.concatenate([floats(dtype, random=3000), (2.0 ** np.linspace(-30, 30, 2000)).astype(dtype)])
    want = jitted(lambda v: lax.reduce_precision(v, exponent, mantissa), x)
    check_equal("reduce_precision", library(f"rp_{exponent}_{mantissa}_{dtype}", x), want, x)


@pytest.mark.parametrize(
    ("dtype", "y"), [(dt, y) for dt in INTEGERS + FLOATS for y in INTEGER_POWERS if y >= 0 or dt in FLOATS]
)
def test_integer_pow(library, dtype, y):
    x = values(dtype)
    check_equal("integer_pow", library(f"ipow_{y % 100}_{dtype}", x), jitted(lambda v: lax.integer_pow(v, y), x), x)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("exponent", ["same", "int32"])
def test_int_pow(library, dtype, exponent):
    e = dtype if exponent == "same" else exponent
    x, y = pairs(integers(dtype), integers(e))
    modulus = 2 ** (8 * DTYPES[dtype].itemsize)

    def power(base: int, n: int) -> int:
        if n < 0:
            return {1: 1, -1: -1 if n % 2 else 1}.get(base, 0) % modulus
        return pow(base, n, modulus)

    want = np.array([power(int(a), int(b)) for a, b in zip(x, y, strict=True)], f"u{DTYPES[dtype].itemsize}")
    check_equal("int_pow", library(f"int_pow_{dtype}_{e}", x, y), want.view(dtype), x, y)


@pytest.mark.parametrize("dtype", HALVES + FLOATS)
def test_nextafter_of_subnormals(library, dtype):
    x, y = pairs(floats(dtype, random=4, subnormal=True), floats(dtype, random=4, subnormal=True))
    check_equal("nextafter", library(f"nextafter_{dtype}", x, y), jitted(lax.nextafter, x, y), x, y)


@pytest.mark.parametrize("dtype", HALVES + FLOATS + INTEGERS)
def test_total_order_key(library, dtype):
    x, y = pairs(values(dtype), values(dtype))
    kx, ky = library(f"key_{dtype}", x), library(f"key_{dtype}", y)
    check_equal("lt_to", kx < ky, jitted(lambda a, b: internal.lt_to_p.bind(a, b), x, y), x, y)
    check_equal("le_to", kx <= ky, jitted(lambda a, b: internal.le_to_p.bind(a, b), x, y), x, y)


def test_float_rem_of_huge_quotients(library):
    rng = np.random.default_rng(3)
    for dtype in FLOATS:
        info = np.finfo(dtype)
        x, y = (2.0 ** rng.uniform(np.log2(info.tiny) + 1, np.log2(info.max), (2, 4000))).astype(dtype)
        check_equal("float_rem", library(f"float_rem_{dtype}", x, y), flushed(np.fmod(x, y)), x, y)
