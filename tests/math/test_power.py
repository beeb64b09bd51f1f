"""`pow` with float and integer exponents: special cases as `jax.jit`, accuracy over the whole range of results."""

from __future__ import annotations

import numpy as np
import pytest
from accuracy import WIDTHS, ulp_error
from harness import Entry, Library, check_equal
from jax import lax
from values import FLOATS, floats, integers, jitted, pairs

LIMIT = 1.5
EXPONENTS = ("int8", "int32", "int64", "uint32")


@pytest.fixture(scope="module")
def library() -> Library:
    kinds = [(dt, e) for dt in FLOATS for e in (dt, *EXPONENTS)]
    return Library("power", [Entry(f"{dt}_{e}", "pow(x0, x1)", (dt, e), (dt,), WIDTHS[dt]) for dt, e in kinds])


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return np.power(x.astype(wide), y.astype(wide))


def check(x, y, got):
    finite = np.isfinite(x) & np.isfinite(y)  # powl of the C library is wrong at -inf ** -(2**63)
    x, y, got = x[finite], y[finite], got[finite]
    error = ulp_error(got, exact(x, y))
    k = error.argmax()
    assert error[k] <= LIMIT, (x[k], y[k], got[k], error[k])


def kind(a: np.ndarray) -> np.ndarray:
    """A number for each of NaN, infinities, zeros of both signs, and all others."""
    zero = np.where(a == 0, np.copysign(0.5, a), 1)
    return np.where(np.isnan(a), 3, np.where(np.isinf(a), 2 * np.sign(a), zero))


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_pair_of_adversarial_values(library, dtype):
    x, y = pairs(floats(dtype, random=200), floats(dtype, random=200))
    got = library(f"{dtype}_{dtype}", x, y)
    check(x, y, got)
    want = jitted(lax.pow, x, y)
    check_equal("kind of pow", kind(got), kind(want), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_over_the_range_of_results(library, dtype):
    info, rng, count = np.finfo(dtype), np.random.default_rng(6), 1 << 17
    x = np.exp2(rng.uniform(np.log2(info.tiny), np.log2(info.max), count))
    near_one = 1 + np.exp2(rng.uniform(-30 if dtype == "float64" else -20, -0.1, count)) * rng.choice([-1, 1], count)
    x = np.concatenate([x, near_one]).astype(dtype)
    reach = np.log2(info.max) / np.abs(np.log2(x.astype(np.float64)) + 1e-30)
    y = (rng.uniform(-1, 1, x.size) * np.minimum(reach, 1e30)).astype(dtype)
    check(x, y, library(f"{dtype}_{dtype}", x, y))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_integer_exponents(library, dtype, exponent):
    x, y = pairs(floats(dtype), integers(exponent))
    check(x, y.astype(dtype), library(f"{dtype}_{exponent}", x, y))
    small = np.arange(-100, 100).astype(exponent)
    x, y = pairs(np.linspace(-4, 4, 1001).astype(dtype), small)
    check(x, y.astype(dtype), library(f"{dtype}_{exponent}", x, y))
