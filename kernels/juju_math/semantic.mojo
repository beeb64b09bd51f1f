"""Order, sign, rounding and selection with the results of `jax.lax` at NaN, signed zeros and extremes.

Floating-point functions assume that subnormal numbers count as zero (FTZ and DAZ), as in MAX's worker threads and in
`jax.jit` on CPU; those that only move bits keep subnormals, also as `jax.jit` does.
"""

from std.memory import bitcast
from std.sys.intrinsics import llvm_intrinsic

from .bits import (
    EXPONENT_BITS,
    INFINITY_BITS,
    MANTISSA_BITS,
    SIGN_BIT,
    infinity,
    is_nan,
    magnitude,
    quiet_nan,
    sign_bits,
    to_bits,
    Unsigned,
    with_sign,
    word,
)


@always_inline
def maximum[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.max`: NaN if either is NaN, +0 above -0; `or` for bool."""
    comptime if dt == DType.bool:
        return x | y
    elif dt.is_floating_point():
        return llvm_intrinsic["llvm.maximum", SIMD[dt, w], has_side_effect=False](x, y)
    else:
        return max(x, y)


@always_inline
def minimum[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.min`: NaN if either is NaN, -0 below +0; `and` for bool."""
    comptime if dt == DType.bool:
        return x & y
    elif dt.is_floating_point():
        return llvm_intrinsic["llvm.minimum", SIMD[dt, w], has_side_effect=False](x, y)
    else:
        return min(x, y)


@always_inline
def clamp[dt: DType, w: SIMDLength](lo: SIMD[dt, w], x: SIMD[dt, w], hi: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.clamp`: NaN if any is NaN; the upper bound wins if the bounds cross."""
    return minimum(maximum(lo, x), hi)


@always_inline
def sign[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.sign`: -1, 0 or 1; NaN and signed zeros come back as they are."""
    comptime if dt.is_floating_point():
        comptime one = SIMD[dt, w](1)
        var s = with_sign(x.eq(0).select(SIMD[dt, w](0), one), sign_bits(x))
        return is_nan(x).select(x, s)
    elif dt.is_signed():
        return x.gt(0).cast[dt]() - x.lt(0).cast[dt]()
    else:
        return x.ne(0).cast[dt]()


@always_inline
def absolute[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.abs`; the most negative integer comes back as it is."""
    comptime if dt.is_floating_point():
        return magnitude(x)
    elif dt.is_signed():
        return x.lt(0).select(0 - x, x)
    else:
        return x


@always_inline
def negate[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.neg`; integers wrap, zero becomes -0."""
    comptime if dt.is_floating_point():
        return with_sign(x, word[dt, w, SIGN_BIT[dt]]())
    else:
        return 0 - x


@always_inline
def square[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.square`."""
    return x * x


@always_inline
def is_finite[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    """`lax.is_finite`; True for every integer."""
    comptime if dt.is_floating_point():
        return to_bits(magnitude(x)).lt(word[dt, w, INFINITY_BITS[dt]]())
    else:
        return SIMD[DType.bool, w](fill=True)


@always_inline
def floor[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.floor`."""
    return llvm_intrinsic["llvm.floor", SIMD[dt, w], has_side_effect=False](x)


@always_inline
def ceil[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.ceil`."""
    return llvm_intrinsic["llvm.ceil", SIMD[dt, w], has_side_effect=False](x)


@always_inline
def round_half_even[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.round` with `TO_NEAREST_EVEN`."""
    return llvm_intrinsic["llvm.roundeven", SIMD[dt, w], has_side_effect=False](x)


@always_inline
def round_half_away[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.round` with `AWAY_FROM_ZERO`."""
    return llvm_intrinsic["llvm.round", SIMD[dt, w], has_side_effect=False](x)


@always_inline
def nextafter[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.nextafter`: the next number after `x` towards `y`, for f16 and bf16 in their own type.

    Subnormal numbers are steps as any other, but numbers that compare equal, as subnormals of f32, f64 and bf16 do
    when flushed, give `y`.
    """
    comptime U = Unsigned[dt]
    var bx = to_bits(x)
    var ax = to_bits(magnitude(x))
    var ay = to_bits(magnitude(y))
    var opposite = (sign_bits(x) ^ sign_bits(y)).ne(0)
    var inward = ax.gt(ay) | opposite
    var step = inward.select(SIMD[U, w](Scalar[U].MAX), SIMD[U, w](1))
    var smallest = sign_bits(y) | 1
    var moved = ax.eq(0).select(smallest, bx + step)
    var same: SIMD[DType.bool, w]
    comptime if dt.is_half_float():
        same = x.cast[DType.float32]().eq(y.cast[DType.float32]())
    else:
        same = x.eq(y)
    var r = bitcast[dt, w](same.select(to_bits(y), moved))
    return (is_nan(x) | is_nan(y)).select(quiet_nan[dt, w](), r)


@always_inline
def reduce_precision[exponent_bits: Int, mantissa_bits: Int, dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.reduce_precision`: rounded to the given format (half to even), kept in `dt`; NaN stays NaN."""
    comptime dropped = MANTISSA_BITS[dt] - mantissa_bits
    comptime U = Unsigned[dt]
    var b = to_bits(x)
    comptime if dropped > 0:
        comptime shift = Scalar[U](dropped)
        comptime half = Scalar[U]((1 << (dropped - 1)) - 1)
        comptime keep = ~((Scalar[U](1) << shift) - 1)
        b = (b + (((b >> shift) & 1) + half)) & keep
    comptime if exponent_bits < EXPONENT_BITS[dt]:
        comptime bias = (1 << (EXPONENT_BITS[dt] - 1)) - 1
        comptime reduced = (1 << (exponent_bits - 1)) - 1
        comptime largest = Scalar[U](bias + reduced) << Scalar[U](MANTISSA_BITS[dt])
        comptime smallest = Scalar[U](bias - reduced) << Scalar[U](MANTISSA_BITS[dt])
        var s = b & word[dt, w, SIGN_BIT[dt]]()
        var e = b & word[dt, w, INFINITY_BITS[dt]]()
        b = e.gt(largest).select(s | word[dt, w, INFINITY_BITS[dt]](), b)
        b = e.le(smallest).select(s, b)
    return is_nan(x).select(x, bitcast[dt, w](b))


@always_inline
def float_rem[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.rem` of floats, exact: the sign of `x`, `x` itself for infinite `y`, NaN for `y` = 0 or infinite `x`.

    f32 works in f64 lanes. One step serves quotients below 2**52; only lanes beyond take further ones.
    """
    comptime if dt == DType.float32:
        return float_rem(x.cast[DType.float64](), y.cast[DType.float64]()).cast[dt]()
    comptime quotient_bits = MANTISSA_BITS[dt]
    comptime exponent = Scalar[Unsigned[dt]](INFINITY_BITS[dt])
    var a = magnitude(x)
    var b = magnitude(y)
    var tiny = to_bits(b).lt(word[dt, w, 1 << MANTISSA_BITS[dt]]())  # zero; explicit, so that the loop ends without DAZ
    var bad = ~is_finite(x) | tiny | is_nan(y)
    b = bad.select(SIMD[dt, w](1), b)
    a = bad.select(SIMD[dt, w](0), a)
    comptime reach = SIMD[dt, w](Scalar[dt](1 << quotient_bits))
    comptime step = Scalar[Unsigned[dt]](quotient_bits) << Scalar[Unsigned[dt]](quotient_bits)
    var far = (a / b).ge(reach)
    while far.reduce_or():
        # b times a power of two such that the quotient is below 2**quotient_bits, exact as both are normal
        var gap = (to_bits(a) & exponent) - (to_bits(b) & exponent) - step
        var scaled = bitcast[dt, w](to_bits(b) + far.select(gap, SIMD[Unsigned[dt], w](0)))
        a = far.select(_remainder_step(a, scaled), a)
        far = (a / b).ge(reach)
    return bad.select(
        quiet_nan[dt, w](), with_sign(b.eq(infinity[dt, w]()).select(a, _remainder_step(a, b)), sign_bits(x))
    )


@always_inline
def _remainder_step[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
    """`a` modulo `b`, both positive, for quotients that fit the mantissa: the quotient is right or one too large."""
    var q = llvm_intrinsic["llvm.trunc", SIMD[dt, w], has_side_effect=False](a / b)
    var r = (-q).fma(b, a)
    return r.lt(0).select(r + b, r)
