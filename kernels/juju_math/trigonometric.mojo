"""Trigonometric functions: sin, cos, sincos, tan.

An angle is split as n pi/2 + r in two ways: up to `FAR` by three parts of pi/2 with fused multiply-adds; beyond, for the
vectors that hold such a lane, by the product with as many bits of 2/pi as the angle's exponent asks for.
"""

from std.memory import bitcast, stack_allocation
from std.sys.intrinsics import llvm_intrinsic

from .bits import Unsigned, infinity, magnitude, sign_bits, to_bits, with_sign
from .coefficients import (
    HALF_PI_HIGH,
    HALF_PI_LOW,
    HALF_PI_MIDDLE,
    TWO_OVER_PI,
    TWO_OVER_PI_CHUNKS,
    cos_poly,
    sin_poly,
    tan_poly,
)
from .polynomial import MAGIC, two_sum

comptime FAR[dt: DType] = Scalar[dt](131072.0) if dt == DType.float32 else Scalar[dt](1073741824.0)
"""Angles from here on need more bits of 2/pi."""


@always_inline
def reduce_angle[dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[Unsigned[dt], w]]:
    """The rest r, its rounding error, and n modulo 4 in the low bits, for a = n pi/2 + r not negative; NaN for infinity.
    """
    var t = a.fma(TWO_OVER_PI[dt], MAGIC[dt])
    var n = t - MAGIC[dt]
    var r0 = (-n).fma(HALF_PI_HIGH[dt], a)  # exact
    # r0 - r is exact as long as the product is rounded by itself, which it is as an fma: r0 is a multiple of its last place
    var product = n.fma(HALF_PI_MIDDLE[dt], SIMD[dt, w](0))
    var r = r0 - product
    var low = (-n).fma(HALF_PI_MIDDLE[dt], r0 - r)
    low = (-n).fma(HALF_PI_LOW[dt], low)
    var q = to_bits(t)
    var far = a.ge(FAR[dt]) & a.lt(infinity[dt, w]())
    if far.reduce_or():
        var fr, flow, fq = _reduce_far(far.select(a, FAR[dt]))
        r = far.select(fr, r)
        low = far.select(flow, low)
        q = far.select(fq, q)
    return (r, low, q)


@always_inline
def _reduce_far[dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w], SIMD[Unsigned[dt], w]]:
    """As `reduce_angle`, for finite angles of any size, eight at a time by one function that all widths share."""
    comptime D = DType.float64
    comptime lanes = w if w > 8 else 8
    var angle = stack_allocation[lanes, D, alignment=64]()
    var high = stack_allocation[lanes, D, alignment=64]()
    var low = stack_allocation[lanes, D, alignment=64]()
    var quadrant = stack_allocation[lanes, D, alignment=64]()
    comptime if w < 8:
        angle.unsafe_store(0, SIMD[D, 8](1073741824.0))
    angle.unsafe_store(0, a.cast[D]())
    _reduce_by_bits(
        angle.as_unsafe_any_origin(),
        high.as_unsafe_any_origin(),
        low.as_unsafe_any_origin(),
        quadrant.as_unsafe_any_origin(),
        lanes,
    )
    var h = high.unsafe_load[width=w](0)
    var l = low.unsafe_load[width=w](0)
    var n = bitcast[DType.uint64, w](quadrant.unsafe_load[width=w](0) + MAGIC[D]).cast[Unsigned[dt]]()
    var r = h.cast[dt]()
    comptime if dt == DType.float32:
        return (r, (h - r.cast[D]()).cast[dt](), n)
    else:
        return (r, l.cast[dt](), n)


comptime Numbers = Pointer[Float64, MutAnyOrigin]


@no_inline
def _reduce_by_bits(angle: Numbers, high: Numbers, low: Numbers, quadrant: Numbers, count: Int):
    """Sums the fractions of the angle times the chunks of 2/pi that can matter; r as a sum of two, n modulo 4."""
    comptime V = SIMD[DType.float64, 8]
    var chunks = stack_allocation[24, DType.float64]()
    comptime for k in range(24):
        comptime c = Float64(TWO_OVER_PI_CHUNKS[k])
        chunks.unsafe_store(k, c)
    var start = 0
    while start < count:
        var a = angle.unsafe_load[width=8](start)
        # Products of 2**55 and more are multiples of 4; after 2**-140 the rest is far below the last place
        var exponents = bitcast[DType.int64, 8](a) >> 52
        var first = max(0, (Int(exponents.reduce_min()) - 1131) // 53)
        var last = (Int(exponents.reduce_max()) - 883) // 53
        var x = bitcast[DType.float64, 8](bitcast[DType.int64, 8](a) - (Int64(first * 53) << 52))
        var sum = V(0)
        var rest = V(0)
        var turns = V(0)
        var k = first
        while k <= last:
            var c = V(chunks[unsafe_offset=k])
            var p = x * c
            var p_low = x.fma(c, -p)
            comptime for j in range(2):
                var piece = p if j == 0 else p_low
                var n = _nearest(piece)
                turns += n - 4 * _nearest(n * 0.25)
                var s, e = two_sum(sum, piece - n)
                n = _nearest(s)
                turns += n
                sum, rest = two_sum(s - n, rest + e)
            x *= 1.0 / (1 << 53)
            k += 1
        var n = _nearest(sum)
        turns += n
        sum, rest = two_sum(sum - n, rest)
        comptime half_pi = V(HALF_PI_HIGH[DType.float64])
        var r = sum * half_pi
        high.unsafe_store(start, r)
        low.unsafe_store(start, rest.fma(half_pi, sum.fma(V(HALF_PI_MIDDLE[DType.float64]), sum.fma(half_pi, -r))))
        quadrant.unsafe_store(start, turns)
        start += 8


@always_inline
def _nearest(x: SIMD[DType.float64, 8]) -> SIMD[DType.float64, 8]:
    return llvm_intrinsic["llvm.roundeven", SIMD[DType.float64, 8], has_side_effect=False](x)


@always_inline
def _sine[dt: DType, w: SIMDLength](r: SIMD[dt, w], low: SIMD[dt, w]) -> SIMD[dt, w]:
    """The sine of r + low for r up to pi/4."""
    var z = r * r
    return r + (r * z).fma(sin_poly(z), low)


@always_inline
def _cosine[dt: DType, w: SIMDLength](r: SIMD[dt, w], low: SIMD[dt, w]) -> SIMD[dt, w]:
    """The cosine of r + low for r up to pi/4."""
    var z = r * r
    var c = z.fma(cos_poly(z), SIMD[dt, w](-0.5))
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
    return r + (r * z).fma(tan_poly(z), low * slope)


@always_inline
def tan[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.tan`, for arguments of any size. At most 1.7 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "tan: f32 or f64"
    var r, low, q = reduce_angle(magnitude(x))
    var t = tangent(r, low)
    var odd = (q & 1).ne(0)
    var y = odd.select(SIMD[dt, w](-1), t) / odd.select(t, SIMD[dt, w](1))
    return with_sign(y, sign_bits(x))
