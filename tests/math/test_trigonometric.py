"""Trigonometric functions beyond the common tests: hard angles, `sincos`, `atan2`."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from accuracy import WIDTHS, ulp_error
from harness import Entry, Library, check_equal
from jax import lax
from values import FLOATS, floats, jitted, pairs

ATAN2_LIMIT = 1.7

HARD = [  # doubles whose distance from a multiple of pi/2 is among the smallest of their kind
    6381956970095103.0 * 2.0**797,
    5.319372648326541e255,
    1.1704190886730496e16,
    9007199254740991.0,
    1.7976931348623157e308,
    16367173.0 * 2.0**72,
    2.0**1023,
    1e22,
    1e300,
]


@pytest.fixture(scope="module")
def library() -> Library:
    entries = []
    for dt in FLOATS:
        w = WIDTHS[dt]
        entries += [Entry(f"{f}_{dt}", f"{f}(x0)", (dt,), (dt,), w) for f in ("sin", "cos", "tan")]
        entries.append(Entry(f"sincos_{dt}", "sincos(x0)", (dt,), (dt, dt), w))
        entries.append(Entry(f"atan2_{dt}", "atan2(x0, x1)", (dt, dt), (dt,), w))
    return Library("trigonometric", entries)


def far_points(dtype: str) -> np.ndarray:
    hard = np.array([*HARD, 1e8, 1e15, 1e30, 3e38], np.float64)
    rng = np.random.default_rng(7)
    top = np.log2(float(np.finfo(dtype).max))
    x = np.concatenate(
        [hard, np.exp2(rng.uniform(10, top, 100)), np.pi / 2 * np.rint(np.exp2(rng.uniform(0, 60, 100)))]
    )
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    return np.concatenate([x, -x])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_hard_angles_against_mpmath(library, name, dtype):
    x = far_points(dtype)
    x = x[np.isfinite(x)]
    with mpmath.workdps(400):
        exact = np.array([np.longdouble(mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(float(v))), 30)) for v in x])
    error = ulp_error(library(f"{name}_{dtype}", x), exact)
    k = error.argmax()
    assert error[k] <= (1.7 if name == "tan" else 1.2), (x[k], error[k])


@pytest.mark.parametrize("dtype", FLOATS)
def test_far_lanes_leave_the_others_alone(library, dtype):
    x = np.linspace(-10, 10, 640).astype(dtype)
    mixed = x.copy()
    mixed[::7] = 1e30
    mixed[3::50] = np.inf
    mixed[5::50] = np.nan
    near = np.abs(mixed) <= 10
    for name in ("sin", "cos", "tan"):
        check_equal(name, library(f"{name}_{dtype}", mixed)[near], library(f"{name}_{dtype}", x)[near], x[near])
        assert np.isnan(library(f"{name}_{dtype}", mixed)[~np.isfinite(mixed)]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_sincos_is_sin_and_cos(library, dtype):
    x = np.concatenate([floats(dtype, random=2000), far_points(dtype)])
    s, c = library(f"sincos_{dtype}", x)
    check_equal("sin", s, library(f"sin_{dtype}", x), x)
    check_equal("cos", c, library(f"cos_{dtype}", x), x)


def exact_atan2(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    return np.arctan2(y.astype(wide), x.astype(wide))


@pytest.mark.parametrize("dtype", FLOATS)
def test_atan2_of_adversarial_values(library, dtype):
    y, x = pairs(floats(dtype, random=100), floats(dtype, random=100))
    got, exact = library(f"atan2_{dtype}", y, x), exact_atan2(y, x)
    error = ulp_error(got, exact)
    k = error.argmax()
    assert error[k] <= ATAN2_LIMIT, (y[k], x[k], got[k], error[k])
    assert (np.signbit(got) == np.signbit(exact))[~np.isnan(exact)].all()
    special = ~np.isfinite(y) | ~np.isfinite(x) | (y == 0) | (x == 0)
    y, x, got = y[special], x[special], got[special]
    want = jitted(lax.atan2, y, x)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()
    assert (np.abs(got - want) <= 4e-7)[~np.isnan(want)].all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_atan2_accuracy(library, dtype):
    rng, count = np.random.default_rng(8), 1 << 17
    ratio = np.exp2(rng.uniform(-30, 30, count)) * rng.choice([-1, 1], count)
    ratio[::4] = 1 + rng.uniform(-0.01, 0.01, ratio[::4].size)
    x = np.exp2(rng.uniform(-50, 50, count)) * rng.choice([-1, 1], count)
    y, x = (x * ratio).astype(dtype), x.astype(dtype)
    error = ulp_error(library(f"atan2_{dtype}", y, x), exact_atan2(y, x))
    k = error.argmax()
    assert error[k] <= ATAN2_LIMIT, (y[k], x[k], error[k])
