"""Index arithmetic in the body of a nest: computed positions, and whether they are within an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, SSAValue

from juju.dialect import body
from juju.dialect.types import ELEMENT_TYPES, INDEX, item_size, kind_of
from juju.rules._registry import add_const
from juju.rules.elementwise import const, scalar

Mask = SSAValue | None
"""A condition; None is true."""


class Places:
    """Builds index arithmetic in a block.

    Numbers that follow from shapes are `extent`s, so that another shape has the same text; strides, dilations, 0 and 1
    are constants of the text.
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    def loop(self, dim: int) -> SSAValue:
        return body.index(self.block, int(dim))

    def const(self, value: int) -> SSAValue:
        return const(self.block, int(value), INDEX)

    def extent(self, value: int) -> SSAValue:
        return self.const(value) if value in (0, 1) else body.extent(self.block, int(value))

    def scalar(self, name: str, *operands: SSAValue) -> SSAValue:
        return scalar(self.block, name, list(operands), operands[0].type)

    def compare(self, name: str, x: SSAValue, y: SSAValue) -> SSAValue:
        return scalar(self.block, name, [x, y], i1)

    def convert(self, x: SSAValue, element: object) -> SSAValue:
        return x if x.type == element else scalar(self.block, "convert", [x], element)

    def select(self, mask: Mask, true: SSAValue, false: SSAValue) -> SSAValue:
        if mask is None:
            return true
        return scalar(self.block, "select", [mask, false, true], true.type)

    def shift(self, x: SSAValue, offset: int) -> SSAValue:
        """`x + offset`."""
        if offset == 0:
            return x
        return self.scalar("add", x, self.extent(offset)) if offset > 0 else self.scalar("sub", x, self.extent(-offset))

    def scaled(self, x: SSAValue, factor: int) -> SSAValue:
        """`x * factor`, for a factor of the text."""
        return x if factor == 1 else self.scalar("mul", x, self.const(factor))

    def plus(self, x: SSAValue | None, y: SSAValue) -> SSAValue:
        return y if x is None else self.scalar("add", x, y)

    def both(self, *masks: Mask) -> Mask:
        """All of the conditions."""
        total: Mask = None
        for mask in masks:
            if mask is not None:
                total = mask if total is None else self.scalar("and", total, mask)
        return total

    def within(self, x: SSAValue, low: int | None, high: int | None) -> Mask:
        """`low <= x < high`; a None needs no check."""
        above = None if low is None else self.compare("ge", x, self.extent(low))
        below = None if high is None else self.compare("lt", x, self.extent(high))
        return self.both(above, below)

    def clamped(self, start: SSAValue, limit: int) -> SSAValue:
        """A start index of any integer dtype as an index from 0 to `limit`."""
        if limit == 0:
            return self.const(0)
        start = self._comparable(start)
        if kind_of(start.type) == "i":
            start = self.scalar("max", start, self._number(0, start.type))
        return self.convert(self.scalar("min", start, self._number(limit, start.type)), INDEX)

    def checked(self, start: SSAValue, limit: int) -> tuple[SSAValue, SSAValue]:
        """A start index as an index, and whether it is between 0 and `limit`."""
        start = self._comparable(start)
        inside = self.compare("le", start, self._number(limit, start.type))
        if kind_of(start.type) == "i":
            above = self.compare("ge", start, self._number(0, start.type))
            inside = self.scalar("and", above, inside)
        return self.convert(start, INDEX), inside

    def _comparable(self, start: SSAValue) -> SSAValue:
        """The same number in a type that holds every limit, and that it fits into: an index may have 32 bits."""
        if item_size(start.type) == 8:
            return start
        wide = kind_of(start.type) == "u" and item_size(start.type) == 4
        return self.convert(start, ELEMENT_TYPES["int64"] if wide else INDEX)

    def _number(self, value: int, element: object) -> SSAValue:
        return self.convert(self.extent(value), element)

    def flat(self, positions: Sequence[SSAValue], shape: Sequence[int]) -> SSAValue:
        """The row-major position of an element, for a shape that belongs to the text (a window)."""
        total: SSAValue | None = None
        stride = 1
        for position, extent in zip(reversed(positions), reversed(shape), strict=True):
            total = self.plus(total, self.scaled(position, stride))
            stride *= extent
        return self.const(0) if total is None else total


def constant(block: Block, value: Any, dtype: str) -> SSAValue:
    """A constant of a dtype, from any number."""
    return add_const(block, number(value, dtype))


def number(value: Any, dtype: str) -> np.generic:
    """A number in a dtype of JAX."""
    return np.asarray(value).astype(jnp.dtype(dtype)).flat[0]


def neutral(kind: str, dtype: str) -> np.generic:
    """What changes nothing when combined by a kind of reduction."""
    if kind in ("add", "or", "xor"):
        return number(0, dtype)
    if kind == "mul":
        return number(1, dtype)
    if kind == "and":
        return number(np.iinfo(dtype).max if dtype.startswith("uint") else dtype == "bool" or -1, dtype)
    if dtype == "bool":
        return np.bool_(kind == "min")
    if jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
        return number(-np.inf if kind == "max" else np.inf, dtype)
    info = np.iinfo(dtype)
    return number(info.min if kind == "max" else info.max, dtype)
