"""`juju-fuse`: nests over the same points become one nest; values are computed where they are read if that is cheaper.

Groups are decided in program order. A nest joins the last group that walks the same points in the same order, whatever
the shapes (see `spaces.refine`), if all it reads of that group is known at the very point: the value made there, or the
result of a reduction over the row the point lies in. A nest over the rows of a group that reduces may join it too. No
two groups may wait for each other.

What is read at another point (transposed, shifted, stretched, at computed indices) is pulled: computed again there, if
that costs less than writing and reading it, else it waits in memory. Results of reductions are never computed again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from juju.dialect import affine
from juju.dialect._xdsl import insert_before, location_of, new_op, uniform_map
from juju.dialect.body import ARGUMENTS, CumulateOp, ReadOp, ReduceOp
from juju.dialect.library import LibraryOp
from juju.dialect.ops import CustomOp, NestOp, ReshapeOp, YieldOp, make_nest
from juju.dialect.types import element_of, shape_of
from juju.passes.costs import Costs
from juju.passes.flatten import root_of
from juju.passes.inline import BodyBuilder, known_places, known_reshape, read_places
from juju.passes.spaces import Place, loops_in, point, position, refine, same_along_rows

FEW_ROWS, LONG_ROWS = 16, 1 << 15
"""Fewer rows than this, each of more points than that: the reduction is cut in parts, and what follows it waits."""


FROM_CALL = "a hand-written kernel makes it"
TOTAL = "it is complete only after a whole pass, and is read at other points than those it is made at"
CUT = "it is a total of few long rows, which several cores compute in parts"
LOOPS = "it is made in loops over other points"
AGAIN = "it is read at other points, and computing it again would cost {work:.0f} operations {reads:.1f} times"
"""Why a value waits in memory between two kernels."""


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Fuses the nests of each function. `max_ops` bounds the body of one nest."""

    name = "juju-fuse"
    max_ops: int = 20000

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.walk() if isinstance(f, FuncOp)]:
            _Fusion(function.body.block, self.max_ops).run()


def is_cut(space: Sequence[int], reduced: Iterable[int]) -> bool:
    """Whether a reduction runs in parts, because its rows alone would not keep several cores busy."""
    along = math.prod(space[d] for d in reduced)
    return bool(list(reduced)) and along > LONG_ROWS and math.prod(space) // max(along, 1) < FEW_ROWS


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


_Needs = dict[_Item, dict[SSAValue, str]]
"""Items that must be done before, and the values they are waited for, with the reason."""


class _Call(_Item):
    """A custom call, or one of a hand-written kernel."""

    def __init__(self, op: CustomOp | LibraryOp, needs: set[_Item]) -> None:
        super().__init__(needs)
        self.op = op


@dataclass(frozen=True)
class _Walk:
    """How a group walks: its loops, and those it reduces along."""

    space: tuple[int, ...]
    reduced: frozenset[int] = frozenset()

    @property
    def rows(self) -> list[int]:
        return [d for d in range(len(self.space)) if d not in self.reduced]

    @property
    def cut(self) -> bool:
        return is_cut(self.space, self.reduced)

    def places(self, nest: NestOp, row: bool) -> tuple[AffineExpr, ...] | None:
        """Where the loops of a nest over all points, or over the rows, run."""
        if not row:
            return refine(nest.space, self.space)
        found = refine(nest.space, [self.space[d] for d in self.rows])
        loops = [AffineExpr.dimension(d) for d in self.rows]
        return None if found is None else tuple(affine.substitute(e, loops, self.space) for e in found)


@dataclass(eq=False)
class _Group(_Item):
    """Nests over one space, and the rank-0 values written beside them."""

    walk: _Walk = field(default_factory=lambda: _Walk(()))
    members: dict[NestOp, bool] = field(default_factory=dict)
    """Each member, and whether it runs over the rows only."""
    size: int = 0
    scalars: list[SSAValue] = field(default_factory=list)
    waits: dict[SSAValue, str] = field(default_factory=dict)
    """Values read from memory that others make, and why."""

    def made_at(self, root: SSAValue, walk: _Walk) -> Place | None:
        """The position of a member's result in its array, at a point of the walk."""
        nest = root.owner
        if not isinstance(nest, NestOp) or nest not in self.members:
            return None
        in_rows = self.members[nest] or bool(nest.reduced and not _is_full(nest, root))
        return point(walk.space, walk.rows if in_rows else None)


class _Fusion:
    def __init__(self, block: Block, max_ops: int) -> None:
        self.block = block
        self.max_ops = max_ops
        self.items: list[_Group | _Call] = []
        self.maker: dict[SSAValue, _Group | _Call] = {}
        self.scalar_nests: dict[SSAValue, NestOp] = {}
        self.costs = Costs([op for op in block.ops if isinstance(op, NestOp)])
        self.fused: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        ops = list(self.block.ops)
        if not any(isinstance(op, NestOp) for op in ops):
            return
        for op in ops:
            if isinstance(op, NestOp) and not op.space:
                self.scalar_nests.update((r, op) for r in op.outs)
        for op in ops:
            if isinstance(op, NestOp) and op.space:
                if not any(r in self.costs.free for r in op.outs):
                    self._assign(op)
            elif isinstance(op, (CustomOp, LibraryOp)):
                self._place_scalars(op)
                call = _Call(op, {self.maker[root_of(v)] for v in op.ins if root_of(v) in self.maker})
                self.items.append(call)
                self.maker.update((r, call) for r in op.outs)
            elif isinstance(op, ReturnOp):
                self._place_scalars(op)
        self._build(ops)

    # Which group ------------------------------------------------------------------------------------------------------

    def _assign(self, nest: NestOp) -> None:
        """Puts a nest into the group of its operands where it waits for least, else into the latest that takes it."""
        sources = {self.maker.get(root_of(v)) for v in nest.ins}
        groups = [i for i in self.items[::-1] if isinstance(i, _Group)]
        ways = [way for group in groups if group in sources for way in self._ways(nest, group)]
        if ways:
            self._add(nest, *min(ways, key=lambda way: len(way[-1])))
            return
        for group in groups:
            if group not in sources and (way := next(self._ways(nest, group), None)):
                self._add(nest, *way)
                return
        group = _Group()
        self.items.append(group)
        walk = _Walk(nest.space, frozenset(d for d in nest.reduced if nest.space[d] != 1))
        self._add(nest, group, walk, False, self._needs(nest, walk, False, None))

    def _ways(self, nest: NestOp, group: _Group) -> Iterator[tuple[_Group, _Walk, bool, _Needs]]:
        """How a nest can run in a group, and what it then waits for."""
        if group.size + len(nest.body.block.ops) > self.max_ops or 0 in nest.space:
            return  # (nests without points stand alone: their places say nothing)
        for walk, row in self._joins(nest, group):
            needs = self._needs(nest, walk, row, group)
            if not any(other.waits_for(group) for other in needs):
                yield group, walk, row, needs

    def _add(
        self, nest: NestOp, group: _Group, walk: _Walk, row: bool, needs: dict[_Item, dict[SSAValue, str]]
    ) -> None:
        group.walk = walk
        group.members[nest] = row
        group.size += len(nest.body.block.ops)
        for item, values in needs.items():
            group.needs.add(item)
            for root, why in values.items():
                _note(group.waits, root, why)
        self.maker.update((r, group) for r in nest.outs)

    def _joins(self, nest: NestOp, group: _Group) -> Iterator[tuple[_Walk, bool]]:
        """The ways a nest could run in a group."""
        walk = group.walk
        if not group.members or 0 in walk.space:
            return
        if math.prod(nest.space) == math.prod(walk.space):
            for space in (walk.space, nest.space):
                old, new = refine(walk.space, space), refine(nest.space, space)
                if old is not None and new is not None:
                    cut = _parts(new, nest.reduced) and _counts(nest)
                    if cut or (_parts(old, walk.reduced) and any(map(_counts, group.members))):
                        break
                    mine = frozenset(d for d in loops_in(new, nest.reduced) if space[d] != 1)
                    theirs = frozenset(d for d in loops_in(old, walk.reduced) if space[d] != 1)
                    if not mine or not theirs or mine == theirs:
                        yield _Walk(space, mine or theirs), False
                    break
        if walk.reduced and not nest.reduced and walk.places(nest, row=True) is not None:
            yield walk, True

    def _needs(self, nest: NestOp, walk: _Walk, row: bool, group: _Group | None) -> dict[_Item, dict[SSAValue, str]]:
        """What must be done before a nest that runs in `group`, with the values it waits for and why.

        It is the group itself if the nest cannot run in it.
        """
        places = walk.places(nest, row)
        assert places is not None
        found: _Needs = {}
        seen: set[tuple] = set()
        scalars: set[NestOp] = set()
        own = position(places, nest.space, walk.space)
        met = not row

        def visit(value: SSAValue, at: Sequence[AffineExpr | None], along: bool | None) -> None:
            nonlocal met
            root = root_of(value)
            if root in self.scalar_nests:
                fresh = [n for n in self._scalars_behind(root) if n not in scalars]
                scalars.update(fresh)
                for reader in fresh:
                    follow(reader, [], True)
                return
            shape = shape_of(value.type)
            affine_at = [e for e in at if e is not None]
            exact = None if None in at else position(affine_at, shape, walk.space)
            key = (
                root,
                tuple(at) if exact is None else (tuple(sorted(exact.at.coefficients.items())), exact.at.constant),
                along,
            )
            if key in seen:
                return
            seen.add(key)
            maker = self.maker.get(root)
            made = group.made_at(root, walk) if group is not None and maker is group else None
            if made is not None and made == exact and not (walk.cut and made != point(walk.space)):
                met = True
                return
            producer = self.costs.nests.get(root)
            if producer is not None and (along is not None or exact is None or exact != own or root in self.costs.free):
                known = exact is not None or None not in at
                inner = bool(along) or (along is None and known and same_along_rows(affine_at, walk.space))
                if self.costs.pulls(root, inner):
                    follow(producer, known_reshape(at, shape, producer.space, walk.space), inner)
                    return
            elif producer is not None and maker is not group and self.costs.is_cheap(root):
                follow(producer, known_reshape(at, shape, producer.space, walk.space), None)
                return
            if maker is not None:
                _note(found.setdefault(maker, {}), root, self._why(root, maker, made == exact, exact == own))

        def follow(reader: NestOp, places: Sequence[AffineExpr | None], along: bool | None) -> None:
            for value, amap, arg in zip(reader.ins, reader.in_maps(), reader.body.block.args, strict=True):
                if not isinstance(arg.type, TensorType):
                    visit(value, known_places(amap, places, walk.space), along)
                    continue
                for use in arg.uses:
                    assert isinstance(use.operation, ReadOp)
                    visit(value, read_places(use.operation, places, walk.space), along)

        follow(nest, places, None)
        if not met and group is not None:  # a nest over the rows that reads nothing of the group has no reason to join
            found.setdefault(group, {})
        return found

    def _scalars_behind(self, root: SSAValue) -> list[NestOp]:
        """The rank-0 nests that a rank-0 value is computed by, each once."""
        found: dict[NestOp, None] = {}
        stack = [root]
        while stack:
            nest = self.scalar_nests[stack.pop()]
            if nest not in found:
                found[nest] = None
                stack += [r for r in map(root_of, nest.ins) if r in self.scalar_nests]
        return list(found)

    def _why(self, root: SSAValue, maker: _Item, known: bool, here: bool) -> str:
        """Why a value waits in memory."""
        if isinstance(maker, _Call):
            return FROM_CALL
        if root not in self.costs.nests:
            return CUT if known else TOTAL
        if here:
            return LOOPS
        return AGAIN.format(work=self.costs.work(root), reads=self.costs.reads(root))

    def _place_scalars(self, reader: Operation) -> None:
        """Gives every rank-0 value, and every free one, that `reader` needs in memory a group that writes it."""
        for value in reader.operands:
            root = root_of(value)
            if root in self.costs.free and root not in self.maker:
                self._assign(self.costs.free[root])
            if root not in self.scalar_nests or root in self.maker:
                continue
            needs = self._makers(root)
            groups = [g for g in self.items if isinstance(g, _Group) and self._can_write(g, root, needs)]
            group = groups[0] if groups else _Group()
            if not groups:
                self.items.append(group)
            group.scalars.append(root)
            group.needs |= needs - {group}
            self.maker[root] = group

    def _can_write(self, group: _Group, root: SSAValue, needs: set[_Item]) -> bool:
        """Whether a group can compute a rank-0 value: from outside, or from a reduction of its own to one value."""
        if group in needs and (group.walk.cut or [d for d in group.walk.rows if group.walk.space[d] != 1]):
            return False
        return not any(item is not group and item.waits_for(group) for item in needs)

    def _makers(self, root: SSAValue) -> set[_Item]:
        """The items whose results a rank-0 value is computed from."""
        sources = [root_of(v) for nest in self._scalars_behind(root) for v in nest.ins]
        return {self.maker[r] for r in sources if r in self.maker and r not in self.scalar_nests}

    # The fused nests --------------------------------------------------------------------------------------------------

    def _build(self, ops: list[Operation]) -> None:
        last = ops[-1]
        wanted = {root_of(v) for op in ops if isinstance(op, (CustomOp, LibraryOp, ReturnOp)) for v in op.operands}
        order = self._ordered()
        bodies: dict[_Group, tuple[BodyBuilder, list[SSAValue]]] = {}
        for item in reversed(order):
            if isinstance(item, _Group):
                results: list[SSAValue] = [r for nest in item.members for r in nest.outs if r in wanted]
                if results or item.scalars:
                    body = self._fill(item, results)
                    wanted |= {i.array for i in body.inputs}
                    bodies[item] = body, results
        made = Counter(r for body, _ in bodies.values() for r in {*body.env, *body.again})
        for item in order:
            if isinstance(item, _Group) and item in bodies:
                body, results = bodies[item]
                body.again = {r: why for r, why in body.again.items() if made[r] > 1}
                self._make(item, body, results)
            elif isinstance(item, _Call):
                item.op.operands = [self._final(v, last) for v in item.op.operands]
                item.op.detach()
                insert_before(item.op, last)
        last.operands = [self._final(v, last) for v in last.operands]
        for op in reversed(ops[:-1]):
            if isinstance(op, (NestOp, ReshapeOp)):
                Rewriter.erase_op(op)

    def _ordered(self) -> list[_Group | _Call]:
        """Items after everything they need, else in program order."""
        order: dict[_Group | _Call, None] = {}
        needs = {item: [other for other in self.items if other in item.needs] for item in self.items}
        for item in self.items:
            stack = [item]
            while stack:
                before = [other for other in needs[stack[-1]] if other not in order]
                if before:
                    stack += before[::-1]
                else:
                    order[stack.pop()] = None
        return list(order)

    def _fill(self, group: _Group, results: list[SSAValue]) -> BodyBuilder:
        walk = group.walk
        body = BodyBuilder(self.costs, self.scalar_nests, walk.space, lambda root: group.made_at(root, walk))
        needed = self._needed(group, results)
        for nest, row in group.members.items():
            if nest in needed:
                places = walk.places(nest, row)
                assert places is not None
                body.member(nest, places)
        for root in group.scalars:
            body.rank_0(root)
        return body

    def _needed(self, group: _Group, results: Sequence[SSAValue]) -> set[NestOp]:
        """The members that results and rank-0 values of a group are computed from, within it."""
        needed: set[NestOp] = set()
        stack = [*results, *group.scalars]
        seen: set[SSAValue] = set()
        while stack:
            root = root_of(stack.pop())
            if root in seen:
                continue
            seen.add(root)
            nest = root.owner
            if isinstance(nest, NestOp):
                if nest in group.members:
                    needed.add(nest)
                stack += nest.ins
        return needed

    def _make(self, group: _Group, body: BodyBuilder, results: list[SSAValue]) -> None:
        walk = group.walk
        rank = len(walk.space)
        outs: list[tuple[TensorType, AffineMap]] = []
        for root in results:
            nest = root.owner
            assert isinstance(nest, NestOp)
            in_rows = group.members[nest] or (nest.reduced and not _is_full(nest, root))
            loops = walk.rows if in_rows else range(rank)
            shape = [walk.space[d] for d in loops]
            amap = AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in loops))
            outs.append((TensorType(element_of(root.type), shape), amap))
        outs += [(root.type, uniform_map(rank)) for root in group.scalars]  # type: ignore[misc]
        values = [*results, *group.scalars]
        body.block.add_op(new_op(YieldOp, [[body.env[r] for r in values]]))
        last = self.block.last_op
        assert last is not None
        ins = [
            (self._in_memory(i.array, TensorType(element_of(i.array.type), i.shape), last), i.map or uniform_map(rank))
            for i in body.inputs
        ]
        origin = list(group.members)[-1] if group.members else self.scalar_nests[group.scalars[-1]]
        nest = make_nest(walk.space, ins, outs, body.block, origin.location, sorted(walk.reduced))
        waits = {r: why for r, why in group.waits.items() if any(i.array is r for i in body.inputs)}
        nest.attributes.update(notes("waits", waits) | notes("again", body.again))
        insert_before(nest, last)
        for old, new in zip(values, nest.outs, strict=True):
            new.name_hint = old.name_hint
            self.fused[old] = new

    def _in_memory(self, root: SSAValue, want: Attribute, anchor: Operation) -> SSAValue:
        """An array made before, or an argument, under a shape."""
        source = self.fused.get(root, root)
        if source.type == want:
            return source
        insert_before(reshape := new_op(ReshapeOp, [source], [want]), anchor)
        return reshape.result

    def _final(self, value: SSAValue, anchor: Operation) -> SSAValue:
        return self._in_memory(root_of(value), value.type, anchor)


def _note(waits: dict[SSAValue, str], root: SSAValue, why: str) -> None:
    """Keeps why a value waits; that it is made elsewhere only follows, if it is read at other points as well."""
    if waits.get(root, LOOPS) == LOOPS:
        waits[root] = why


def notes(kind: str, values: Mapping[SSAValue, str]) -> dict[str, Attribute]:
    """An attribute of a nest that says for each value why it waits, or is computed again."""
    if not values:
        return {}
    texts = []
    for root, why in values.items():
        place = location_of(root.owner) if isinstance(root.owner, Operation) else None
        texts.append(StringAttr(f"{root.name_hint or 'a value'}{f' of {place[0]}:{place[1]}' if place else ''}: {why}"))
    return {kind: ArrayAttr(texts)}


def _counts(nest: NestOp) -> bool:
    """Whether a nest counts along its reduction loop, which must then stay in one piece."""
    return any(
        isinstance(op, CumulateOp) or (isinstance(op, ReduceOp) and op.kind.data in ARGUMENTS)
        for op in nest.body.block.ops
    )


def _parts(places: Sequence[AffineExpr], loops: Iterable[int]) -> bool:
    """Whether some of these loops are in pieces."""
    return any(len(places[d].used_dims()) > 1 for d in loops)


def _is_full(nest: NestOp, result: SSAValue) -> bool:
    """Whether a result of a nest that reduces is written along its reduction loops as well."""
    results: list[SSAValue] = [*nest.results]
    amap = nest.out_maps()[results.index(result)]
    return any(d in amap.used_dims() for d in nest.reduced if nest.space[d] != 1)
