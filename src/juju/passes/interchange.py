"""`juju-interchange`: reduction loops move outwards where vectors along a parallel loop are the better ones.

A nest whose innermost loop is reduced is computed row by row, in vectors along the row. That is right where the row is
contiguous and long. Pairwise distances read nothing along both loops, and windows overlap along the parallel one: there
many rows are computed at once, one in each lane, and nothing has to be added across lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass

from juju.dialect import affine
from juju.dialect.body import CumulateOp, IndexOp, ReadOp
from juju.dialect.ops import NestOp
from juju.dialect.types import shape_of
from juju.passes.flatten import rebuild
from juju.passes.spaces import position

LANES = 32
"""Fewer parallel points would leave lanes empty."""


@dataclass(frozen=True)
class InterchangePass(ModulePass):
    """Puts the reduction loops of a nest before its parallel ones, which are then the innermost."""

    name = "juju-interchange"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp) and n.reduced]:
            if len(nest.space) - 1 in nest.reduced and _pays(nest):
                _interchange(nest)


def _pays(nest: NestOp) -> bool:
    """Whether what a nest reads along its last reduction loop and a parallel one is contiguous along the latter."""
    parallel = [d for d in range(len(nest.space)) if d not in nest.reduced]
    if not parallel or nest.space[parallel[-1]] < LANES:
        return False
    if any(amap.used_dims() & set(nest.reduced) for amap in nest.out_maps()):
        return False
    if any(isinstance(op, CumulateOp) for op in nest.body.block.ops):
        return False
    inner = len(nest.space) - 1
    for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
        if isinstance(arg.type, TensorType):
            continue
        place = position(amap.results, shape_of(value.type), nest.space)
        if place is None:
            return False
        steps = place.at.coefficients
        if inner in steps and any(d in steps for d in parallel) and steps.get(parallel[-1]) != 1:
            return False
    return all(_reads_along(op, nest, parallel[-1]) for op in nest.body.block.ops if isinstance(op, ReadOp))


def _reads_along(op: ReadOp, nest: NestOp, loop: int) -> bool:
    """Whether a computed read moves along a parallel loop in its last index, and in no other."""
    loops = nest.loops_of_values()
    inner = len(nest.space) - 1
    if not any(inner in loops[i] for i in op.indices):
        return True
    return loop in loops[op.indices[-1]] and not any(loop in loops[i] for i in op.indices[:-1])


def _interchange(nest: NestOp) -> None:
    order = [*nest.reduced, *(d for d in range(len(nest.space)) if d not in nest.reduced)]
    space = tuple(nest.space[d] for d in order)
    places = [AffineExpr.dimension(order.index(d)) for d in range(len(order))]
    ins = [(v, affine.compose(m, places, space)) for v, m in zip(nest.ins, nest.in_maps(), strict=True)]
    outs = [(r.type, affine.compose(m, places, space)) for r, m in zip(nest.outs, nest.out_maps(), strict=True)]
    for op in nest.body.block.ops:
        if isinstance(op, IndexOp):
            op.properties["dim"] = IntegerAttr(order.index(op.loop), i64)
    rebuild(nest, space, ins, outs, range(len(nest.reduced)))
