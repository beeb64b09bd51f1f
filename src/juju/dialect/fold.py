"""Scalar operations on constants, with NumPy in the very dtype, where NumPy and the machine agree to the bit.

Nothing transcendental is computed, and no subnormal number is read or made: kernels flush those to zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute

from juju.dialect.types import DTYPES, kind_of

Number = Any
"""A NumPy scalar."""


@cache
def numpy_dtype(ty: Attribute) -> np.dtype:
    """The NumPy dtype of an element type."""
    name = DTYPES[ty]
    others = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "index": np.dtype(np.int64)}
    return others.get(name) or np.dtype(name)


def number_of(attr: FloatAttr | IntegerAttr, ty: Attribute) -> Number:
    """The number of a `juju.const`."""
    dtype = numpy_dtype(ty)
    if isinstance(attr, FloatAttr):
        return dtype.type(attr.value.data)
    value = int(attr.value.data)
    return np.bool_(value) if kind_of(ty) == "b" else _wrapped(value, dtype)


def fold(name: str, numbers: Sequence[Number], result: Attribute) -> Number | None:
    """What the operation `name` of the table gives for constants, or None if that is not certain to the bit.

    ```python
    fold("add", [np.float32(1), np.float32(2)], f32)  # 3.0
    fold("exp", [np.float32(1)], f32)                 # None
    ```
    """
    if not all(map(_is_certain, numbers)):
        return None
    compute = _convert if name == "convert" else _FOLDS.get(name)
    if compute is None:
        return None
    dtype = numpy_dtype(result)
    with np.errstate(all="ignore"):
        value = compute(dtype, *numbers)
        made = None if value is None else dtype.type(value)
    return made if made is not None and _is_certain(made) else None


def _is_float(x: Number) -> bool:
    return x.dtype.kind not in "iub"


def _is_certain(x: Number) -> bool:
    """True for all but subnormal numbers, and the smallest normal one, to which some of those round."""
    return not _is_float(x) or not 0 < abs(float(x)) <= float(ml_dtypes.finfo(x.dtype).tiny)


def _wrapped(value: int, dtype: np.dtype) -> Number:
    """A Python integer modulo the range of an integer dtype."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return dtype.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)


def _arithmetic(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Integers wrap; floats round once, the 16-bit ones behind float32, which is the same; bools as NumPy has them."""

    def apply(dtype: np.dtype, *numbers: Number) -> Any:
        if dtype.kind in "iu":
            return _wrapped(compute(*map(int, numbers)), dtype)
        return compute(*numbers)

    return apply


def _div(dtype: np.dtype, x: Number, y: Number) -> Any:
    if _is_float(x):
        return np.true_divide(x, y)
    quotient = _quotient(int(x), int(y))
    return None if quotient is None else _wrapped(quotient, dtype)


def _rem(dtype: np.dtype, x: Number, y: Number) -> Any:
    quotient = None if _is_float(x) else _quotient(int(x), int(y))
    return None if quotient is None else _wrapped(int(x) - quotient * int(y), dtype)


def _quotient(x: int, y: int) -> int | None:
    """Truncated; division by zero is left to the kernel."""
    return None if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _sign(dtype: np.dtype, x: Number) -> Any:
    return x if _is_float(x) and (x == 0 or np.isnan(x)) else np.sign(x)


def _larger(dtype: np.dtype, x: Number, y: Number) -> Any:
    return None if x == y == 0 and _is_float(x) else np.maximum(x, y)


def _smaller(dtype: np.dtype, x: Number, y: Number) -> Any:
    return None if x == y == 0 and _is_float(x) else np.minimum(x, y)


def _clamp(dtype: np.dtype, low: Number, x: Number, high: Number) -> Any:
    raised = _larger(dtype, low, x)
    return None if raised is None else _smaller(dtype, raised, high)


def _select(dtype: np.dtype, which: Number, *cases: Number) -> Any:
    return cases[min(max(int(which), 0), len(cases) - 1)]


def _shift(compute: Callable[[int, int, int], int]) -> Callable[..., Any]:
    def apply(dtype: np.dtype, x: Number, y: Number) -> Any:
        bits = 8 * dtype.itemsize
        return _wrapped(compute(int(x), int(y), bits), dtype) if 0 <= int(y) < bits else None

    return apply


def _convert(dtype: np.dtype, x: Number) -> Any:
    if dtype.kind == "b":
        return x != 0
    if x.dtype.kind == "b":
        return dtype.type(1 if x else 0)
    if dtype.kind in "iu":
        if not _is_float(x):
            return _wrapped(int(x), dtype)
        info = np.iinfo(dtype)
        whole = math.trunc(float(x)) if np.isfinite(x) else None
        return dtype.type(whole) if whole is not None and info.min <= whole <= info.max else None
    made = x.astype(dtype)
    if _is_float(x):  # on the way to a 16-bit float others may round twice
        return made if dtype.itemsize >= 4 or np.isnan(x) or made == x else None
    return made if np.isfinite(made) and int(made) == int(x) else None


def _compare(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda dtype, x, y: bool(compute(x, y))


_FOLDS: dict[str, Callable[..., Any]] = {
    "add": _arithmetic(operator.add),
    "add_any": _arithmetic(operator.add),
    "sub": _arithmetic(operator.sub),
    "mul": _arithmetic(operator.mul),
    "div": _div,
    "rem": _rem,
    "neg": _arithmetic(operator.neg),
    "abs": _arithmetic(abs),
    "sign": _sign,
    "square": _arithmetic(lambda x: x * x),
    "max": _larger,
    "min": _smaller,
    "clamp": _clamp,
    "floor": lambda dtype, x: np.floor(x),
    "ceil": lambda dtype, x: np.ceil(x),
    "round_half_even": lambda dtype, x: np.rint(x),
    "sqrt": lambda dtype, x: np.sqrt(x),
    "is_finite": lambda dtype, x: np.isfinite(x),
    "eq": _compare(operator.eq),
    "ne": _compare(operator.ne),
    "lt": _compare(operator.lt),
    "le": _compare(operator.le),
    "gt": _compare(operator.gt),
    "ge": _compare(operator.ge),
    "select": _select,
    "and": lambda dtype, x, y: x & y,
    "or": lambda dtype, x, y: x | y,
    "xor": lambda dtype, x, y: x ^ y,
    "not": lambda dtype, x: ~x,
    "shift_left": _shift(lambda x, y, bits: x << y),
    "shift_right_logical": _shift(lambda x, y, bits: x % (1 << bits) >> y),
    "shift_right_arithmetic": _shift(lambda x, y, bits: (x - (x >> (bits - 1) << bits if x > 0 else 0)) >> y),
}
