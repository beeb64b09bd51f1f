"""Stores that go around the cache: for results too large to stay in it.

A normal store first reads the line it writes; a streaming store does not, which saves a third of the traffic of
`x * 2 + 1`. It also leaves nothing in the cache, so it pays only where the arrays of a launch together are larger than the
last-level cache (juju.engines.max.stream_bytes()).
"""

from std.memory import bitcast
from std.sys import CompilationTarget, size_of
from std.sys.intrinsics import llvm_intrinsic

comptime LINE = 64
"""Bytes of a cache line; results of juju begin at a multiple of it."""


@always_inline
def stream_store[dt: DType, w: SIMDLength, //](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, value: SIMD[dt, w]):
    """Writes elements `i ..< i + w` around the cache.

    The address must be a multiple of the vector's size, or of 64 bytes if that is less; anything else is a fault. Call
    `stream_fence` after the last one.
    """
    comptime alignment = min(Int(w) * size_of[dt](), LINE)
    comptime if dt == DType.bfloat16 or dt == DType.float16:  # as floats they become ordinary stores
        p.unsafe_bitcast[UInt16]().unsafe_store[alignment=alignment, non_temporal=True](
            i, bitcast[DType.uint16, w](value)
        )
    else:
        p.unsafe_store[alignment=alignment, non_temporal=True](i, value)


@always_inline
def streamable[dt: DType, //](p: Pointer[Scalar[dt], MutAnyOrigin], lo: Int) -> Bool:
    """Whether element `lo` is at the start of a cache line, as `stream_store` needs it."""
    return Int(p.unsafe_offset(lo)) % LINE == 0


@always_inline
def stream_fence():
    """Makes streaming stores visible to other threads before anything that is stored later."""
    comptime if CompilationTarget.is_x86():
        llvm_intrinsic["llvm.x86.sse.sfence", NoneType]()
