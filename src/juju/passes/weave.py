"""`juju-weave`: an innermost loop of two to four steps is unrolled; its results are written side by side.

Vectors then run along the next loop. Points in space, colours and complex pairs have such an axis, and what `stack`
puts side by side is computed once, where a loop would compute every part for every element and choose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect._xdsl import insert_before, new_op, replace_op
from juju.dialect.body import ExtentOp, IndexOp, WeaveOp, weave
from juju.dialect.ops import NestOp, YieldOp, make_nest
from juju.dialect.types import INDEX
from juju.passes.body import Body
from juju.passes.costs import MOST

LANES = 32
"""Fewer points beside the loop would leave lanes empty."""


@dataclass(frozen=True)
class WeavePass(ModulePass):
    """Unrolls short innermost loops of parallel nests."""

    name = "juju-weave"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp) and not n.reduced and len(n.space) > 1]:
            full = all(amap == AffineMap.identity(len(nest.space)) for amap in nest.out_maps())
            if full and 2 <= nest.space[-1] <= MOST and math.prod(nest.space[:-1]) >= LANES:
                _weave(nest)


def _weave(nest: NestOp) -> None:
    steps = nest.space[-1]
    body = Body(nest.space[:-1])
    loops = [AffineExpr.dimension(d) for d in range(len(body.space))]
    parts: list[list[SSAValue]] = []
    for step in range(steps):
        places = [*loops, AffineExpr.constant(step)]
        mapper = body.arguments(nest, places)
        for op in nest.body.block.ops:
            if isinstance(op, YieldOp):
                parts.append([mapper[v] for v in op.values])
            elif isinstance(op, IndexOp) and op.loop == len(loops):
                mapper[op.result] = body.constant(step, INDEX)
            elif isinstance(op, ExtentOp) and op.number <= steps:  # bounds of the unrolled loop decide at compile time
                mapper[op.result] = body.constant(op.number, INDEX)
            else:
                body.copy(op, mapper, places)
    woven = [weave(body.block, list(values)) for values in zip(*parts, strict=True)]
    body.block.add_op(new_op(YieldOp, [woven], location=nest.location))
    amap = AffineMap(len(loops), 0, (*loops, AffineExpr.constant(0)))
    made = make_nest(body.space, body.ins(), [(r.type, amap) for r in nest.outs], body.block, nest.location)
    made.attributes.update(nest.attributes)
    for op in made.body.block.ops:
        if isinstance(op, WeaveOp):
            op.location = nest.location
    insert_before(made, nest)
    replace_op(nest, made.outs)
