"""Functions of one argument: accuracy, special values, subnormals."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from accuracy import ELEMENTARY, SPECIAL, TRIGONOMETRIC, Function, measure, reference, ulp_error
from harness import Library
from values import FLOATS, flushed

CASES = [(function, dtype) for function in ELEMENTARY + TRIGONOMETRIC + SPECIAL for dtype in FLOATS]
IDS = [f"{function.name}-{dtype}" for function, dtype in CASES]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library("elementary", [function.entry(dtype) for function, dtype in CASES])


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=IDS)
def test_accuracy(library, function: Function, dtype: str):
    slow = function in SPECIAL and dtype == "float64"  # mpmath, point by point
    ours, at, _, _ = measure(library, function, dtype, 1 << (12 if slow else 16))
    limit = function.limits[FLOATS.index(dtype)]
    assert ours <= limit, f"{ours:.3f} ulp at {at!r}"


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=IDS)
def test_not_worse_than_jax(library, function: Function, dtype: str):
    ours, at, theirs, _ = measure(library, function, dtype, 1 << 11)
    assert ours <= theirs + 1, f"{ours:.3f} ulp at {at!r}, jax.jit {theirs:.3f}"


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=IDS)
def test_special_values(library, function: Function, dtype: str):
    info = np.finfo(dtype)
    one_up, one_down = np.nextafter(np.ones((), dtype), np.array([2, 0], dtype))
    magnitudes = [0, np.inf, 1, one_up, one_down, 0.5, 2, 3, info.max, info.tiny, info.tiny * 2, 1e30, 1e8, 4, 8, 64]
    x = np.array([np.nan, *magnitudes, *(-np.array(magnitudes))], dtype)
    got = library(f"{function.name}_{dtype}", x)
    exact = reference(function, x)
    limit = function.limits[FLOATS.index(dtype)]
    error = ulp_error(got, exact)
    bad = error > limit
    assert not bad.any(), [*zip(x[bad], got[bad], exact[bad], error[bad], strict=True)]
    with jax.enable_x64(True):
        theirs = np.asarray(jax.jit(function.jax)(x[:9]))
    for inputs, ours, other in zip(x[:9], got[:9], theirs, strict=True):
        assert np.isnan(ours) == np.isnan(other), (inputs, ours, other)
        assert np.isinf(ours) == np.isinf(other), (inputs, ours, other)
    zero = exact == 0
    assert (np.signbit(got[zero]) == np.signbit(exact[zero])).all(), [
        *zip(x[zero], got[zero], exact[zero], strict=True)
    ]


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=IDS)
def test_subnormals_are_zero_or_kept(library, function: Function, dtype: str):
    info = np.finfo(dtype)
    x = np.array([info.smallest_subnormal, info.tiny * 0.75, -info.smallest_subnormal, -info.tiny * 0.75], dtype)
    got = library(f"{function.name}_{dtype}", x)
    at_zero = library(f"{function.name}_{dtype}", flushed(x))
    kept = (got == x) & (at_zero == 0)
    assert (kept | (got == at_zero) | (np.isnan(got) & np.isnan(at_zero))).all(), [*zip(x, got, at_zero, strict=True)]
