"""Integer arithmetic with the results of `jax.lax`: division by zero, overflow, any shift amount, powers.

No function divides integers: quotients come from floating-point lanes wide enough to be exact, since CPUs and GPUs
have no vector division of integers.
"""

from std.bit import count_leading_zeros, pop_count
from std.memory import bitcast
from std.sys import bit_width_of

from .bits import Signed, Unsigned, to_bits, word


@always_inline
def int_div[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.div`: truncates; x / 0 is -1 (unsigned: all ones), the most negative number / -1 is itself."""
    var zero = y.eq(0)
    return zero.select(SIMD[dt, w](-1), _quotient(x, zero.select(SIMD[dt, w](1), y)))


@always_inline
def int_rem[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.rem`: the sign of `x`; x rem 0 is x, the most negative number rem -1 is 0."""
    return x - int_div(x, y) * y


@always_inline
def _quotient[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """The truncated quotient for `y` other than 0."""
    comptime width = bit_width_of[dt]()
    comptime if width < 32:
        var q = x.cast[DType.float32]() / y.cast[DType.float32]()
        return q.cast[DType.int32]().cast[dt]()
    elif width == 32:
        # the magic number leaves the integer in the low bits; the quotient of the extremes, 2**31, wraps
        var q = (x.cast[DType.float64]() / y.cast[DType.float64]()).__trunc__()
        return bitcast[DType.uint64, w](q + 6755399441055744.0).cast[DType.uint32]().cast[dt]()
    elif dt.is_signed():
        var negative = (x ^ y) >> 63
        var q = bitcast[dt, w](_quotient_u64(_magnitude(x), _magnitude(y)))
        return (q ^ negative) - negative
    else:
        return rebind[SIMD[dt, w]](_quotient_u64(rebind[SIMD[DType.uint64, w]](x), rebind[SIMD[DType.uint64, w]](y)))


@always_inline
def _magnitude[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[DType.uint64, w]:
    var s = x >> 63
    return bitcast[DType.uint64, w]((x ^ s) - s)


@always_inline
def _quotient_u64[w: SIMDLength](x: SIMD[DType.uint64, w], y: SIMD[DType.uint64, w]) -> SIMD[DType.uint64, w]:
    """Two steps of long division with a reciprocal of 52 bits that is never too large.

    The first quotient is low by at most 2**15, so the second step's estimate is low by at most one.
    """
    comptime F = DType.float64
    var inverse = (1.0 - 1.0 / (1 << 50)) / y.cast[F]()
    var q = (x.cast[F]() * inverse).cast[DType.uint64]()
    var r = x - q * y
    var q2 = (r.cast[F]() * inverse).cast[DType.uint64]()
    r -= q2 * y
    return q + q2 + r.ge(y).cast[DType.uint64]()


@always_inline
def shift_left[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.shift_left`: 0 for amounts outside 0 .. width-1."""
    return _in_width(y).select(x << _amount(y), SIMD[dt, w](0))


@always_inline
def shift_right_logical[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.shift_right_logical`: zeros come in; 0 for amounts outside 0 .. width-1."""
    return _in_width(y).select(bitcast[dt, w](to_bits(x) >> to_bits(_amount(y))), SIMD[dt, w](0))


@always_inline
def shift_right_arithmetic[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.shift_right_arithmetic`: copies of the top bit come in, also for amounts outside 0 .. width-1."""
    comptime last = Scalar[Unsigned[dt]](bit_width_of[dt]() - 1)
    var amount = min(to_bits(y), SIMD[Unsigned[dt], w](last))
    return bitcast[dt, w](bitcast[Signed[dt], w](x) >> bitcast[Signed[dt], w](amount))


@always_inline
def _in_width[dt: DType, w: SIMDLength](y: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    return to_bits(y).lt(word[dt, w, bit_width_of[dt]()]())


@always_inline
def _amount[dt: DType, w: SIMDLength](y: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime mask = Scalar[dt](bit_width_of[dt]() - 1)
    return y & SIMD[dt, w](mask)


@always_inline
def population_count[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.population_count`: the number of one bits."""
    return pop_count(x)


@always_inline
def clz[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.clz`: the number of leading zero bits; the width for 0."""
    return count_leading_zeros(x)


@always_inline
def mulhi[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.mulhi`: the upper half of the double-width product."""
    comptime width = bit_width_of[dt]()
    comptime if width < 64:
        comptime D = (DType.int64 if dt.is_signed() else DType.uint64) if width == 32 else (
            DType.int32 if dt.is_signed() else DType.uint32
        )
        comptime shift = Scalar[D](width)
        return ((x.cast[D]() * y.cast[D]()) >> SIMD[D, w](shift)).cast[dt]()
    else:
        comptime low = SIMD[DType.uint64, w](0xFFFFFFFF)
        var a = bitcast[DType.uint64, w](x)
        var b = bitcast[DType.uint64, w](y)
        var al = a & low
        var ah = a >> 32
        var bl = b & low
        var bh = b >> 32
        var mid = ah * bl + ((al * bl) >> 32)
        var mid2 = al * bh + (mid & low)
        var high = ah * bh + (mid >> 32) + (mid2 >> 32)
        comptime if dt.is_signed():
            # the unsigned product counts 2**64 too much for every negative factor
            high -= bitcast[DType.uint64, w]((x >> 63) & y)
            high -= bitcast[DType.uint64, w]((y >> 63) & x)
        return bitcast[dt, w](high)


@always_inline
def integer_pow[y: Int, dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.integer_pow` with a constant exponent, by JAX's order of multiplications; 1 / x**|y| for negative y."""
    comptime if y < 0:
        return SIMD[dt, w](1) / integer_pow[-y](x)
    elif y == 0:
        return SIMD[dt, w](1)
    elif y == 1:
        return x
    else:
        var base = x
        comptime for _ in range(_trailing_zeros(y)):
            base = base * base
        comptime odd = y >> _trailing_zeros(y)
        var acc = base
        comptime for bit in range(1, 64):
            comptime if odd >> bit != 0:
                base = base * base
                comptime if (odd >> bit) & 1 == 1:
                    acc = acc * base
        return acc


def _trailing_zeros(y: Int) -> Int:
    var n = 0
    while (y >> n) & 1 == 0:
        n += 1
    return n


@always_inline
def int_pow[dt: DType, e: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[e, w]) -> SIMD[dt, w]:
    """`lax.pow` of integers, modulo 2**width; a negative exponent gives 0, for the bases 1 and -1 their power.

    One multiplication and one squaring a bit of the largest exponent in the vector.
    """
    var n = bitcast[Unsigned[e], w](y)
    comptime if e.is_signed():
        n = y.lt(0).select(n & 1, n)
    var acc = SIMD[dt, w](1)
    var base = x
    while n.reduce_or() != 0:
        acc = (n & 1).ne(0).select(acc * base, acc)
        base = base * base
        n = n >> 1
    comptime if e.is_signed():
        comptime if dt.is_signed():
            return (y.lt(0) & x.ne(1) & x.ne(-1)).select(SIMD[dt, w](0), acc)
        else:
            return (y.lt(0) & x.ne(1)).select(SIMD[dt, w](0), acc)
    else:
        return acc
