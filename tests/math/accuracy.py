"""What each elementary function is measured against: `jax.jit`, a reference of higher precision, and the points.

f32 is compared with NumPy's f64, f64 with the C library's 80-bit functions; `test_references.py` checks a sample of
these references against mpmath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import ml_dtypes
import mpmath
import numpy as np
from harness import Entry
from jax import lax
from scipy import special

WIDTHS = {"float32": 64, "float64": 32}


@dataclass(frozen=True)
class Function:
    """`jax` is the primitive, `reference` works on f64 and long double arrays, `limits` are the ulp allowed (f32, f64).

    Points: log-spaced over `domain` (magnitudes; both signs if `signed`), and dense around each of `near`.
    """

    name: str
    jax: Callable
    reference: Callable
    limits: tuple[float, float]
    domain: tuple[float, float] = (0.0, np.inf)
    signed: bool = True
    near: Sequence[float] = ()
    expression: str = ""

    def entry(self, dtype: str) -> Entry:
        text = self.expression or f"{self.name}(x0)"
        return Entry(f"{self.name}_{dtype}", text, (dtype,), (dtype,), WIDTHS[dtype])

    def points(self, dtype: str, count: int = 1 << 16) -> np.ndarray:
        """Finite points in the type, `count` of them log-spaced, as many around `near`."""
        info = np.finfo(dtype)
        low = max(self.domain[0], float(info.tiny))
        high = min(self.domain[1], float(info.max))
        exponents = np.linspace(np.log2(low), np.log2(high), count)[1:-1]
        spread = np.exp2(exponents) * (1 + np.random.default_rng(5).uniform(-1e-3, 1e-3, exponents.size))
        spread = spread.astype(dtype)
        parts = [spread, -spread] if self.signed else [spread]
        for x in self.near:
            each = max(256, count // max(1, len(self.near)))
            offsets = np.exp2(np.linspace(np.log2(max(abs(x), 1e-3) * float(info.eps)), -1, each // 2))
            for s in (1, -1):
                parts.append((x + s * offsets).astype(dtype))
                parts.append(_neighbours(x, dtype))
        x = np.concatenate(parts)
        inside = (np.abs(x) >= low) & (np.abs(x) <= high)
        return x[inside if self.signed else inside & (x > 0)]


def _neighbours(x: float, dtype: str, reach: int = 40) -> np.ndarray:
    """The numbers of the type around `x`."""
    kind = {"float32": np.int32, "float64": np.int64}[dtype]
    centre = np.array([x], dtype).view(kind)
    return (centre + np.arange(-reach, reach + 1, dtype=kind)).view(dtype)


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of the exact result; 0 where both overflow, underflow or are NaN."""
    info = ml_dtypes.finfo(got.dtype)  # knows bfloat16, too
    with np.errstate(all="ignore"):
        bounded = np.abs(exact)
        _, exponent = np.frexp(bounded)
        unit = np.ldexp(np.ones_like(exact), np.maximum(exponent, info.minexp + 1) - info.nmant - 1)
        error = np.abs(got.astype(exact.dtype) - exact) / unit
    half_top = np.ldexp(np.ones((), exact.dtype), info.maxexp) * (
        1 - np.ldexp(np.ones((), exact.dtype), -info.nmant - 2)
    )
    error = np.where((bounded >= half_top) & np.isinf(got) & (np.sign(got) == np.sign(exact)), 0, error)
    error = np.where((bounded < float(info.tiny)) & (got == 0), 0, error)  # results below the normal range are flushed
    # the smallest normal number and zero are both right for a result that rounds to it
    error = np.where(np.isnan(exact) & np.isnan(got), 0, error)
    return np.where(np.isnan(error), np.inf, error).astype(np.float64)


def reference(function: Function, x: np.ndarray) -> np.ndarray:
    """The exact values to well beyond the precision of `x`."""
    with np.errstate(all="ignore"):
        return function.reference(x.astype(np.float64 if x.dtype == np.float32 else np.longdouble))


def measure(library, function: Function, dtype: str, count: int = 1 << 16) -> tuple[float, float, float, float]:
    """Largest error of ours, the point, largest error of `jax.jit`, the point."""
    x = function.points(dtype, count)
    exact = reference(function, x)
    ours = ulp_error(library(f"{function.name}_{dtype}", x), exact)
    with jax.enable_x64(True):
        theirs = ulp_error(np.asarray(jax.jit(function.jax)(x)), exact)
    a, b = ours.argmax(), theirs.argmax()
    return float(ours[a]), float(x[a]), float(theirs[b]), float(x[b])


def high_precision(scipy_name: str, function: Callable) -> Callable[[np.ndarray], np.ndarray]:
    """SciPy's function for f64 arrays, mpmath's for long double ones."""

    def reference(x: np.ndarray) -> np.ndarray:
        if x.dtype == np.float64 and x.size > 100:  # SciPy differs from JAX at some poles, which only few points hold
            return getattr(special, scipy_name)(x)
        with mpmath.workdps(40):
            exact = [function(mpmath.mpf(float(v))) for v in x]
            high = np.array([float(v) for v in exact])
            low = [float(v - mpmath.mpf(h)) if np.isfinite(h) else 0.0 for v, h in zip(exact, high, strict=True)]
        high = np.where(high == 0, np.copysign(high, x), high) if scipy_name in ("erf", "erfinv", "i1e") else high
        wide = high.astype(np.longdouble)
        return np.where(np.array(low) == 0, wide, wide + np.array(low))

    return reference


def _inverse_erf(x):
    """One Newton step from SciPy's value."""
    if abs(x) >= 1:
        return x * mpmath.inf if abs(x) == 1 else mpmath.nan
    y = mpmath.mpf(float(special.erfinv(float(x))))
    return y - (mpmath.erf(y) - x) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)


def _scaled_bessel(order: int) -> Callable:
    """exp(-|x|) I(order, x)."""

    def function(x):
        if mpmath.isinf(x):
            return mpmath.mpf(0)
        if abs(x) > 1e6:  # mpmath gives up; the next term is below 1e-20
            u = 1 / (8 * abs(x))
            terms = 1 - (4 * order**2 - 1) * u + (4 * order**2 - 1) * (4 * order**2 - 9) * u**2 / 2
            return mpmath.sign(x) ** order * terms / mpmath.sqrt(2 * mpmath.pi * abs(x))
        return mpmath.besseli(order, x) * mpmath.exp(-abs(x))

    return function


def _erfc(x):
    """mpmath gives up on huge arguments."""
    return x if mpmath.isnan(x) else mpmath.erfc(max(-1000, min(1000, x)))


def _lgamma(x):
    """log|gamma(x)|, infinite at the poles and at both infinities."""
    if mpmath.isnan(x):
        return x
    pole = mpmath.isinf(x) or (x <= 0 and x == mpmath.floor(x))
    return mpmath.inf if pole else mpmath.re(mpmath.loggamma(x))


def _digamma(x):
    """NaN at the poles and at -inf."""
    if mpmath.isinf(x):
        return x if x > 0 else mpmath.nan
    return mpmath.nan if x <= 0 and x == mpmath.floor(x) else mpmath.digamma(x)


ELEMENTARY = [
    Function(
        "exp", lax.exp, np.exp, (1, 1.3), (1e-9, 800), near=(0.34657, -0.34657, 0.6931, 88.7, -87.3, 709.7, -708.4)
    ),
    Function("exp2", lax.exp2, np.exp2, (1.2, 1.2), (1e-9, 1100), near=(0.5, 1.0, -1.0, 127.9, -126, 1023.9, -1022)),
    Function(
        "expm1", lax.expm1, np.expm1, (1.3, 1.3), (0, 800), near=(0.34657, -0.34657, 1.04, -1.04, 88.7, -17.3, 709.7)
    ),
    Function("log", lax.log, np.log, (1, 1), signed=False, near=(1.0, 0.7071, 1.4142, 2.0, 0.5)),
    Function(
        "log2", lambda x: jax.numpy.log2(x), np.log2, (1.5, 1.5), signed=False, near=(1.0, 0.7071, 1.4142, 2.0, 0.5)
    ),
    Function("log1p", lax.log1p, np.log1p, (1, 1), near=(-0.29289, 0.41421, -0.9999, -0.5, 1.0)),
    Function("sqrt", lax.sqrt, np.sqrt, (0.5, 0.5), signed=False, near=(1.0,)),
    Function("rsqrt", lax.rsqrt, lambda x: 1 / np.sqrt(x), (1.5, 1.5), signed=False, near=(1.0,)),
    Function("cbrt", lax.cbrt, np.cbrt, (0.7, 0.7), near=(1.0, 8.0)),
    Function("tanh", lax.tanh, np.tanh, (2, 2), near=(0.17, 0.52, -0.17, 9.0, 19.0)),
    Function(
        "logistic", lax.logistic, lambda x: 1 / (1 + np.exp(-x)), (2, 2), (0, 800), near=(0.35, -0.35, 1.0, -1.0, -87.3)
    ),
    Function("sinh", lax.sinh, np.sinh, (2, 2), (0, 720), near=(0.34657, 1.04, 89.4, 710.4)),
    Function("cosh", lax.cosh, np.cosh, (2, 2), (0, 720), near=(0.34657, 1.04, 89.4, 710.4)),
    Function("asinh", lax.asinh, np.arcsinh, (2, 2), near=(0.5, 1.0, 1e9)),
    Function("acosh", lax.acosh, np.arccosh, (2, 2), (1, np.inf), signed=False, near=(1.0, 1.06, 1.25, 1e9)),
    Function("atanh", lax.atanh, np.arctanh, (2, 2), (0, 1), near=(0.17, 0.5, 0.999)),
]


def _half_pi_multiples(count: int = 12) -> list[float]:
    return [k * np.pi / 2 for k in range(1, count)] + [1e4 * np.pi, 41721.5 * np.pi]


TRIGONOMETRIC = [
    Function("sin", lax.sin, np.sin, (1.2, 1.2), near=[0.785, *_half_pi_multiples(), 131072, 2.0**30]),
    Function("cos", lax.cos, np.cos, (1.2, 1.2), near=[0.785, *_half_pi_multiples(), 131072, 2.0**30]),
    Function("tan", lax.tan, np.tan, (1.7, 1.7), near=[0.785, *_half_pi_multiples(), 131072, 2.0**30]),
    Function("asin", lax.asin, np.arcsin, (1.3, 1.3), (0, 1), near=(0.5, 1.0, 0.7)),
    Function("acos", lax.acos, np.arccos, (1.3, 1.3), (0, 1), near=(0.5, -0.5, 1.0, -1.0, 0.7)),
    Function("atan", lax.atan, np.arctan, (1.5, 1.5), near=(1.0, 0.5, 2.0)),
]

SPECIAL = [
    Function("erf", lax.erf, high_precision("erf", mpmath.erf), (1.5, 1.5), (0, 10), near=(0.9, -0.9, 1.5, 3.9, 5.9)),
    Function(
        "erfc",
        lax.erfc,
        high_precision("erfc", _erfc),
        (2.4, 2.4),
        (0, 28),
        near=(0.6, -0.6, 1.0, 3.0, 9.19, 26.54),
    ),
    Function(
        "erf_inv",
        lax.erf_inv,
        high_precision("erfinv", _inverse_erf),
        (3, 3),
        (0, 1),
        near=(0.9966, 0.99903, 1.0, -1.0, 0.5),
    ),
    Function(
        "lgamma",
        lax.lgamma,
        high_precision("gammaln", _lgamma),
        (2.6, 2.6),
        (0, 1e35),
        signed=False,
        near=(0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 4.5),
    ),
    Function(
        "digamma",
        lax.digamma,
        high_precision("psi", _digamma),
        (3, 3),
        signed=False,
        near=(1.0, 1.4616321449683622, 2.0, 3.0),
    ),
    Function("bessel_i0e", lax.bessel_i0e, high_precision("i0e", _scaled_bessel(0)), (3, 3), near=(8.0, 12.0)),
    Function("bessel_i1e", lax.bessel_i1e, high_precision("i1e", _scaled_bessel(1)), (3, 3), near=(8.0, 12.0)),
]
