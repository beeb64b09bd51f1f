"""A nest as lines of Mojo, in the pieces that the template puts together."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

UNIFORM, ROW, LANE, LINE, POINT = range(5)
"""How often a value is computed: once; once for each row; for each vector of points, outside of the reduction loops;
once for each line, which is a step of the loops around the innermost one; for each vector of innermost steps."""

VECTORS = (LANE, POINT)


@dataclass(frozen=True)
class Line:
    """One line of Mojo with the user's line it came from."""

    text: str
    source: tuple[str, int] | None = None


@dataclass
class PhaseText:
    """One pass over the reduction loops, and what is known before it."""

    before: list[Line] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    aliases: list[Line] = field(default_factory=list)
    body: list[Line] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """Variables outside of the body that it changes: totals."""
    closing: list[str] = field(default_factory=list)
    """Totals that are closed after each block of steps."""
    name: str = "body"
    inner: str = ""
    """In lanes mode the innermost reduction loop."""
    extent: str = ""
    """The extent of the innermost loop that the pass runs along."""
    back: bool = False
    runs: bool = False


@dataclass
class NestText:
    """A nest ready for the template. `canonical` tells nests with the same code apart from others."""

    pointers: list[Line] = field(default_factory=list)
    prologue: list[Line] = field(default_factory=list)
    rows: list[Line] = field(default_factory=list)
    """What a nest of rank 2 and more does once for each row: places of rows, and values that do not change in one."""
    definitions: list[Line] = field(default_factory=list)
    """Functions that bodies call."""
    uniform_stores: list[Line] = field(default_factory=list)
    aliases: list[Line] = field(default_factory=list)
    body: list[Line] = field(default_factory=list)
    phases: list[PhaseText] = field(default_factory=list)
    release: list[Line] = field(default_factory=list)
    """What is done at the end of the kernel: scratch is freed."""
    functions: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    words: list[tuple[str, int]] = field(default_factory=list)
    """Numbers that follow from shapes, by name; argument words behind the extents of the loops."""
    buffers: int = 0
    rank: int = 0
    by_rows: bool = False
    """Whether the innermost loop is reduced: then `GRAIN` points of the launch stand for a row."""
    units: int | None = None
    """The rows, or rows of tiles, that stand for `GRAIN` points of the launch each; None where points stand for one."""
    tiled: str = ""
    """The loop that is cut into rows of tiles, with the one innermost."""
    tiled_extent: str = ""
    others: list[str] = field(default_factory=list)
    """The indices of the other loops around a row of tiles, from the number of the unit."""
    unit: str = "block"
    """The number of the row of tiles among those of one step of the other loops."""
    turns: list[Line] = field(default_factory=list)
    """What fills the tiles."""
    points: str = "n"
    """The points of the nest, from the extents of its loops."""
    inner: str = ""
    """The extent of the vectors' loop, and whether rows stand around it."""
    has_rows: bool = False
    width: str = "LANES"
    down: bool = False
    """Whether the width is more than that of other nests, for a body that walks down an array."""
    streams: list[str] = field(default_factory=list)
    """The results' pointers, if memory bounds the nest: large ones are then stored around the cache."""
    cost: float = 0.0
    flops: float = 0.0

    def canonical(self) -> str:
        parts = [
            self.pointers,
            self.prologue,
            self.definitions,
            self.uniform_stores,
            self.rows,
            self.aliases,
            self.body,
        ]
        for phase in self.phases:
            parts += [phase.before, phase.lines, phase.aliases, phase.body]
            parts.append([Line(t) for t in (*phase.loops, *phase.changed, *phase.closing, phase.inner, phase.name)])
            parts.append([Line(f"{phase.extent} {phase.back} {phase.runs}")])
        parts += [self.turns, self.release, [Line(t) for t in (*self.others, self.unit)]]
        parts.append([Line(name) for name, _ in self.words])
        shape = (self.width, self.points, self.inner, self.tiled, self.tiled_extent, self.by_rows, self.has_rows)
        return "\n".join(line.text for part in parts for line in (*part, Line("--"))) + repr((shape, self.streams))


def short_path(file: str) -> str:
    """A path for a comment: relative to the working directory if that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return relative if len(relative) < len(file) and not relative.startswith("..") else os.path.basename(file)
