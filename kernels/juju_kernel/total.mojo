"""Totals over the steps of a reduction.

Lanes are combined in a fixed order, so a total does not depend on how many threads there are. A sum of floats is closed
after each block of steps: what was summed goes to a second sum that carries its rounding errors along, so that errors
grow with the length of a block only.
"""

from .combine import Combiner
from .memory import chosen, live
from .running import Runnings
from .sweep import LANES

comptime BLOCK = 4096
"""Innermost steps between two closings of a row's totals; a multiple of all widths."""

comptime STEPS = 256
"""Innermost steps between two closings of the lanes' totals."""


struct Total[C: Combiner, dt: DType, width: SIMDLength](TrivialRegisterPassable):
    """The total of one row, taken in vectors of `width` and, at its end, of `LANES`."""

    var wide: SIMD[Self.dt, Self.width]
    var rest: SIMD[Self.dt, LANES]
    var closed: Runnings[Self.C, Self.dt, Self.width]

    @always_inline
    def __init__(out self):
        self.wide = Self.C.identity[Self.dt, Self.width]()
        self.rest = Self.C.identity[Self.dt, LANES]()
        self.closed = Runnings[Self.C, Self.dt, Self.width]()

    @always_inline
    def take[w: SIMDLength, //, tail: Bool](mut self, x: SIMD[Self.dt, w], i: Int, stop: Int):
        """Adds the points `i ..< i + w`, or with `tail` those before `stop`."""
        comptime if tail:
            var y = chosen(live[w](i, stop), x, Self.C.identity[Self.dt, w]())
            self.rest = Self.C.combine(self.rest, rebind[SIMD[Self.dt, LANES]](y))
        else:
            self.wide = Self.C.combine(self.wide, rebind[SIMD[Self.dt, Self.width]](x))

    @always_inline
    def close(mut self):
        """Ends a block."""
        self.closed.add(self.wide)
        self.wide = Self.C.identity[Self.dt, Self.width]()

    @always_inline
    def value(self) -> Scalar[Self.dt]:
        """The total of all that was taken."""
        var whole = fold[Self.C, LANES](Self.C.combine(self.closed.value(), self.wide))
        return fold[Self.C, 1](Self.C.combine(whole, self.rest))


struct Totals[C: Combiner, dt: DType, w: SIMDLength](TrivialRegisterPassable):
    """One total for each lane."""

    var block: SIMD[Self.dt, Self.w]
    var closed: Runnings[Self.C, Self.dt, Self.w]

    @always_inline
    def __init__(out self):
        self.block = Self.C.identity[Self.dt, Self.w]()
        self.closed = Runnings[Self.C, Self.dt, Self.w]()

    @always_inline
    def take(mut self, x: SIMD[Self.dt, Self.w]):
        """Adds one step."""
        self.block = Self.C.combine(self.block, x)

    @always_inline
    def close(mut self):
        """Ends a block."""
        self.closed.add(self.block)
        self.block = Self.C.identity[Self.dt, Self.w]()

    @always_inline
    def value(self) -> SIMD[Self.dt, Self.w]:
        """The totals of all that was taken."""
        return Self.C.combine(self.closed.value(), self.block)


@always_inline
def fold[dt: DType, w: SIMDLength, //, C: Combiner, lanes: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, lanes]:
    """Fewer lanes: second halves onto first halves, until so many are left."""
    comptime if w == lanes:
        return rebind[SIMD[dt, lanes]](x)
    else:
        comptime half = Int(w) // 2
        return fold[C, lanes](C.combine(x.slice[half](), x.slice[half, offset=half]()))


@always_inline
def merged[
    dt: DType, w: SIMDLength, //, tail: Bool
](
    started: Bool, before: SIMD[dt, LANES], x: SIMD[dt, w], after: SIMD[dt, w], i: Int, stop: Int
) -> SIMD[dt, LANES]:
    """The lanes' totals of any operation after `x`: `after`, or `x` itself where there was nothing before."""
    var result = after if started else x
    comptime if tail:
        result = chosen(live[w](i, stop), result, rebind[SIMD[dt, w]](before))
    return rebind[SIMD[dt, LANES]](result)
