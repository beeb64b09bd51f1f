"""`juju-split`: a long reduction to few values runs in parts, which several cores share, and is combined afterwards.

The parts depend on the extent alone and are combined in order, so the bits do not depend on the number of threads. What
does not fill the parts evenly is a nest of its own, beside the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass

from juju.dialect import affine
from juju.dialect._xdsl import insert_before, new_op, replace_op
from juju.dialect.body import ARGUMENTS, COMBINERS, CumulateOp, ReduceOp, read, reduce
from juju.dialect.ops import NestOp, YieldOp, make_nest
from juju.dialect.types import INDEX, is_half
from juju.passes.body import Body
from juju.passes.fuse import is_cut, notes

PART = 1 << 14
"""Points a part has about."""

MOST_PARTS = 256

PARTS = "it is a total of few long rows, which several cores compute in {parts} parts, combined when all are done"
"""Why a nest waits that combines partial results."""


@dataclass(frozen=True)
class SplitPass(ModulePass):
    """Splits the nests that `juju-fuse` has left alone for it."""

    name = "juju-split"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp) and is_cut(n.space, n.reduced)]:
            if _is_simple(nest):
                _Split(nest).run()


def _is_simple(nest: NestOp) -> bool:
    """Whether a nest reduces once, by operations whose parts can be combined."""
    totals: set[SSAValue] = set()
    reduces = False
    for op in nest.body.block.ops:
        if isinstance(op, CumulateOp):
            return False
        if isinstance(op, ReduceOp):
            reduces = True
            if op.kind.data not in COMBINERS + ARGUMENTS or any(v in totals for v in op.operands):
                return False
        if isinstance(op, ReduceOp) or any(v in totals for v in op.operands):
            totals.update(op.results)
    loops = nest.loops_of_values()
    return reduces and not any(v in totals and loops[v] & set(nest.reduced) for v in totals)


class _Partial(NamedTuple):
    """A reduction's operand, and the places its partial results have among those of the nests of parts."""

    op: ReduceOp
    value: int
    place: int | None


class _Split:
    def __init__(self, nest: NestOp) -> None:
        self.nest = nest
        space = nest.space
        self.cut = max(nest.reduced, key=lambda d: (space[d], -d))
        extent = space[self.cut]
        points = math.prod(space[d] for d in nest.reduced)
        self.parts = min(extent, max(2, min(MOST_PARTS, -(-points // PART))))
        self.length = extent // self.parts
        self.rest = extent - self.parts * self.length
        self.kept = [d for d in range(len(space)) if d not in nest.reduced]
        self.partials: list[_Partial] = []

    def run(self) -> None:
        """Nests of parts, the nest that combines them, and one that writes what is not reduced."""
        nest = self.nest
        d = AffineExpr.dimension
        before, after = nest.space[: self.cut], nest.space[self.cut + 1 :]
        moved = [d(n) if n < self.cut else d(n + 1) for n in range(len(nest.space))]
        moved[self.cut] = d(self.cut) * self.length + d(self.cut + 1)
        parts = self._partial(
            (*before, self.parts, self.length, *after),
            moved,
            {n if n < self.cut else n + 1 for n in nest.reduced},
            d(self.cut) * self.length,
        )
        rest: list[SSAValue] = []
        if self.rest:
            places = list(map(d, range(len(nest.space))))
            offset = AffineExpr.constant(self.parts * self.length)
            places[self.cut] = d(self.cut) + self.parts * self.length
            rest = self._partial((*before, self.rest, *after), places, set(nest.reduced), offset)
        values = self._combine(parts, rest)
        full = self._unreduced()
        replace_op(nest, [values.get(n) or full[n] for n in range(len(nest.outs))])

    # The parts --------------------------------------------------------------------------------------------------------

    def _partial(
        self, space: tuple[int, ...], places: Sequence[AffineExpr], reduced: set[int], offset: AffineExpr
    ) -> list[SSAValue]:
        """A nest that reduces a part of the points; results for every reduction, in order of `partials`."""
        body = Body(space)
        needed = _before(self.nest, [v for op in self._reductions() for v in op.operands])
        mapper = body.arguments(self.nest, places)
        for op in self.nest.body.block.ops:
            if op in needed:
                body.copy(op, mapper, places)
        results: list[SSAValue] = []
        partials: list[_Partial] = []
        for op in self._reductions():
            kind, x = op.kind.data, mapper[op.operands[0]]
            if kind in ARGUMENTS:
                extreme = reduce(body.block, kind[3:], x)
                place = body.scalar("add", [reduce(body.block, kind, x, INDEX), body.expression(offset)])
                partials.append(_Partial(op, len(results), len(results) + 1))
                results += [extreme, body.scalar("convert", [place], op.results[0].type)]
            else:
                if is_half(x.type) and kind in ("add", "mul"):
                    x = body.scalar("convert", [x], f32)
                partials.append(_Partial(op, len(results), None))
                results.append(reduce(body.block, kind, x))
            body.locate(op.location)
        self.partials = partials
        made = self._made(body, results, [n for n in range(len(space)) if n not in reduced], sorted(reduced))
        if hint := self.nest.outs[0].name_hint:
            for value in made:
                value.name_hint = f"{hint}_parts"
        return made

    def _reductions(self) -> list[ReduceOp]:
        return [op for op in self.nest.body.block.ops if isinstance(op, ReduceOp)]

    # The whole --------------------------------------------------------------------------------------------------------

    def _combine(self, parts: list[SSAValue], rest: list[SSAValue]) -> dict[int, SSAValue]:
        """A nest over the rows and the parts; the values of all results that are reduced, by their number."""
        nest = self.nest
        rows = [d for d in self.kept if d < self.cut]
        space = [nest.space[d] for d in rows] + [self.parts] + [nest.space[d] for d in self.kept if d > self.cut]
        cut = len(rows)
        body = Body(space)
        where = {d: AffineExpr.dimension(n if d < self.cut else n + 1) for n, d in enumerate(self.kept)}
        everything = AffineMap.identity(len(space))
        row = AffineMap(len(space), 0, tuple(where[d] for d in self.kept))
        mapper: dict[SSAValue, SSAValue] = {}
        for partial in self.partials:
            mapper[partial.op.results[0]] = self._total(body, partial, parts, rest, everything, row, cut)
            body.locate(partial.op.location)
        wanted = [n for n, v in enumerate(nest.yielded()) if not nest.loops_of_values()[v] & set(nest.reduced)]
        needed = _before(nest, [nest.yielded()[n] for n in wanted], stop=set(mapper))
        places = [where.get(d, AffineExpr.constant(0)) for d in range(len(nest.space))]
        for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
            if any(arg in op.operands for op in needed) or arg in [nest.yielded()[n] for n in wanted]:
                whole = isinstance(arg.type, TensorType)
                there = None if whole else affine.compose(amap, places, body.space)
                mapper[arg] = body.argument(value, there, value.type.get_shape())  # type: ignore[attr-defined]
        for op in nest.body.block.ops:
            if op in needed:
                body.copy(op, mapper, places)
        results = [mapper[nest.yielded()[n]] for n in wanted]
        made = self._made(body, results, [n for n in range(len(space)) if n != cut], [cut])
        why = PARTS.format(parts=self.parts)
        combination = made[0].owner
        assert isinstance(combination, NestOp)
        waiting: dict[SSAValue, str] = {nest.outs[n]: why for n in wanted}
        combination.attributes = notes("waits", waiting)
        return dict(zip(wanted, made, strict=True))

    def _total(
        self,
        body: Body,
        partial: _Partial,
        parts: list[SSAValue],
        rest: list[SSAValue],
        everything: AffineMap,
        row: AffineMap,
        cut: int,
    ) -> SSAValue:
        def element(value: SSAValue, amap: AffineMap) -> SSAValue:
            return body.argument(value, amap, value.type.get_shape())  # type: ignore[attr-defined]

        kind, result = partial.op.kind.data, partial.op.results[0].type
        mine = element(parts[partial.value], everything)
        if partial.place is None:
            total = reduce(body.block, kind, mine)
            if rest:
                total = body.scalar(kind, [total, element(rest[partial.value], row)])
            return total if total.type == result else body.scalar("convert", [total], result)
        best = reduce(body.block, kind[3:], mine)
        part = reduce(body.block, kind, mine, INDEX)
        array = body.argument(parts[partial.place], None, parts[partial.place].type.get_shape())  # type: ignore[attr-defined]
        at = [part if n == cut else body.expression(AffineExpr.dimension(n)) for n in range(len(body.space))]
        place = read(body.block, array, at)
        if rest:
            value = element(rest[partial.value], row)
            better = body.precedes(kind, value, best)
            place = body.select(better, place, element(rest[partial.place], row))
        return place

    def _unreduced(self) -> dict[int, SSAValue]:
        """A nest without reductions that writes the results along all loops."""
        nest = self.nest
        loops = nest.loops_of_values()
        wanted = [n for n, v in enumerate(nest.yielded()) if loops[v] & set(nest.reduced)]
        if not wanted:
            return {}
        body = Body(nest.space)
        places = [AffineExpr.dimension(d) for d in range(len(nest.space))]
        mapper = body.arguments(nest, places)
        needed = _before(nest, [nest.yielded()[n] for n in wanted])
        for op in nest.body.block.ops:
            if op in needed:
                body.copy(op, mapper, places)
        results = [mapper[nest.yielded()[n]] for n in wanted]
        made = self._made(body, results, list(range(len(nest.space))), [])
        return dict(zip(wanted, made, strict=True))

    def _made(
        self, body: Body, results: list[SSAValue], loops: Sequence[int], reduced: Sequence[int]
    ) -> list[SSAValue]:
        nest = self.nest
        body.block.add_op(new_op(YieldOp, [results], location=nest.location))
        rank = len(body.space)
        shape = [body.space[d] for d in loops]
        amap = AffineMap(rank, 0, tuple(map(AffineExpr.dimension, loops)))
        outs: list[tuple[Attribute, AffineMap]] = [(TensorType(v.type, shape), amap) for v in results]
        body.locate(nest.location)
        made = make_nest(body.space, body.ins(), outs, body.block, nest.location, reduced)
        made.attributes.update(nest.attributes)
        insert_before(made, nest)
        return list(made.outs)


def _before(nest: NestOp, values: Sequence[SSAValue], stop: set[SSAValue] | None = None) -> set[Operation]:
    """The operations of a body that values are computed by, up to those in `stop`."""
    found: set[Operation] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        op = value.owner
        if isinstance(op, Operation) and op not in found and not (stop and value in stop):
            found.add(op)
            stack += op.operands
    return found
