"""`juju-fuse`: nests over one space become one nest; rank-0 nests are computed where they are read.

Groups are decided first, in program order, and every fused nest is built once, so the pass is linear. A nest of rank 1
reads and writes memory in order, whatever the shape was (`juju-flatten` made it so), and may join any group of as many
points; a nest of higher rank joins groups of its own space. Neither may make two groups wait for each other.

A nest that stretches a value computed over fewer points does not wait for it in memory if computing it again is cheap,
or if it is the same along the innermost loop, where it is computed once for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from juju.dialect._xdsl import identity_map, insert_before, new_op, uniform_map
from juju.dialect.ops import CustomOp, NestOp, ReshapeOp, ScalarOp, YieldOp, make_nest
from juju.dialect.types import element_of, shape_of
from juju.passes.flatten import loops_of, root_of

CHEAP = 8
"""Work, in the table's units, that is computed again at every point rather than stored and read."""


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Fuses the nests of each function. `max_ops` bounds the body of one nest."""

    name = "juju-fuse"
    max_ops: int = 20000

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            _Fusion(function.body.block, self.max_ops).run()


@dataclass(eq=False)
class _Item:
    """Something that runs as a whole; `needs` are the items whose results it reads."""

    needs: set[_Item] = field(default_factory=set)

    def waits_for(self, other: _Item) -> bool:
        """Whether `other` must be done before this one, directly or not."""
        seen: set[_Item] = set()
        stack: list[_Item] = [self]
        while stack:
            item = stack.pop()
            if item is other:
                return True
            if item not in seen:
                seen.add(item)
                stack += item.needs
        return False


class _Call(_Item):
    """A custom call."""

    def __init__(self, op: CustomOp, needs: set[_Item]) -> None:
        super().__init__(needs)
        self.op = op


@dataclass(eq=False)
class _Group(_Item):
    """Nests over one space, and the fused body they become."""

    space: tuple[int, ...] = ()
    members: list[NestOp] = field(default_factory=list)
    size: int = 0
    block: Block = field(default_factory=Block)
    env: dict[SSAValue, SSAValue] = field(default_factory=dict)
    ins: list[tuple[SSAValue, AffineMap]] = field(default_factory=list)
    keys: list[tuple[SSAValue, AffineMap]] = field(default_factory=list)
    outs: list[SSAValue] = field(default_factory=list)
    scalars: list[SSAValue] = field(default_factory=list)
    stretched: dict[tuple[SSAValue, AffineMap], SSAValue] = field(default_factory=dict)

    def takes(self, nest: NestOp) -> bool:
        """Whether a nest runs over the points of this group, in the same order."""
        if self.space == nest.space:
            return True
        one_is_flat = len(self.space) == 1 or len(nest.space) == 1
        return bool(self.space) and one_is_flat and math.prod(self.space) == math.prod(nest.space)


class _Fusion:
    def __init__(self, block: Block, max_ops: int) -> None:
        self.block = block
        self.max_ops = max_ops
        self.items: list[_Group | _Call] = []
        self.maker: dict[SSAValue, _Group | _Call] = {}
        self.scalar_nests: dict[SSAValue, NestOp] = {}
        self.flat_nests: dict[SSAValue, NestOp] = {}
        self.fused: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        ops = list(self.block.ops)
        if not any(isinstance(op, NestOp) for op in ops):
            return
        for op in ops:
            if isinstance(op, NestOp):
                if op.space:
                    self._assign(op)
                else:
                    self.scalar_nests.update((r, op) for r in op.outs)
            elif isinstance(op, CustomOp):
                self._place_scalars(op)
                call = _Call(op, {self.maker[root_of(v)] for v in op.ins if root_of(v) in self.maker})
                self.items.append(call)
                self.maker.update((r, call) for r in op.outs)
            elif isinstance(op, ReturnOp):
                self._place_scalars(op)
        self._build(ops)

    # Which group ------------------------------------------------------------------------------------------------------

    def _makers(self, values: Iterable[SSAValue]) -> set[_Item]:
        """The items whose results these values are, or are computed from by rank-0 nests."""
        found: set[_Item] = set()
        for value in values:
            root = root_of(value)
            if root in self.scalar_nests:
                found |= self._makers(self.scalar_nests[root].ins)
            elif root in self.maker:
                found.add(self.maker[root])
        return found

    def _needs(self, nest: NestOp) -> set[_Item]:
        """The items that must be done before a nest, besides the group it joins."""
        found: set[_Item] = set()
        for value, amap in zip(nest.ins, nest.in_maps(), strict=True):
            found |= self._sources(value) if self._recomputes(nest, value, amap) else self._makers([value])
        return found

    def _sources(self, value: SSAValue) -> set[_Item]:
        """The items that a value which is computed again is computed from."""
        producer = self.flat_nests.get(root_of(value))
        if producer is None:
            return self._makers([value])
        return {item for v in producer.ins for item in self._sources(v)}

    def _recomputes(self, nest: NestOp, value: SSAValue, amap: AffineMap) -> bool:
        """Whether a nest that stretches a value computes it again instead of reading it from memory."""
        used = loops_of(amap, nest.space)
        long = [d for d, extent in enumerate(nest.space) if extent != 1]
        if used is None or used == tuple(long) or root_of(value) not in self.flat_nests:
            return False
        return long[-1] not in used or self._work(value) <= CHEAP

    def _work(self, value: SSAValue) -> float:
        producer = self.flat_nests.get(root_of(value))
        if producer is None:
            return 0
        own = sum(op.ROW.cost for op in producer.body.block.ops if isinstance(op, ScalarOp))
        return own + sum(map(self._work, producer.ins))

    def _assign(self, nest: NestOp) -> None:
        needs = self._needs(nest)
        size = len(nest.body.block.ops)
        for item in reversed(self.items):
            if not isinstance(item, _Group) or not item.takes(nest) or item.size + size > self.max_ops:
                continue
            if not any(other is not item and other.waits_for(item) for other in needs):
                group = item
                break
        else:
            group = self._new_group(nest.space)
        if len(nest.space) > len(group.space):
            group.space = nest.space
        group.members.append(nest)
        group.size += size
        group.needs |= needs - {group}
        self.maker.update((r, group) for r in nest.outs)
        if len(nest.space) == 1:
            self.flat_nests.update((r, nest) for r in nest.outs)

    def _new_group(self, space: tuple[int, ...]) -> _Group:
        group = _Group(space=space)
        self.items.append(group)
        return group

    def _place_scalars(self, reader: Operation) -> None:
        """Gives every rank-0 value that `reader` needs in memory a group that writes it."""
        for value in reader.operands:
            root = root_of(value)
            if root not in self.scalar_nests or root in self.maker:
                continue
            needs = self._makers([root])
            groups = [g for g in self.items if isinstance(g, _Group) and not any(n.waits_for(g) for n in needs)]
            group = groups[0] if groups else self._new_group(())
            group.scalars.append(root)
            group.needs |= needs
            self.maker[root] = group

    # The fused nests --------------------------------------------------------------------------------------------------

    def _build(self, ops: list[Operation]) -> None:
        last = ops[-1]
        for item in self._ordered():
            if isinstance(item, _Group):
                self._fill(item)
                if item.outs or item.scalars:  # else whoever reads its results computes them again
                    insert_before(self._make(item), last)
            elif isinstance(item, _Call):
                item.op.operands = [self._final(v, last) for v in item.op.operands]
                item.op.detach()
                insert_before(item.op, last)
        last.operands = [self._final(v, last) for v in last.operands]
        for op in reversed(ops[:-1]):
            if isinstance(op, (NestOp, ReshapeOp)):
                Rewriter.erase_op(op)

    def _ordered(self) -> list[_Item]:
        """Items after everything they need, else in program order."""
        order: dict[_Item, None] = {}

        def place(item: _Item) -> None:
            if item not in order:
                for other in self.items:
                    if other in item.needs:
                        place(other)
                order[item] = None

        for item in self.items:
            place(item)
        return list(order)

    def _fill(self, group: _Group) -> None:
        for nest in group.members:
            self._inline(group, nest)
        for scalar in group.scalars:
            self._scalar(group, scalar)
        group.outs = [r for nest in group.members for r in nest.outs if self._leaves(r, group)]

    def _inline(self, group: _Group, nest: NestOp) -> None:
        operands = []
        for value, amap in zip(nest.ins, nest.in_maps(), strict=True):
            if self._recomputes(nest, value, amap):
                operands.append(self._stretch(group, value, shape_of(value.type), amap))
            else:
                operands.append(self._read(group, value, amap))
        group.env.update(zip(nest.outs, _copy_body(nest, group.block, operands), strict=True))

    def _stretch(self, group: _Group, value: SSAValue, shape: tuple[int, ...], amap: AffineMap) -> SSAValue:
        """A value over fewer points, computed where it is read; `shape` and `amap` are how the reader sees it."""
        root = root_of(value)
        if root in self.scalar_nests:
            return self._scalar(group, root)
        producer = self.flat_nests.get(root)
        if producer is None:
            return self._load(group, value, shape, amap)
        if (root, amap) not in group.stretched:
            operands = []
            for v, m in zip(producer.ins, producer.in_maps(), strict=True):
                operands.append(self._stretch(group, v, shape, amap) if m.results else self._read(group, v, m))
            results = _copy_body(producer, group.block, operands)
            group.stretched.update(((r, amap), v) for r, v in zip(producer.outs, results, strict=True))
        return group.stretched[root, amap]

    def _read(self, group: _Group, value: SSAValue, amap: AffineMap) -> SSAValue:
        root = root_of(value)
        if root in group.env:  # made at this very point
            return group.env[root]
        if root in self.scalar_nests:
            return self._scalar(group, root)
        rank = len(group.space)
        if not amap.results:
            return self._load(group, value, (), uniform_map(rank))
        if amap == identity_map(amap.num_dims):
            return self._load(group, value, group.space, identity_map(rank))
        return self._load(group, value, shape_of(value.type), amap)

    def _load(self, group: _Group, value: SSAValue, shape: tuple[int, ...], amap: AffineMap) -> SSAValue:
        """An argument of the group's body: an array in memory, read under a shape by a map."""
        root = root_of(value)
        if (root, amap) not in group.keys:
            group.keys.append((root, amap))
            group.ins.append((self._in_memory(root, shape), amap))
            arg = group.block.insert_arg(element_of(value.type), len(group.block.args))
            arg.name_hint = root.name_hint
        return group.block.args[group.keys.index((root, amap))]

    def _in_memory(self, root: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        source = self.fused.get(root, root)
        want = TensorType(element_of(source.type), shape)
        if source.type == want:
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
            elif user not in group.members and not self._is_recomputed(result, user):
                return True
        return False

    def _is_recomputed(self, result: SSAValue, user: Operation) -> bool:
        """Whether a nest computes all it reads of a result again."""
        if not isinstance(user, NestOp):
            return False
        reads = zip(user.ins, user.in_maps(), strict=True)
        return all(self._recomputes(user, v, m) for v, m in reads if root_of(v) is root_of(result))

    def _make(self, group: _Group) -> NestOp:
        rank = len(group.space)
        outs = [(TensorType(element_of(r.type), group.space), identity_map(rank)) for r in group.outs]
        outs += [(r.type, uniform_map(rank)) for r in group.scalars]  # type: ignore[list-item]
        results = [*group.outs, *group.scalars]
        group.block.add_op(new_op(YieldOp, [[group.env[r] for r in results]]))
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


def _copy_body(nest: NestOp, block: Block, operands: list[SSAValue]) -> list[SSAValue]:
    """Copies the operations of a nest to the end of a block; returns what it yields."""
    body = nest.body.block
    mapper: dict[SSAValue, SSAValue] = dict(zip(body.args, operands, strict=True))
    for op in body.ops:
        if isinstance(op, YieldOp):
            return [mapper[v] for v in op.values]
        copy = op.clone(mapper)
        copy.location = op.location
        block.add_op(copy)
        mapper.update(zip(op.results, copy.results, strict=True))
    raise AssertionError("the body of a nest ends in juju.yield")
