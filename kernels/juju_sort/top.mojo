"""The first few of every row, in order."""

from juju_kernel import release, scratch
from std.sys import bit_width_of, simd_width_of

from .key import Key, key
from .order import sort_places

comptime FEW = 16
"""Up to so many are kept in order while a row is read; for more, those that may be among them are sorted."""


def top_rows[
    dt: DType, //, order: Int
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    values: Pointer[Scalar[dt], MutAnyOrigin],
    places: Pointer[Int32, MutAnyOrigin],
    first: Int,
    last: Int,
    n: Int,
    k: Int,
):
    """The first `k` of every row of `n` in an order, and their places; of equal elements the first ones."""
    var few = k <= FEW
    var keys = scratch[Key[dt]](k if few else 0)
    var chosen = scratch[DType.int32](0 if few else n)
    var pairs = scratch[DType.uint64](0 if few else 2 * n)
    for row in range(first, last):
        var source = x.unsafe_offset(row * n)
        var best = places.unsafe_offset(row * k)
        if few:
            _keep[order](source, keys, best, n, k)
        else:
            var count = _candidates[order](source, chosen, n, k)
            sort_places[order](source, chosen, pairs, count)
            for i in range(k):
                best[unsafe_offset=i] = chosen[unsafe_offset=i]
        for i in range(k):
            values[unsafe_offset = row * k + i] = source[unsafe_offset = Int(best[unsafe_offset=i])]
    release(pairs)
    release(chosen)
    release(keys)


@always_inline
def _keep[
    dt: DType, //, order: Int
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    keys: Pointer[Scalar[Key[dt]], MutAnyOrigin],
    places: Pointer[Int32, MutAnyOrigin],
    n: Int,
    k: Int,
):
    """Keeps the first `k` so far; most vectors have no element that comes before the last of them."""
    comptime w = 2 * simd_width_of[DType.float32]()
    for i in range(k):
        _insert(keys, places, i, key[order](x[unsafe_offset=i]), i)
    var i = k
    while i < n:
        if i + w <= n:
            var found = key[order](x.unsafe_load[width=w](i))
            if found.lt(SIMD[Key[dt], w](keys[unsafe_offset = k - 1])).reduce_or():
                comptime for lane in range(w):
                    if found[lane] < keys[unsafe_offset = k - 1]:
                        _insert(keys, places, k - 1, found[lane], i + lane)
            i += w
        else:
            var found = key[order](x[unsafe_offset=i])
            if found < keys[unsafe_offset = k - 1]:
                _insert(keys, places, k - 1, found, i)
            i += 1


@always_inline
def _insert[
    dt: DType, //
](keys: Pointer[Scalar[dt], MutAnyOrigin], places: Pointer[Int32, MutAnyOrigin], end: Int, key: Scalar[dt], place: Int):
    """Puts a key among `end` sorted ones, behind those that are equal."""
    var j = end
    while j > 0 and keys[unsafe_offset = j - 1] > key:
        keys[unsafe_offset=j] = keys[unsafe_offset = j - 1]
        places[unsafe_offset=j] = places[unsafe_offset = j - 1]
        j -= 1
    keys[unsafe_offset=j] = key
    places[unsafe_offset=j] = Int32(place)


@always_inline
def _candidates[
    dt: DType, //, order: Int
](x: Pointer[Scalar[dt], MutAnyOrigin], places: Pointer[Int32, MutAnyOrigin], n: Int, k: Int) -> Int:
    """The places of all that may be among the first `k`, by the leading digit of their keys, and how many these are."""
    comptime digit = min(11, bit_width_of[dt]())
    comptime shift = Scalar[Key[dt]](bit_width_of[dt]() - digit)
    var counts = scratch[DType.int32](1 << digit)
    for value in range(1 << digit):
        counts[unsafe_offset=value] = 0
    for i in range(n):
        counts[unsafe_offset = Int(key[order](x[unsafe_offset=i]) >> shift)] += 1
    var total = Int(counts[])
    var end = 0
    while total < k:
        end += 1
        total += Int(counts[unsafe_offset=end])
    release(counts)
    var found = 0
    for i in range(n):
        places[unsafe_offset=found] = Int32(i)
        found += Int(Int(key[order](x[unsafe_offset=i]) >> shift) <= end)
        if found == total:
            break
    return found
