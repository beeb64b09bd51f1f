"""Functions of several arguments that iterate: incomplete gamma and beta, zeta, polygamma.

SciPy is the reference for f32, mpmath for f64; `jax.jit` for what the arguments' extremes give.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from harness import Entry, Library
from jax import lax
from scipy import special
from values import FLOATS, jitted, pairs

TWO = {
    "igamma": lax.igamma,
    "igammac": lax.igammac,
    "igamma_grad_a": lax.igamma_grad_a,
    "zeta": lax.zeta,
    "polygamma": lax.polygamma,
}


@pytest.fixture(scope="module")
def library() -> Library:
    entries = [Entry(f"{name}_{dt}", f"{name}(x0, x1)", (dt, dt), (dt,), 16) for name in TWO for dt in FLOATS]
    beta = "regularized_incomplete_beta(x0, x1, x2)"
    entries += [Entry(f"beta_{dt}", beta, (dt, dt, dt), (dt,), 16) for dt in FLOATS]
    return Library("iterative", entries)


def errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Relative errors in units of the type's epsilon, where the exact value is not tiny."""
    info = np.finfo(got.dtype)
    inside = (np.abs(exact) > max(float(info.tiny), 1e-30)) & (np.abs(exact) < float(info.max))
    with np.errstate(all="ignore"):
        return np.where(inside, np.abs((got - exact) / exact), 0) / info.eps


def worst(got: np.ndarray, exact: np.ndarray, *inputs: np.ndarray) -> tuple[float, list]:
    e = errors(got, exact)
    k = e.argmax()
    return float(e[k]), [float(x[k]) for x in inputs]


def exact_gamma(name: str, a: float, x: float) -> float:
    with mpmath.workdps(30):
        shape, point = mpmath.mpf(float(a)), mpmath.mpf(float(x))
        if name == "igamma":
            return float(mpmath.gammainc(shape, 0, point, regularized=True))
        if name == "igammac":
            return float(mpmath.gammainc(shape, point, mpmath.inf, regularized=True))
        return float(mpmath.diff(lambda t: mpmath.gammainc(t, 0, point, regularized=True), shape))


def gamma_points(dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    a = np.exp2(rng.uniform(-8, 10, count)).astype(dtype)
    return a, (a * np.exp2(rng.uniform(-3, 2, count))).astype(dtype)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_f32(library, name):
    a, x = gamma_points("float32", 20000)
    function = special.gammainc if name == "igamma" else special.gammaincc
    error, at = worst(library(f"{name}_float32", a, x), function(a.astype(float), x.astype(float)), a, x)
    assert error <= 1, at


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_f64(library, name):
    a, x = gamma_points("float64", 600)
    exact = np.array([exact_gamma(name, u, v) for u, v in zip(a, x, strict=True)])
    error, at = worst(library(f"{name}_float64", a, x), exact, a, x)
    assert error <= 200, at


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient_of_incomplete_gamma(library, dtype):
    a, x = gamma_points(dtype, 150)
    exact = np.array([exact_gamma("igamma_grad_a", u, v) for u, v in zip(a, x, strict=True)])
    got = library(f"igamma_grad_a_{dtype}", a, x)
    assert (np.abs(got - exact) <= 100 * np.finfo(dtype).eps * np.maximum(np.abs(exact), 1e-3)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_shapes(library, dtype):
    """Where JAX takes thousands of steps or never ends."""
    start = 4.0 if dtype == "float32" else 7.0
    a = (10.0 ** np.linspace(start, 9, 300)).astype(dtype)
    for sigmas in (-2, -0.5, 0, 0.5, 2, 6):
        x = (a + sigmas * np.sqrt(a)).astype(dtype)
        wide = a.astype(float), x.astype(float)
        lower, upper = library(f"igamma_{dtype}", a, x), library(f"igammac_{dtype}", a, x)
        limit = 1 if dtype == "float32" else 1e6  # SciPy itself is good to about 1e-10 there
        assert errors(lower, special.gammainc(*wide)).max() <= limit
        assert errors(upper, special.gammaincc(*wide)).max() <= limit
        step = wide[0] * 1e-4
        high, low = (special.gammainc(wide[0] + s, wide[1]) for s in (step / 100, -step / 100))
        slope = (high - low) / (step / 50)
        assert np.allclose(
            library(f"igamma_grad_a_{dtype}", a, x), slope, rtol=1e-3, atol=1e-3 / np.sqrt(wide[0]).min()
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_incomplete_beta(library, dtype):
    rng = np.random.default_rng(13)
    a, b = np.exp2(rng.uniform(-6, 7, (2, 20000))).astype(dtype)
    x = rng.uniform(0, 1, a.size).astype(dtype)
    exact = special.betainc(*(v.astype(float) for v in (a, b, x)))
    got = library(f"beta_{dtype}", a, b, x)
    if dtype == "float32":
        error, at = worst(got, exact, a, b, x)
        assert error <= 1, at
    else:
        assert np.abs(got - exact).max() <= 1000 * np.finfo(dtype).eps
        assert np.median(errors(got, exact)) <= 3


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeta(library, dtype):
    rng = np.random.default_rng(14)
    x = (1 + np.exp2(rng.uniform(-6, 5, 20000))).astype(dtype)
    q = np.exp2(rng.uniform(-6, 10, 20000)).astype(dtype)
    error, at = worst(library(f"zeta_{dtype}", x, q), special.zeta(x.astype(float), q.astype(float)), x, q)
    assert error <= 4, at


@pytest.mark.parametrize("dtype", FLOATS)
def test_polygamma(library, dtype):
    rng = np.random.default_rng(15)
    m = rng.integers(0, 10, 1500).astype(dtype)
    x = np.exp2(rng.uniform(-3, 8, m.size)).astype(dtype)
    exact = np.array([float(mpmath.polygamma(int(n), mpmath.mpf(float(v)))) for n, v in zip(m, x, strict=True)])
    error, at = worst(library(f"polygamma_{dtype}", m, x), exact, m, x)
    assert error <= 6, at


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", TWO)
def test_extremes_as_jax(library, name, dtype):
    edge = np.array([0, -0.0, 1, 2, 3, 0.5, -1, -2, -0.5, 1e-30, np.inf, -np.inf, np.nan, 10, 100, 2.5], dtype)
    a, x = pairs(edge, edge)
    if name == "igamma_grad_a":  # JAX: 0 for x = 0, whatever a is
        a, x = a[x != 0], x[x != 0]
    got, want = library(f"{name}_{dtype}", a, x), jitted(TWO[name], a, x)
    shown = [*zip(a, x, got, want, strict=True)]
    for kind in (np.isnan, np.isinf):
        different = kind(got) != kind(want)
        assert not different.any(), [shown[k] for k in np.flatnonzero(different)[:8]]
    finite = np.isfinite(want)
    assert np.allclose(got[finite], want[finite], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_of_incomplete_beta_as_jax(library, dtype):
    edge = np.array([0, 1, 2, 0.5, -1, 1e-30, np.inf, np.nan, 100], dtype)
    points = np.array([0, 1, 0.5, 1e-30, 1 - 2**-20, -1, 2, np.nan], dtype)
    a, b, x = (v.ravel() for v in np.meshgrid(edge, edge, points))
    got, want = library(f"beta_{dtype}", a, b, x), jitted(lax.betainc, a, b, x)
    assert (np.isnan(got) == np.isnan(want)).all()
    assert np.allclose(got, want, rtol=1e-3, atol=1e-5, equal_nan=True)


def test_large_orders_of_zeta_are_finite(library):
    """JAX gives NaN where a product of intermediate results overflows; the limits are 0, 1 and infinity."""
    for dtype in FLOATS:
        order = np.full(3, 1e5, dtype)
        got = library(f"zeta_{dtype}", order, np.array([2, 1, 0.5], dtype))
        assert got.tolist() == [0, 1, np.inf]
