"""Where the elements of sorted rows come from."""

from juju_kernel import release, scratch
from std.sys import bit_width_of

from .key import Key, key
from .radix import radix_sort

comptime Pairs = Pointer[UInt64, MutAnyOrigin]
"""32 bits of a key, and below them the place it is at."""


def order_rows[
    dt: DType, //, order: Int
](x: Pointer[Scalar[dt], MutAnyOrigin], places: Pointer[Int32, MutAnyOrigin], first: Int, last: Int, n: Int):
    """`places` are those of every row of `x` in an order; equal elements keep theirs."""
    var pairs = scratch[DType.uint64](2 * n)
    for row in range(first, last):
        var result = places.unsafe_offset(row * n)
        for i in range(n):
            result[unsafe_offset=i] = Int32(i)
        sort_places[order](x.unsafe_offset(row * n), result, pairs, n)
    release(pairs)


def order_rows_again[
    dt: DType, //, order: Int
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    before: Pointer[Int32, MutAnyOrigin],
    places: Pointer[Int32, MutAnyOrigin],
    first: Int,
    last: Int,
    n: Int,
):
    """`places` are those of every row of `x` in an order; equal elements are in the order of the places `before`.

    So rows are sorted by several keys: by the last one first.
    """
    var pairs = scratch[DType.uint64](2 * n)
    for row in range(first, last):
        var result = places.unsafe_offset(row * n)
        for i in range(n):
            result[unsafe_offset=i] = before[unsafe_offset=row * n + i]
        sort_places[order](x.unsafe_offset(row * n), result, pairs, n)
    release(pairs)


@always_inline
def sort_places[
    dt: DType, //, order: Int
](x: Pointer[Scalar[dt], MutAnyOrigin], places: Pointer[Int32, MutAnyOrigin], pairs: Pairs, n: Int):
    """Sorts `n` places of a row by the elements there; equal ones keep their order. `pairs` is room for `2 * n`."""
    comptime for half in range(max(bit_width_of[dt]() // 32, 1)):
        _by_half[order, half](x, places, pairs, n)


@always_inline
def _by_half[
    dt: DType, //, order: Int, half: Int
](x: Pointer[Scalar[dt], MutAnyOrigin], places: Pointer[Int32, MutAnyOrigin], pairs: Pairs, n: Int):
    """Sorts places by one half of 64-bit keys, or by all of shorter ones."""
    for i in range(n):
        var at = Int(places[unsafe_offset=i])
        var bits = (key[order](x[unsafe_offset=at]) >> Scalar[Key[dt]](32 * half)).cast[DType.uint32]()
        pairs[unsafe_offset=i] = (bits.cast[DType.uint64]() << 32) | UInt64(at)
    var sorted = pairs.unsafe_offset(n) if radix_sort[32](pairs, pairs.unsafe_offset(n), n) else pairs
    for i in range(n):
        places[unsafe_offset=i] = sorted[unsafe_offset=i].cast[DType.int32]()
