"""`convert`: `lax.convert_element_type` between every pair of dtypes."""

from std.sys import bit_width_of, is_gpu
from std.sys.intrinsics import llvm_intrinsic

from .bits import MANTISSA_BITS, magnitude, to_bits


@always_inline
def convert[to: DType, dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[to, w]:
    """`lax.convert_element_type`: floats to integers saturate and NaN gives 0; NaN is True; integers wrap.

    Conversions to f16 and bf16 go through f32, as `jax.jit` does, so they round twice from wider types.
    """
    comptime if dt == to:
        return rebind[SIMD[to, w]](x)
    elif dt == DType.bool:
        comptime if to.is_floating_point():
            return x.select(SIMD[to, w](1), SIMD[to, w](0))
        else:
            return x.cast[to]()
    elif to == DType.bool:
        comptime if dt.is_half_float():
            return rebind[SIMD[to, w]](to_bits(magnitude(x)).ne(0))  # subnormals of the 16-bit types are True
        else:
            return rebind[SIMD[to, w]](~x.eq(0))  # not ne, which is False for NaN
    elif dt.is_half_float() and to != DType.float32:
        return convert[to](x.cast[DType.float32]())
    elif to.is_half_float() and dt != DType.float32:
        var y = x.cast[DType.float32]()
        comptime if not is_gpu():
            # LLVM folds the two conversions of f64 to f16 into one, and that one is a scalar library call
            y = llvm_intrinsic["llvm.arithmetic.fence", SIMD[DType.float32, w], has_side_effect=False](y)
        return y.cast[to]()
    elif dt.is_floating_point() and to.is_integral():
        return _saturate[to](x)
    else:
        return x.cast[to]()


@always_inline
def _saturate[to: DType, dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[to, w]:
    """Float to integer. LLVM's own saturating conversion falls apart into scalars on vectors."""
    comptime bits = bit_width_of[to]() - (1 if to.is_signed() else 0)
    comptime mantissa = MANTISSA_BITS[dt] + 1
    comptime beyond = Scalar[dt](2) ** bits
    comptime most = beyond - 1 if bits <= mantissa else beyond * (1 - 1 / Scalar[dt](1 << mantissa))
    comptime least = -beyond if to.is_signed() else Scalar[dt](0)
    var y = x.eq(x).select(x, SIMD[dt, w](0))
    y = y.gt(most).select(most, y)
    y = y.lt(least).select(least, y)
    comptime if bits > mantissa:
        return x.ge(beyond).select(SIMD[to, w](Scalar[to].MAX), y.cast[to]())
    elif bits < 32:
        return y.cast[DType.int32]().cast[to]()
    else:
        return y.cast[DType.int64]().cast[to]()
