"""The scatter itself."""

from std.sys import simd_width_of

from .combine import combined


def scatter[
    dt: DType, //, combine: StaticString, rank: Int, filled: Bool
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

    With `filled`, `x` is one element, and stands for an array of it. A window begins at the element `starts[k]` of `y`;
    if that is negative, it is left out. `window` holds extent and stride of each of its `rank` axes, the last one
    innermost. The updates of a window lie one after the other.
    """
    var lo = _begin(first, parts, size)
    var hi = _begin(last, parts, size)
    comptime if filled:
        _fill(y, x[], lo, hi)
    else:
        _copy(y, x, lo, hi)
    comptime if rank == 0:
        for k in range(count):
            var start = Int(starts[unsafe_offset=k])
            if lo <= start < hi:
                y[unsafe_offset=start] = combined[combine](y[unsafe_offset=start], updates[unsafe_offset=k])
    else:
        var extent = window[2 * rank - 2]
        var stride = window[2 * rank - 1]
        var runs = 1
        var reach = (extent - 1) * stride
        comptime for d in range(rank - 1):
            runs *= window[2 * d]
            reach += (window[2 * d] - 1) * window[2 * d + 1]
        for k in range(count):
            var start = Int(starts[unsafe_offset=k])
            if start < 0 or start + reach < lo or start >= hi:
                continue
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
                _update[combine](y.unsafe_offset(at), updates.unsafe_offset((k * runs + run) * extent), stride, begin, end)


@always_inline
def _begin(part: Int, parts: Int, size: Int) -> Int:
    """Where a part begins: at a multiple of 64 elements, so that no two parts share a cache line."""
    return min(size, (part * size // parts + 63) // 64 * 64)


@always_inline
def _update[
    dt: DType, //, combine: StaticString
](y: Pointer[Scalar[dt], MutAnyOrigin], updates: Pointer[Scalar[dt], MutAnyOrigin], stride: Int, begin: Int, end: Int):
    """Combines the updates `begin ..< end` of a run with every `stride`-th element of `y`."""
    var i = begin
    if stride == 1:
        comptime w = simd_width_of[dt]()
        while i + w <= end:
            y.unsafe_store(i, combined[combine](y.unsafe_load[width=w](i), updates.unsafe_load[width=w](i)))
            i += w
    while i < end:
        var at = i * stride
        y[unsafe_offset=at] = combined[combine](y[unsafe_offset=at], updates[unsafe_offset=i])
        i += 1


@always_inline
def _copy[
    dt: DType, //
](y: Pointer[Scalar[dt], MutAnyOrigin], x: Pointer[Scalar[dt], MutAnyOrigin], lo: Int, hi: Int):
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
