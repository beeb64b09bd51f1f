"""The body of a new nest while it is written: arguments, numbers, indices and scalar operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import LocationAttr, TensorType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from juju.dialect import affine
from juju.dialect._xdsl import UNKNOWN, uniform_map
from juju.dialect.body import IndexOp, extent, index
from juju.dialect.ops import NestOp, const_op, scalar_op
from juju.dialect.types import INDEX, element_of, kind_of


class Input(NamedTuple):
    """An array a body reads under a shape, at a map; `map` is None if the body computes the indices."""

    array: SSAValue
    shape: tuple[int, ...]
    map: AffineMap | None


class Body:
    """A body over `space` to which operations are added at the end."""

    def __init__(self, space: Sequence[int]) -> None:
        self.space = tuple(space)
        self.block = Block()
        self.inputs: list[Input] = []
        self._args: dict[Input, SSAValue] = {}
        self._indices: dict[AffineExpr, SSAValue] = {}

    def argument(self, array: SSAValue, amap: AffineMap | None, shape: Sequence[int]) -> SSAValue:
        """The element of an array at a map, or, without a map, the whole array."""
        key = Input(array, tuple(shape), amap)
        if key not in self._args:
            self.inputs.append(key)
            whole = TensorType(element_of(array.type), shape)
            arg = self.block.insert_arg(whole if amap is None else whole.element_type, len(self.block.args))
            arg.name_hint = array.name_hint
            self._args[key] = arg
        return self._args[key]

    def ins(self) -> list[tuple[SSAValue, AffineMap]]:
        """Arrays and maps for `make_nest`, where every array is read under its own shape."""
        return [(i.array, i.map or uniform_map(len(self.space))) for i in self.inputs]

    def arguments(self, nest: NestOp, places: Sequence[AffineExpr]) -> dict[SSAValue, SSAValue]:
        """The arguments of another nest whose loops run at `places`, here."""
        found = {}
        for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
            whole = isinstance(arg.type, TensorType)
            there = None if whole else affine.compose(amap, places, self.space)
            found[arg] = self.argument(value, there, value.type.get_shape())  # type: ignore[attr-defined]
            found[arg].name_hint = arg.name_hint
        return found

    def copy(self, op: Operation, mapper: dict[SSAValue, SSAValue], places: Sequence[AffineExpr]) -> None:
        """Adds an operation of a nest whose loops run at `places`; `mapper` learns its results."""
        if isinstance(op, IndexOp):
            mapper[op.result] = self.expression(places[op.loop])
        else:
            self.clone(op, mapper)

    def clone(self, op: Operation, mapper: dict[SSAValue, SSAValue]) -> None:
        new = op.clone(mapper)
        new.location = op.location
        self.block.add_op(new)
        mapper.update(zip(op.results, new.results, strict=True))

    def locate(self, location: LocationAttr) -> None:
        """Gives a line to the operations that have none yet."""
        for op in self.block.ops:
            if op.location == UNKNOWN:
                op.location = location

    # Values -----------------------------------------------------------------------------------------------------------

    def scalar(self, name: str, operands: Sequence[SSAValue], result: Attribute | None = None) -> SSAValue:
        """The result of an operation of the table, by default of its operands' type."""
        self.block.add_op(op := scalar_op(name, operands, result or operands[0].type))
        return op.results[0]

    def select(self, which: SSAValue, no: SSAValue, yes: SSAValue) -> SSAValue:
        self.block.add_op(op := scalar_op("select", [which, no, yes], no.type))
        return op.results[0]

    def constant(self, value: int, element: Attribute) -> SSAValue:
        self.block.add_op(op := const_op(np.int64(value), element))
        return op.result

    def zero(self, element: Attribute) -> SSAValue:
        self.block.add_op(op := const_op(np.float64(0), element))
        return op.result

    def number(self, value: int) -> SSAValue:
        """An index that follows from shapes; 0 and 1 are part of the text."""
        if value not in (0, 1, -1):
            return extent(self.block, value)
        return self.constant(value, INDEX)

    def expression(self, expr: AffineExpr) -> SSAValue:
        """An affine expression of the loops, as operations."""
        if expr not in self._indices:
            self._indices[expr] = self._expression(expr)
        return self._indices[expr]

    def _expression(self, expr: AffineExpr) -> SSAValue:
        if isinstance(expr, AffineConstantExpr):
            return self.number(expr.value)
        if isinstance(expr, AffineDimExpr):
            return index(self.block, expr.position)
        return self.binary(expr, self.expression(expr.lhs), self.expression(expr.rhs))  # type: ignore[attr-defined]

    def binary(self, expr: AffineExpr, left: SSAValue, right: SSAValue) -> SSAValue:
        """The operation on top of an affine expression."""
        names = {affine.ADD: "add", affine.MUL: "mul", affine.DIV: "div", affine.MOD: "rem"}
        return self.scalar(names[expr.kind], [left, right])  # type: ignore[attr-defined]

    def precedes(self, kind: str, value: SSAValue, best: SSAValue) -> SSAValue:
        """Whether a later value takes the place of the best, by `argmax` or `argmin`: the first NaN beats all."""
        found = self.scalar("gt" if kind == "argmax" else "lt", [value, best], i1)
        if kind_of(value.type) != "f":
            return found
        nan = self.scalar("ne", [value, value], i1)
        sound = self.scalar("eq", [best, best], i1)
        return self.scalar("or", [found, self.scalar("and", [nan, sound], i1)], i1)
