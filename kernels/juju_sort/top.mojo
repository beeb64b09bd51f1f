"""The first few of every row, in order."""

from juju_kernel import release, scratch
from std.sys import simd_width_of

from .key import Key, key


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
    var keys = scratch[Key[dt]](k)
    for row in range(first, last):
        var source = x.unsafe_offset(row * n)
        var best = places.unsafe_offset(row * k)
        _find[order](source, keys, best, n, k)
        for i in range(k):
            values[unsafe_offset = row * k + i] = source[unsafe_offset = Int(best[unsafe_offset=i])]
    release(keys)


@always_inline
def _find[
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
