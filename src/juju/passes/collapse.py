"""`juju-collapse`: neighbouring loops that every operand walks together become one loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect import affine
from juju.dialect._xdsl import replace_op, uniform_map
from juju.dialect.affine import Linear
from juju.dialect.body import IndexOp, WeaveOp
from juju.dialect.ops import NestOp, const_op
from juju.dialect.types import INDEX, element_of, shape_of
from juju.passes.flatten import rebuild, reshaped
from juju.passes.spaces import position


@dataclass(frozen=True)
class CollapsePass(ModulePass):
    """Merges loops of fused nests, drops loops of one step, and drops axes that are not walked from operands.

    `x + bias` over (batch, time, channel) with a bias over channels becomes a nest over (batch*time, channel).
    """

    name = "juju-collapse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp) and len(n.space) > 1 and 0 not in n.space]:
            _Collapse(nest).run()


class _Collapse:
    def __init__(self, nest: NestOp) -> None:
        self.nest = nest
        whole = [isinstance(arg.type, TensorType) for arg in nest.body.block.args] + [False] * len(nest.outs)
        self.reads: list[tuple[SSAValue, AffineMap, bool]] = [
            (value, m.data, w) for value, m, w in zip((*nest.ins, *nest.outs), nest.maps, whole, strict=True)
        ]
        self.at: list[Linear | None] = []
        for value, amap, is_whole in self.reads:
            place = None if is_whole else position(amap.results, shape_of(value.type), nest.space)
            self.at.append(Linear({}, 0) if is_whole else place and place.at)
        self.pinned = {op.loop for op in nest.body.block.ops if isinstance(op, IndexOp)}
        for (_, amap, _), at in zip(self.reads, self.at, strict=True):
            if at is None:
                self.pinned |= amap.used_dims()
        self.runs = self._runs() or [[0]]
        self.space = tuple(math.prod(nest.space[d] for d in run) for run in self.runs)

    def _runs(self) -> list[list[int]]:
        runs: list[list[int]] = []
        for d in (d for d, extent in enumerate(self.nest.space) if extent != 1):
            if runs and self._together(runs[-1][-1], d):
                runs[-1].append(d)
            else:
                runs.append([d])
        return runs

    def _together(self, outer: int, inner: int) -> bool:
        """Whether two neighbours are walked as one by every operand."""
        if outer in self.pinned or inner in self.pinned or (outer in self.nest.reduced) != (inner in self.nest.reduced):
            return False
        extent = self.nest.space[inner]
        steps = [(at.coefficients.get(outer, 0), at.coefficients.get(inner, 0)) for at in self.at if at is not None]
        return all(a == b * extent for a, b in steps)

    def run(self) -> None:
        nest = self.nest
        views = [self._view(*read, at) for read, at in zip(self.reads, self.at, strict=True)]
        if self.space == nest.space and [amap for _, amap in views] == [m.data for m in nest.maps]:
            return
        places = self._places()
        for op in list(nest.body.block.ops):
            if isinstance(op, IndexOp):
                place = places[op.loop]
                if isinstance(place, AffineDimExpr):
                    op.properties["dim"] = IntegerAttr(place.position, i64)
                else:
                    zero = const_op(0, INDEX)  # type: ignore[arg-type]
                    nest.body.block.insert_op_before(zero, op)
                    replace_op(op, [zero.result])
        count = len(nest.ins)
        ins = [
            (value if whole else reshaped(value, shape, nest), amap)
            for (value, _, whole), (shape, amap) in zip(self.reads[:count], views[:count], strict=True)
        ]
        outs = [
            (TensorType(element_of(r.type), shape), amap)
            for r, (shape, amap) in zip(nest.outs, views[count:], strict=True)
        ]
        for n, (result, value) in enumerate(zip(nest.outs, nest.yielded(), strict=True)):
            if isinstance(value.owner, WeaveOp):
                loops = [AffineExpr.dimension(d) for d in range(len(self.space))]
                shape = (*self.space, len(value.owner.elements))
                amap = AffineMap(len(loops), 0, (*loops, AffineExpr.constant(0)))
                outs[n] = TensorType(element_of(result.type), shape), amap
        reduced = [n for n, run in enumerate(self.runs) if run[0] in nest.reduced and nest.space[run[0]] != 1]
        rebuild(nest, self.space, ins, outs, reduced)

    def _places(self) -> list[AffineExpr]:
        """Where each old loop is among the new ones, if it is a whole one of them."""
        found: list[AffineExpr] = [AffineExpr.constant(0)] * len(self.nest.space)
        for n, run in enumerate(self.runs):
            found[run[-1]] = AffineExpr.dimension(n)
        return found

    def _view(
        self, value: SSAValue, amap: AffineMap, whole: bool, at: Linear | None
    ) -> tuple[tuple[int, ...], AffineMap]:
        """The shape and the map of an operand or a result over the new loops."""
        rank = len(self.space)
        if whole:
            return (), uniform_map(rank)
        if at is not None:
            new = Linear(
                {n: at.coefficients[run[-1]] for n, run in enumerate(self.runs) if run[-1] in at.coefficients},
                at.constant,
            )
            walked = sorted(new.coefficients)
            shape = tuple(self.space[n] for n in walked)
            rows = affine.linear(affine.flat_index([AffineExpr.dimension(n) for n in walked], shape))
            if new == rows and math.prod(shape) == math.prod(shape_of(value.type)):
                return shape, AffineMap(rank, 0, tuple(AffineExpr.dimension(n) for n in walked))
            if any(len(run) > 1 and run[-1] in at.coefficients for run in self.runs):
                return (math.prod(shape_of(value.type)),), AffineMap(rank, 0, (new.expression(),))
        exprs = tuple(affine.substitute(e, self._places(), self.space) for e in amap.results)
        return shape_of(value.type), AffineMap(rank, 0, exprs)
