"""Trigonometric functions: sin, cos, sincos, tan.

An angle is split as n pi/2 + r in two ways: up to `FAR` by three parts of pi/2 with fused multiply-adds; beyond, for the
vectors that hold such a lane, by the product with as many bits of 2/pi as the angle's exponent asks for.
"""

from std.memory import bitcast, stack_allocation
from std.sys.intrinsics import llvm_intrinsic

from .bits import Signed, Unsigned, infinity, magnitude, sign_bits, to_bits, to_signed_bits, with_sign
from .coefficients import (
    COS_F32,
    COS_F64,
    HALF_PI_F32,
    HALF_PI_F64,
    SIN_F32,
    SIN_F64,
    TAN_F32,
    TAN_F64,
    TWO_OVER_PI_CHUNKS_F64,
    TWO_OVER_PI_F32,
    TWO_OVER_PI_F64,
)
from .polynomial import MAGIC, constant, horner, pick, two_sum

comptime FAR[dt: DType] = Scalar[dt](131072.0) if dt == DType.float32 else Scalar[dt](1073741824.0)
"""Angles from here on need more bits of 2/pi."""


@always_inline
def reduce_angle[dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[Unsigned[dt], w]]:
    """The rest r, its rounding error, and n modulo 4 in the low bits, for a = n pi/2 + r not negative; NaN for infinity.
    """
    comptime HALF_PI = pick[dt, HALF_PI_F32, HALF_PI_F64]
    var t = a.fma(constant[pick[dt, TWO_OVER_PI_F32, TWO_OVER_PI_F64], 0, dt, w](), SIMD[dt, w](MAGIC[dt]))
    var n = t - MAGIC[dt]
    var r0 = (-n).fma(constant[HALF_PI, 0, dt, w](), a)  # exact
    # r0 - r is exact as long as the product is rounded by itself: r0 is a multiple of the product's last place
    var product = llvm_intrinsic["llvm.arithmetic.fence", SIMD[dt, w], has_side_effect=False](
        n * constant[HALF_PI, 1, dt, w]()
    )
    var r = r0 - product
    var low = (-n).fma(constant[HALF_PI, 1, dt, w](), r0 - r)
    low = (-n).fma(constant[HALF_PI, 2, dt, w](), low)
    var q = to_bits(t)
    var far = a.ge(FAR[dt]) & a.lt(infinity[dt, w]())
    if far.reduce_or():
        var fr, flow, fq = _reduce_far(far.select(a, SIMD[dt, w](FAR[dt])))
        r = far.select(fr, r)
        low = far.select(flow, low)
        q = far.select(fq, q)
    return (r, low, q)


@no_inline
def _reduce_far[dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[Unsigned[dt], w]]:
    """As `reduce_angle`, for finite angles of any size; in pieces of at most 8 lanes, to keep the code small."""
    comptime D = DType.float64
    comptime lanes = 8 if w > 8 else w
    var angle = stack_allocation[w, D, alignment=64]()
    var high = stack_allocation[w, D, alignment=64]()
    var low = stack_allocation[w, D, alignment=64]()
    var quadrant = stack_allocation[w, D, alignment=64]()
    angle.unsafe_store(0, a.cast[D]())
    for k in range(0, w, lanes):
        var h, l, q = _reduce_by_bits(angle.unsafe_load[width=lanes](k))
        high.unsafe_store(k, h)
        low.unsafe_store(k, l)
        quadrant.unsafe_store(k, q)
    var h = high.unsafe_load[width=w](0)
    var l = low.unsafe_load[width=w](0)
    var n = bitcast[DType.uint64, w](quadrant.unsafe_load[width=w](0) + MAGIC[D]).cast[Unsigned[dt]]()
    var r = h.cast[dt]()
    comptime if dt == DType.float32:
        return (r, (h - r.cast[D]()).cast[dt](), n)
    else:
        return (r, l.cast[dt](), n)


@always_inline
def _reduce_by_bits[
    w: SIMDLength
](a: SIMD[DType.float64, w]) -> Tuple[SIMD[DType.float64, w], SIMD[DType.float64, w], SIMD[DType.float64, w]]:
    """Sums the fractions of a times the chunks of 2/pi that can matter; r as a sum of two, n modulo 4."""
    comptime V = SIMD[DType.float64, w]
    var chunks = Array[Float64, 24](fill=0)
    comptime for k in range(24):
        comptime c = Float64(TWO_OVER_PI_CHUNKS_F64[k])
        chunks[k] = c
    # Products of 2**55 and more are multiples of 4; after 2**-140 the rest is far below the last place
    var exponents = (to_bits(a) >> 52).cast[DType.int32]() - 1023
    var first = max(0, (Int(exponents.reduce_min()) - 108) // 53)
    var last = (Int(exponents.reduce_max()) + 140) // 53
    var x = bitcast[DType.float64, w](to_bits(a) - (UInt64(first * 53) << 52))
    var sum = V(0)
    var rest = V(0)
    var turns = V(0)
    for k in range(first, last + 1):
        var c = V(chunks[k])
        var p = x * c
        var pieces = (p, x.fma(c, -p))
        comptime for j in range(2):
            var n = _nearest(pieces[j])
            turns += n - 4 * _nearest(n * 0.25)
            var s, e = two_sum(sum, pieces[j] - n)
            n = _nearest(s)
            turns += n
            sum, rest = two_sum(s - n, rest + e)
        x *= 1.0 / (1 << 53)
    var n = _nearest(sum)
    turns += n
    sum, rest = two_sum(sum - n, rest)
    comptime high = constant[HALF_PI_F64, 0, DType.float64, w]()
    var r = sum * high
    var low = rest.fma(high, sum.fma(constant[HALF_PI_F64, 1, DType.float64, w](), sum.fma(high, -r)))
    return (r, low, turns)


@always_inline
def _nearest[w: SIMDLength](x: SIMD[DType.float64, w]) -> SIMD[DType.float64, w]:
    return llvm_intrinsic["llvm.roundeven", SIMD[DType.float64, w], has_side_effect=False](x)


@always_inline
def _sine[dt: DType, w: SIMDLength](r: SIMD[dt, w], low: SIMD[dt, w]) -> SIMD[dt, w]:
    """The sine of r + low for r up to pi/4."""
    var z = r * r
    return r + (r * z).fma(horner[pick[dt, SIN_F32, SIN_F64]](z), low)


@always_inline
def _cosine[dt: DType, w: SIMDLength](r: SIMD[dt, w], low: SIMD[dt, w]) -> SIMD[dt, w]:
    """The cosine of r + low for r up to pi/4."""
    var z = r * r
    var c = z.fma(horner[pick[dt, COS_F32, COS_F64]](z), SIMD[dt, w](-0.5))
    return 1 + z.fma(c, -(r * low))


@always_inline
def _flip[dt: DType, w: SIMDLength](y: SIMD[dt, w], q: SIMD[Unsigned[dt], w]) -> SIMD[dt, w]:
    """Changes the sign in the quadrants 2 and 3."""
    comptime U = Unsigned[dt]
    comptime top = Scalar[U](62) if dt == DType.float64 else Scalar[U](30)
    return with_sign(y, (q & 2) << top)


@always_inline
def sin[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.sin`, for arguments of any size. At most 1.2 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "sin: f32 or f64"
    var r, low, q = reduce_angle(magnitude(x))
    var y = (q & 1).eq(0).select(_sine(r, low), _cosine(r, low))
    return with_sign(_flip(y, q), sign_bits(x))


@always_inline
def cos[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.cos`, for arguments of any size. At most 1.2 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "cos: f32 or f64"
    var r, low, q = reduce_angle(magnitude(x))
    var y = (q & 1).eq(0).select(_cosine(r, low), _sine(r, low))
    return _flip(y, q + 1)  # negative in the quadrants 1 and 2; the sine that quadrant 3 takes is right as it is


@always_inline
def sincos[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w]]:
    """`sin` and `cos` of one argument, for little more than the price of one."""
    comptime assert dt == DType.float32 or dt == DType.float64, "sincos: f32 or f64"
    var r, low, q = reduce_angle(magnitude(x))
    var s = _sine(r, low)
    var c = _cosine(r, low)
    var even = (q & 1).eq(0)
    return (with_sign(_flip(even.select(s, c), q), sign_bits(x)), _flip(even.select(c, s), q + 1))


@always_inline
def tangent[dt: DType, w: SIMDLength](r: SIMD[dt, w], low: SIMD[dt, w]) -> SIMD[dt, w]:
    """The tangent of r + low for r up to pi/4."""
    var z = r * r
    var slope = z.fma(z.fma(SIMD[dt, w](0.65), SIMD[dt, w](1)), SIMD[dt, w](1))
    return r + (r * z).fma(horner[pick[dt, TAN_F32, TAN_F64]](z), low * slope)


@always_inline
def tan[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.tan`, for arguments of any size. At most 1.7 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "tan: f32 or f64"
    var r, low, q = reduce_angle(magnitude(x))
    var t = tangent(r, low)
    var odd = (q & 1).ne(0)
    var y = odd.select(SIMD[dt, w](-1), t) / odd.select(t, SIMD[dt, w](1))
    return with_sign(y, sign_bits(x))
