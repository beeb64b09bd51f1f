"""The error function family: erf, erfc, erf_inv."""

from .bits import infinity, magnitude, quiet_nan, sign_bits, with_sign
from .coefficients import LN2_SHORT_HIGH, LN2_SHORT_LOW, LOG2E_HIGH, exp2_nearest_poly, exp_poly
from .logarithm import log_of_sum
from .polynomial import MAGIC, power_of_two, two_sum
from .root import sqrt
from .special_coefficients import (
    ERFCX_FIRST,
    erfcx_poly,
    erfcx_slope_poly,
    erf_inv_far_tail_poly,
    erf_inv_middle_poly,
    erf_inv_tail_poly,
    erf_poly,
    log2_erfc_poly,
)


@always_inline
def erf[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.erf`: a polynomial up to 0.9, then 1 - 2**p(|x|). At most 1.3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "erf: f32 or f64"
    comptime most = Scalar[dt](3.95) if dt == DType.float32 else Scalar[dt](5.95)
    var a = magnitude(x)
    var small = x.fma(erf_poly(x * x), x)
    var v = log2_erfc_poly(a.gt(most).select(most, a))
    var n = v + MAGIC[dt] - MAGIC[dt]
    var r = v - n
    var s = power_of_two(n)
    var u = s.fma(r * exp2_nearest_poly(r), s)
    return with_sign(a.lt(0.9).select(magnitude(small), 1 - u), sign_bits(x))


@always_inline
def erfc[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.erfc`, as exp(-x**2) times a function of 1 / (|x| + 2). At most 2.4 ulp, and 1 at 0."""
    comptime assert dt == DType.float32 or dt == DType.float64, "erfc: f32 or f64"
    var tail, _ = _tail_and_bell(magnitude(x))
    return x.lt(0).select(2 - tail, tail)


@always_inline
def error_functions[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[dt, w]]:
    """erf(x), erfc(|x|) and exp(-x * x), where the last has x * x rounded, for little more than the price of erfc.

    At most 1.3, 2.4 and 1.6 ulp.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "error_functions: f32 or f64"
    var a = magnitude(x)
    var small = a.fma(erf_poly(x * x), a)
    var tail, bell = _tail_and_bell(a)
    return (with_sign(a.lt(0.9).select(small, 1 - tail), sign_bits(x)), tail, bell)


@always_inline
def _tail_and_bell[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w]]:
    """erfc(x), and exp(-y) for y = x * x rounded, of arguments that are not negative."""
    comptime one = SIMD[dt, w](1)
    comptime most = Scalar[dt](9.39) if dt == DType.float32 else Scalar[dt](26.63)  # there the results are 0
    comptime span = SIMD[dt, w](4.1875) if dt == DType.float32 else SIMD[dt, w](5)
    var a = x.gt(most).select(most, x)
    # d + d_low = a + 2, and its inverse is inverse (1 + e)
    var d = a + 2
    var d_low = a - (d - 2)  # exact
    var inverse = one / d
    var e = (-inverse).fma(d_low, (-inverse).fma(d, one))
    # exp(a**2) erfc(a) at the point that `inverse` belongs to; a fraction of about slope * e more is that at a
    var q = inverse.fma(-span, one)
    comptime c0 = ERFCX_FIRST[dt]
    var p = q.fma(erfcx_poly(q), c0)
    var m = p * inverse
    var m_low = p.fma(inverse, -m)
    # exp(-a**2) = exp(y) (1 - y_low); with that and the other correction in r, 2**n (1 + g) is exp(y) (1 + u)
    var y = -(a * a)
    var u = e.fma(erfcx_slope_poly(q), (-a).fma(a, -y))
    var n = y.fma(LOG2E_HIGH[dt], MAGIC[dt]) - MAGIC[dt]
    var r = (-n).fma(LN2_SHORT_HIGH[dt], y) + (-n).fma(LN2_SHORT_LOW[dt], u)  # the first is exact
    var g = (r * r).fma(exp_poly(r), r)
    var s = power_of_two(n)
    var bell = s.fma(g, s)
    return ((m.fma(g, m_low) + m) * s, (-u).fma(bell, bell))


@always_inline
def erf_inv[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.erf_inv`, as x times a function of -log(1 - x**2); infinite at 1, NaN beyond. At most 2.5 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "erf_inv: f32 or f64"
    var a = magnitude(x)
    var z = x * x
    var z_low = x.fma(x, -z)
    var u, u_low = two_sum(SIMD[dt, w](1), -z)
    var v = -log_of_sum(u, u_low - z_low, SIMD[dt, w](0))
    var f: SIMD[dt, w]
    comptime if dt == DType.float32:
        var tail = erf_inv_tail_poly(sqrt(v) - 3)
        f = v.lt(5).select(erf_inv_middle_poly(v - 2.5), tail)
    else:
        f = erf_inv_middle_poly(v - 3.125)
        var outside = v.gt(6.25)
        if outside.reduce_or():
            var s = sqrt(v)
            var tail = s.gt(4).select(erf_inv_far_tail_poly(s - 5), erf_inv_tail_poly(s - 3.25))
            f = outside.select(tail, f)
    var limit = a.eq(1).select(infinity[dt, w](), quiet_nan[dt, w]())
    return a.lt(1).select(x * f, with_sign(limit, sign_bits(x)))
