"""The error functions that share their work: erf(x), erfc(|x|), exp(-x * x)."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from accuracy import WIDTHS, high_precision, ulp_error
from harness import Entry, Library
from values import FLOATS, floats

LIMITS = (1.4, 2.4, 1.6)


@pytest.fixture(scope="module")
def library() -> Library:
    shared = [Entry(f"shared_{dt}", "error_functions(x0)", (dt,), (dt,) * 3, WIDTHS[dt]) for dt in FLOATS]
    return Library("error", [*shared, *(Entry(f"erfc_{dt}", "erfc(x0)", (dt,), (dt,), WIDTHS[dt]) for dt in FLOATS)])


def points(dtype: str) -> np.ndarray:
    count = 1 << (16 if dtype == "float32" else 11)  # f64 is compared with mpmath, point by point
    near = np.concatenate([c + np.linspace(-0.01, 0.01, count // 16) for c in (0.5, 0.9, 1.0, 9.2, 26.5)])
    spread = np.concatenate([np.geomspace(1e-6, 30, count), np.linspace(0, 10, count), near])
    return np.concatenate([spread, -spread]).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_accuracy(library, dtype):
    x = points(dtype)
    wide = x.astype(np.float64 if dtype == "float32" else np.longdouble)
    square = (x * x).astype(wide.dtype)
    exact = (
        high_precision("erf", mpmath.erf)(wide),
        high_precision("erfc", mpmath.erfc)(np.abs(wide)),
        np.exp(-square),
    )
    for got, want, limit in zip(library(f"shared_{dtype}", x), exact, LIMITS, strict=True):
        error = ulp_error(got, want)
        assert error.max() <= limit, f"{error.max():.3f} ulp at {x[error.argmax()]!r}"


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(library, dtype):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    erf, tail, bell = library(f"shared_{dtype}", x)
    np.testing.assert_array_equal(erf, np.array([0, 0, 1, -1, np.nan], dtype))
    np.testing.assert_array_equal(np.signbit(erf[:2]), [False, True])
    np.testing.assert_array_equal(tail, np.array([1, 1, 0, 0, np.nan], dtype))
    np.testing.assert_array_equal(bell, np.array([1, 1, 0, 0, np.nan], dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_tail_is_erfc_of_the_magnitude(library, dtype):
    x = floats(dtype)
    np.testing.assert_array_equal(library(f"shared_{dtype}", x)[1], library(f"erfc_{dtype}", np.abs(x)))
