"""The exponential family: exp, exp2, expm1, logistic.

The argument is split as n log(2) + r with n the nearest integer, at most 127 (1023): so the last multiplication by 2**n
overflows, underflows and flushes as it should, at the price of a wider interval for r.
"""

from .bits import magnitude
from .coefficients import LN2_HIGH, LN2_LOW, LOG2E_HIGH, exp2_poly, exp_poly, expm1_poly
from .polynomial import BIAS, MAGIC, power_of_two


@always_inline
def exp[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.exp`. At most 1 ulp (f64: 1.3); results below the normal range are 0."""
    comptime assert dt == DType.float32 or dt == DType.float64, "exp: f32 or f64"
    comptime low = Scalar[dt](-88.2) if dt == DType.float32 else Scalar[dt](-709.2)  # n = -127 (-1023)
    comptime high = Scalar[dt](88.8) if dt == DType.float32 else Scalar[dt](710)
    var y = x.gt(high).select(high, x)  # NaN passes both
    y = y.lt(low).select(low, y)
    var n = y.fma(LOG2E_HIGH[dt], MAGIC[dt]) - MAGIC[dt]
    n = n.gt(BIAS[dt]).select(BIAS[dt], n)
    var r = (-n).fma(LN2_HIGH[dt], y)
    r = (-n).fma(LN2_LOW[dt], r)
    var q = (r * r).fma(exp_poly(r), r)
    var s = power_of_two(n)
    return s.fma(q, s)


@always_inline
def exp2[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.exp2`. At most 1.1 ulp; results below the normal range are 0."""
    comptime assert dt == DType.float32 or dt == DType.float64, "exp2: f32 or f64"
    return exp2_of_sum(x, SIMD[dt, w](0))


@always_inline
def exp2_of_sum[dt: DType, w: SIMDLength](x: SIMD[dt, w], low: SIMD[dt, w]) -> SIMD[dt, w]:
    """`2**(x + low)` for `low` below the last place of `x`."""
    comptime least = -BIAS[dt]
    comptime most = BIAS[dt] + 1.5
    var y = x.gt(most).select(most, x)
    y = y.lt(least).select(least, y)
    var n = y + MAGIC[dt] - MAGIC[dt]
    n = n.gt(BIAS[dt]).select(BIAS[dt], n)
    var r = (y - n) + low
    var s = power_of_two(n)
    return s.fma(r * exp2_poly(r), s)


@always_inline
def expm1[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.expm1`. At most 1.3 ulp; subnormal numbers and -0 come back as they are."""
    comptime assert dt == DType.float32 or dt == DType.float64, "expm1: f32 or f64"
    comptime low = Scalar[dt](-20) if dt == DType.float32 else Scalar[dt](-40)
    comptime high = Scalar[dt](88.8) if dt == DType.float32 else Scalar[dt](710)
    comptime tiny = Scalar[dt](1e-8) if dt == DType.float32 else Scalar[dt](1e-17)
    var y = x.gt(high).select(high, x)
    y = y.lt(low).select(low, y)
    var n = y.fma(LOG2E_HIGH[dt], MAGIC[dt]) - MAGIC[dt]
    var r0 = (-n).fma(LN2_HIGH[dt], y)
    var r = (-n).fma(LN2_LOW[dt], r0)
    var lost = (-n).fma(LN2_LOW[dt], r0 - r)
    var t = (r * r).fma(expm1_poly(r), lost)
    var s = power_of_two(n - 1)  # half of 2**n, which may be infinite where the result is not
    var h = s.fma(t, s.fma(r, s - 0.5))
    return magnitude(x).lt(tiny).select(x, h + h)


@always_inline
def logistic[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.logistic`, 1 / (1 + exp(-x)). At most 1.9 ulp."""
    var e = exp(-magnitude(x))
    var d = e + 1
    var y = x.lt(0).select(e, SIMD[dt, w](1)) / d
    var lost = (1 - d) + e
    return (-y).fma(lost, y)
