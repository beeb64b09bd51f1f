"""The scatter itself."""

from std.memory import stack_allocation
from std.sys import simd_width_of, size_of
from std.sys.intrinsics import PrefetchOptions, prefetch

from .combine import combined

comptime BLOCK = 512
"""Windows that are looked at together."""
comptime AHEAD = 4
"""How many windows ahead updates are asked for: those of one part are spread over all of them."""


def scatter[
    dt: DType, //, combine: StaticString, rank: Int, filled: Bool, same: Bool
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    starts: Pointer[Int32, MutAnyOrigin],
    updates: Pointer[Scalar[dt], MutAnyOrigin],
    y: Pointer[Scalar[dt], MutAnyOrigin],
    first: Int,
    last: Int,
    parts: Int,
    size: Int,
    count: Int,
    *window: Int,
):
    """Computes the parts `first ..< last` of `parts` of `y`: `x` with `count` windows combined with updates.

    With `filled`, `x` is one element and stands for an array of it; so do `updates` with `same`. A window begins at the
    element `starts[k]` of `y`; if that is negative, it is left out. `window` holds extent and stride of each of its
    `rank` axes, the last one innermost. The updates of a window lie one after the other.
    """
    var hits = stack_allocation[BLOCK, DType.int32]().as_unsafe_any_origin()
    for part in range(first, last):
        var lo = _begin(part, parts, size)
        var hi = _begin(part + 1, parts, size)
        comptime if filled:
            _fill(y, x[], lo, hi)
        else:
            _copy(y, x, lo, hi)
        comptime if rank == 0:
            _elements[combine, same](starts, updates, y, lo, hi, count)
        else:
            var extent = window[2 * rank - 2]
            var stride = window[2 * rank - 1]
            var runs = 1
            var reach = (extent - 1) * stride
            comptime for d in range(rank - 1):
                runs *= window[2 * d]
                reach += (window[2 * d] - 1) * window[2 * d + 1]
            for block in range(0, count, BLOCK):
                var found = _hits(hits, starts, block, min(block + BLOCK, count), max(0, lo - reach), hi)
                for hit in range(found):
                    comptime if not same:
                        if hit + AHEAD < found:
                            _ask(
                                updates.unsafe_offset(Int(hits[unsafe_offset=hit + AHEAD]) * runs * extent),
                                runs * extent,
                            )
                    var k = Int(hits[unsafe_offset=hit])
                    var start = Int(starts[unsafe_offset=k])
                    var inside = start >= lo and start + reach < hi
                    for run in range(runs):
                        var left = run
                        var at = start
                        comptime for back in range(rank - 1):
                            comptime d = rank - 2 - back
                            at += left % window[2 * d] * window[2 * d + 1]
                            left //= window[2 * d]
                        var begin = 0
                        var end = extent
                        if not inside:
                            begin = max(0, (lo - at + stride - 1) // stride)
                            end = min(extent, (hi - at + stride - 1) // stride)
                        var source = updates if same else updates.unsafe_offset((k * runs + run) * extent)
                        _update[combine, same](y.unsafe_offset(at), source, stride, begin, end)


@always_inline
def _begin(part: Int, parts: Int, size: Int) -> Int:
    """Where a part begins: at a multiple of 64 elements, so that no two parts share a cache line."""
    return min(size, (part * size // parts + 63) // 64 * 64)


@always_inline
def _within(x: Int32, low: Int, end: Int) -> Bool:
    """Whether `low <= x < end`, in one comparison."""
    return UInt32(x - Int32(low)) < UInt32(end - low)


@always_inline
def _elements[
    dt: DType, //, combine: StaticString, same: Bool
](
    starts: Pointer[Int32, MutAnyOrigin],
    updates: Pointer[Scalar[dt], MutAnyOrigin],
    y: Pointer[Scalar[dt], MutAnyOrigin],
    lo: Int,
    hi: Int,
    count: Int,
):
    """Windows of one element."""
    for k in range(count):
        var start = starts[unsafe_offset=k]
        if _within(start, lo, hi):
            var update = updates[] if same else updates[unsafe_offset=k]
            y[unsafe_offset=Int(start)] = combined[combine](y[unsafe_offset=Int(start)], update)


@always_inline
def _hits(
    hits: Pointer[Int32, MutAnyOrigin],
    starts: Pointer[Int32, MutAnyOrigin],
    first: Int,
    last: Int,
    low: Int,
    end: Int,
) -> Int:
    """Which of some windows begin at `low ..< end`, and how many these are."""
    var found = 0
    for k in range(first, last):
        hits[unsafe_offset=found] = Int32(k)
        found += Int(_within(starts[unsafe_offset=k], low, end))
    return found


@always_inline
def _ask[dt: DType, //](p: Pointer[Scalar[dt], MutAnyOrigin], count: Int):
    """Asks for the first lines of an array before they are read."""
    comptime options = PrefetchOptions().for_read().high_locality().to_data_cache()
    comptime line = max(1, 64 // size_of[dt]())
    for i in range(0, min(count, 4 * line), line):
        prefetch[options](p.unsafe_offset(i))


@always_inline
def _update[
    dt: DType, //, combine: StaticString, same: Bool
](y: Pointer[Scalar[dt], MutAnyOrigin], updates: Pointer[Scalar[dt], MutAnyOrigin], stride: Int, begin: Int, end: Int):
    """Combines the updates `begin ..< end` of a run with every `stride`-th element of `y`."""
    comptime w = simd_width_of[dt]()
    var i = begin
    if stride == 1:
        i = _along[4 * w, combine, same](y, updates, i, end)
        i = _along[w, combine, same](y, updates, i, end)
    while i < end:
        var at = i * stride
        var update = updates[] if same else updates[unsafe_offset=i]
        y[unsafe_offset=at] = combined[combine](y[unsafe_offset=at], update)
        i += 1


@always_inline
def _along[
    dt: DType, //, w: Int, combine: StaticString, same: Bool
](y: Pointer[Scalar[dt], MutAnyOrigin], updates: Pointer[Scalar[dt], MutAnyOrigin], begin: Int, end: Int) -> Int:
    """Whole vectors of a run, as many as there are. Returns where the next begins."""
    var i = begin
    while i + w <= end:
        var update = SIMD[dt, w](updates[]) if same else updates.unsafe_load[width=w](i)
        y.unsafe_store(i, combined[combine](y.unsafe_load[width=w](i), update))
        i += w
    return i


@always_inline
def _copy[dt: DType, //](y: Pointer[Scalar[dt], MutAnyOrigin], x: Pointer[Scalar[dt], MutAnyOrigin], lo: Int, hi: Int):
    comptime w = 4 * simd_width_of[dt]()
    var i = lo
    while i + w <= hi:
        y.unsafe_store(i, x.unsafe_load[width=w](i))
        i += w
    while i < hi:
        y[unsafe_offset=i] = x[unsafe_offset=i]
        i += 1


@always_inline
def _fill[dt: DType, //](y: Pointer[Scalar[dt], MutAnyOrigin], x: Scalar[dt], lo: Int, hi: Int):
    comptime w = 4 * simd_width_of[dt]()
    var i = lo
    while i + w <= hi:
        y.unsafe_store(i, SIMD[dt, w](x))
        i += w
    while i < hi:
        y[unsafe_offset=i] = x
        i += 1
