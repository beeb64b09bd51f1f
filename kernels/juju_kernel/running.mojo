"""Running totals. Sums of floats carry their rounding errors along, so that errors do not grow with the length."""

from std.math import iota
from std.sys import simd_width_of

from .combine import Combiner
from .memory import chosen, live


@always_inline
def prefix[dt: DType, w: SIMDLength, //, C: Combiner](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """The running total of the lanes of one vector: in step k each lane adds the one `2 ** k` before it."""
    var total = x
    comptime for k in range(8):
        comptime shift = 1 << k
        comptime if shift < Int(w):
            var moved = total.rotate_right[shift]()
            total = chosen(iota[DType.uint8, w]().ge(UInt8(shift)), C.combine(moved, total), total)
    return total


struct Runnings[C: Combiner, dt: DType, w: SIMDLength](TrivialRegisterPassable):
    """One running total for each lane."""

    var total: SIMD[Self.dt, Self.w]
    var error: SIMD[Self.dt, Self.w]

    @always_inline
    def __init__(out self):
        self.total = Self.C.identity[Self.dt, Self.w]()
        self.error = SIMD[Self.dt, Self.w](0)

    @always_inline
    def next(mut self, x: SIMD[Self.dt, Self.w]) -> SIMD[Self.dt, Self.w]:
        """The totals after one more step."""
        self.add(x)
        return self.value()

    @always_inline
    def add(mut self, x: SIMD[Self.dt, Self.w]):
        """Goes one step on."""
        comptime if Self.C.COMPENSATED and Self.dt.is_floating_point():
            var total = self.total + x
            var added = total - self.total
            var error = (self.total - (total - added)) + (x - added)
            self.error += error.eq(error).select(error, SIMD[Self.dt, Self.w](0))  # NaN after an infinity
            self.total = total
        else:
            self.total = Self.C.combine(self.total, x)

    @always_inline
    def value(self) -> SIMD[Self.dt, Self.w]:
        """The totals."""
        comptime if Self.C.COMPENSATED and Self.dt.is_floating_point():
            return self.total + self.error
        else:
            return self.total


struct Running[C: Combiner, dt: DType](TrivialRegisterPassable):
    """The running total along a row, taken in vectors."""

    var carry: Runnings[Self.C, Self.dt, 1]

    @always_inline
    def __init__(out self):
        self.carry = Runnings[Self.C, Self.dt, 1]()

    @always_inline
    def next[w: SIMDLength, //, tail: Bool](mut self, x: SIMD[Self.dt, w], i: Int, stop: Int) -> SIMD[Self.dt, w]:
        """The totals at the points `i ..< i + w`, or with `tail` at those before `stop`."""
        return self._next(_masked[Self.C, tail](x, i, stop))

    @always_inline
    def next_back[w: SIMDLength, //, tail: Bool](mut self, x: SIMD[Self.dt, w], i: Int, stop: Int) -> SIMD[Self.dt, w]:
        """`next` for a row that is taken from its end."""
        return self._next(_masked[Self.C, tail](x, i, stop).reversed()).reversed()

    @always_inline
    def _next[w: SIMDLength, //](mut self, x: SIMD[Self.dt, w]) -> SIMD[Self.dt, w]:
        comptime lanes = min(Int(w), simd_width_of[Self.dt]())
        var result = x
        comptime for k in range(Int(w) // lanes):
            var part = prefix[Self.C](x.slice[lanes, offset=k * lanes]())
            # The carry waits for one addition only, not for the totals of these lanes.
            var before = SIMD[Self.dt, lanes](self.carry.value())
            result = result.insert[offset=k * lanes](Self.C.combine(before, part))
            self.carry.add(part[lanes - 1])
        return result


@always_inline
def _masked[
    dt: DType, w: SIMDLength, //, C: Combiner, tail: Bool
](x: SIMD[dt, w], i: Int, stop: Int) -> SIMD[dt, w]:
    comptime if tail:
        return chosen(live[w](i, stop), x, C.identity[dt, w]())
    else:
        return x
