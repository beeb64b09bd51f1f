"""`juju-flatten`: nests whose operands are read in row-major order become nests of rank 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from juju.dialect._xdsl import identity_map, insert_before, new_op, replace_op, uniform_map
from juju.dialect.body import IndexOp
from juju.dialect.ops import NestOp, ReshapeOp, make_nest
from juju.dialect.types import element_of, shape_of
from juju.passes.spaces import point, position


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
    made.attributes.update(nest.attributes)
    insert_before(made, nest)
    values = []
    for old, new in zip(nest.outs, made.outs, strict=True):
        new.name_hint = old.name_hint
        if old.type != new.type:
            insert_before(back := new_op(ReshapeOp, [new], [old.type], location=nest.location), nest)
            new = back.result
        values.append(new)
    replace_op(nest, values)


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
            flat = (identity_map(1), uniform_map(1))
            if not nest.space or (len(nest.space) == 1 and all(m.data in flat for m in nest.maps)):
                continue
            values = zip((*nest.ins, *nest.outs), nest.maps, strict=True)
            if all(not m.data.used_dims() or is_whole(v, m.data, nest) for v, m in values):
                _flatten(nest)


def is_whole(value: SSAValue, amap: AffineMap, nest: NestOp) -> bool:
    """Whether the loops of a nest walk all of an array in order."""
    return position(amap.results, shape_of(value.type), nest.space) == point(nest.space) and bool(nest.space)


def _flatten(nest: NestOp) -> None:
    size = math.prod(nest.space)
    ins = []
    for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
        if isinstance(arg.type, TensorType):
            ins.append((value, uniform_map(1)))
        elif is_whole(value, amap, nest) and shape_of(value.type):
            ins.append((reshaped(value, (size,), nest), identity_map(1)))
        elif all(extent == 1 for extent in shape_of(value.type)):
            ins.append((reshaped(value, (), nest), uniform_map(1)))
        else:
            ins.append((value, AffineMap(1, 0, amap.results)))
    outs = [
        (TensorType(element_of(r.type), [size]), identity_map(1))
        if is_whole(r, m, nest) and shape_of(r.type)
        else (r.type, uniform_map(1))
        for r, m in zip(nest.outs, nest.out_maps(), strict=True)
    ]
    rebuild(nest, (size,), ins, outs)
