"""`juju-flatten`: nests whose operands are read in row-major order become nests of rank 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from juju.dialect._xdsl import identity_map, insert_before, new_op, replace_op, uniform_map
from juju.dialect.ops import NestOp, ReshapeOp, make_nest
from juju.dialect.types import element_of, shape_of


def root_of(value: SSAValue) -> SSAValue:
    """The value behind a chain of reshapes: the same memory."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    return value


@dataclass(frozen=True)
class FlattenPass(ModulePass):
    """Rewrites nests with identity and scalar maps over (a, b, ...) to nests over (a*b*...).

    After it, the text of such a kernel no longer depends on the shape, only a run-time size does.
    """

    name = "juju-flatten"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp)]:
            if len(nest.space) > 1 and _is_pointwise(nest):
                _flatten(nest)


def _is_pointwise(nest: NestOp) -> bool:
    rank = len(nest.space)
    return all(m.data in (identity_map(rank), uniform_map(rank)) for m in nest.maps)


def _flatten(nest: NestOp) -> None:
    size = math.prod(nest.space)
    ins = []
    for value, amap in zip(nest.ins, nest.in_maps(), strict=True):
        if amap.results:
            flat = TensorType(element_of(value.type), [size])
            root = root_of(value)
            if root.type != flat:
                insert_before(reshape := new_op(ReshapeOp, [root], [flat], location=nest.location), nest)
                root = reshape.result
            ins.append((root, identity_map(1)))
        else:
            ins.append((value, uniform_map(1)))
    outs = [
        (TensorType(element_of(r.type), [size]), identity_map(1)) if shape_of(r.type) else (r.type, uniform_map(1))
        for r in nest.outs
    ]
    made = make_nest([size], ins, outs, nest.body.detach_block(0), nest.location)
    insert_before(made, nest)
    values = []
    for old, new in zip(nest.outs, made.outs, strict=True):
        new.name_hint = old.name_hint
        if old.type != new.type:
            insert_before(back := new_op(ReshapeOp, [new], [old.type], location=nest.location), nest)
            new = back.result
        values.append(new)
    replace_op(nest, values)
