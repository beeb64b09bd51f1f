"""The body of a fused nest: members in order, and producers computed where they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from juju.dialect import affine
from juju.dialect._xdsl import identity_map
from juju.dialect.body import IndexOp, ReadOp, read
from juju.dialect.ops import NestOp, YieldOp
from juju.dialect.types import shape_of
from juju.passes.body import Body
from juju.passes.costs import Costs
from juju.passes.flatten import root_of
from juju.passes.spaces import Place, point, position, same_along_rows


class Digits(NamedTuple):
    """The row-major position of an element of an array of shape `shape`, not yet computed from its indices."""

    values: tuple[Index, ...]
    shape: tuple[int, ...]


Index = AffineExpr | SSAValue | Digits
"""Where an array is read along an axis: affine in the loops, or computed."""

Indices = tuple[Index, ...]

SAME = "cheaper than writing and reading it"
OTHER = "where it is read, at other points"
ALONG = "once for each row"
"""Why a value is computed again."""


class BodyBuilder(Body):
    """Builds one body over `space`. `made_at` says where on the way values of its own members are known."""

    def __init__(
        self,
        costs: Costs,
        scalar_nests: dict[SSAValue, NestOp],
        space: tuple[int, ...],
        made_at: Callable[[SSAValue], Place | None],
    ) -> None:
        super().__init__(space)
        self.costs = costs
        self.scalar_nests = scalar_nests
        self.made_at = made_at
        self.env: dict[SSAValue, SSAValue] = {}
        self.again: dict[SSAValue, str] = {}
        """Values that are computed here though another nest makes them too, and why."""
        self._pulled: dict[tuple, list[SSAValue]] = {}

    def member(self, nest: NestOp, places: Sequence[AffineExpr]) -> None:
        """Adds a nest whose loops run at `places`; its results are known to those after it."""
        own = position(places, nest.space, self.space)
        self.env.update(zip(nest.outs, self._copy(nest, tuple(places), None, own, along=None), strict=True))

    def rank_0(self, root: SSAValue) -> SSAValue:
        """The result of a rank-0 nest, computed here, after those it is computed from."""
        stack = [root]
        while stack:
            nest = self.scalar_nests[stack[-1]]
            before = [r for r in map(root_of, nest.ins) if r in self.scalar_nests and r not in self.env]
            if before:
                stack += before[::-1]
                continue
            if stack.pop() not in self.env:
                self.env.update(zip(nest.outs, self._copy(nest, (), None, None, along=True), strict=True))
        return self.env[root]

    # Copies of bodies -------------------------------------------------------------------------------------------------

    def _copy(
        self, nest: NestOp, places: Indices, mask: SSAValue | None, own: Place | None, along: bool | None
    ) -> list[SSAValue]:
        """Copies a body whose loops run at `places`; `along` is None for a member, else as in `Choices.pulls`."""
        mapper: dict[SSAValue, SSAValue] = {}
        arrays: dict[SSAValue, SSAValue] = {}
        for value, amap, arg in zip(nest.ins, nest.in_maps(), nest.body.block.args, strict=True):
            if isinstance(arg.type, TensorType):
                arrays[arg] = value
            else:
                mapper[arg] = self._value(value, self._places(amap, places), mask, own, along, nest.space)
        for op in nest.body.block.ops:
            if isinstance(op, YieldOp):
                return [mapper[v] for v in op.values]
            if isinstance(op, IndexOp):
                mapper[op.result] = self._ssa(places[op.loop])
            elif isinstance(op, ReadOp):
                guard = self._both(mask, None if op.mask is None else mapper[op.mask])
                known = read_places(op, places, self.space)
                at = tuple(mapper[v] if e is None else e for v, e in zip(op.indices, known, strict=True))
                mapper[op.result] = self._value(arrays[op.array], at, guard, own, along, nest.space)
            else:
                self.clone(op, mapper)
        raise AssertionError("the body of a nest ends in juju.yield")

    def _places(self, amap: AffineMap, places: Indices) -> Indices:
        """Where an operand is read; affine along every axis whose loops are."""
        known = known_places(amap, [p if isinstance(p, AffineExpr) else None for p in places], self.space)
        found: list[Index] = []
        for expr, exact in zip(amap.results, known, strict=True):
            if exact is not None:
                found.append(exact)
            else:
                found.append(places[expr.position] if isinstance(expr, AffineDimExpr) else self._computed(expr, places))
        return tuple(found)

    # Values -----------------------------------------------------------------------------------------------------------

    def _value(
        self,
        value: SSAValue,
        at: Indices,
        mask: SSAValue | None,
        own: Place | None,
        along: bool | None,
        space: tuple[int, ...],
    ) -> SSAValue:
        root = root_of(value)
        if root in self.scalar_nests:
            return self.rank_0(root)
        shape = shape_of(value.type)
        exact = None if not _is_affine(at) else position(at, shape, self.space)  # type: ignore[arg-type]
        if exact is not None and self.made_at(root) == exact and root in self.env:
            return self.env[root]
        producer = self.costs.nests.get(root)
        other = along is not None or exact is None or exact != own or root in self.costs.free
        if producer is not None and other:
            inner = bool(along) or (along is None and self._same_along_rows(at))
            if self.costs.pulls(root, inner):
                return self._pull(root, producer, at, shape, mask, None, inner)
        elif producer is not None and self.made_at(root) is None and self.costs.is_cheap(root):
            return self._pull(root, producer, at, shape, mask, own, None)
        return self._load(value, root, at, shape, mask, exact)

    def _same_along_rows(self, at: Indices) -> bool:
        """Whether what is read does not change along the innermost loop."""
        return _is_affine(at) and same_along_rows(at, self.space)  # type: ignore[arg-type]

    def _pull(
        self,
        root: SSAValue,
        nest: NestOp,
        at: Indices,
        shape: tuple[int, ...],
        mask: SSAValue | None,
        own: Place | None,
        along: bool | None,
    ) -> SSAValue:
        if along is None or not along:
            self.again.setdefault(root, SAME if along is None else OTHER)
        else:
            self.again.setdefault(root, ALONG)
        key = (nest, at, shape, mask)
        if key not in self._pulled:
            if _is_affine(at):
                places = tuple(affine.reshape(at, shape, nest.space, self.space))  # type: ignore[arg-type]
            else:
                places = self._reshaped(at, shape, nest.space)
            self._pulled[key] = self._copy(nest, places, mask, own, along)
        results: list[SSAValue] = [*nest.results]
        return self._pulled[key][results.index(root)]

    def _load(
        self,
        value: SSAValue,
        root: SSAValue,
        at: Indices,
        shape: tuple[int, ...],
        mask: SSAValue | None,
        exact: Place | None,
    ) -> SSAValue:
        if not _is_affine(at) or mask is not None:
            indices = [self._ssa(i) for i in at]
            array = self.argument(root, None, shape)
            return read(self.block, array, indices, mask)
        seen, amap = self._view(root, at, shape, exact)  # type: ignore[arg-type]
        return self.argument(root, amap, seen)

    def _view(
        self, root: SSAValue, at: Sequence[AffineExpr], shape: tuple[int, ...], exact: Place | None
    ) -> tuple[tuple[int, ...], AffineMap]:
        """The shape under which an array is read, and the map: the simplest there is."""
        rank = len(self.space)
        if exact is not None and exact == point(self.space) and shape:
            return self.space, identity_map(rank)
        own = shape_of(root.type)
        if exact is None or all(isinstance(e, (AffineDimExpr, AffineConstantExpr)) for e in at):
            return shape, AffineMap(rank, 0, tuple(at))
        there = affine.reshape(at, shape, own, self.space)
        if all(affine.linear(e) is not None for e in there):
            return own, AffineMap(rank, 0, tuple(there))
        if all(affine.linear(e) is not None for e in at):
            return shape, AffineMap(rank, 0, tuple(at))
        return (exact.size,), AffineMap(rank, 0, (exact.at.expression(),))

    # Indices as values ------------------------------------------------------------------------------------------------

    def _ssa(self, place: Index) -> SSAValue:
        if isinstance(place, SSAValue):
            return place
        if isinstance(place, Digits):
            return self._joined(place.values, place.shape)
        return self.expression(place)

    def _computed(self, expr: AffineExpr, places: Indices) -> SSAValue:
        """An affine expression as operations, where loop d is `places[d]`."""
        if isinstance(expr, AffineConstantExpr):
            return self.number(expr.value)
        if isinstance(expr, AffineDimExpr):
            return self._ssa(places[expr.position])
        left, right = self._computed(expr.lhs, places), self._computed(expr.rhs, places)  # type: ignore[attr-defined]
        return self.binary(expr, left, right)

    def _reshaped(self, at: Sequence[Index], before: Sequence[int], after: Sequence[int]) -> Indices:
        """Computed indices into one shape as indices into another of as many elements; divides only where it must."""
        if tuple(before) == tuple(after):
            return tuple(at)
        if len(at) == 1 and isinstance(at[0], Digits):
            return self._reshaped(at[0].values, at[0].shape, after)
        found: list[Index] = []
        for old, new in groups(before, after):
            values, shape = [at[d] for d in old], [before[d] for d in old]
            wanted = [d for d in new if after[d] != 1]
            parts: list[Index]
            if not wanted:
                parts = []
            elif len(wanted) == 1:
                parts = [values[0] if len(values) == 1 else Digits(tuple(values), tuple(shape))]
            else:
                parts = self._split(self._joined(values, shape), [after[d] for d in wanted])
            found += [parts[wanted.index(d)] if d in wanted else AffineExpr.constant(0) for d in new]
        return tuple(found)

    def _joined(self, at: Sequence[Index], shape: Sequence[int]) -> SSAValue:
        """The row-major position of an element."""
        total: SSAValue | None = None
        for place, size in zip(at, shape, strict=True):
            if size == 1:
                continue
            if total is None:
                total = self._ssa(place)
            else:
                total = self.scalar("mul", [total, self.number(size)])
                total = self.scalar("add", [total, self._ssa(place)])
        return self.number(0) if total is None else total

    def _split(self, total: SSAValue, shape: Sequence[int]) -> list[Index]:
        """The indices of the element at a row-major position."""
        found: list[Index] = []
        for size in reversed(shape[1:]):
            found.append(self.scalar("rem", [total, self.number(size)]))
            total = self.scalar("div", [total, self.number(size)])
        return [total, *reversed(found)]

    def _both(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        if a is None or b is None:
            return a if b is None else b
        return self.scalar("and", [a, b])


def known_places(amap: AffineMap, places: Sequence[AffineExpr | None], space: Sequence[int]) -> list[AffineExpr | None]:
    """An operand's indices where some loops run at places that only the kernel computes (None)."""
    known = [AffineExpr.constant(0) if e is None else e for e in places]
    return [
        None if any(places[d] is None for d in e.used_dims()) else affine.substitute(e, known, space)
        for e in amap.results
    ]


def read_places(op: ReadOp, places: Sequence[object], space: Sequence[int]) -> list[AffineExpr | None]:
    """The indices of a computed read that are loops at affine places, and within the array even where it is masked."""
    found: list[AffineExpr | None] = []
    for index, extent in zip(op.indices, shape_of(op.array.type), strict=True):
        place = places[index.owner.loop] if isinstance(index.owner, IndexOp) else None
        low, high = affine.bounds(place, space) if isinstance(place, AffineExpr) else (-1, -1)
        found.append(place if isinstance(place, AffineExpr) and low >= 0 and high < extent else None)
    return found


def known_reshape(
    at: Sequence[AffineExpr | None], before: Sequence[int], after: Sequence[int], space: Sequence[int]
) -> list[AffineExpr | None]:
    """`affine.reshape` where some indices are not known: those of axes that are not theirs stay known."""
    if None not in at:
        return list(affine.reshape([e for e in at if e is not None], before, after, space))
    found: list[AffineExpr | None] = []
    for old, new in groups(before, after):
        part = [at[d] for d in old]
        if None in part:
            found += [None if after[d] != 1 else AffineExpr.constant(0) for d in new]
        else:
            shapes = [before[d] for d in old], [after[d] for d in new]
            found += affine.reshape([e for e in part if e is not None], *shapes, space)
    return found


def _is_affine(at: Indices) -> bool:
    return all(isinstance(i, AffineExpr) for i in at)


def groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes of two shapes of one memory, in the smallest groups that hold as many elements on both sides."""
    if 0 in before or 0 in after:
        return [(list(range(len(before))), list(range(len(after))))]
    found: list[tuple[list[int], list[int]]] = []
    old, new = 0, 0
    while old < len(before) or new < len(after):
        first, second = old, new
        left, right = 1, 1
        while left != right or (old == first and new == second):
            if (left <= right and old < len(before)) or new == len(after):
                left, old = left * before[old], old + 1
            else:
                right, new = right * after[new], new + 1
        while old < len(before) and before[old] == 1:
            old += 1
        while new < len(after) and after[new] == 1:
            new += 1
        found.append((list(range(first, old)), list(range(second, new))))
    return found
