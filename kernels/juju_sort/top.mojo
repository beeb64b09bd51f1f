"""The first few of every row, in order."""

from juju_kernel import LANES, release, scratch
from std.bit import count_trailing_zeros
from std.memory import pack_bits
from std.sys import bit_width_of

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
            values[unsafe_offset=row * k + i] = source[unsafe_offset=Int(best[unsafe_offset=i])]
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
    """Keeps the first `k` so far; most vectors have no element that could be one of them."""
    comptime w = 2 * LANES
    var bound = _bound[order](x, keys, places, n, k)
    var count = 0
    var i = 0
    while i < n:
        var found: UInt64
        if i + w <= n:
            var near = key[order](x.unsafe_load[width=w](i)).le(SIMD[Key[dt], w](bound))
            found = pack_bits(near).cast[DType.uint64]()
        else:
            found = (UInt64(1) << UInt64(n - i)) - 1
        while found != 0:
            var at = i + Int(count_trailing_zeros(found))
            found &= found - 1
            var candidate = key[order](x[unsafe_offset=at])
            if candidate <= bound:
                var end = min(count, k - 1)
                _insert(keys, places, end, candidate, at)
                count = end + 1
                if count == k:  # from now on equal ones come too late
                    var least = keys[unsafe_offset=k - 1]
                    if least == 0:
                        return
                    bound = min(bound, least - 1)
        i += w


@always_inline
def _bound[
    dt: DType, //, order: Int
](
    x: Pointer[Scalar[dt], MutAnyOrigin],
    keys: Pointer[Scalar[Key[dt]], MutAnyOrigin],
    places: Pointer[Int32, MutAnyOrigin],
    n: Int,
    k: Int,
) -> Scalar[Key[dt]]:
    """A key that at least `k` keys do not exceed: the k-th of the least in each lane."""
    comptime w = 2 * LANES
    var least = ~SIMD[Key[dt], w](0)
    for i in range(0, n - w + 1, w):
        least = min(least, key[order](x.unsafe_load[width=w](i)))
    if k > LANES or n < 4 * w:
        return ~Scalar[Key[dt]](0)
    var half = min(least.slice[LANES](), least.slice[LANES, offset=LANES]())
    comptime for lane in range(LANES):
        comptime if lane == 0:
            _insert(keys, places, 0, half[0], 0)
        else:
            if lane < k or half[lane] < keys[unsafe_offset=k - 1]:
                _insert(keys, places, min(lane, k - 1), half[lane], 0)
    return keys[unsafe_offset=k - 1]


@always_inline
def _insert[
    dt: DType, //
](keys: Pointer[Scalar[dt], MutAnyOrigin], places: Pointer[Int32, MutAnyOrigin], end: Int, key: Scalar[dt], place: Int):
    """Puts a key among `end` sorted ones, behind those that are equal."""
    var j = end
    while j > 0 and keys[unsafe_offset=j - 1] > key:
        keys[unsafe_offset=j] = keys[unsafe_offset=j - 1]
        places[unsafe_offset=j] = places[unsafe_offset=j - 1]
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
        counts[unsafe_offset=Int(key[order](x[unsafe_offset=i]) >> shift)] += 1
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
