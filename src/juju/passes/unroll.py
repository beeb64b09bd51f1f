"""`juju-unroll`: a reduction of a few elements becomes a chain of scalar operations, without loops."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect import affine
from juju.dialect._xdsl import insert_before, new_op, replace_op
from juju.dialect.body import CumulateOp, ExtentOp, IndexOp, ReduceOp, extent, index
from juju.dialect.ops import SCALARS, NestOp, ReshapeOp, ScalarOp, YieldOp, const_op, make_nest
from juju.dialect.types import INDEX, is_half, kind_of
from juju.passes.flatten import root_of
from juju.passes.fuse import CHEAP

MOST = 8
"""Reductions of more elements keep their loops."""


@dataclass(frozen=True)
class UnrollPass(ModulePass):
    """Unrolls the reduction loops of nests that take at most `most` steps.

    The squared distance of two points in space is then a scalar expression that fuses like any other.
    """

    name = "juju-unroll"
    most: int = MOST

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp) and n.reduced]:
            steps = math.prod(nest.space[d] for d in nest.reduced)
            cumulates = any(isinstance(o, CumulateOp) for o in nest.body.block.ops)
            if 0 < steps <= self.most and not cumulates and (steps == 1 or not any(map(_is_shared, nest.ins))):
                _Unroll(nest).run()


def _is_shared(value: SSAValue) -> bool:
    """Whether others read a value too that costs much: then loops along it keep them in one nest."""
    root = root_of(value)
    return len(_readers(root)) > 1 and _work(root) > CHEAP


def _readers(root: SSAValue) -> list[Operation]:
    found: list[Operation] = []
    for use in root.uses:
        op = use.operation
        found += _readers(op.result) if isinstance(op, ReshapeOp) else [op]
    return found


def _work(root: SSAValue) -> float:
    """What an element costs that is computed anew, up to a little more than `CHEAP`."""
    nest = root.owner
    if not isinstance(nest, NestOp) or nest.reduced:
        return 0
    total = sum(op.ROW.cost for op in nest.body.block.ops if isinstance(op, ScalarOp))
    for value in nest.ins:
        total = total if total > CHEAP else total + _work(root_of(value))
    return total


class _Unroll:
    """The nest over the parallel loops alone; `block` is its body."""

    def __init__(self, nest: NestOp) -> None:
        self.nest = nest
        self.block = Block()
        self.kept = [d for d in range(len(nest.space)) if d not in nest.reduced]
        self.space = tuple(nest.space[d] for d in self.kept)
        self.ins: list[tuple[SSAValue, AffineMap]] = []
        self.args: dict[tuple[SSAValue, AffineMap, Attribute], SSAValue] = {}

    def run(self) -> None:
        nest = self.nest
        steps = list(itertools.product(*(range(nest.space[d]) for d in nest.reduced)))
        copies = [self._arguments(step) for step in steps]
        for op in nest.body.block.ops:
            if isinstance(op, YieldOp):
                self.block.add_op(new_op(YieldOp, [[copies[0][v] for v in op.values]], location=op.location))
            elif isinstance(op, ReduceOp):
                totals = self._reduced(op, [[copy[v] for v in op.operands] for copy in copies])
                for copy in copies:
                    copy.update(zip(op.results, totals, strict=True))
            else:
                for step, copy in zip(steps, copies, strict=True):
                    self._copy(op, step, copy)
        rank = len(self.space)
        outs = [(r.type, AffineMap(rank, 0, tuple(map(AffineExpr.dimension, range(rank))))) for r in nest.outs]
        for new in self.block.ops:
            new.location = nest.location
        made = make_nest(self.space, self.ins, outs, self.block, nest.location)
        insert_before(made, nest)
        replace_op(nest, made.outs)

    def _arguments(self, step: tuple[int, ...]) -> dict[SSAValue, SSAValue]:
        nest = self.nest
        places: list[AffineExpr] = [AffineExpr.constant(0)] * len(nest.space)
        for n, d in enumerate(self.kept):
            places[d] = AffineExpr.dimension(n)
        for at, d in zip(step, nest.reduced, strict=True):
            places[d] = AffineExpr.constant(at)
        found: dict[SSAValue, SSAValue] = {}
        for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
            key = (value, affine.compose(amap, places, self.space), arg.type)
            if key not in self.args:
                self.ins.append(key[:2])
                self.args[key] = self.block.insert_arg(arg.type, len(self.block.args))
                self.args[key].name_hint = arg.name_hint
            found[arg] = self.args[key]
        return found

    def _copy(self, op, step: tuple[int, ...], copy: dict[SSAValue, SSAValue]) -> None:
        if isinstance(op, IndexOp):
            if op.loop in self.nest.reduced:
                copy[op.result] = self._number(step[self.nest.reduced.index(op.loop)], INDEX)
            else:
                copy[op.result] = index(self.block, self.kept.index(op.loop))
        elif isinstance(op, ExtentOp):
            copy[op.result] = extent(self.block, op.number)
        else:
            new = op.clone(copy)
            self.block.add_op(new)
            copy.update(zip(op.results, new.results, strict=True))

    # Reductions -------------------------------------------------------------------------------------------------------

    def _reduced(self, op: ReduceOp, operands: list[list[SSAValue]]) -> list[SSAValue]:
        kind = op.kind.data
        if kind == "general":
            return self._general(op, operands)
        values = [row[0] for row in operands]
        if kind in ("argmax", "argmin"):
            return [self._place(kind, values, op.results[0].type)]
        half = is_half(values[0].type) and kind in ("add", "mul")
        if half and len(values) > 1:  # summed in float32, rounded once
            values = [self._op("convert", [v], f32) for v in values]
        total = values[0]
        for value in values[1:]:
            total = self._op(kind, [total, value], total.type)
        return [self._op("convert", [total], op.results[0].type) if half and len(values) > 1 else total]

    def _place(self, kind: str, values: list[SSAValue], result: Attribute) -> SSAValue:
        """The first extreme, or the first NaN."""
        best, place = values[0], self._number(0, result)
        for n, value in enumerate(values[1:], 1):
            better = self._op("gt" if kind == "argmax" else "lt", [value, best], i1)
            if kind_of(value.type) == "f":
                nan = self._op("ne", [value, value], i1)
                sound = self._op("eq", [best, best], i1)
                better = self._op("or", [better, self._op("and", [nan, sound], i1)], i1)
            best = self._select(better, best, value)
            place = self._select(better, place, self._number(n, result))
        return place

    def _general(self, op: ReduceOp, operands: list[list[SSAValue]]) -> list[SSAValue]:
        count = len(op.results)
        totals = operands[0][:count]
        assert op.combine is not None
        for row in operands:
            inner = dict(zip(op.combine.block.args, [*totals, *row[count:]], strict=True))
            for step in op.combine.block.ops:
                if isinstance(step, YieldOp):
                    totals = [inner[v] for v in step.values]
                else:
                    new = step.clone(inner)
                    self.block.add_op(new)
                    inner.update(zip(step.results, new.results, strict=True))
        return totals

    def _op(self, name: str, operands: list[SSAValue], result: Attribute) -> SSAValue:
        self.block.add_op(op := new_op(SCALARS[name], operands, [result]))
        return op.results[0]

    def _select(self, which: SSAValue, no: SSAValue, yes: SSAValue) -> SSAValue:
        self.block.add_op(op := new_op(SCALARS["select"], [which, [no, yes]], [no.type]))
        return op.results[0]

    def _number(self, value: int, ty: Attribute) -> SSAValue:
        self.block.add_op(op := const_op(np.int64(value), ty))
        return op.result
