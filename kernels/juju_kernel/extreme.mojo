"""Where the largest or smallest element is: the first of equal ones, and the first NaN before all others."""

from .combine import Maximum, Minimum
from .memory import live
from .sweep import LANES


@always_inline
def worst[largest: Bool, dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
    """What no element is worse than."""
    comptime if largest:
        return Maximum.identity[dt, w]()
    else:
        return Minimum.identity[dt, w]()


@always_inline
def beats[
    dt: DType, w: SIMDLength, //, largest: Bool
](x: SIMD[dt, w], best: SIMD[dt, w]) -> SIMD[DType.bool, w]:
    """Whether an element is better than the best one before it; a NaN is, unless that is one too."""
    comptime if largest:
        return ~x.le(best) & best.eq(best)
    else:
        return ~x.ge(best) & best.eq(best)


struct Extreme[largest: Bool, dt: DType, index: DType, width: SIMDLength](TrivialRegisterPassable):
    """The place of the best element of one row, taken in vectors of `width` and, at its end, of `LANES`."""

    var best: SIMD[Self.dt, Self.width]
    var place: SIMD[Self.index, Self.width]
    var rest: SIMD[Self.dt, LANES]
    var rest_place: SIMD[Self.index, LANES]

    @always_inline
    def __init__(out self):
        self.best = worst[Self.largest, Self.dt, Self.width]()
        self.place = SIMD[Self.index, Self.width](0)
        self.rest = worst[Self.largest, Self.dt, LANES]()
        self.rest_place = SIMD[Self.index, LANES](0)

    @always_inline
    def take[
        w: SIMDLength, //, tail: Bool
    ](mut self, x: SIMD[Self.dt, w], places: SIMD[Self.index, w], i: Int, stop: Int):
        """Looks at the points `i ..< i + w`, or with `tail` at those before `stop`."""
        comptime if tail:
            var y = rebind[SIMD[Self.dt, LANES]](x)
            var better = live[LANES](i, stop) & beats[Self.largest](y, self.rest)
            self.rest = better.select(y, self.rest)
            self.rest_place = better.select(rebind[SIMD[Self.index, LANES]](places), self.rest_place)
        else:
            var y = rebind[SIMD[Self.dt, Self.width]](x)
            var better = beats[Self.largest](y, self.best)
            self.best = better.select(y, self.best)
            self.place = better.select(rebind[SIMD[Self.index, Self.width]](places), self.place)

    @always_inline
    def value(self) -> Scalar[Self.index]:
        """The place of the best element, 0 if there was none."""
        var one, place = first_best[Self.largest](self.best, self.place)
        var other, other_place = first_best[Self.largest](self.rest, self.rest_place)
        return second_first[Self.largest](one, place, other, other_place).select(other_place, place)


@always_inline
def second_first[
    dt: DType, index: DType, w: SIMDLength, //, largest: Bool
](a: SIMD[dt, w], at: SIMD[index, w], b: SIMD[dt, w], bt: SIMD[index, w]) -> SIMD[DType.bool, w]:
    """Whether `b` is better than `a`, or as good and earlier."""
    var same = a.eq(b) | (~a.eq(a) & ~b.eq(b))
    return beats[largest](b, a) | (same & bt.lt(at))


@always_inline
def first_best[
    dt: DType, index: DType, w: SIMDLength, //, largest: Bool
](x: SIMD[dt, w], place: SIMD[index, w]) -> Tuple[Scalar[dt], Scalar[index]]:
    """The best lane and its place."""
    comptime if w == 1:
        return (rebind[Scalar[dt]](x), rebind[Scalar[index]](place))
    else:
        comptime half = Int(w) // 2
        var a = x.slice[half]()
        var b = x.slice[half, offset=half]()
        var at = place.slice[half]()
        var bt = place.slice[half, offset=half]()
        var second = second_first[largest](a, at, b, bt)
        return first_best[largest](second.select(b, a), second.select(bt, at))


struct Extremes[largest: Bool, dt: DType, index: DType, w: SIMDLength](TrivialRegisterPassable):
    """The place of the best element for each lane."""

    var best: SIMD[Self.dt, Self.w]
    var place: SIMD[Self.index, Self.w]

    @always_inline
    def __init__(out self):
        self.best = worst[Self.largest, Self.dt, Self.w]()
        self.place = SIMD[Self.index, Self.w](0)

    @always_inline
    def take(mut self, x: SIMD[Self.dt, Self.w], place: Scalar[Self.index]):
        """Looks at one step."""
        var better = beats[Self.largest](x, self.best)
        self.best = better.select(x, self.best)
        self.place = better.select(SIMD[Self.index, Self.w](place), self.place)

    @always_inline
    def value(self) -> SIMD[Self.index, Self.w]:
        """The places of the best elements, 0 where there was none."""
        return self.place
