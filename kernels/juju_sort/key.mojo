"""Keys: unsigned integers that compare as JAX orders numbers."""

from std.memory import bitcast
from std.sys import bit_width_of

comptime Key[dt: DType] = (
    DType.uint64 if (dt == DType.float64 or dt == DType.int64 or dt == DType.uint64) else DType.uint32 if (
        dt == DType.float32 or dt == DType.int32 or dt == DType.uint32
    ) else DType.uint16 if (
        dt == DType.float16 or dt == DType.bfloat16 or dt == DType.int16 or dt == DType.uint16
    ) else DType.uint8
)
"""The type of the keys of a dtype: unsigned, of the same width."""

comptime MANTISSA[dt: DType] = (
    52 if dt == DType.float64 else 23 if dt == DType.float32 else 10 if dt == DType.float16 else 7
)
"""Stored bits of a float's mantissa."""

comptime SIGN[dt: DType] = Scalar[Key[dt]](1) << Scalar[Key[dt]](bit_width_of[dt]() - 1)
"""The sign bit; also the key of 0."""

comptime INFINITY[dt: DType] = SIGN[dt] - (Scalar[Key[dt]](1) << Scalar[Key[dt]](MANTISSA[dt]))
"""The bits of infinity."""

comptime ZEROS[dt: DType] = Scalar[Key[dt]](1) << Scalar[Key[dt]](0 if dt == DType.float16 else MANTISSA[dt])
"""Bits below these are zeros: subnormal numbers are zero on a CPU, but those of float16, which are normal in float32."""


struct Order:
    """How numbers are ordered."""

    comptime SORT = 0
    """As `lax.sort` does: zeros are equal, NaN comes last."""
    comptime TOTAL_REVERSED = 1
    """The largest first by all bits, as `lax.top_k` does: NaN, infinity, ..., 0, -0, ..., -infinity, -NaN."""


@always_inline
def key[dt: DType, w: SIMDLength, //, order: Int](x: SIMD[dt, w]) -> SIMD[Key[dt], w]:
    """The keys of some numbers: the first in the order has the smallest."""
    comptime if dt.is_floating_point():
        var bits = bitcast[Key[dt], w](x)
        var up = bits ^ bits.ge(SIGN[dt]).select(~SIMD[Key[dt], w](0), SIMD[Key[dt], w](SIGN[dt]))
        comptime if order == Order.TOTAL_REVERSED:
            return ~up
        else:
            up = is_zero(x).select(SIMD[Key[dt], w](SIGN[dt]), up)
            return is_nan(x).select(~SIMD[Key[dt], w](0), up)
    else:
        comptime top = Scalar[Key[dt]](0) if dt.is_unsigned() else SIGN[dt]
        var up = bitcast[Key[dt], w](x) ^ SIMD[Key[dt], w](top)
        return up if order == Order.SORT else ~up


@always_inline
def number[dt: DType, w: SIMDLength](keys: SIMD[Key[dt], w]) -> SIMD[dt, w]:
    """The numbers with some keys of `Order.SORT`."""
    comptime if dt.is_floating_point():
        var flips = keys.ge(SIGN[dt]).select(SIMD[Key[dt], w](SIGN[dt]), ~SIMD[Key[dt], w](0))
        return bitcast[dt, w](keys ^ flips)
    else:
        comptime top = Scalar[Key[dt]](0) if dt.is_unsigned() else SIGN[dt]
        return bitcast[dt, w](keys ^ SIMD[Key[dt], w](top))


@always_inline
def is_zero[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    """Whether floats count as zero."""
    return (bitcast[Key[dt], w](x) & ~SIMD[Key[dt], w](SIGN[dt])).lt(ZEROS[dt])


@always_inline
def is_nan[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    """Whether floats are NaN."""
    return (bitcast[Key[dt], w](x) & ~SIMD[Key[dt], w](SIGN[dt])).gt(INFINITY[dt])
