"""`juju-outline-kernels`: independent nests in a row become one `juju.kernel`, one launch."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from juju.dialect._xdsl import insert_before, new_op
from juju.dialect.library import LibraryOp
from juju.dialect.ops import CustomOp, KernelOp, NestOp, ReshapeOp, YieldOp
from juju.passes.flatten import root_of


@dataclass(frozen=True)
class OutlineKernelsPass(ModulePass):
    """Wraps nests into kernels; a nest that reads another's result starts the next kernel."""

    name = "juju-outline-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            batches: list[list[NestOp]] = []
            made: set[SSAValue] = set()
            fresh = True
            for item in function.body.block.ops:
                if isinstance(item, NestOp):
                    if fresh or any(root_of(v) in made for v in item.ins):
                        batches.append([])
                        made, fresh = set(), False
                    batches[-1].append(item)
                    made.update(item.outs)
                elif isinstance(item, (CustomOp, LibraryOp)):
                    fresh = True
            for n, batch in enumerate(batches):
                suffix = f"_{n}" if len(batches) > 1 else ""
                _outline(batch, f"{function.sym_name.data}{suffix}")


def _outline(nests: list[NestOp], name: str) -> None:
    ins = list(dict.fromkeys(v for nest in nests for v in nest.ins))
    results = [r for nest in nests for r in nest.outs]
    block = Block(arg_types=[v.type for v in ins])
    for arg, value in zip(block.args, ins, strict=True):
        arg.name_hint = value.name_hint
    inside = dict(zip(ins, block.args, strict=True))
    anchor = nests[-1]
    kernel = new_op(
        KernelOp,
        [ins],
        [[r.type for r in results]],
        {"sym_name": StringAttr(name)},
        [Region(block)],
        anchor.location,
    )
    insert_before(kernel, anchor)
    for result, new in zip(results, kernel.outs, strict=True):
        new.name_hint = result.name_hint
        result.replace_all_uses_with(new)
    views = [use.operation for r in kernel.outs for use in r.uses if isinstance(use.operation, ReshapeOp)]
    for view in views:  # some stood between the nests
        view.detach()
        insert_before(view, anchor)
    for nest in nests:
        nest.detach()
        nest.operands = [inside[v] for v in nest.operands]
        block.add_op(nest)
    block.add_op(new_op(YieldOp, [results]))
