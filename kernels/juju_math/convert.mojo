"""`convert`: `lax.convert_element_type` between every pair of dtypes."""

from std.sys.intrinsics import llvm_intrinsic

from .bits import magnitude, to_bits


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
        # LLVM folds the two conversions of f64 to f16 into one, and that one is a scalar library call
        return llvm_intrinsic["llvm.arithmetic.fence", SIMD[DType.float32, w], has_side_effect=False](
            x.cast[DType.float32]()
        ).cast[to]()
    elif dt.is_floating_point() and to.is_integral():
        comptime if to.is_signed():
            return llvm_intrinsic["llvm.fptosi.sat", SIMD[to, w], has_side_effect=False](x)
        else:
            return llvm_intrinsic["llvm.fptoui.sat", SIMD[to, w], has_side_effect=False](x)
    else:
        return x.cast[to]()
