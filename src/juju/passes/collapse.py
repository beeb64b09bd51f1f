"""`juju-collapse`: neighbouring loops that every operand walks together become one loop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect.ops import NestOp
from juju.dialect.types import element_of
from juju.passes.flatten import loops_of, rebuild, reshaped


@dataclass(frozen=True)
class CollapsePass(ModulePass):
    """Merges loops of fused nests, drops loops of one step, and drops axes that are not walked from operands.

    `x + bias` over (batch, time, channel) with a bias over channels becomes a nest over (batch*time, channel).
    """

    name = "juju-collapse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp) and len(n.space) > 1]:
            loops = [loops_of(m.data, nest.space) for m in nest.maps]
            if None not in loops:
                _collapse(nest, [found for found in loops if found is not None])


def _collapse(nest: NestOp, loops: list[tuple[int, ...]]) -> None:
    long = [d for d, extent in enumerate(nest.space) if extent != 1]
    runs: list[list[int]] = []
    for d in long:
        before = runs[-1][-1] if runs else None
        if before is not None and all((before in used) == (d in used) for used in loops):
            runs[-1].append(d)
        else:
            runs.append([d])
    space = tuple(math.prod(nest.space[d] for d in run) for run in runs) or (1,)
    runs = runs or [[0]]

    def new_map(used: tuple[int, ...]) -> AffineMap:
        places = [n for n, run in enumerate(runs) if run[0] in used]
        return AffineMap(len(space), 0, tuple(AffineExpr.dimension(n) for n in places))

    maps = [new_map(used) for used in loops]
    if space == nest.space and maps == [m.data for m in nest.maps]:
        return
    shapes = [tuple(space[expr.position] for expr in amap.results) for amap in maps]  # type: ignore[attr-defined]
    count = len(nest.ins)
    ins = [(reshaped(v, shape, nest), m) for v, shape, m in zip(nest.ins, shapes[:count], maps[:count], strict=True)]
    outs = [
        (TensorType(element_of(r.type), shape), m)
        for r, shape, m in zip(nest.outs, shapes[count:], maps[count:], strict=True)
    ]
    rebuild(nest, space, ins, outs)
