"""What reductions and running totals combine values with, and the values that change nothing."""

from juju_math import exp, log1p, maximum, minimum
from std.utils.numerics import max_or_inf, min_or_neg_inf


trait Combiner:
    """An associative operation."""

    comptime COMPENSATED: Bool
    """Whether a running total carries its rounding error along."""

    @staticmethod
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        """The value that changes nothing."""
        ...

    @staticmethod
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        """Both values in one."""
        ...


struct Sum(Combiner):
    """The sum."""

    comptime COMPENSATED = True

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return SIMD[dt, w](0)

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return a + b


struct Product(Combiner):
    """The product."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return SIMD[dt, w](1)

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return a * b


struct Maximum(Combiner):
    """The larger value, NaN if either is NaN."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return SIMD[dt, w](min_or_neg_inf[dt]())

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return maximum(a, b)


struct Minimum(Combiner):
    """The smaller value, NaN if either is NaN."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return SIMD[dt, w](max_or_inf[dt]())

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return minimum(a, b)


struct And(Combiner):
    """Bits set in both, or both true."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        comptime if dt == DType.bool:
            return rebind[SIMD[dt, w]](SIMD[DType.bool, w](fill=True))
        else:
            return ~SIMD[dt, w](0)

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return a & b


struct Or(Combiner):
    """Bits set in either, or one of them true."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return _nothing[dt, w]()

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return a | b


struct Xor(Combiner):
    """Bits set in one and not in the other."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return _nothing[dt, w]()

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        return a ^ b


struct LogAddExp(Combiner):
    """`log(exp(a) + exp(b))`, without overflow."""

    comptime COMPENSATED = False

    @staticmethod
    @always_inline
    def identity[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
        return SIMD[dt, w](min_or_neg_inf[dt]())

    @staticmethod
    @always_inline
    def combine[dt: DType, w: SIMDLength](a: SIMD[dt, w], b: SIMD[dt, w]) -> SIMD[dt, w]:
        comptime assert dt.is_floating_point(), "logaddexp is of floats"
        var distance = abs(a - b)
        # Infinities of one sign have no distance, and NaN has none from anything.
        return distance.eq(distance).select(maximum(a, b) + log1p(exp(-distance)), a + b)


@always_inline
def _nothing[dt: DType, w: SIMDLength]() -> SIMD[dt, w]:
    comptime if dt == DType.bool:
        return rebind[SIMD[dt, w]](SIMD[DType.bool, w](fill=False))
    else:
        return SIMD[dt, w](0)
