"""The kernel that copies a result which is an operand, a constant, or another result."""

from std.sys import CompilationTarget
from std.sys.intrinsics import llvm_intrinsic

from .program import Words

comptime LINE = 64
"""Bytes of one point."""


@always_inline
def copy(args: Words, lo: Int, hi: Int):
    """Copies lines `lo ..< hi` of `args[0]` to `args[1]`, which is aligned to a line.

    `args[2]` is the number of bytes in all; `args[3]` is 1 if they are too many for the cache.
    """
    var pointers = args.unsafe_bitcast[Pointer[UInt8, MutAnyOrigin]]()
    var source = pointers[unsafe_offset=0]
    var target = pointers[unsafe_offset=1]
    var stop = min(hi * LINE, Int(args[unsafe_offset=2]))
    var at = lo * LINE
    if args[unsafe_offset=3] != 0:
        while at + LINE <= stop:
            target.unsafe_store[alignment=LINE, non_temporal=True](at, source.unsafe_load[width=LINE](at))
            at += LINE
        comptime if CompilationTarget.is_x86():  # else other threads might see them late
            llvm_intrinsic["llvm.x86.sse.sfence", NoneType]()
    while at + LINE <= stop:
        target.unsafe_store(at, source.unsafe_load[width=LINE](at))
        at += LINE
    while at < stop:
        target[unsafe_offset=at] = source[unsafe_offset=at]
        at += 1
