"""Logarithm of the gamma function and its derivative: lgamma, digamma."""

from std.sys.intrinsics import llvm_intrinsic

from .bits import infinity, magnitude, quiet_nan, sign_bits, with_sign
from .coefficients import DIGAMMA_ZERO_HIGH, DIGAMMA_ZERO_LOW, LGAMMA_SHIFT, PI_HIGH, PI_LOW
from .logarithm import SMALLEST_NORMAL, log, log_extended
from .special_coefficients import (
    digamma_large_poly,
    digamma_middle_poly,
    lgamma_large_poly,
    lgamma_middle_poly,
    sinpi_poly,
)
from .trigonometric import tangent


@always_inline
def lgamma[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.lgamma`, log|gamma(x)|; infinite at 0 and the negative integers.

    At most 3 ulp for positive x, also next to the zeros 1 and 2. For negative x, by the reflection formula, the error is
    3 ulp of the larger of its two terms, so next to the zeros there it is absolute.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "lgamma: f32 or f64"
    var negative = x.lt(0)
    var y = _lgamma_positive(negative.select(1 - x, x))
    if not negative.reduce_or():
        return y
    # gamma(x) gamma(1-x) = pi / sin(pi x)
    var f = _fraction(x)
    var z = f * f
    var s = magnitude((f * z).fma(sinpi_poly(z), f))
    y = negative.select(-log(s) - y, y)
    var pole = negative & (f.eq(0) | magnitude(x).eq(infinity[dt, w]()))
    return pole.select(infinity[dt, w](), y)


@always_inline
def _fraction[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`x` minus the nearest integer, exact."""
    return x - llvm_intrinsic["llvm.roundeven", SIMD[dt, w], has_side_effect=False](x)


@always_inline
def _lgamma_positive[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """By a polynomial around 2 after at most two steps of the recurrence, or by Stirling's formula: one logarithm."""
    comptime V = SIMD[dt, w]
    comptime start = Scalar[dt](2.5) if dt == DType.float32 else Scalar[dt](4.5)
    # lgamma(x) = lgamma(2 + y) + factor log(argument)
    var below = x.lt(0.5)
    var one = x.lt(1.3)  # beyond, the two terms would cancel
    var y = below.select(x, one.select(x - 1, x - 2))
    var factor = one.select(V(-1), V(0))
    var argument = below.select(x.fma(x, x), one.select(x, V(1)))
    comptime if dt == DType.float64:
        var three = x.ge(2.5)
        var four = x.ge(3.5)
        y = three.select(four.select(x - 4, x - 3), y)
        factor = three.select(V(1), factor)
        argument = three.select(four.select((x - 1) * (x - 2), x - 1), argument)
    var large = x.ge(start)
    var high, low = log_extended(large.select(x, argument))
    var c = lgamma_middle_poly(y)
    var p = y * c
    var p_low = y.fma(c, -p)
    var term = factor * high  # at least as large as p, or 0
    var sum = term + p
    var middle = sum + (((term - sum) + p) + low.fma(factor, p_low))
    # (x - 1/2) (log(x) - 1) + shift + rest / x
    var a = x - 0.5
    var l = high - 1
    var l_low = ((high - l) - 1) + low
    var main = a * l
    var inverse = 1 / x
    var rest = inverse.fma(
        lgamma_large_poly(inverse * inverse),
        LGAMMA_SHIFT[dt],
    )
    rest += a.fma(l_low, a.fma(l, -main))
    var far = main.lt(infinity[dt, w]()).select(main + rest, main)
    var r = large.select(far, middle)
    r = x.lt(infinity[dt, w]()).select(r, x)  # infinity, NaN
    return x.lt(SMALLEST_NORMAL[dt]).select(infinity[dt, w](), r)


@always_inline
def digamma[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.digamma`; NaN at 0 and the negative integers.

    At most 3 ulp for positive x, also next to the zero 1.4616...; for negative x 3 ulp of the larger of the two
    terms of the reflection formula.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "digamma: f32 or f64"
    var negative = x.lt(0)
    var y = _digamma_positive(negative.select(1 - x, x))
    if not negative.reduce_or():
        return y
    # digamma(x) = digamma(1 - x) - pi / tan(pi x), the tangent within pi/4 of 0 or, inverted, of pi/2
    var f = _fraction(x)
    var steep = magnitude(f).gt(0.25)
    var g = steep.select(0.5 - magnitude(f), magnitude(f))
    var angle = g * PI_HIGH[dt]
    var low = g.fma(PI_LOW[dt], g.fma(PI_HIGH[dt], -angle))
    var t = tangent(angle, low)
    var cotangent = PI_HIGH[dt] * steep.select(t, 1 / t)
    var r = y - with_sign(cotangent, sign_bits(f))
    r = f.eq(0).select(quiet_nan[dt, w](), r)
    return negative.select(r, y)


@always_inline
def _digamma_positive[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """By a polynomial around the zero after at most one step of the recurrence, or by the asymptotic series."""
    comptime V = SIMD[dt, w]
    comptime start = Scalar[dt](2) if dt == DType.float32 else Scalar[dt](3)
    var large = x.ge(start)
    var below = x.lt(1)
    # digamma(x) = digamma(base) + 1 / step, except for base = x
    var base = below.select(x + 1, x)
    var step = below.select(-x, infinity[dt, w]())
    comptime if dt == DType.float64:
        var two = x.ge(2)
        base = two.select(x - 1, base)
        step = two.select(x - 1, step)
    var inverse = 1 / large.select(x, step)
    var y = (base - DIGAMMA_ZERO_HIGH[dt]) - DIGAMMA_ZERO_LOW[dt]
    var middle = y.fma(digamma_middle_poly(y), inverse)
    var z = inverse * inverse
    var high, low = log_extended(x)
    var rest = z * digamma_large_poly(z)
    var far = high + (low - inverse.fma(V(0.5), rest))
    var r = large.select(far, middle)
    r = x.lt(infinity[dt, w]()).select(r, x)
    return x.lt(SMALLEST_NORMAL[dt]).select(quiet_nan[dt, w](), r)
