"""In which pass over its reduction loops a nest computes what.

A total is known after the pass that computes it. Each reduction and each store happens in the first pass that can do
it, all of one pass in one sweep. What a later pass needs of an earlier one it computes again from what was read, if
that is cheap; otherwise the value is kept in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from juju.dialect.body import CumulateOp, ReadOp, ReduceOp
from juju.dialect.ops import NestOp, ScalarOp
from juju.mojo.text import LANE, LINE, POINT, ROW, UNIFORM

CHEAP = 4
"""Work, in the table's units, that a later pass does again rather than read what an earlier one kept."""

READ_WORK = 8
"""The work of a computed read, for `CHEAP`."""


@dataclass
class Schedule:
    """The passes of a nest. `phase` is the first one in which a value is known."""

    count: int = 1
    phase: dict[SSAValue, int] = field(default_factory=dict)
    runs: dict[ReduceOp, int] = field(default_factory=dict)
    stores: list[int] = field(default_factory=list)
    once: set[SSAValue] = field(default_factory=set)
    """What is computed outside of the passes and is needed."""
    wanted: list[set[SSAValue]] = field(default_factory=list)
    """What each pass computes."""
    kept: dict[SSAValue, set[int]] = field(default_factory=dict)
    """What is stored in the pass that computes it, and the later passes that load it."""
    back: dict[int, bool] = field(default_factory=dict)
    """Whether a pass runs from the end; those without an entry may run either way."""


def levels_of(nest: NestOp) -> dict[SSAValue, int]:
    """How often each value of a body is computed."""
    last = len(nest.space) - 1
    reduced = frozenset(nest.reduced)
    loops = nest.loops_of_values()
    levels: dict[SSAValue, int] = {}

    def level(value: SSAValue) -> int:
        found = loops[value]
        if found & reduced:
            return POINT if last in found else LINE
        if last not in found or not nest.space:
            return ROW if found else UNIFORM
        return LANE if reduced else POINT

    for arg in nest.body.block.args:
        levels[arg] = level(arg)
    for op in nest.body.block.ops:
        for result in op.results:
            levels[result] = level(result)
            if reduced and last not in reduced and isinstance(op, (ReduceOp, CumulateOp)):
                levels[result] = LANE if isinstance(op, ReduceOp) else POINT
            elif isinstance(op, CumulateOp):
                levels[result] = POINT
            elif not isinstance(op, ReduceOp) and any(levels[v] in (LANE, POINT) for v in op.operands):
                levels[result] = {LINE: POINT, ROW: LANE, UNIFORM: LANE}.get(levels[result], levels[result])
    if not reduced:
        levels = {value: POINT if found == LANE else found for value, found in levels.items()}
    return levels


def schedule(nest: NestOp, levels: dict[SSAValue, int], needs: Callable[[Operation], list[SSAValue]]) -> Schedule:
    """The passes of a nest; `needs` are the values that the text of an operation reads."""
    plan = Schedule(phase=dict.fromkeys(nest.body.block.args, 0))
    for op in nest.body.block.ops:
        ready = max((plan.phase[v] for v in op.operands), default=0)
        if isinstance(op, ReduceOp):
            ready = _turn(plan, ready, back=False)
            plan.runs[op] = ready
            ready += 1
        elif isinstance(op, CumulateOp):
            ready = _turn(plan, ready, back=op.reverse is not None)
        plan.phase.update((r, ready) for r in op.results)
    reduced = set(nest.reduced)
    for value, amap in zip(nest.yielded(), nest.out_maps(), strict=True):
        plan.stores.append(plan.phase[value] if amap.used_dims() & reduced or not reduced else -1)
    passes = [*plan.runs.values(), *plan.stores, *(p for v, p in plan.phase.items() if levels[v] >= LINE)]
    plan.count = max(0, *passes) + 1 if passes else 1
    plan.wanted = [set() for _ in range(plan.count)]
    _demand(nest, plan, levels, needs)
    return plan


def _turn(plan: Schedule, first: int, *, back: bool) -> int:
    """The first pass from `first` on that runs in this direction."""
    while plan.back.setdefault(first, back) != back:
        first += 1
    return first


def _demand(
    nest: NestOp, plan: Schedule, levels: dict[SSAValue, int], needs: Callable[[Operation], list[SSAValue]]
) -> None:
    works = _works(nest, levels)
    for value, place in zip(nest.yielded(), plan.stores, strict=True):
        _want(plan, levels, needs, works, value, max(place, 0))
    for op, place in plan.runs.items():
        for value in op.operands:
            _want(plan, levels, needs, works, value, place)


def _want(
    plan: Schedule,
    levels: dict[SSAValue, int],
    needs: Callable[[Operation], list[SSAValue]],
    works: dict[SSAValue, float],
    value: SSAValue,
    place: int,
) -> None:
    """Notes that the text of pass `place` reads `value`, and what it is computed from."""
    pending = [(value, place)]
    while pending:
        value, place = pending.pop()
        if levels[value] < LINE:
            if value in plan.once:
                continue
            plan.once.add(value)
        else:
            if value in plan.wanted[place]:
                continue
            plan.wanted[place].add(value)
            made = plan.phase[value]
            if made < place and levels[value] == POINT and works[value] > CHEAP:
                plan.kept.setdefault(value, set()).add(place)
                pending.append((value, made))
                continue
        if isinstance(value, BlockArgument):
            continue
        op = value.owner
        assert isinstance(op, Operation)
        if not isinstance(op, ReduceOp):
            pending += [(v, place) for v in needs(op)]


def _works(nest: NestOp, levels: dict[SSAValue, int]) -> dict[SSAValue, float]:
    """The work of computing each value again from what a pass reads."""
    works: dict[SSAValue, float] = dict.fromkeys(nest.body.block.args, 0.0)
    for op in nest.body.block.ops:
        own = op.ROW.cost if isinstance(op, ScalarOp) else 0.0
        if isinstance(op, CumulateOp):
            own = math.inf
        elif isinstance(op, ReadOp):
            own = READ_WORK
        total = own + sum(works[v] for v in op.operands if not isinstance(v.type, TensorType))
        works.update((r, total if levels[r] == POINT else 0.0) for r in op.results)
    return works
