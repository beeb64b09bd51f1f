"""Where the elements of a nest's arrays lie: offsets of affine maps and of computed indices, as Mojo text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from juju.dialect import affine
from juju.dialect.body import ExtentOp, IndexOp, ReadOp
from juju.dialect.ops import ConstOp, NestOp, ScalarOp
from juju.dialect.types import shape_of
from juju.mojo import spelling
from juju.mojo.text import VECTORS, NestText

NARROW = 1 << 31
"""Indices are int32 in a nest whose arrays all have fewer elements than this."""


SMALL_STEP = 4
"""Steps of the innermost loop up to this are spelled in the text, for loads of all elements and shuffles."""


@dataclass
class Place:
    """The offset of an element: `strides[d]` times loop d, plus `start`, plus what divides, axis by axis."""

    strides: dict[int, int] = field(default_factory=dict)
    start: int = 0
    natural: dict[int, str] = field(default_factory=dict)
    """Strides that are products of extents of loops, as text."""
    divided: list[tuple[AffineExpr, int, str]] = field(default_factory=list)
    """Expressions that divide, with the stride of their axis and its text if that is known."""


class Access:
    """Offsets in the arrays of one nest. Strides that the loops' extents do not tell come in as argument words."""

    def __init__(self, nest: NestOp, text: NestText, taken: set[str]) -> None:
        self.nest = nest
        self.text = text
        self.taken = taken
        self.words: dict[tuple[str, int], str] = {}
        self.space = nest.space
        self.last = len(self.space) - 1
        self.outer = [d for d in range(self.last + 1) if d not in nest.reduced and d != self.last]
        arrays = [shape_of(v.type) for v in (*nest.ins, *nest.outs)]
        self.wide = any(math.prod(shape) >= NARROW for shape in (*arrays, self.space))
        self.loop_hook: Callable[[int], None] = lambda _: None

    # Words and loops ------------------------------------------------------------------------------------------------

    def word(self, value: int, base: str) -> str:
        """The name of a number that follows from shapes; the same for the same use."""
        if (base, value) not in self.words:
            self.words[base, value] = spelling.variable(base, self.taken)
            self.text.words.append((self.words[base, value], value))
        return self.words[base, value]

    def loop(self, d: int) -> str:
        """The step of a loop, as an Int."""
        if d in self.outer:
            self.loop_hook(d)
        return self.loop_name(d)

    def loop_name(self, d: int) -> str:
        """The name of a loop's step: `row` is that of the only loop around the innermost one."""
        if d == self.last:
            return "i"
        return "row" if [d] == self.outer else f"d{d}"

    # Maps -----------------------------------------------------------------------------------------------------------

    def place(self, amap: AffineMap, shape: Sequence[int]) -> Place:
        """The offset of an operand's element."""
        found = Place()
        stride, known = 1, ""
        products: dict[int, str] = {}
        for expr, extent in zip(reversed(amap.results), reversed(shape), strict=True):
            flat = affine.linear(expr)
            if flat is None:
                found.divided.append((expr, stride, known))
            else:
                found.start += flat.constant * stride
                for d, c in flat.coefficients.items():
                    products[d] = known if c == 1 and d not in found.strides else "?"
                    found.strides[d] = found.strides.get(d, 0) + c * stride
            whole = isinstance(expr, AffineDimExpr) and self.space[expr.position] == extent
            if whole and known != "?":
                d = expr.position  # type: ignore[union-attr]
                known = f"n{d} * {known}" if known else f"n{d}"
            elif extent != 1:
                known = "?"
            stride *= extent
        found.natural = {d: text for d, text in products.items() if text != "?"}
        found.strides = {d: c for d, c in found.strides.items() if c}
        return found

    def factor(self, place: Place, d: int, pointer: str) -> str:
        """The stride of a loop: empty for 1."""
        stride = place.strides[d]
        if stride == 1 and d in (self.last, *place.natural):
            return ""
        if place.natural.get(d):
            return place.natural[d]
        place.natural[d] = self.word(stride, f"step{d}_{pointer}")
        return place.natural[d]

    def terms(self, place: Place, loops: Sequence[int], pointer: str) -> str:
        """The part of an offset that follows from some loops."""
        terms = []
        rest = [d for d in loops if d in place.strides]
        if self._is_one_row(place, rest):
            factor = self.factor(place, rest[-1], pointer)
            terms.append(f"row * {factor}" if factor else "row")
            rest = []
        for d in rest:
            factor = self.factor(place, d, pointer)
            terms.append(f"{self.loop(d)} * {factor}" if factor else self.loop(d))
        return " + ".join(terms)

    def _is_one_row(self, place: Place, loops: list[int]) -> bool:
        """Whether these loops are all those around a row, and rows lie one after the other."""
        if loops != self.outer or len(loops) < 2:
            return False
        pairs = pairwise(loops)
        return all(place.strides[a] == place.strides[b] * self.space[b] for a, b in pairs)

    def scalar(self, expr: AffineExpr, pointer: str) -> str:
        """An expression of loops as an Int."""
        if isinstance(expr, AffineConstantExpr):
            return str(expr.value)
        if isinstance(expr, AffineDimExpr):
            return self.loop(expr.position)
        assert isinstance(expr, AffineBinaryOpExpr)
        left = self.scalar(expr.lhs, pointer)
        if expr.kind in (affine.DIV, affine.MOD):
            right = self._constant(expr.rhs, pointer)
            return f"({left} {'//' if expr.kind is affine.DIV else '%'} {right})"
        right = self.scalar(expr.rhs, pointer) if expr.kind is affine.ADD else self._constant(expr.rhs, pointer)
        return f"({left} {'+' if expr.kind is affine.ADD else '*'} {right})"

    def vector(self, expr: AffineExpr, pointer: str, number: Callable[[str], str]) -> str:
        """An expression of loops for a vector of points; `number` splats an Int."""
        if self.last not in expr.used_dims():
            return number(self.scalar(expr, pointer))
        if isinstance(expr, AffineDimExpr):
            self.text.helpers.add("indices")
            return f"indices[{self.index}, w](i)"
        assert isinstance(expr, AffineBinaryOpExpr)
        left = self.vector(expr.lhs, pointer, number)
        if expr.kind in (affine.DIV, affine.MOD):
            function = "divide" if expr.kind is affine.DIV else "modulo"
            self.text.helpers.add(function)
            return f"{function}({left}, {self._constant(expr.rhs, pointer)})"
        if expr.kind is affine.ADD:
            return f"({left} + {self.vector(expr.rhs, pointer, number)})"
        return f"{left} * {number(self._constant(expr.rhs, pointer))}"

    def _constant(self, expr: AffineExpr, pointer: str) -> str:
        assert isinstance(expr, AffineConstantExpr)
        return str(expr.value) if expr.value in (-1, 0, 1) else self.word(expr.value, f"by_{pointer}")

    @property
    def index(self) -> str:
        """The dtype of indices."""
        return "DType.int64" if self.wide else "DType.int32"

    # Computed indices -------------------------------------------------------------------------------------------------

    def slope(self, value: SSAValue, levels: dict[SSAValue, int]) -> int | None:
        """By how much an index grows from one innermost step to the next, or None if it is not a known number."""
        if levels[value] not in VECTORS:
            return 0
        op = value.owner
        if isinstance(op, IndexOp):
            return 1
        if not isinstance(op, ScalarOp) or not isinstance(value.type, IndexType) or isinstance(value, BlockArgument):
            return None
        name = op.ROW.name
        if name in ("add", "sub"):
            slopes = [self.slope(v, levels) for v in op.operands]
            if None in slopes:
                return None
            return slopes[0] + slopes[1] if name == "add" else slopes[0] - slopes[1]  # type: ignore[operator]
        if name == "neg":
            slope = self.slope(op.operands[0], levels)
            return None if slope is None else -slope
        if name == "mul":
            for v, factor in ((op.operands[0], op.operands[1]), (op.operands[1], op.operands[0])):
                if isinstance(factor.owner, ConstOp) and (slope := self.slope(v, levels)) is not None:
                    assert isinstance(factor.owner.value, IntegerAttr)
                    return slope * factor.owner.value.value.data
        return None

    def read_slope(self, op: ReadOp, levels: dict[SSAValue, int]) -> int | None:
        """0, 1 or -1: how the place of a computed read moves with the innermost loop; None for any other way."""
        slopes = [self.slope(v, levels) for v in op.indices]
        if all(s == 0 for s in slopes):
            return 0
        if any(s != 0 for s in slopes[:-1]) or slopes[-1] not in (1, -1):
            return None
        return slopes[-1]

    def leaves(self, value: SSAValue, levels: dict[SSAValue, int]) -> list[SSAValue]:
        """What the first place of a linear index is computed from."""
        if levels[value] not in VECTORS:
            return [value]
        op = value.owner
        if isinstance(op, IndexOp):
            return []
        assert isinstance(op, Operation)
        return [leaf for v in op.operands for leaf in self.leaves(v, levels)]


def is_number(value: SSAValue) -> bool:
    """Whether a value is spelled where it stands."""
    return isinstance(value.owner, (ConstOp, ExtentOp))
