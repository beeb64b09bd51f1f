"""`juju-settle`: reads at indices that turn out to be affine become maps, which merge loops and load vectors."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect import affine
from juju.dialect._xdsl import insert_before, replace_op
from juju.dialect.body import ExtentOp, IndexOp, ReadOp
from juju.dialect.ops import ConstOp, NestOp, ScalarOp, make_nest
from juju.dialect.types import element_of, shape_of
from juju.passes.simplify import drop_operands


@dataclass(frozen=True)
class SettlePass(ModulePass):
    """Rewrites `juju.read` without a mask, at sums of loops and constants, to an operand of the nest with a map."""

    name = "juju-settle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp)]:
            _settle(nest)


def _settle(nest: NestOp) -> None:
    block = nest.body.block
    ins = list(zip(nest.ins, nest.in_maps(), strict=True))
    known = {key: arg for key, arg in zip(ins, block.args, strict=True) if not isinstance(arg.type, TensorType)}
    reads = [op for op in block.ops if isinstance(op, ReadOp) and op.mask is None]
    changed = False
    for op in reads:
        assert isinstance(op.array, BlockArgument)
        exprs = [_affine(i) for i in op.indices]
        array = nest.ins[op.array.index]
        places = [e for e in exprs if e is not None]
        if len(places) < len(exprs) or not _inside(places, shape_of(array.type), nest.space):
            continue
        key = (array, AffineMap(len(nest.space), 0, tuple(places)))
        if key not in known:
            ins.append(key)
            known[key] = block.insert_arg(element_of(array.type), len(block.args))
            known[key].name_hint = op.array.name_hint
        replace_op(op, [known[key]])
        changed = True
    if not changed:
        return
    outs = [(r.type, amap) for r, amap in zip(nest.outs, nest.out_maps(), strict=True)]
    made = make_nest(nest.space, ins, outs, nest.body.detach_block(0), nest.location, nest.reduced)
    made.attributes.update(nest.attributes)
    insert_before(made, nest)
    replace_op(nest, made.outs)
    for op in reversed(list(made.body.block.ops)):
        if isinstance(op, (IndexOp, ExtentOp, ConstOp, ScalarOp)) and not any(r.uses for r in op.results):
            made.body.block.erase_op(op)
    drop_operands(made)


def _affine(value: SSAValue) -> AffineExpr | None:
    """An index as an expression of the loops, if it is a sum of them."""
    op = value.owner
    if isinstance(op, IndexOp):
        return AffineExpr.dimension(op.loop)
    if isinstance(op, ExtentOp):
        return AffineExpr.constant(op.number)
    if isinstance(op, ConstOp):
        return AffineExpr.constant(int(op.value.value.data))
    if not isinstance(op, ScalarOp) or op.ROW.name not in ("add", "sub", "mul"):
        return None
    left, right = (_affine(v) for v in op.operands)
    if left is None or right is None:
        return None
    total = left + right if op.ROW.name == "add" else left - right if op.ROW.name == "sub" else left * right
    flat = affine.linear(total)
    return None if flat is None else flat.expression()


def _inside(places: list[AffineExpr], shape: tuple[int, ...], space: tuple[int, ...]) -> bool:
    """Whether a read stays in its array at every point, also where nobody asked for it."""
    limits = [(affine.bounds(e, space), extent) for e, extent in zip(places, shape, strict=True)]
    return 0 not in space and all(low >= 0 and high < extent for (low, high), extent in limits)
