"""Logarithms: log, log2, log1p, and the logarithm of a sum of two numbers that the inverse hyperbolic functions share.

The argument is split as 2**n m with m from sqrt(1/2) to sqrt(2). f32 uses a polynomial in m - 1; f64 one in
(m - 1) / (m + 1), half as long, at the price of a division. Subnormal arguments count as zero.
"""

from std.memory import bitcast

from .bits import MANTISSA_BITS, Signed, infinity, quiet_nan, sign_bits, to_signed_bits, with_sign, magnitude
from .coefficients import LN2_SHORT_HIGH, LN2_SHORT_LOW, LN2_HIGH, LN2_LOW, LOG2E_HIGH, LOG2E_LOW, atanh_poly, log_poly
from .polynomial import MAGIC, two_sum

comptime SQRT_HALF_BITS[dt: DType] = 0x3F3504F3 if dt == DType.float32 else 0x3FE6A09E667F3BCD

comptime SMALLEST_NORMAL[dt: DType] = Scalar[dt](1.17549435e-38) if dt == DType.float32 else Scalar[dt](
    2.2250738585072014e-308
)


@always_inline
def exponent_and_mantissa[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[Signed[dt], w], SIMD[dt, w]]:
    """The integer n and m with x = 2**n m, m from sqrt(1/2) to sqrt(2), for normal positive x."""
    comptime I = Signed[dt]
    comptime middle = Scalar[I](SQRT_HALF_BITS[dt])
    comptime shift = Scalar[I](MANTISSA_BITS[dt])
    var b = to_signed_bits(x)
    var n = (b - middle) >> shift
    return (n, bitcast[dt, w](b - (n << shift)))


@always_inline
def small_integer_to_float[dt: DType, w: SIMDLength](n: SIMD[Signed[dt], w]) -> SIMD[dt, w]:
    """Exact for integers below 2**22; f64 avoids a conversion that only AVX-512 has."""
    comptime if dt == DType.float32:
        return n.cast[dt]()
    else:
        comptime magic = bitcast[Signed[dt], 1](MAGIC[dt])
        return bitcast[dt, w](n + magic) - MAGIC[dt]


@always_inline
def log1p_tail[dt: DType, w: SIMDLength](r: SIMD[dt, w], small: SIMD[dt, w]) -> SIMD[dt, w]:
    """`log(1 + r) - r + small` for 1 + r from sqrt(1/2) to sqrt(2)."""
    var z = r * r
    comptime if dt == DType.float32:
        var a = log_poly(r).fma(r, SIMD[dt, w](-0.5))
        return a.fma(z, small)
    else:
        var s = r / (r + 2)
        var t = s * s
        var h = z * 0.5
        return s.fma(t.fma(atanh_poly(t), h), small) - h


@always_inline
def finish[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """The logarithm `y` of `x` with NaN, infinity, zero and negative `x` put right."""
    var r = x.lt(infinity[dt, w]()).select(y, x)
    var low = x.lt(0).select(quiet_nan[dt, w](), -infinity[dt, w]())
    return x.lt(SMALLEST_NORMAL[dt]).select(low, r)


@always_inline
def log[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.log`. At most 0.9 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "log: f32 or f64"
    var k, m = exponent_and_mantissa(x)
    var n = small_integer_to_float[dt, w](k)
    var r = m - 1
    var t = log1p_tail(r, n * LN2_LOW[dt])
    return finish(x, n.fma(LN2_HIGH[dt], r + t))


@always_inline
def log2[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """The base-2 logarithm, exact at powers of two. At most 1.3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "log2: f32 or f64"
    var k, m = exponent_and_mantissa(x)
    var r = m - 1
    var t = log1p_tail(r, SIMD[dt, w](0))
    var low = t.fma(LOG2E_HIGH[dt], r * LOG2E_LOW[dt])
    return finish(x, small_integer_to_float[dt, w](k) + r.fma(LOG2E_HIGH[dt], low))


@always_inline
def log_extended[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w]]:
    """The logarithm of a normal positive number as a sum of two, to a few more bits than the type has."""
    var k, m = exponent_and_mantissa(x)
    var n = small_integer_to_float[dt, w](k)
    var r = m - 1
    var t = log1p_tail(r, n * LN2_SHORT_LOW[dt])
    var s = r + t
    var p = n * LN2_SHORT_HIGH[dt]  # exact, and larger than s unless it is 0
    var high = p + s
    return (high, ((p - high) + s) + ((r - s) + t))


@always_inline
def log_of_sum[dt: DType, w: SIMDLength](high: SIMD[dt, w], low: SIMD[dt, w], doublings: SIMD[dt, w]) -> SIMD[dt, w]:
    """`log(high + low) + doublings log(2)` for normal positive `high` and a rounding error `low`, precise near 1."""
    comptime I = Signed[dt]
    comptime one = bitcast[I, 1](Scalar[dt](1))
    comptime shift = Scalar[I](MANTISSA_BITS[dt])
    var k, m = exponent_and_mantissa(high)
    var scale = bitcast[dt, w](max(one - (k << shift), SIMD[I, w](0)))
    var n = small_integer_to_float[dt, w](k) + doublings
    var r0 = m - 1
    var r = low.fma(scale, r0)
    var rest = low.fma(scale, r0 - r)  # what r lost
    var t = log1p_tail(r, n.fma(LN2_LOW[dt], rest))
    return n.fma(LN2_HIGH[dt], r + t)


@always_inline
def log1p[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.log1p`. At most 1 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "log1p: f32 or f64"
    var u, low = two_sum(SIMD[dt, w](1), x)
    var y = finish(u, log_of_sum(u, low, SIMD[dt, w](0)))
    return with_sign(magnitude(y), sign_bits(x))
