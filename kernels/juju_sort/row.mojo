"""Sorted rows of one array."""

from juju_kernel import LANES, live, load, load_strided, release, scratch, store
from std.memory import bitcast
from std.sys import simd_width_of

from .key import SIGN, Key, Order, is_nan, is_zero, key, number
from .network import network
from .radix import radix_sort


def sort_rows[
    dt: DType, //
](x: Pointer[Scalar[dt], MutAnyOrigin], y: Pointer[Scalar[dt], MutAnyOrigin], first: Int, last: Int, n: Int):
    """`y` is `x` with every row sorted as `lax.sort` does; rows of up to 32 elements side by side, one in each lane."""
    var keys = scratch[Key[dt]](2 * n)
    var row = first
    comptime for k in range(1, 6):
        comptime size = 1 << k
        if size // 2 < n <= size:
            while row + LANES <= last:
                _sort_lanes[size](x.unsafe_offset(row * n), y.unsafe_offset(row * n), keys, n)
                row += LANES
    while row < last:
        _sort(x.unsafe_offset(row * n), y.unsafe_offset(row * n), keys, n)
        row += 1
    release(keys)


@always_inline
def _sort_lanes[
    dt: DType, //, size: Int
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    y: Pointer[Scalar[dt], MutAnyOrigin],
    keys: Pointer[Scalar[Key[dt]], MutAnyOrigin],
    n: Int,
):
    """Sorts `LANES` rows of at most `size` elements; what is missing comes last."""
    var lines = Array[SIMD[Key[dt], LANES], size](fill=~SIMD[Key[dt], LANES](0))
    var odd = SIMD[DType.bool, LANES](fill=False)
    comptime for i in range(size):
        if i < n:
            var v = load_strided[LANES](x.unsafe_offset(i), 0, n, LANES)
            lines[i] = key[Order.SORT](v)
            odd |= _is_odd(v)
    network[LANES, size](lines)
    comptime for i in range(size):
        if i < n:
            y.unsafe_offset(i).unsafe_strided_store[width=LANES](number[dt](lines[i]), n)
    if odd.reduce_or():
        for lane in range(LANES):
            if odd[lane]:
                _sort(x.unsafe_offset(lane * n), y.unsafe_offset(lane * n), keys, n)


@always_inline
def _sort[
    dt: DType, //
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    y: Pointer[Scalar[dt], MutAnyOrigin],
    keys: Pointer[Scalar[Key[dt]], MutAnyOrigin],
    n: Int,
):
    comptime w = simd_width_of[Key[dt]]()
    var odd = SIMD[DType.bool, w](fill=False)
    for i in range(0, n, w):
        if i + w <= n:
            var v = x.unsafe_load[width=w](i)
            keys.unsafe_store(i, key[Order.SORT](v))
            odd |= _is_odd(v)
        else:
            var v = load[w, True](x, i, n)
            store[True](keys, i, key[Order.SORT](v), n)
            odd |= _is_odd(v) & live[w](i, n)
    var sorted = keys.unsafe_offset(n) if radix_sort[0](keys, keys.unsafe_offset(n), n) else keys
    for i in range(0, n, w):
        if i + w <= n:
            y.unsafe_store(i, number[dt](sorted.unsafe_load[width=w](i)))
        else:
            store[True](y, i, number[dt](load[w, True](sorted, i, n)), n)
    comptime if dt.is_floating_point():
        if odd.reduce_or():
            _restore(x, y, sorted, n)


@always_inline
def _is_odd[dt: DType, w: SIMDLength, //](x: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    """Whether the key of a float does not tell its bits."""
    comptime if dt.is_floating_point():
        return (is_zero(x) & bitcast[Key[dt], w](x).ne(0)) | is_nan(x)
    else:
        return SIMD[DType.bool, w](fill=False)


def _restore[
    dt: DType, //
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    y: Pointer[Scalar[dt], MutAnyOrigin],
    sorted: Pointer[Scalar[Key[dt]], MutAnyOrigin],
    n: Int,
):
    """Writes zeros and NaN, which have one key each, as they are and in the order in which they are in `x`."""
    var zero = 0
    var end = n
    while zero < end:  # the first key that is not below that of zero
        var middle = (zero + end) // 2
        if sorted[unsafe_offset=middle] < SIGN[dt]:
            zero = middle + 1
        else:
            end = middle
    var nan = n
    while nan > 0 and sorted[unsafe_offset=nan - 1] == ~Scalar[Key[dt]](0):
        nan -= 1
    for i in range(n):
        var v = x[unsafe_offset=i]
        if is_zero(v):
            y[unsafe_offset=zero] = v
            zero += 1
        elif is_nan(v):
            y[unsafe_offset=nan] = v
            nan += 1
