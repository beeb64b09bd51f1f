"""What every generated kernel is written in: argument words, loads and stores with tails, and the sweep over points.

A kernel is one C function `(args, lo, hi) -> status`. `args` holds 64-bit words: the addresses of all buffers, then
sizes. A kernel computes the points `lo ..< hi` of its launch and may run on several threads with disjoint ranges.
"""

from std.math import iota
from std.memory import bitcast
from std.sys import CompilationTarget, is_gpu, simd_width_of, size_of
from std.sys.intrinsics import llvm_intrinsic, masked_load, masked_store

comptime Args = Pointer[Int64, MutAnyOrigin]
comptime LANES = simd_width_of[DType.float32]()
"""float32 lanes of one machine register; widths in generated code are multiples of it."""

comptime LINE = 64
"""Bytes of a cache line; results begin at a multiple of it."""


@always_inline
def array[dt: DType](args: Args, k: Int) -> Pointer[Scalar[dt], MutAnyOrigin]:
    """The k-th argument word as the address of an array."""
    return args.unsafe_bitcast[Pointer[Scalar[dt], MutAnyOrigin]]()[unsafe_offset=k]


@always_inline
def size(args: Args, k: Int) -> Int:
    """The k-th argument word as a number."""
    return Int(args[unsafe_offset=k])


@always_inline
def load[
    dt: DType, //, w: SIMDLength, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, stop: Int) -> SIMD[dt, w]:
    """Elements `i ..< i + w`; with `tail` those at `stop` and beyond are not read and come as 0."""
    comptime if tail:
        var live = (iota[DType.int64, w]() + Int64(i)).lt(Int64(stop))
        return masked_load[w](p.unsafe_offset(i), live, SIMD[dt, w](0))
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
        var live = (iota[DType.int64, w]() + Int64(i)).lt(Int64(stop))
        masked_store[w](value, p.unsafe_offset(i), live)
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
def sweep_stream[
    Body: def[w: SIMDLength, tail: Bool, stream: Bool](Int, Int) -> None, //, width: SIMDLength
](body: Body, start: Int, stop: Int, around: Bool):
    """`sweep` for bodies that memory bounds: where `around`, whole blocks are stored around the cache.

    A normal store first reads the line it writes; a streaming store does not, which saves a third of the traffic of
    `x * 2 + 1`, and pays once the arrays are larger than the cache. `start` must be a multiple of 64.
    """
    var i = start
    if around:
        while i + Int(width) <= stop:
            body[width, False, True](i, stop)
            i += Int(width)
        comptime if CompilationTarget.is_x86():  # else other threads might see them late
            llvm_intrinsic["llvm.x86.sse.sfence", NoneType]()
    while i + Int(width) <= stop:
        body[width, False, False](i, stop)
        i += Int(width)
    while i < stop:
        body[LANES, True, False](i, stop)
        i += LANES


@always_inline
def splat[dt: DType, //, w: SIMDLength](x: SIMD[dt, 1]) -> SIMD[dt, w]:
    """A value that is the same at every point, in every lane."""
    comptime if dt == DType.bool:
        return rebind[SIMD[dt, w]](SIMD[DType.bool, w](fill=Bool(x)))
    else:
        return SIMD[dt, w](x)


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


@always_inline
def padded(n: Int) -> Int:
    """The points a nest of `n` takes in a launch of several: a multiple of 64, so that chunks start aligned."""
    return (n + 63) & ~63
