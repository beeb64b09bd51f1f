"""Loads and stores of whole vectors and of tails."""

from std.math import iota
from std.memory import bitcast
from std.sys import size_of
from std.sys.intrinsics import masked_load, masked_store

comptime LINE = 64
"""Bytes of a cache line; results begin at a multiple of it."""


@always_inline
def live[w: SIMDLength](i: Int, stop: Int) -> SIMD[DType.bool, w]:
    """Which of the points `i ..< i + w` come before `stop`."""
    return (iota[DType.int64, w]() + Int64(i)).lt(Int64(stop))


@always_inline
def load[
    dt: DType, //, w: SIMDLength, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, stop: Int) -> SIMD[dt, w]:
    """Elements `i ..< i + w`; with `tail` those at `stop` and beyond are not read and come as 0."""
    comptime if tail:
        return masked_load[w](p.unsafe_offset(i), live[w](i, stop), SIMD[dt, w](0))
    else:
        return p.unsafe_load[width=w](i)


@always_inline
def store[
    dt: DType, w: SIMDLength, //, tail: Bool = False, stream: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, value: SIMD[dt, w], stop: Int):
    """Writes elements `i ..< i + w`; with `tail` those at `stop` and beyond are not written.

    With `stream` the store goes around the cache; the address must then be a multiple of the vector's size, or of a
    cache line if that is less.
    """
    comptime if tail:
        masked_store[w](value, p.unsafe_offset(i), live[w](i, stop))
    elif stream:
        comptime alignment = min(Int(w) * size_of[dt](), LINE)
        comptime if dt == DType.bfloat16 or dt == DType.float16:  # as floats they become ordinary stores
            p.unsafe_bitcast[UInt16]().unsafe_store[alignment=alignment, non_temporal=True](
                i, bitcast[DType.uint16, w](value)
            )
        else:
            p.unsafe_store[alignment=alignment, non_temporal=True](i, value)
    else:
        p.unsafe_store(i, value)


@always_inline
def aligned[dt: DType, //](p: Pointer[Scalar[dt], MutAnyOrigin]) -> Bool:
    """Whether an array begins at a cache line, as streaming stores need it."""
    return Int(p) % LINE == 0


@always_inline
def splat[dt: DType, //, w: SIMDLength](x: SIMD[dt, 1]) -> SIMD[dt, w]:
    """A value that is the same at every point, in every lane."""
    comptime if dt == DType.bool:
        return rebind[SIMD[dt, w]](SIMD[DType.bool, w](fill=Bool(x)))
    else:
        return SIMD[dt, w](x)


@always_inline
def chosen[dt: DType, w: SIMDLength, //](mask: SIMD[DType.bool, w], a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
    """`a` where `mask` is true, else `b`."""
    comptime if dt == DType.bool:
        return (a & rebind[SIMD[dt, w]](mask)) | (b & ~rebind[SIMD[dt, w]](mask))
    else:
        return mask.select(a, b)
