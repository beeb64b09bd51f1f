"""`juju-unroll`: a reduction of a few elements becomes a chain of scalar operations, without loops."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass

from juju.dialect._xdsl import identity_map, insert_before, new_op, replace_op
from juju.dialect.body import ARGUMENTS, CumulateOp, ReduceOp
from juju.dialect.ops import NestOp, ReshapeOp, ScalarOp, YieldOp, make_nest
from juju.dialect.types import is_half, kind_of
from juju.passes.body import Body
from juju.passes.costs import CHEAP
from juju.passes.flatten import root_of

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
            if any(isinstance(o, CumulateOp) for o in nest.body.block.ops):
                continue
            if steps == 1 or (0 < steps <= self.most and _is_inner(nest) and not any(map(_is_shared, nest.ins))):
                _Unroll(nest).run()


def _is_inner(nest: NestOp) -> bool:
    """Whether a nest reduces along its innermost loop; loops along others are as fast."""
    return max(d for d, extent in enumerate(nest.space) if extent != 1) in nest.reduced


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


class _Unroll(Body):
    """The nest over the parallel loops alone."""

    def __init__(self, nest: NestOp) -> None:
        self.nest = nest
        self.kept = [d for d in range(len(nest.space)) if d not in nest.reduced]
        super().__init__([nest.space[d] for d in self.kept])

    def run(self) -> None:
        nest = self.nest
        steps = [self._places(step) for step in itertools.product(*(range(nest.space[d]) for d in nest.reduced))]
        copies = [self.arguments(nest, places) for places in steps]
        for op in nest.body.block.ops:
            if isinstance(op, YieldOp):
                self.block.add_op(new_op(YieldOp, [[copies[0][v] for v in op.values]], location=op.location))
            elif isinstance(op, ReduceOp):
                totals = self._reduced(op, [[copy[v] for v in op.operands] for copy in copies])
                for copy in copies:
                    copy.update(zip(op.results, totals, strict=True))
            else:
                for places, copy in zip(steps, copies, strict=True):
                    self.copy(op, copy, places)
        outs = [(r.type, identity_map(len(self.space))) for r in nest.outs]
        for new in self.block.ops:
            new.location = nest.location
        made = make_nest(self.space, self.ins(), outs, self.block, nest.location)
        insert_before(made, nest)
        replace_op(nest, made.outs)

    def _places(self, step: tuple[int, ...]) -> list[AffineExpr]:
        places: list[AffineExpr] = [AffineExpr.constant(0)] * len(self.nest.space)
        for n, d in enumerate(self.kept):
            places[d] = AffineExpr.dimension(n)
        for at, d in zip(step, self.nest.reduced, strict=True):
            places[d] = AffineExpr.constant(at)
        return places

    # Reductions -------------------------------------------------------------------------------------------------------

    def _reduced(self, op: ReduceOp, operands: list[list[SSAValue]]) -> list[SSAValue]:
        kind = op.kind.data
        if kind == "general":
            return self._general(op, operands)
        values = [row[0] for row in operands]
        if kind in ARGUMENTS:
            return [self._place(kind, values, op.results[0].type)]
        half = is_half(values[0].type) and kind in ("add", "mul") and len(values) > 1
        if half:  # in float32, rounded once
            values = [self.scalar("convert", [v], f32) for v in values]
        total = values[0]
        for value in values[1:]:
            total = self.scalar(kind, [total, value])
        if kind == "add" and len(values) > 1 and kind_of(total.type) == "f":  # JAX begins with 0: no sum is -0
            total = self.scalar(kind, [total, self.zero(total.type)])
        return [self.scalar("convert", [total], op.results[0].type) if half else total]

    def _place(self, kind: str, values: list[SSAValue], result: Attribute) -> SSAValue:
        best, place = values[0], self.constant(0, result)
        for n, value in enumerate(values[1:], 1):
            better = self.precedes(kind, value, best)
            best = self.select(better, best, value)
            place = self.select(better, place, self.constant(n, result))
        return place

    def _general(self, op: ReduceOp, operands: list[list[SSAValue]]) -> list[SSAValue]:
        count = len(op.results)
        totals = operands[0][:count]
        assert op.combine is not None
        for row in operands:
            inner: dict[SSAValue, SSAValue] = dict(zip(op.combine.block.args, [*totals, *row[count:]], strict=True))
            for step in op.combine.block.ops:
                if isinstance(step, YieldOp):
                    totals = [inner[v] for v in step.values]
                else:
                    self.clone(step, inner)
        return totals
