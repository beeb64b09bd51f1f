"""`juju-flatten`: nests whose operands are read in row-major order become nests of rank 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect._xdsl import identity_map, insert_before, new_op, replace_op, uniform_map
from juju.dialect.body import IndexOp
from juju.dialect.ops import NestOp, ReshapeOp, make_nest
from juju.dialect.types import element_of, shape_of


def root_of(value: SSAValue) -> SSAValue:
    """The value behind a chain of reshapes: the same memory."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    return value


def reshaped(value: SSAValue, shape: tuple[int, ...], nest: NestOp) -> SSAValue:
    """`value` under another shape, by a reshape before `nest` where it needs one."""
    want = TensorType(element_of(value.type), shape)
    root = root_of(value)
    if root.type == want:
        return root
    insert_before(reshape := new_op(ReshapeOp, [root], [want], location=nest.location), nest)
    return reshape.result


def rebuild(
    nest: NestOp,
    space: tuple[int, ...],
    ins: Sequence[tuple[SSAValue, AffineMap]],
    outs: Sequence[tuple[Attribute, AffineMap]],
    reduced: Sequence[int] = (),
) -> None:
    """Puts a nest of the same body over other loops in the place of `nest`; its readers see the shapes they saw."""
    made = make_nest(space, ins, outs, nest.body.detach_block(0), nest.location, reduced)
    insert_before(made, nest)
    values = []
    for old, new in zip(nest.outs, made.outs, strict=True):
        new.name_hint = old.name_hint
        if old.type != new.type:
            insert_before(back := new_op(ReshapeOp, [new], [old.type], location=nest.location), nest)
            new = back.result
        values.append(new)
    replace_op(nest, values)


def loops_of(amap: AffineMap, space: tuple[int, ...]) -> tuple[int, ...] | None:
    """The loops longer than 1 that an operand is read by, if it is read by them in order, else None."""
    used = []
    for expr in amap.results:
        if isinstance(expr, AffineDimExpr):
            used.append(expr.position)
        elif expr.used_dims():
            return None
    long = tuple(d for d in used if space[d] != 1)
    return long if long == tuple(sorted(set(long))) else None


@dataclass(frozen=True)
class FlattenPass(ModulePass):
    """Rewrites nests over (a, b, ...) that read every operand at every point, or at none, to nests over (a*b*...).

    After it, the text of such a kernel no longer depends on the shape, only a run-time size does.
    """

    name = "juju-flatten"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp)]:
            if nest.reduced or any(isinstance(inner, IndexOp) for inner in nest.body.block.ops):
                continue
            long = tuple(d for d, extent in enumerate(nest.space) if extent != 1)
            flat = (identity_map(1), uniform_map(1))
            if not nest.space or (len(nest.space) == 1 and all(m.data in flat for m in nest.maps)):
                continue
            if all(loops_of(m.data, nest.space) in (long, ()) for m in nest.maps):
                _flatten(nest, long)


def _flatten(nest: NestOp, long: tuple[int, ...]) -> None:
    size = math.prod(nest.space)

    def is_whole(value: SSAValue, amap: AffineMap) -> bool:
        return bool(shape_of(value.type)) and loops_of(amap, nest.space) == long

    ins = []
    for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
        if isinstance(arg.type, TensorType):
            ins.append((value, uniform_map(1)))
            continue
        whole = is_whole(value, amap)
        ins.append((reshaped(value, (size,) if whole else (), nest), identity_map(1) if whole else uniform_map(1)))
    outs = [
        (TensorType(element_of(r.type), [size]), identity_map(1)) if is_whole(r, m) else (r.type, uniform_map(1))
        for r, m in zip(nest.outs, nest.out_maps(), strict=True)
    ]
    rebuild(nest, (size,), ins, outs)
