"""Which operands of a nest are read across their rows, and by which loop they are read along them.

A nest with such operands is computed in tiles: squares over that loop and the innermost one. An operand's tile is
turned once, in registers, and then read along its rows as all others are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from juju.dialect.ops import NestOp
from juju.mojo.access import Place
from juju.mojo.text import POINT

TILE = 64
"""Rows and columns of a tile; `juju_kernel` has the same."""

SHORT = 8
"""Loops of fewer steps are not worth a tile."""


@dataclass
class Tiling:
    """The loop that runs along the rows of operands that the innermost loop walks across; they are `turned`."""

    loop: int
    turned: set[int] = field(default_factory=set)

    def units(self, space: tuple[int, ...]) -> int:
        """The pieces of a launch: each is all tiles of some rows."""
        others = math.prod(n for d, n in enumerate(space[:-1]) if d != self.loop)
        return -(-space[self.loop] // TILE) * others


def choose(nest: NestOp, places: list[Place], levels: dict[SSAValue, int]) -> Tiling | None:
    """How to tile a nest, or None if its operands are read along their rows anyway."""
    space, last = nest.space, len(nest.space) - 1
    if nest.reduced or last < 1 or space[last] < SHORT:
        return None
    found: dict[int, set[int]] = {}
    for n, arg in enumerate(nest.body.block.args):
        place = places[n]
        if levels[arg] != POINT or place.divided or place.strides.get(last, 1) in (1, -1):
            continue
        for d, stride in place.strides.items():
            if d != last and stride == 1 and space[d] >= SHORT:
                found.setdefault(d, set()).add(n)
    if not found:
        return None
    loop = max(found, key=lambda d: (len(found[d]), d))
    return Tiling(loop, found[loop])
