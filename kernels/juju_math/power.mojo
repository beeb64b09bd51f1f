"""Powers: `pow` with a float base. f32 takes the logarithm in f64 lanes, f64 in a sum of two numbers."""

from std.sys.intrinsics import llvm_intrinsic

from .bits import infinity, magnitude, quiet_nan, sign_bits, with_sign
from .coefficients import (
    LOG2E_HIGH,
    LOG2E_LOW,
    TWO_THIRDS_HIGH,
    TWO_THIRDS_LOW,
    atanh_pow_poly,
    exp2_poly,
    log2_halfway_poly,
)
from .convert import convert
from .exponential import exp2_of_sum
from .logarithm import SMALLEST_NORMAL, exponent_and_mantissa, small_integer_to_float
from .polynomial import power_of_two


@always_inline
def pow[dt: DType, e: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[e, w]) -> SIMD[dt, w]:
    """`lax.pow`: special cases as in C; an integer exponent is converted to the type of `x` first, as JAX does.

    At most 1.5 ulp, mostly below 1.1.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "pow: f32 or f64"
    var p = convert[dt](y)
    var a = magnitude(x)
    return _special(x, a, p, positive_power(a, p))


@always_inline
def positive_power[dt: DType, w: SIMDLength](a: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`a**y` for `a` not negative; 0 times an infinite logarithm is NaN."""
    comptime if dt == DType.float32:
        comptime S = SIMD[DType.float32, w]
        return rebind[SIMD[dt, w]](_power_f32(rebind[S](a), rebind[S](y)))
    else:
        comptime S = SIMD[DType.float64, w]
        return rebind[SIMD[dt, w]](_power_f64(rebind[S](a), rebind[S](y)))


@always_inline
def _special[
    dt: DType, w: SIMDLength
](x: SIMD[dt, w], a: SIMD[dt, w], y: SIMD[dt, w], power: SIMD[dt, w]) -> SIMD[dt, w]:
    """The power of |x| = `a` with the sign of an odd power, NaN for roots of negative numbers, and the ones."""
    var half = y * 0.5
    var integer = y.eq(llvm_intrinsic["llvm.trunc", SIMD[dt, w], has_side_effect=False](y))
    var odd = integer & ~half.eq(llvm_intrinsic["llvm.trunc", SIMD[dt, w], has_side_effect=False](half))
    var r = odd.select(with_sign(power, sign_bits(x)), power)
    var root = x.lt(0) & a.lt(infinity[dt, w]()) & ~integer
    r = root.select(quiet_nan[dt, w](), r)
    r = y.eq(1).select(x, r)  # exactly, since the largest number would overflow
    var one = y.eq(0) | x.eq(1) | (x.eq(-1) & magnitude(y).eq(infinity[dt, w]()))
    return one.select(SIMD[dt, w](1), r)


@always_inline
def _power_f32[w: SIMDLength](a: SIMD[DType.float32, w], y: SIMD[DType.float32, w]) -> SIMD[DType.float32, w]:
    comptime D = DType.float64
    var k, m = exponent_and_mantissa(a)
    var r = m.cast[D]() - 1
    var l = r.fma(log2_halfway_poly(r), k.cast[D]())
    l = a.lt(infinity[DType.float32, w]()).select(l, a.cast[D]())
    l = a.lt(SMALLEST_NORMAL[DType.float32]).select(-infinity[D, w](), l)
    var t = y.cast[D]() * l
    t = t.gt(128.5).select(SIMD[D, w](128.5), t)
    t = t.lt(-127).select(SIMD[D, w](-127), t)
    var n = t + 6755399441055744.0 - 6755399441055744.0
    n = n.gt(127).select(SIMD[D, w](127), n)
    var f = (t - n).cast[DType.float32]()
    var s = power_of_two(n.cast[DType.float32]())
    return s.fma(f * exp2_poly(f), s)


@always_inline
def _power_f64[w: SIMDLength](a: SIMD[DType.float64, w], y: SIMD[DType.float64, w]) -> SIMD[DType.float64, w]:
    var h, l = _log2_extended(a)
    var t = y * h
    var t_low = y.fma(l, y.fma(h, -t))
    # beyond, and where anything is infinite, t_low is NaN; the result is 0, infinity or NaN by t alone
    t_low = magnitude(t).lt(2000).select(t_low, SIMD[DType.float64, w](0))
    return exp2_of_sum(t, t_low)


@always_inline
def _log2_extended[w: SIMDLength](a: SIMD[DType.float64, w]) -> Tuple[SIMD[DType.float64, w], SIMD[DType.float64, w]]:
    """The base-2 logarithm as a sum of two numbers, to 2**-65 of itself."""
    comptime D = DType.float64
    comptime V = SIMD[D, w]
    var k, m = exponent_and_mantissa(a)
    var n = small_integer_to_float[D, w](k)
    # s = (m - 1) / (m + 1), s_low its rounding error; log(m) = 2 s + 2/3 s**3 + ...
    var f = m - 1
    var d = m + 1
    var d_low = m - (d - 1)
    var inverse = 1 / d
    var s = f * inverse
    var s_low = (-s).fma(d_low, (-s).fma(d, f)) * inverse
    # u = s**3
    var z = s * s
    var z_low = s.fma(s, -z) + (s + s) * s_low
    var u = s * z
    var u_low = s_low.fma(z, s.fma(z_low, s.fma(z, -u)))
    # v = s**3 (2/3 + ...)
    var c = z * atanh_pow_poly(z)
    comptime two_thirds = TWO_THIRDS_HIGH[D]
    var q = two_thirds + c
    var q_low = ((two_thirds - q) + c) + TWO_THIRDS_LOW[D]
    var v = u * q
    var v_low = u_low.fma(q, u.fma(q_low, u.fma(q, -v)))
    # the natural logarithm, then the base-2 one
    var s2 = s + s
    var h = s2 + v
    var l = ((s2 - h) + v) + (s_low.fma(V(2), v_low))
    var p = h * LOG2E_HIGH[D]
    var p_low = h.fma(LOG2E_HIGH[D], -p)
    p_low = h.fma(LOG2E_LOW[D], p_low)
    p_low = l.fma(LOG2E_HIGH[D], p_low)
    var high = n + p
    var low = ((n - high) + p) + p_low
    # zero, infinity, NaN
    var ordinary = a.lt(infinity[D, w]())
    high = ordinary.select(high, a)
    low = ordinary.select(low, V(0))
    var zero = a.lt(SMALLEST_NORMAL[D])
    return (zero.select(-infinity[D, w](), high), zero.select(V(0), low))
