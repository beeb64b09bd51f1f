"""16-bit floats: kept in memory, computed in float32."""

from std.sys import is_gpu
from std.sys.intrinsics import llvm_intrinsic


@always_inline
def fence[w: SIMDLength, //](x: SIMD[DType.float32, w]) -> SIMD[DType.float32, w]:
    """The value itself; LLVM does not look through it on a CPU. Costs nothing."""
    comptime if is_gpu():  # LLVM has no instruction for it on AMD's, if the value is the same in all threads
        return x
    return llvm_intrinsic["llvm.arithmetic.fence", SIMD[DType.float32, w], has_side_effect=False](x)


@always_inline
def widen[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[DType.float32, w]:
    """A 16-bit float as the float32 it is computed in."""
    # Without the fence LLVM compares the 16-bit values instead, and then has no instruction for it (it crashes).
    return fence(x.cast[DType.float32]())


@always_inline
def narrow[w: SIMDLength, //, dt: DType](x: SIMD[DType.float32, w]) -> SIMD[dt, w]:
    """A 16-bit float from the float32 it is computed in, rounded once."""
    # Without the fence LLVM folds float64 to float32 to float16 into one conversion, a scalar library call.
    return fence(x).cast[dt]()


@always_inline
def round_to[w: SIMDLength, //, dt: DType](x: SIMD[DType.float32, w]) -> SIMD[DType.float32, w]:
    """The nearest value of a 16-bit float type; JAX rounds after every operation on one."""
    return widen(narrow[dt](x))
