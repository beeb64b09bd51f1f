"""What happens to an element that is written."""

from juju_kernel import narrow, widen
from juju_math import maximum, minimum


@always_inline
def combined[dt: DType, w: SIMDLength, //, combine: StaticString](old: SIMD[dt, w], update: SIMD[dt, w]) -> SIMD[dt, w]:
    """The element after an update; 16-bit floats are rounded after each."""
    comptime if combine == "set":
        return update
    elif dt == DType.float16 or dt == DType.bfloat16:
        return narrow[dt](_combined[combine](widen(old), widen(update)))
    else:
        return _combined[combine](old, update)


@always_inline
def _combined[
    dt: DType, w: SIMDLength, //, combine: StaticString
](old: SIMD[dt, w], update: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if combine == "add":
        return old + update
    elif combine == "sub":
        return old - update
    elif combine == "mul":
        return old * update
    elif combine == "min":
        return minimum(old, update)
    else:
        comptime assert (
            combine == "max"
        ), "updates are set, added, subtracted, multiplied, or the least or greatest kept"
        return maximum(old, update)
