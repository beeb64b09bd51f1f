"""Polynomials, integers in floats and powers of two: what the elementary functions are made of.

Every multiplication followed by an addition is written as `fma`, so that results do not depend on contraction.
"""

from std.memory import bitcast

from .bits import MANTISSA_BITS, Unsigned, to_bits


@always_inline
def horner[*c: Float64, dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`c[0] + c[1] x + c[2] x**2 + ...`. A list as parameter would cost the compiler ten times as much."""
    comptime last = len(c) - 1
    comptime top = Scalar[dt](c[last])
    var r = SIMD[dt, w](top)
    comptime for k in range(last):
        comptime next = Scalar[dt](c[last - 1 - k])
        r = r.fma(x, SIMD[dt, w](next))
    return r


comptime MAGIC[dt: DType] = Scalar[dt](12582912.0) if dt == DType.float32 else Scalar[dt](6755399441055744.0)
"""1.5 times 2**mantissa bits: adding it rounds to an integer and leaves that in the low bits."""

comptime BIAS[dt: DType] = Scalar[dt](127) if dt == DType.float32 else Scalar[dt](1023)
"""Exponent bias."""


@always_inline
def power_of_two[dt: DType, w: SIMDLength](n: SIMD[dt, w]) -> SIMD[dt, w]:
    """`2**n` for integers from -bias (gives 0) to bias + 1 (gives infinity)."""
    return bitcast[dt, w](to_bits(n + (MAGIC[dt] + BIAS[dt])) << Scalar[Unsigned[dt]](MANTISSA_BITS[dt]))


@always_inline
def two_sum[dt: DType, w: SIMDLength](x: SIMD[dt, w], y: SIMD[dt, w]) -> Tuple[SIMD[dt, w], SIMD[dt, w]]:
    """`x + y` and its rounding error, for any finite numbers."""
    var s = x + y
    var t = s - x
    return (s, (x - (s - t)) + (y - t))
