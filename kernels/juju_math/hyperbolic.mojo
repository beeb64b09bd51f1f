"""Hyperbolic functions: tanh, sinh, cosh and their inverses."""

from std.memory import bitcast

from .bits import MANTISSA_BITS, Signed, infinity, magnitude, quiet_nan, sign_bits, to_signed_bits, with_sign
from .coefficients import LN2_HIGH, LN2_LOW, LOG2E_HIGH, cosh_poly, expm1_poly, sinh_poly
from .logarithm import log_of_sum
from .polynomial import BIAS, MAGIC, power_of_two, two_sum
from .root import sqrt


@always_inline
def tanh[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.tanh`, as h / (h + 1) with h = (exp(2|x|) - 1) / 2. At most 1.8 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "tanh: f32 or f64"
    comptime high = Scalar[dt](30) if dt == DType.float32 else Scalar[dt](60)
    var a = magnitude(x)
    var y = a + a
    y = y.gt(high).select(high, y)
    var n = y.fma(LOG2E_HIGH[dt], MAGIC[dt]) - MAGIC[dt]
    var r = (-n).fma(LN2_LOW[dt], (-n).fma(LN2_HIGH[dt], y))
    var g = (r * r).fma(expm1_poly(r), r)
    var s = power_of_two(n - 1)
    var h = s.fma(g, s - 0.5)
    var d = h + 1
    var lost = (1 - d) + h
    var inverse = 1 / d
    var q = h * inverse
    var rest = (-q).fma(lost, (-q).fma(d, h))
    return with_sign(rest.fma(inverse, q), sign_bits(x))


@always_inline
def _halves[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[dt, w], SIMD[dt, w]]:
    """2**(n-2), 2**(-n-2), sinh(r) and cosh(r) - 1 for |x| = n log(2) + r, |r| at most log(2)/2."""
    comptime high = Scalar[dt](89.6) if dt == DType.float32 else Scalar[dt](710.6)
    comptime I = Signed[dt]
    comptime both = Scalar[I](Int(BIAS[dt]) * 2 - 4) << Scalar[I](MANTISSA_BITS[dt])
    var y = magnitude(x)
    y = y.gt(high).select(high, y)
    var n = y.fma(LOG2E_HIGH[dt], MAGIC[dt]) - MAGIC[dt]
    var r = (-n).fma(LN2_HIGH[dt], y)
    r = (-n).fma(LN2_LOW[dt], r)
    var z = r * r
    var sinh_r = (r * z).fma(sinh_poly(z), r)
    var cosh_r = z * z.fma(cosh_poly(z), SIMD[dt, w](0.5))
    var up = power_of_two(n - 2)
    var down = bitcast[dt, w](max(both - to_signed_bits(up), SIMD[I, w](0)))
    return (up, down, sinh_r, cosh_r)


@always_inline
def sinh[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.sinh`. At most 1.8 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "sinh: f32 or f64"
    comptime tiny = Scalar[dt](1e-5) if dt == DType.float32 else Scalar[dt](1e-9)
    var up, down, s, c = _halves(x)
    var difference = up - down
    var half = difference + (up + down).fma(s, difference * c)
    return magnitude(x).lt(tiny).select(x, with_sign(half + half, sign_bits(x)))


@always_inline
def cosh[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.cosh`. At most 1.5 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "cosh: f32 or f64"
    var up, down, s, c = _halves(x)
    # e**r - 1 = c + s and e**-r - 1 = c - s; the sum up + down would be rounded
    var half = up + up.fma(c + s, down.fma(c - s, down))
    return half + half


@always_inline
def asinh[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.asinh`, as log1p(a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|. At most 1.5 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "asinh: f32 or f64"
    comptime large = Scalar[dt](1 << 30)
    var a = magnitude(x)
    var big = a.gt(large)
    var z = a * a
    var q = z / (sqrt(z + 1) + 1)
    var v, v_low = two_sum(a, q)
    var u, u_low = two_sum(SIMD[dt, w](1), v)
    u = big.select(a, u)
    u_low = big.select(SIMD[dt, w](0), u_low + v_low)
    var y = log_of_sum(u, u_low, big.select(SIMD[dt, w](1), SIMD[dt, w](0)))
    y = a.lt(infinity[dt, w]()).select(y, a)
    return with_sign(y, sign_bits(x))


@always_inline
def acosh[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.acosh`, as log1p(t + sqrt(2 t + t**2)) with t = x - 1; NaN below 1. At most 1.9 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "acosh: f32 or f64"
    comptime large = Scalar[dt](1 << 30)
    var big = x.gt(large)
    var t = x - 1
    var s = sqrt(t.fma(t, t + t))
    var v, v_low = two_sum(t, s)
    var u, u_low = two_sum(SIMD[dt, w](1), v)
    u = big.select(x, u)
    u_low = big.select(SIMD[dt, w](0), u_low + v_low)
    var y = log_of_sum(u, u_low, big.select(SIMD[dt, w](1), SIMD[dt, w](0)))
    y = x.lt(infinity[dt, w]()).select(y, x)
    return x.lt(1).select(quiet_nan[dt, w](), y)


@always_inline
def atanh[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.atanh`, as log1p(2 a / (1 - a)) / 2 with a = |x|; NaN above 1. At most 1.3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "atanh: f32 or f64"
    comptime one = SIMD[dt, w](1)
    var a = magnitude(x)
    var d = 1 - a
    var d_low = (1 - d) - a
    var inverse = one / d
    var a2 = a + a
    var q = a2 * inverse
    var rest = (-q).fma(d_low, (-q).fma(d, a2))
    var u, u_low = two_sum(one, q)
    var y = log_of_sum(u, rest.fma(inverse, u_low), SIMD[dt, w](0)) * 0.5
    y = a.lt(1).select(y, a.eq(1).select(infinity[dt, w](), quiet_nan[dt, w]()))
    return with_sign(y, sign_bits(x))
