"""`lgamma` and `digamma` for negative arguments: poles as `jax.jit`, errors relative to the terms of the reflection."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from accuracy import WIDTHS
from harness import Entry, Library
from jax import lax
from scipy import special
from values import FLOATS, jitted

FUNCTIONS = {"lgamma": (lax.lgamma, special.gammaln), "digamma": (lax.digamma, special.psi)}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(
        "gamma", [Entry(f"{name}_{dt}", f"{name}(x0)", (dt,), (dt,), WIDTHS[dt]) for name in FUNCTIONS for dt in FLOATS]
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_negative_arguments(library, name, dtype):
    rng = np.random.default_rng(9)
    x = -np.concatenate([rng.uniform(0, 30, 3000), np.exp2(rng.uniform(-100, 15, 1000))]).astype(dtype)
    got = library(f"{name}_{dtype}", x)
    function, exact_function = FUNCTIONS[name][1], {"lgamma": mpmath.loggamma, "digamma": mpmath.digamma}[name]
    exact = np.array([float(mpmath.re(exact_function(mpmath.mpf(float(v))))) for v in x])
    scale = np.abs(exact) + np.abs(function(1 - x.astype(np.float64))) + 1
    error = np.abs(got - exact) / scale / np.finfo(dtype).eps
    k = error.argmax()
    assert error[k] <= 3, (x[k], got[k], exact[k], error[k])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_poles_and_extremes(library, name, dtype):
    x = np.concatenate([-np.arange(0, 70), [np.inf, -np.inf, np.nan, 1e30, -1e30, np.finfo(dtype).max, 0.0]]).astype(
        dtype
    )
    got, want = library(f"{name}_{dtype}", x), jitted(FUNCTIONS[name][0], x)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert (np.isinf(got) == np.isinf(want)).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_negative_lanes_leave_the_others_alone(library, name, dtype):
    x = np.linspace(0.01, 20, 640).astype(dtype)
    mixed = x.copy()
    mixed[::7] *= -1
    positive = mixed > 0
    alone, together = library(f"{name}_{dtype}", x), library(f"{name}_{dtype}", mixed)
    assert (alone[positive] == together[positive]).all()
