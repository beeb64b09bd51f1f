"""What computing a value again costs, beside writing it and reading it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from juju.dialect.body import CumulateOp, ReadOp, ReduceOp
from juju.dialect.ops import NestOp, ReshapeOp, ScalarOp
from juju.dialect.types import shape_of
from juju.passes.flatten import root_of
from juju.passes.spaces import point, position, same_along_rows

CHEAP = 8
"""Work, in the table's units, that is computed again at every point rather than stored and read."""

MOST = 4
"""Steps of an innermost loop that is unrolled (`juju-weave`)."""

MEMORY = 10
"""Work that costs as much as writing a value and reading it again."""


DEPTH = 64
"""Values computed one from the other that are computed again together; a longer chain waits in memory in between."""


class Costs:
    """Knows the nests of a function that may be computed again: those that neither reduce nor cumulate."""

    def __init__(self, nests: list[NestOp]) -> None:
        self.nests: dict[SSAValue, NestOp] = {}
        self.free: dict[SSAValue, NestOp] = {}
        """Results of nests that read nothing and cost little: constants, indices. They are nowhere read from memory."""
        self._work: dict[SSAValue, float] = {}
        self._near_work: dict[SSAValue, float] = {}
        self._worth: dict[SSAValue, bool] = {}
        self._depth: dict[SSAValue, int] = {}
        for nest in nests:
            loops = any(isinstance(op, (ReduceOp, CumulateOp)) for op in nest.body.block.ops)
            if nest.space and 0 not in nest.space and not loops:
                depths = [self._depth.get(root_of(v), 0) for v in nest.ins]
                self._depth.update((r, 1 + max((d for d in depths if d < DEPTH), default=0)) for r in nest.outs)
                self.nests.update((r, nest) for r in nest.outs)
                for result in nest.outs:  # in the order of the program, so that nothing recurses far
                    self.near_work(result)
                if not nest.ins and all(self.work(r) <= CHEAP for r in nest.outs):
                    self.free.update((r, nest) for r in nest.outs)

    def pulls(self, root: SSAValue, along: bool) -> bool:
        """Whether a value read at another point is computed there; `along`: once for each row only."""
        return self._is_near(root) and (along or self.is_worth(root))

    def is_cheap(self, root: SSAValue) -> bool:
        """Whether a value of this very point is computed again rather than read from another group."""
        return self._is_near(root) and self.near_work(root) <= MEMORY

    def _is_near(self, root: SSAValue) -> bool:
        return self._depth.get(root, DEPTH) < DEPTH

    def is_worth(self, root: SSAValue) -> bool:
        """Whether computing a value wherever it is read costs less than keeping it."""
        if root in self.free:
            return True
        if root not in self._worth:
            work = self.work(root)
            extra = 0.0 if work <= CHEAP else work * (self.reads(root) - 1)
            self._worth[root] = extra <= MEMORY
        return self._worth[root]

    def work(self, root: SSAValue) -> float:
        """What computing one element costs, with all that would be computed again for it."""
        if root not in self._work:
            self._work[root] = self._total(root, self.is_worth, self.work)
        return self._work[root]

    def near_work(self, root: SSAValue) -> float:
        """`work` where what it is computed from is at the same point, and computed again if it is cheap."""
        if root not in self._near_work:
            self._near_work[root] = self._total(root, self._is_taken, self.near_work)
        return self._near_work[root]

    def _is_taken(self, root: SSAValue) -> bool:
        return self.is_worth(root) or self.is_cheap(root)

    def _total(self, root: SSAValue, taken: Callable[[SSAValue], bool], work: Callable[[SSAValue], float]) -> float:
        nest = self.nests.get(root)
        if nest is None:
            return 0.0
        total = sum(op.ROW.cost for op in nest.body.block.ops if isinstance(op, ScalarOp))
        size = max(math.prod(shape_of(root.type)), 1)
        for value, arg in zip(nest.ins, nest.body.block.args, strict=True):
            source = root_of(value)
            if source in self.nests and taken(source):
                share = min(1, math.prod(shape_of(source.type)) / size)
                total += work(source) * _read_count(arg) * share
        return total

    def reads(self, root: SSAValue) -> float:
        """How often an element is read on average, readers at the point itself counting as one."""
        size = max(math.prod(shape_of(root.type)), 1)
        total, here = 0.0, False
        for user, n in _users(root):
            if isinstance(user, NestOp):
                points = math.prod(user.space)
                arg, amap = user.body.block.args[n], user.in_maps()[n]
                if isinstance(arg.type, TensorType):
                    share = points / size
                    if user.space and user.space[-1] <= MOST:  # unrolled: what a guard leaves out is not computed
                        share = min(share, 1)
                    total += share * _read_count(arg)
                    continue
                shape = shape_of(user.ins[n].type)
                if position(amap.results, shape, user.space) != point(user.space):
                    long = [extent for extent in user.space if extent != 1]
                    rows = points // long[-1] if long and points else 1
                    total += (rows if same_along_rows(amap.results, user.space) else points) / size
                    continue
            here = True
        return total + here


def _read_count(arg: SSAValue) -> int:
    """How many values a body reads through an argument at one point."""
    return sum(1 for use in arg.uses if isinstance(use.operation, ReadOp)) if isinstance(arg.type, TensorType) else 1


def _users(root: SSAValue) -> Iterator[tuple[Operation, int]]:
    """Who reads a value, directly or under another shape, and as which operand."""
    for use in root.uses:
        if isinstance(use.operation, ReshapeOp):
            yield from _users(use.operation.result)
        else:
            yield use.operation, use.index
