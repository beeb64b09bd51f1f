"""The sweep of a body over points: whole blocks, then a tail."""

from std.sys import CompilationTarget, simd_width_of
from std.sys.intrinsics import llvm_intrinsic

comptime LANES = simd_width_of[DType.float32]()
"""float32 lanes of one machine register; widths in generated code are multiples of it."""


@always_inline
def sweep[
    Body: def[w: SIMDLength, tail: Bool](Int, Int) -> None, //, width: SIMDLength
](body: Body, start: Int, stop: Int):
    """Calls `body[width, False](i, stop)` on whole blocks and `body[LANES, True]` on what is left."""
    var i = start
    while i + Int(width) <= stop:
        body[width, False](i, stop)
        i += Int(width)
    while i < stop:
        body[LANES, True](i, stop)
        i += LANES


@always_inline
def sweep_back[
    Body: def[w: SIMDLength, tail: Bool](Int, Int) -> None, //, width: SIMDLength
](body: Body, start: Int, stop: Int):
    """`sweep` from the end: what is left behind the last whole block comes first."""
    var whole = start + (stop - start) // Int(width) * Int(width)
    var i = whole + (stop - whole + LANES - 1) // LANES * LANES
    while i > whole:
        i -= LANES
        body[LANES, True](i, stop)
    while i > start:
        i -= Int(width)
        body[width, False](i, stop)


@always_inline
def sweep_down[
    Body: def[w: SIMDLength, tail: Bool](Int, Int) -> None, //, width: SIMDLength
](body: Body, start: Int, stop: Int):
    """`sweep` for bodies that walk down an array: what is left is taken in blocks of `4 * LANES` first."""
    var i = start
    while i + Int(width) <= stop:
        body[width, False](i, stop)
        i += Int(width)
    sweep[4 * LANES](body, i, stop)


@always_inline
def sweep_stream[
    Body: def[w: SIMDLength, tail: Bool, stream: Bool](Int, Int) -> None, //, width: SIMDLength, drains: Bool = True
](body: Body, start: Int, stop: Int, around: Bool):
    """`sweep` for bodies that memory bounds: where `around`, whole blocks are stored around the cache.

    A normal store first reads the line it writes; a streaming store does not, which saves a third of the traffic of
    `x * 2 + 1`, and pays once the arrays are larger than the cache. `start` must be a multiple of 64. Without `drains`
    the caller calls `drain` at the end.
    """
    var i = start
    if around:
        while i + Int(width) <= stop:
            body[width, False, True](i, stop)
            i += Int(width)
        comptime if drains:
            drain()
    while i + Int(width) <= stop:
        body[width, False, False](i, stop)
        i += Int(width)
    while i < stop:
        body[LANES, True, False](i, stop)
        i += LANES


@always_inline
def drain():
    """Waits for stores around the cache; else other threads might see them late."""
    comptime if CompilationTarget.is_x86():
        llvm_intrinsic["llvm.x86.sse.sfence", NoneType]()
