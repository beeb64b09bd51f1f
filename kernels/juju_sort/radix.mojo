"""Stable sorts of unsigned integers by some of their bits."""

from juju_kernel import release, scratch
from std.sys import bit_width_of

comptime SHORT = 40
"""Rows up to this length are sorted by insertion."""
comptime LONG = 1 << 14
"""From this length on digits have 11 bits instead of 8, so that there are fewer passes."""


@always_inline
def insertion_sort[dt: DType, //, low: Int](a: Pointer[Scalar[dt], MutAnyOrigin], n: Int):
    """Sorts `n` integers by their bits from `low` on."""
    comptime shift = Scalar[dt](low)
    for i in range(1, n):
        var x = a[unsafe_offset=i]
        var j = i
        while j > 0 and a[unsafe_offset=j - 1] >> shift > x >> shift:
            a[unsafe_offset=j] = a[unsafe_offset=j - 1]
            j -= 1
        a[unsafe_offset=j] = x


@always_inline
def radix_sort[
    dt: DType, //, low: Int
](a: Pointer[Scalar[dt], MutAnyOrigin], b: Pointer[Scalar[dt], MutAnyOrigin], n: Int) -> Bool:
    """Sorts `n` integers in `a` by their bits from `low` on, with `b` as room. True if the result is in `b`."""
    if n <= SHORT:
        insertion_sort[low](a, n)
        return False
    comptime if bit_width_of[dt]() - low > 16:
        if n >= LONG:
            return _by_digits[low, 11](a, b, n)
    return _by_digits[low, 8](a, b, n)


@always_inline
def _by_digits[
    dt: DType, //, low: Int, digit: Int
](a: Pointer[Scalar[dt], MutAnyOrigin], b: Pointer[Scalar[dt], MutAnyOrigin], n: Int) -> Bool:
    """Digits from the lowest to the highest; one that all integers share is left out."""
    comptime digits = (bit_width_of[dt]() - low + digit - 1) // digit
    comptime size = 1 << digit
    comptime mask = Scalar[dt](size - 1)
    var counts = scratch[DType.uint32](digits * size)
    for i in range(0, digits * size, 16):
        counts.unsafe_store(i, SIMD[DType.uint32, 16](0))
    for i in range(n):
        var x = a[unsafe_offset=i]
        comptime for d in range(digits):
            var value = Int((x >> Scalar[dt](low + d * digit)) & mask)
            counts[unsafe_offset=d * size + value] += 1
    var turned = False
    comptime for d in range(digits):
        comptime shift = Scalar[dt](low + d * digit)
        var places = counts.unsafe_offset(d * size)
        if places[unsafe_offset=Int((a[] >> shift) & mask)] != UInt32(n):
            var place = UInt32(0)
            for value in range(size):
                var count = places[unsafe_offset=value]
                places[unsafe_offset=value] = place
                place += count
            var source = b if turned else a
            var target = a if turned else b
            for i in range(n):
                var x = source[unsafe_offset=i]
                var value = Int((x >> shift) & mask)
                var at = places[unsafe_offset=value]
                places[unsafe_offset=value] = at + 1
                target[unsafe_offset=Int(at)] = x
            turned = not turned
    release(counts)
    return turned
