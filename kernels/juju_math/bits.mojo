"""Bit patterns of numbers, and the few helpers every family needs.

All names here are internal to the package, except `total_order_key`.
"""

from std.memory import bitcast
from std.sys import bit_width_of

# Spelled with == throughout, since the parser folds that and callers then see a concrete type.
comptime Unsigned[dt: DType] = (
    DType.uint64 if (dt == DType.float64 or dt == DType.int64 or dt == DType.uint64) else DType.uint32 if (
        dt == DType.float32 or dt == DType.int32 or dt == DType.uint32
    ) else DType.uint16 if (
        dt == DType.float16 or dt == DType.bfloat16 or dt == DType.int16 or dt == DType.uint16
    ) else DType.uint8
)
"""The unsigned integer type as wide as `dt`."""

comptime Signed[dt: DType] = (
    DType.int64 if (dt == DType.float64 or dt == DType.int64 or dt == DType.uint64) else DType.int32 if (
        dt == DType.float32 or dt == DType.int32 or dt == DType.uint32
    ) else DType.int16 if (
        dt == DType.float16 or dt == DType.bfloat16 or dt == DType.int16 or dt == DType.uint16
    ) else DType.int8
)
"""The signed integer type as wide as `dt`."""

comptime MANTISSA_BITS[dt: DType] = (
    52 if dt == DType.float64 else 23 if dt == DType.float32 else 10 if dt == DType.float16 else 7
)
"""Stored mantissa bits of a floating-point type."""

comptime EXPONENT_BITS[dt: DType] = bit_width_of[dt]() - 1 - MANTISSA_BITS[dt]

comptime SIGN_BIT[dt: DType] = 1 << (bit_width_of[dt]() - 1)

comptime INFINITY_BITS[dt: DType] = ((1 << EXPONENT_BITS[dt]) - 1) << MANTISSA_BITS[dt]

comptime NAN_BITS[dt: DType] = INFINITY_BITS[dt] + (1 << (MANTISSA_BITS[dt] - 1))


@always_inline
def word[dt: DType, w: SIMDLength, value: Int]() -> SIMD[Unsigned[dt], w]:
    """The constant `value` as unsigned integers as wide as `dt`."""
    comptime c = Scalar[Unsigned[dt]](value)
    return SIMD[Unsigned[dt], w](c)


@always_inline
def to_bits[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[Unsigned[dt], w]:
    """The bit pattern, as unsigned integers."""
    return bitcast[Unsigned[dt], w](x)


@always_inline
def to_signed_bits[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[Signed[dt], w]:
    """The bit pattern, as signed integers."""
    return bitcast[Signed[dt], w](x)


@always_inline
def infinity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
    """Positive infinity in every lane."""
    return bitcast[dt, w](word[dt, w, INFINITY_BITS[dt]]())


@always_inline
def quiet_nan[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
    """A quiet NaN in every lane."""
    return bitcast[dt, w](word[dt, w, NAN_BITS[dt]]())


@always_inline
def magnitude[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """A float without its sign bit; NaN stays NaN."""
    return bitcast[dt, w](to_bits(x) & ~word[dt, w, SIGN_BIT[dt]]())


@always_inline
def sign_bits[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[Unsigned[dt], w]:
    """The sign bit alone."""
    return to_bits(x) & word[dt, w, SIGN_BIT[dt]]()


@always_inline
def with_sign[dt: DType, w: SIMDLength](x: SIMD[dt, w], sign: SIMD[Unsigned[dt], w]) -> SIMD[dt, w]:
    """`x` with the sign bits `sign` flipped in."""
    return bitcast[dt, w](to_bits(x) ^ sign)


@always_inline
def is_nan[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    """Lanes that hold NaN."""
    return to_bits(magnitude(x)).gt(word[dt, w, INFINITY_BITS[dt]]())


@always_inline
def total_order_key[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[Signed[dt], w]:
    """Integers that compare as `lax.lt_to` and `lax.le_to` do: -NaN < -inf < -0 < +0 < inf < NaN.

    Integer inputs come back as they are (reinterpreted, unsigned ones with the top bit flipped).
    """
    var b = to_signed_bits(x)
    comptime if dt.is_floating_point():
        comptime top = Scalar[Signed[dt]](bit_width_of[dt]() - 1)
        return b ^ bitcast[Signed[dt], w](bitcast[Unsigned[dt], w](b >> top) >> 1)
    elif dt.is_unsigned():
        return b ^ bitcast[Signed[dt], w](word[dt, w, SIGN_BIT[dt]]())
    else:
        return b
