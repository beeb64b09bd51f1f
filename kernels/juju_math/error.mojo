"""The error function family: erf, erfc, erf_inv."""

from .bits import infinity, magnitude, quiet_nan, sign_bits, with_sign
from .coefficients import LN2_HIGH, LN2_LOW, LOG2E_HIGH, exp2_nearest_poly, exp_poly
from .logarithm import log_of_sum
from .polynomial import MAGIC, power_of_two, two_sum
from .root import sqrt
from .special_coefficients import (
    ERFCX_FIRST,
    erfcx_poly,
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
    """`lax.erfc`: 1 - erf(x) up to 0.6, then exp(-x**2) times a polynomial. At most 2.4 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "erfc: f32 or f64"
    var a = magnitude(x)
    var small = 1 - x.fma(erf_poly(x * x), x)
    var far, _ = _erfc_beyond(a)
    far = x.lt(0).select(2 - far, far)
    return a.lt(0.6).select(small, far)


@always_inline
def error_functions[
    dt: DType, w: SIMDLength
](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[dt, w]]:
    """erf(x), erfc(|x|) and exp(-x * x), where the last has x * x rounded, for little more than the price of erfc.

    At most 1.6, 2.4 and 1 ulp.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "error_functions: f32 or f64"
    var a = magnitude(x)
    var small = a.fma(erf_poly(x * x), a)
    var far, bell = _erfc_beyond(a)
    var erf = with_sign(a.lt(0.9).select(small, 1 - far), sign_bits(x))
    return (erf, a.lt(0.6).select(1 - small, far), bell)


@always_inline
def _erfc_beyond[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w]]:
    """erfc for arguments of 0.6 and more; exp(-y) for positive arguments, where y is x * x rounded."""
    comptime one = SIMD[dt, w](1)
    comptime most = Scalar[dt](9.39) if dt == DType.float32 else Scalar[dt](26.63)  # there the result is 0
    comptime centre = SIMD[dt, w](1.5) if dt == DType.float32 else SIMD[dt, w](2)
    var a = x.gt(most).select(most, x)
    # 1 / d = inverse (1 + e); q = (a - centre) / d
    var d = a + centre
    var d_low = a - (d - centre)  # exact
    var inverse = one / d
    var e = (-inverse).fma(d_low, (-inverse).fma(d, one))
    var c = inverse * (-2 * centre)
    var q = c.fma(e, inverse.fma(-2 * centre, one))
    # m + m_low = p / d, where p = c0 + q t has a rounding error p_low
    comptime c0 = ERFCX_FIRST[dt]
    var t = erfcx_poly(q)
    var p = q.fma(t, c0)
    var p_low = q.fma(t, c0 - p)
    var m = p * inverse
    var m_low = ((-m).fma(d_low, (-m).fma(d, p)) + p_low) * inverse
    # exp(y) = 2**n (1 + g), and exp(-a**2) = exp(y) (1 - y_low)
    var y = -(a * a)
    var y_low = a.fma(a, y)
    var n = y.fma(LOG2E_HIGH[dt], MAGIC[dt]) - MAGIC[dt]
    var r = (-n).fma(LN2_LOW[dt], (-n).fma(LN2_HIGH[dt], y))
    var g = (r * r).fma(exp_poly(r), r)
    var s = power_of_two(n)
    m_low = (-y_low).fma(m, m_low)
    return ((m + g.fma(m + m_low, m_low)) * s, s.fma(g, s))


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
