"""`juju-fuse`: nests over one space become one nest; rank-0 nests are computed where they are read.

Groups are decided first, in program order, and every fused nest is built once, so the pass is linear. A nest joins
the last group of its space if everything it reads is made in that group, in an earlier group, or is of rank 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from juju.dialect._xdsl import identity_map, insert_before, new_op, uniform_map
from juju.dialect.ops import CustomOp, NestOp, ReshapeOp, YieldOp, make_nest
from juju.dialect.types import element_of, shape_of
from juju.passes.flatten import root_of


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Fuses nests of rank 1 and 0 that `juju-flatten` left. `max_ops` bounds the body of one nest."""

    name = "juju-fuse"
    max_ops: int = 20000

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            _Fusion(function.body.block, self.max_ops).run()


@dataclass(eq=False)
class _Group:
    """Nests over one space, and the fused body they become."""

    space: tuple[int, ...]
    index: int
    members: list[NestOp] = field(default_factory=list)
    size: int = 0
    block: Block = field(default_factory=Block)
    env: dict[SSAValue, SSAValue] = field(default_factory=dict)
    ins: list[tuple[SSAValue, AffineMap]] = field(default_factory=list)
    outs: list[SSAValue] = field(default_factory=list)
    scalars: list[SSAValue] = field(default_factory=list)


class _Fusion:
    def __init__(self, block: Block, max_ops: int) -> None:
        self.block = block
        self.max_ops = max_ops
        self.items: list[_Group | Operation] = []
        self.item_of: dict[SSAValue, int] = {}  # roots that are made by an item, and its index
        self.scalar_nests: dict[SSAValue, NestOp] = {}
        self.fused: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        ops = list(self.block.ops)
        nests = [op for op in ops if isinstance(op, NestOp)]
        if not nests or any(len(n.space) > 1 for n in nests):
            return
        for op in ops:
            if isinstance(op, NestOp):
                if op.space:
                    self._assign(op)
                else:
                    self.scalar_nests.update((r, op) for r in op.outs)
            elif isinstance(op, CustomOp):
                self._place_scalars(op, len(self.items))
                self.items.append(op)
                self.item_of.update((r, len(self.items) - 1) for r in op.outs)
            elif isinstance(op, ReturnOp):
                self._place_scalars(op, len(self.items))
        self._build(ops)

    # Which group ----------------------------------------------------------------------------------------------------

    def _assign(self, nest: NestOp) -> None:
        earliest = max((self._made_at(v) for v in nest.ins), default=0)
        size = len(nest.body.block.ops)
        for item in reversed(self.items[earliest:]):
            if isinstance(item, _Group) and item.space == nest.space and item.size + size <= self.max_ops:
                group = item
                break
        else:
            group = self._new_group(nest.space)
        group.members.append(nest)
        group.size += size
        self.item_of.update((r, group.index) for r in nest.outs)

    def _made_at(self, value: SSAValue) -> int:
        """Index of the first item that may read `value`."""
        root = root_of(value)
        if root in self.scalar_nests:
            return max((self._made_at(v) for v in self.scalar_nests[root].ins), default=0)
        index = self.item_of.get(root, 0)
        return (
            index + 1
            if index < len(self.items) and not isinstance(self.items[index], _Group) and root in self.item_of
            else index
        )

    def _new_group(self, space: tuple[int, ...]) -> _Group:
        group = _Group(space, len(self.items))
        self.items.append(group)
        return group

    def _place_scalars(self, reader: Operation, before: int) -> None:
        """Gives every rank-0 value that `reader` needs in memory a group that writes it."""
        for value in reader.operands:
            root = root_of(value)
            if root not in self.scalar_nests or root in self.item_of:
                continue
            earliest = self._made_at(root)
            groups = [g for g in self.items[earliest:before] if isinstance(g, _Group)]
            group = groups[0] if groups else self._new_group(())
            group.scalars.append(root)
            self.item_of[root] = group.index

    # The fused nests ------------------------------------------------------------------------------------------------

    def _build(self, ops: list[Operation]) -> None:
        last = ops[-1]
        for item in self.items:
            if isinstance(item, _Group):
                self._fill(item)
                made = self._make(item)
                insert_before(made, last)
            else:
                operands = [self._final(v, last) for v in item.operands]
                item.operands = operands
                item.detach()
                insert_before(item, last)
        last.operands = [self._final(v, last) for v in last.operands]
        for op in reversed(ops[:-1]):
            if isinstance(op, (NestOp, ReshapeOp)):
                Rewriter.erase_op(op)

    def _fill(self, group: _Group) -> None:
        for nest in group.members:
            self._inline(group, nest)
        for scalar in group.scalars:
            self._scalar(group, scalar)
        group.outs = [r for nest in group.members for r in nest.outs if self._leaves(r, group)]

    def _inline(self, group: _Group, nest: NestOp) -> None:
        body = nest.body.block
        mapper: dict[SSAValue, SSAValue] = {}
        for arg, value, amap in zip(body.args, nest.ins, nest.in_maps(), strict=True):
            mapper[arg] = self._read(group, value, amap)
        for op in body.ops:
            if isinstance(op, YieldOp):
                group.env.update((r, mapper[v]) for r, v in zip(nest.outs, op.values, strict=True))
            else:
                copy = op.clone(mapper)
                copy.location = op.location
                group.block.add_op(copy)
                mapper.update(zip(op.results, copy.results, strict=True))

    def _read(self, group: _Group, value: SSAValue, amap: AffineMap) -> SSAValue:
        root = root_of(value)
        if root in group.env:
            return group.env[root]
        if root in self.scalar_nests:
            return self._scalar(group, root)
        pointwise = bool(amap.results) and bool(shape_of(root.type))
        source = self._flat(root, value, pointwise)
        entry = (source, identity_map(1) if pointwise else uniform_map(len(group.space)))
        if entry not in group.ins:
            group.ins.append(entry)
            arg = group.block.insert_arg(element_of(source.type), len(group.block.args))
            arg.name_hint = root.name_hint
            group.env[root] = arg
        return group.block.args[group.ins.index(entry)]

    def _flat(self, root: SSAValue, value: SSAValue, pointwise: bool) -> SSAValue:
        """`root` in memory, as rank-1 or rank-0 tensor."""
        source = self.fused.get(root, root)
        want = value.type if pointwise or not shape_of(value.type) else None
        if want is None or source.type == want:
            return source
        anchor = self.block.last_op
        assert anchor is not None
        insert_before(reshape := new_op(ReshapeOp, [source], [want]), anchor)
        return reshape.result

    def _scalar(self, group: _Group, root: SSAValue) -> SSAValue:
        if root not in group.env:
            self._inline(group, self.scalar_nests[root])
        return group.env[root]

    def _leaves(self, result: SSAValue, group: _Group) -> bool:
        """True if something outside the group reads a result, directly or through reshapes."""
        for use in result.uses:
            user = use.operation
            if isinstance(user, ReshapeOp):
                if self._leaves(user.result, group):
                    return True
            elif user not in group.members:
                return True
        return False

    def _make(self, group: _Group) -> NestOp:
        rank = len(group.space)
        outs = [(r.type, identity_map(1)) for r in group.outs] + [(r.type, uniform_map(rank)) for r in group.scalars]
        results = [*group.outs, *group.scalars]
        yielded = new_op(YieldOp, [[group.env[r] for r in results]])
        group.block.add_op(yielded)
        origin = group.members[-1] if group.members else self.scalar_nests[group.scalars[-1]]
        nest = make_nest(group.space, group.ins, outs, group.block, origin.location)
        for old, new in zip(results, nest.outs, strict=True):
            new.name_hint = old.name_hint
            self.fused[old] = new
        return nest

    def _final(self, value: SSAValue, anchor: Operation) -> SSAValue:
        root = root_of(value)
        source = self.fused.get(root, root)
        if source.type == value.type:
            return source
        insert_before(reshape := new_op(ReshapeOp, [source], [value.type]), anchor)
        return reshape.result
