"""Incomplete gamma functions: igamma, igammac, igamma_grad_a.

They iterate until every lane of the vector has converged, so a hard lane costs its neighbours time; large `a`, where
that would take thousands of steps, have an asymptotic expansion instead. f32 works in f64 lanes.
"""

from .bits import infinity, is_nan, magnitude, quiet_nan
from .error import erfc
from .exponential import exp
from .gamma import digamma, lgamma
from .logarithm import SMALLEST_NORMAL, log, log1p_tail, log_extended
from .polynomial import horner, two_sum
from .root import sqrt
from .special_coefficients import lgamma_large_poly

comptime D = DType.float64
comptime HALF_LOG_TWO_PI = 0.91893853320467274178
comptime INVERSE_SQRT_TWO_PI = 0.39894228040143267794

comptime TOLERANCE[dt: DType] = 1.0 / (1 << 28) if dt == DType.float32 else 1.0 / (1 << 52)

comptime LARGE[dt: DType] = 1e4 if dt == DType.float32 else 1e7
"""From here on two terms of the asymptotic expansion are exact enough for the type."""


@fieldwise_init
struct _Arguments[w: SIMDLength](TrivialRegisterPassable):
    """What all parts need to know of a and x."""

    var a: SIMD[D, Self.w]
    var x: SIMD[D, Self.w]
    var m: SIMD[D, Self.w]
    """(x - a) / a."""
    var l: SIMD[D, Self.w]
    """log(1 + m) - m."""
    var density: SIMD[D, Self.w]
    """x**a exp(-x) / gamma(a)."""


@always_inline
def _arguments[w: SIMDLength](a: SIMD[D, w], x: SIMD[D, w]) -> _Arguments[w]:
    """For large a the density comes from Stirling's formula, without the cancellation of large terms."""
    comptime V = SIMD[D, w]
    var m = (x - a) / a
    var near = m.gt(-0.29) & m.lt(0.41)
    var ratio = x / a
    var u, u_low = two_sum(V(1), m)
    u = m.lt(-0.5).select(ratio, u)
    u_low = m.lt(-0.5).select(V(0), u_low)
    var high, low = log_extended(u)
    var l = near.select(log1p_tail(near.select(m, V(0)), V(0)), (high - m) + (u_low / u + low))
    l = ratio.lt(SMALLEST_NORMAL[D]).select(-infinity[D, w](), l)
    var inverse = 1 / a
    var rest = inverse * lgamma_large_poly(inverse * inverse)
    var by_stirling = a.fma(l, log(a) * 0.5 - HALF_LOG_TWO_PI - rest)
    var large = a.ge(4.5)
    var plain = a.fma(log(x), -x) - lgamma(large.select(V(1), a))
    return _Arguments[w](a, x, m, l, exp(large.select(by_stirling, plain)))


@always_inline
def _series[
    w: SIMDLength, derivative: Bool
](s: _Arguments[w], lanes: SIMD[DType.bool, w], tolerance: Float64) -> SIMD[D, w]:
    """The lower function, or its derivative by a: a power series in x, for x below max(a, 1)."""
    comptime V = SIMD[D, w]
    var active = lanes
    var r = s.a
    var term = V(1)
    var sum = V(1)
    var term_da = V(0)
    var sum_da = V(0)
    while active.reduce_or():
        r += 1
        var ratio = s.x / r
        comptime if derivative:
            term_da = active.select(ratio * (term_da - term / r), V(0))
            sum_da += term_da
        term = active.select(term * ratio, V(0))
        sum += term
        comptime if derivative:
            active &= magnitude(term_da).gt(magnitude(sum_da) * tolerance)
        else:
            active &= term.gt(sum * tolerance)
    comptime if derivative:
        return s.density * sum.fma(log(s.x) - digamma(s.a + 1), sum_da) / s.a
    else:
        return sum * s.density / s.a


@always_inline
def _continued_fraction[
    w: SIMDLength, derivative: Bool
](s: _Arguments[w], lanes: SIMD[DType.bool, w], tolerance: Float64) -> SIMD[D, w]:
    """The upper function, or its derivative by a, for x beyond a and 1; at most 2000 steps, as in JAX."""
    comptime V = SIMD[D, w]
    comptime large = 4503599627370496.0
    var active = lanes
    var y = 1 - s.a
    var z = s.x + y + 1
    var p0 = V(1)
    var q0 = s.x
    var p1 = s.x + 1
    var q1 = z * s.x
    var value = p1 / q1
    var dp0 = V(0)
    var dq0 = V(0)
    var dp1 = V(0)
    var dq1 = -s.x
    var value_da = (dp1 - value * dq1) / q1
    var c = Float64(0)
    while c < 2000 and active.reduce_or():
        c += 1
        y += 1
        z += 2
        var yc = y * c
        var p2 = p1 * z - p0 * yc
        var q2 = q1 * z - q0 * yc
        var usable = active & ~q2.eq(0)
        var ratio = p2 / q2
        var change = usable.select(magnitude(value - ratio), magnitude(ratio))
        value = usable.select(ratio, value)
        comptime if derivative:
            var dp2 = dp1 * z - p1 - dp0 * yc + p0 * c
            var dq2 = dq1 * z - q1 - dq0 * yc + q0 * c
            var value2 = (dp2 - value * dq2) / q2
            var change_da = usable.select(magnitude(value2 - value_da), V(1))
            value_da = usable.select(value2, value_da)
            active &= change_da.gt(tolerance)
            dp0 = dp1
            dq0 = dq1
            dp1 = dp2
            dq1 = dq2
        else:
            active &= change.gt(magnitude(ratio) * tolerance)
        p0 = p1
        q0 = q1
        p1 = p2
        q1 = q2
        var scale = magnitude(p2).gt(large).select(V(1 / large), V(1))
        p0 *= scale
        q0 *= scale
        p1 *= scale
        q1 *= scale
        comptime if derivative:
            dp0 *= scale
            dq0 *= scale
            dp1 *= scale
            dq1 *= scale
    comptime if derivative:
        return s.density * value.fma(log(s.x) - digamma(s.a), value_da)
    else:
        return value * s.density


@always_inline
def _temme[w: SIMDLength, derivative: Bool, upper: Bool](s: _Arguments[w]) -> SIMD[D, w]:
    """The lower or upper function, or the lower one's derivative by a, for large a."""
    comptime V = SIMD[D, w]
    var left = s.m.lt(0)
    var e = sqrt(s.l * -2)
    e = left.select(-e, e)
    # the expansion of 1 / m - 1 / e by e, where e**2 / 2 = m - log(1 + m)
    var c = (
        magnitude(s.m)
        .lt(0.1)
        .select(horner[-1.0 / 3.0, 1.0 / 12.0, -2.0 / 135.0, 1.0 / 864.0, 1.0 / 2835.0](e), 1 / s.m - 1 / e)
    )
    var inverse = 1 / s.a
    var gauss = exp(s.a * s.l) * sqrt(inverse) * INVERSE_SQRT_TWO_PI
    comptime if derivative:
        var logarithm = s.l + s.m
        var slope = magnitude(e).lt(0.01).select(1 - e * (1.0 / 6.0) + e * e * (1.0 / 36.0), logarithm / e)
        var e_da = -(slope + e * 0.5) * inverse
        return -gauss * (
            slope
            + c * (logarithm - inverse * 0.5)
            + horner[1.0 / 12.0, -4.0 / 135.0, 1.0 / 288.0, 4.0 / 2835.0](e) * e_da
        )
    else:
        var y = e * sqrt(s.a * 0.5)
        comptime if upper:
            return gauss.fma(c, erfc(y) * 0.5)
        else:
            return (-gauss).fma(c, erfc(-y) * 0.5)


@always_inline
def igamma[dt: DType, w: SIMDLength](a: SIMD[dt, w], x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.igamma`, the regularized lower incomplete gamma function P(a, x)."""
    return _incomplete_gamma[upper=False](a, x)


@always_inline
def igammac[dt: DType, w: SIMDLength](a: SIMD[dt, w], x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.igammac`, the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return _incomplete_gamma[upper=True](a, x)


@always_inline
def _incomplete_gamma[dt: DType, w: SIMDLength, upper: Bool](shape: SIMD[dt, w], point: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime assert dt == DType.float32 or dt == DType.float64, "incomplete gamma functions: f32 or f64"
    comptime V = SIMD[D, w]
    comptime inf = infinity[D, w]()
    var a = shape.cast[D]()
    var x = point.cast[D]()
    var wrong = x.lt(0) | a.lt(0) | (x.eq(0) & a.eq(0)) | is_nan(a) | is_nan(x)
    var by_fraction = x.ge(1) & (x.ge(a) if upper else x.gt(a))
    var infinite = x.eq(inf)
    var s = _arguments(a, x)
    var large = a.gt(LARGE[dt])
    var lanes = ~(wrong | infinite | x.eq(0) | a.eq(0) | large) & s.density.gt(0)
    var lower = _series[derivative=False](s, lanes & ~by_fraction, TOLERANCE[dt])
    var higher = _continued_fraction[derivative=False](s, lanes & by_fraction, TOLERANCE[dt])
    var far = V(0)
    if large.reduce_or():
        far = _temme[derivative=False, upper=upper](s)
        far = a.eq(inf).select(x.lt(1).select(V(1 if upper else 0), quiet_nan[D, w]()), far)
    var r: V
    comptime if upper:
        r = large.select(far, by_fraction.select(higher, 1 - lower))
        r = x.eq(0).select(V(1), r)
        r = (infinite | a.eq(0)).select(V(0), r)
    else:
        r = large.select(far, by_fraction.select(1 - higher, lower))
        r = x.eq(0).select(V(0), r)
        r = infinite.select(V(1), r)
    return wrong.select(quiet_nan[D, w](), r).cast[dt]()


@always_inline
def igamma_grad_a[dt: DType, w: SIMDLength](shape: SIMD[dt, w], point: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.igamma_grad_a`, the derivative of `igamma` by its first argument."""
    comptime assert dt == DType.float32 or dt == DType.float64, "igamma_grad_a: f32 or f64"
    comptime V = SIMD[D, w]
    comptime inf = infinity[D, w]()
    var a = shape.cast[D]()
    var x = point.cast[D]()
    var wrong = x.lt(0) | a.le(0) | is_nan(a) | is_nan(x) | a.eq(inf) | x.eq(inf)
    var by_fraction = x.gt(1) & x.gt(a)
    var s = _arguments(a, x)
    var large = a.gt(LARGE[dt])
    var usable = ~(wrong | x.eq(0)) & s.density.gt(0)
    var lanes = usable & ~large
    var lower = _series[derivative=True](s, lanes & ~by_fraction, TOLERANCE[dt])
    var higher = _continued_fraction[derivative=True](s, lanes & by_fraction, TOLERANCE[dt])
    var r = by_fraction.select(-higher, lower)
    if large.reduce_or():
        r = large.select(_temme[derivative=True, upper=False](s), r)
    r = usable.select(r, V(0))
    return wrong.select(quiet_nan[D, w](), r).cast[dt]()
