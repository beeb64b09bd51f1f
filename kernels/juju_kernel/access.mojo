"""Reads that are not of neighbours in order: masked, backwards, in steps, and at computed places."""

from std.math import iota
from std.sys.intrinsics import masked_load

from .memory import live


@always_inline
def indices[dt: DType, w: SIMDLength](first: Int) -> SIMD[dt, w]:
    """The numbers `first ..< first + w`."""
    return iota[dt, w](Scalar[dt](first))


@always_inline
def load_where[
    dt: DType, w: SIMDLength, //, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, mask: SIMD[DType.bool, w], stop: Int) -> SIMD[dt, w]:
    """Elements `i ..< i + w` where `mask` is true; the others are not read and come as 0."""
    comptime if w == 1:
        return rebind[SIMD[dt, w]](p[unsafe_offset=i] if mask[0] else Scalar[dt](0))
    else:
        return masked_load[w](p.unsafe_offset(i), reads[tail](mask, i, stop), SIMD[dt, w](0))


@always_inline
def load_one[
    dt: DType, w: SIMDLength, //, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], at: Int, mask: SIMD[DType.bool, w], i: Int, stop: Int) -> SIMD[dt, w]:
    """One element in all lanes where `mask` is true; the others are 0."""
    var wanted = reads[tail](mask, i, stop)
    var x = p[unsafe_offset=at] if wanted.reduce_or() else Scalar[dt](0)
    return wanted.select(SIMD[dt, w](x), SIMD[dt, w](0))


@always_inline
def reads[w: SIMDLength, //, tail: Bool](mask: SIMD[DType.bool, w], i: Int, stop: Int) -> SIMD[DType.bool, w]:
    """`mask`, and with `tail` only for points before `stop`."""
    comptime if tail:
        return mask & live[w](i, stop)
    else:
        return mask


@always_inline
def load_reversed[
    dt: DType, //, w: SIMDLength, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, stop: Int) -> SIMD[dt, w]:
    """Elements `-i`, `-(i + 1)`, ... of `p`: an array that is read from its end."""
    comptime if tail:
        return reversed_where[True](p, i, SIMD[DType.bool, w](fill=True), stop)
    else:
        return p.unsafe_load[width=w](1 - i - Int(w)).reversed()


@always_inline
def reversed_where[
    dt: DType, w: SIMDLength, //, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, mask: SIMD[DType.bool, w], stop: Int) -> SIMD[dt, w]:
    """`load_reversed` where `mask` is true, else 0."""
    var wanted = reads[tail](mask, i, stop).reversed()
    return masked_load[w](p.unsafe_offset(1 - i - Int(w)), wanted, SIMD[dt, w](0)).reversed()


@always_inline
def load_strided[
    dt: DType, //, w: SIMDLength, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, step: Int, stop: Int) -> SIMD[dt, w]:
    """Elements `i * step`, `(i + 1) * step`, ... of `p`."""
    var first = p.unsafe_offset(i * step)
    comptime if tail:
        var places = iota[DType.int64, w]() * Int64(step)
        return first.unsafe_gather(places, live[w](i, stop), SIMD[dt, w](0))
    else:
        # Loads one by one are faster than gather instructions, which LLVM would make of them if they were not volatile.
        comptime lanes = min(Int(w), 16)
        var result = SIMD[dt, w](0)
        comptime for part in range(Int(w) // lanes):
            var some = SIMD[dt, lanes](0)
            comptime for k in range(lanes):
                some[k] = first.unsafe_load[width=1, volatile=True]((part * lanes + k) * step)
            result = result.insert[offset = part * lanes](some)
        return result


@always_inline
def load_every[
    dt: DType, //, step: Int, w: SIMDLength, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, stop: Int) -> SIMD[dt, w]:
    """`load_strided` for a small step: loads of all elements, and shuffles."""
    comptime if tail:
        return load_strided[w, True](p, i, step, stop)
    else:
        comptime lanes = min(Int(w), 16)
        var result = SIMD[dt, w](0)
        comptime for part in range(Int(w) // lanes):
            var first = p.unsafe_offset((i + part * lanes) * step)
            var some = SIMD[dt, lanes](0)
            comptime for line in range(step):
                # The last line begins earlier, so as to end at the last element that is wanted.
                comptime start = line * lanes - (step - 1 if line == step - 1 else 0)
                var elements = first.unsafe_load[width=lanes](start)
                comptime for k in range(lanes):
                    comptime if k * step >= start and k * step < start + lanes:
                        some[k] = elements[k * step - start]
            result = result.insert[offset = part * lanes](some)
        return result


@always_inline
def store_strided[
    dt: DType, w: SIMDLength, //, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, step: Int, value: SIMD[dt, w], stop: Int):
    """Writes elements `i * step`, `(i + 1) * step`, ... of `p`."""
    var mask = reads[tail](SIMD[DType.bool, w](fill=True), i, stop)
    p.unsafe_offset(i * step).unsafe_scatter(iota[DType.int64, w]() * Int64(step), value, mask)


@always_inline
def store_pairs[
    dt: DType, w: SIMDLength, //, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], i: Int, first: SIMD[dt, w], second: SIMD[dt, w], stop: Int):
    """Writes elements `2 * i ..< 2 * (i + w)`: one of `first`, one of `second`, and so on."""
    comptime if tail:
        store_strided[tail](p, i, 2, first, stop)
        store_strided[tail](p.unsafe_offset(1), i, 2, second, stop)
    else:
        p.unsafe_store(2 * i, first.interleave(second))


@always_inline
def gather[
    dt: DType, index: DType, w: SIMDLength, //, tail: Bool = False
](p: Pointer[Scalar[dt], MutAnyOrigin], places: SIMD[index, w], i: Int, stop: Int) -> SIMD[dt, w]:
    """The elements of `p` at `places`; with `tail` the lanes of points at `stop` and beyond read nothing."""
    var mask = reads[tail](SIMD[DType.bool, w](fill=True), i, stop)
    return p.unsafe_gather(places, mask, SIMD[dt, w](0))


@always_inline
def gather_where[
    dt: DType, index: DType, w: SIMDLength, //, tail: Bool = False
](
    p: Pointer[Scalar[dt], MutAnyOrigin], places: SIMD[index, w], mask: SIMD[DType.bool, w], i: Int, stop: Int
) -> SIMD[dt, w]:
    """`gather` where `mask` is true; the other lanes read nothing and are 0."""
    return p.unsafe_gather(places, reads[tail](mask, i, stop), SIMD[dt, w](0))


@always_inline
def divide[dt: DType, w: SIMDLength, //](x: SIMD[dt, w], by: Int) -> SIMD[dt, w]:
    """`x` divided by a positive number, rounded down."""
    comptime if dt == DType.int32 and w > 1:
        # A product in float64 is off by one at most, and vector units have no division of integers.
        var quotient = (x.cast[DType.float64]() * (1 / Float64(by))).cast[dt]()
        var rest = x - quotient * Scalar[dt](by)
        return quotient + rest.ge(Scalar[dt](by)).cast[dt]() - rest.lt(0).cast[dt]()
    else:
        return x // Scalar[dt](by)


@always_inline
def modulo[dt: DType, w: SIMDLength, //](x: SIMD[dt, w], by: Int) -> SIMD[dt, w]:
    """What is left of `divide`."""
    return x - divide(x, by) * Scalar[dt](by)
