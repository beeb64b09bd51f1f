"""Inverse trigonometric functions: asin, acos, atan, atan2."""

from .bits import magnitude, sign_bits, with_sign
from .coefficients import HALF_PI_HIGH, HALF_PI_MIDDLE, asin_poly, atan_poly
from .root import sqrt


@always_inline
def _half_angle[dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w]]:
    """s + t = asin(a) up to 1/2; beyond, s + t = acos(a) / 2. NaN above 1."""
    var z = a.gt(0.5).select((1 - a) * 0.5, a * a)
    var s = a.gt(0.5).select(sqrt(z), a)
    return (s, s * z * asin_poly(z))


@always_inline
def asin[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.asin`. At most 1.3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "asin: f32 or f64"
    var a = magnitude(x)
    var s, t = _half_angle(a)
    comptime minus_two = SIMD[dt, w](-2)
    comptime quarter = HALF_PI_HIGH[dt]
    var h = s.fma(minus_two, quarter)
    var lost = s.fma(minus_two, quarter - h)
    var far = h + (t.fma(minus_two, HALF_PI_MIDDLE[dt]) + lost)
    return with_sign(a.gt(0.5).select(far, s + t), sign_bits(x))


@always_inline
def acos[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.acos`: pi/2 - asin(x) in the middle, 2 asin(sqrt((1 - |x|) / 2)) or pi minus it outside. At most 1.3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "acos: f32 or f64"
    var a = magnitude(x)
    var s, t = _half_angle(a)
    # the result is quarters * pi/2 - factor * (s + t)
    var outside = a.gt(0.5)
    var factor = with_sign(outside.select(SIMD[dt, w](-2), SIMD[dt, w](1)), sign_bits(x))
    var quarters = outside.select(x.lt(0).select(SIMD[dt, w](2), SIMD[dt, w](0)), SIMD[dt, w](1))
    var r = t.fma(factor, -(quarters * HALF_PI_MIDDLE[dt]))
    return quarters.fma(HALF_PI_HIGH[dt], -s.fma(factor, r))


@always_inline
def _atan_unit[dt: DType, w: SIMDLength](q: SIMD[dt, w]) -> SIMD[dt, w]:
    """The arc tangent for q from 0 to 1."""
    var z = q * q
    return (q * z).fma(atan_poly(z), q)


@always_inline
def atan[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.atan`. At most 1.5 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "atan: f32 or f64"
    var a = magnitude(x)
    var beyond = a.gt(1)
    var p = _atan_unit(beyond.select(1 / a, a))
    var far = HALF_PI_HIGH[dt] - (p - HALF_PI_MIDDLE[dt])
    return with_sign(beyond.select(far, p), sign_bits(x))


@always_inline
def atan2[dt: DType, w: SIMDLength](y: SIMD[dt, w], x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.atan2`, with the special cases of C. At most 1.7 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "atan2: f32 or f64"
    comptime zero = SIMD[dt, w](0)
    var ay = magnitude(y)
    var ax = magnitude(x)
    var steep = ay.gt(ax)
    var top = steep.select(ax, ay)
    var bottom = steep.select(ay, ax)
    var equal = bottom.eq(0).select(zero, SIMD[dt, w](1))  # two zeros, two infinities
    var q = top.eq(bottom).select(equal, top / bottom)
    # the result is quarters * pi/2 + or - p
    var left = sign_bits(x)
    var quarters = steep.select(SIMD[dt, w](1), left.ne(0).select(SIMD[dt, w](2), zero))
    var p = with_sign(_atan_unit(q), steep.select(left ^ sign_bits(SIMD[dt, w](-1)), left))
    var r = quarters.fma(HALF_PI_HIGH[dt], quarters.fma(HALF_PI_MIDDLE[dt], p))
    return with_sign(r, sign_bits(y))
