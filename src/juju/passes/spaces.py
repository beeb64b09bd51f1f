"""Iteration spaces: how the loops of a nest run along those of a finer space of as many points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir.affine import AffineExpr

from juju.dialect import affine
from juju.dialect.affine import Linear


def refine(coarse: Sequence[int], fine: Sequence[int]) -> tuple[AffineExpr, ...] | None:
    """The place of each coarse loop in the loops of `fine`, or None if some coarse loop is not a product of them.

    Both walk the same points in the same order: (6, 5) refines to (2, 3, 5), with places (3 d0 + d1, d2).
    """
    if math.prod(coarse) != math.prod(fine):
        return None
    places: list[AffineExpr] = []
    todo = [d for d, extent in enumerate(fine) if extent != 1][::-1]
    for extent in coarse:
        if extent == 1:
            places.append(AffineExpr.constant(0))
            continue
        taken: list[int] = []
        while math.prod(fine[d] for d in taken) != extent:
            if not todo:
                return None
            taken.append(todo.pop())
        place = affine.flat_index([AffineExpr.dimension(d) for d in taken], [fine[d] for d in taken])
        places.append(place)
    return tuple(places)


def loops_in(places: Sequence[AffineExpr], loops: Iterable[int]) -> frozenset[int]:
    """The fine loops that some coarse loops run along."""
    return frozenset(d for loop in loops for d in places[loop].used_dims())


class Place(NamedTuple):
    """Which element of an array of `size` elements: its row-major position."""

    at: Linear
    size: int


def point(space: Sequence[int], loops: Iterable[int] | None = None) -> Place:
    """The place of a point in the array over all loops of a space, or over some of them."""
    chosen = [d for d in (range(len(space)) if loops is None else sorted(loops)) if space[d] != 1]
    found = affine.linear(affine.flat_index([AffineExpr.dimension(d) for d in chosen], [space[d] for d in chosen]))
    assert found is not None
    return Place(found, math.prod(space[d] for d in chosen))


def position(indices: Sequence[AffineExpr], shape: Sequence[int], space: Sequence[int]) -> Place | None:
    """The place of an element as a linear form of the loops longer than 1, or None if its indices divide."""
    found = affine.linear(affine.flat_index(indices, shape))
    if found is None:
        return None
    walked = {d: c for d, c in found.coefficients.items() if space[d] != 1}
    return Place(Linear(walked, found.constant), math.prod(shape))


def same_along_rows(at: Sequence[AffineExpr], space: Sequence[int]) -> bool:
    """Whether affine indices do not change along the innermost loop that is longer than 1."""
    long = [d for d, extent in enumerate(space) if extent != 1]
    return not long or all(long[-1] not in e.used_dims() for e in at)
