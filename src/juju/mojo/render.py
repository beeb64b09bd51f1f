"""Kernels of the dialect to Mojo text: one file with one exported function each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from juju._resources import resource_dir
from juju.dialect._xdsl import location_of
from juju.dialect.ops import KernelOp, NestOp
from juju.dialect.table import SHARED, TABLE
from juju.mojo import spelling
from juju.mojo.body import GRAIN, BodyWriter
from juju.mojo.layout import LINE_LENGTH, broken
from juju.mojo.text import Line, NestText, short_path
from juju.plan import SourceLine

FUNCTIONS = frozenset(f for row in (*TABLE, *SHARED) for f in row.functions) | {"bitcast"}
"""Every function a body may call; no variable takes their names."""

_MARK = "\0"


@dataclass(frozen=True)
class Rendered:
    """A kernel's text with a placeholder for its symbol, and what the plan needs to know about it."""

    text: str
    canonical: str
    lines: tuple[SourceLine, ...]
    imports: tuple[str, ...]
    cost: float
    flops: tuple[float, ...]
    words: tuple[tuple[int, ...], ...]
    """Numbers that follow from the shapes of each nest, in the order of its argument words."""
    points: tuple[int | None, ...]
    """The points each nest takes of the launch, where they are not those of its parallel loops."""
    streams: bool
    """Whether the last argument word says if results are stored around the cache."""


SYMBOL = "__juju_symbol__"
"""Stands in the text until the key, and with it the symbol, is known."""


def render_kernel(kernel: KernelOp, *, title: Sequence[str] = ()) -> Rendered:
    """The text of a kernel, readable and canonical. Canonical text holds no name and no line of the user's."""
    nests = [_write(nest, readable=False) for nest in kernel.nests()]
    readable, lines = _render([_write(nest, readable=True) for nest in kernel.nests()], nests, title)
    canonical, _ = _render(nests, nests, None)
    imports = ("juju_kernel", "juju_math") if any(_math(n) for n in nests) else ("juju_kernel",)
    return Rendered(
        readable,
        canonical,
        lines,
        imports,
        max((n.cost for n in nests), default=0.0),
        tuple(n.flops for n in nests),
        tuple(tuple(value for _, value in n.words) for n in nests),
        tuple(None if n.units is None else n.units * GRAIN for n in nests),
        any(n.streams for n in nests),
    )


@cache
def environment() -> Environment:
    """Jinja's environment over `templates/`."""
    return Environment(
        loader=FileSystemLoader(resource_dir("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _write(nest: NestOp, *, readable: bool) -> NestText:
    return BodyWriter(nest, readable=readable, functions=FUNCTIONS).write()


def _words(nest: NestText) -> int:
    """The argument words of a nest behind its arrays."""
    return max(nest.rank, 1) + len(nest.words)


def _math(nest: NestText) -> bool:
    return any(f not in spelling.STD_FUNCTIONS for f in nest.functions)


def _render(
    written: Sequence[NestText], plain: Sequence[NestText], title: Sequence[str] | None
) -> tuple[str, tuple[SourceLine, ...]]:
    """The file of some nests; `plain` is how they read without names. Without a title the text is canonical."""
    readable = title is not None
    distinct: dict[str, int] = {}
    chosen: list[NestText] = []
    calls = []
    first, size = 0, sum(n.buffers for n in written)
    words = size + sum(_words(n) for n in written)
    for nest, same in zip(written, plain, strict=True):
        text = same.canonical()
        if text not in distinct:
            distinct[text] = len(chosen)
            chosen.append(nest)
        calls.append({"nest": distinct[text], "first": first, "size": size})
        first += nest.buffers
        size += _words(nest)
    sources: list[tuple[str, int]] = []
    helpers = {"Args"}
    functions: dict[str, set[str]] = {}
    for nest in chosen:
        helpers |= nest.helpers
        if nest.rank:
            helpers |= {"LANES", "size"}
        if nest.words:
            helpers.add("size")
        if nest.rank and not nest.by_rows:
            helpers |= {"sweep_stream", "aligned"} if nest.streams else {"sweep_down" if nest.down else "sweep"}
        if nest.tiled and nest.streams:
            helpers.add("drain")
        if any(phase.closing for phase in nest.phases):
            helpers.add("BLOCK" if nest.by_rows else "STEPS")
        for f in nest.functions:
            functions.setdefault(spelling.STD_FUNCTIONS.get(f, "juju_math"), set()).add(f)
    if len(calls) > 1:
        helpers.add("padded")
        if any(nest.streams for nest in chosen):
            helpers.add("size")
    functions["juju_kernel"] = helpers
    template = environment().get_template("kernel.mojo.j2")
    text = template.render(
        header=[spelling.string(t) for t in title or ()],
        imports=[_import(m, sorted(f)) for m, f in sorted(functions.items())],
        symbol=SYMBOL,
        nests=[_shown(nest, readable, sources) for nest in chosen],
        calls=calls,
        line_length=LINE_LENGTH,
        streams=any(nest.streams for nest in chosen),
        stream_word=words,
    )
    text = text.lstrip("\n")
    return _unmark(text, sources)


def _import(module: str, names: Sequence[str]) -> str:
    """One import as `mojo format` would break it."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LINE_LENGTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _shown(nest: NestText, readable: bool, sources: list[tuple[str, int]]) -> dict:
    """The nest for the template: texts with marks that find the user's lines again, comments where they change."""

    def show(lines: list[Line]) -> list[str]:
        shown: list[str] = []
        last: tuple[str, int] | None = None
        for line in lines:
            if not readable or line.source is None:
                shown.append(line.text)
                continue
            if line.source != last:
                shown.append(f"# {spelling.string(short_path(line.source[0]))}:{line.source[1]}")
                last = line.source
            sources.append(line.source)
            shown.append(f"{line.text}{_MARK}{len(sources) - 1}{_MARK}")
        return shown

    phases = [
        {
            "before": show(phase.before),
            "loops": phase.loops,
            "lines": show(phase.lines),
            "aliases": show(phase.aliases),
            "body": show(phase.body),
            "changed": phase.changed,
            "closing": phase.closing,
            "name": phase.name,
            "inner": phase.inner,
            "extent": phase.extent,
            "back": phase.back,
            "runs": phase.runs,
        }
        for phase in nest.phases
    ]
    return {
        "phases": phases,
        "release": show(nest.release),
        "words": [name for name, _ in nest.words],
        "by_rows": nest.by_rows,
        "has_rows": nest.has_rows,
        "points": nest.points,
        "inner": nest.inner,
        "sweep": "sweep_down" if nest.down else "sweep",
        "tiled": nest.tiled,
        "tiled_extent": nest.tiled_extent,
        "others": nest.others,
        "unit": nest.unit,
        "turns": show(nest.turns),
        "pointers": show(nest.pointers),
        "prologue": show(nest.prologue),
        "definitions": show(nest.definitions),
        "uniform_stores": show(nest.uniform_stores),
        "aliases": show(nest.aliases),
        "body": show(nest.body),
        "rows": show(nest.rows),
        "rank": nest.rank,
        "width": nest.width,
        "buffers": nest.buffers,
        "streams": nest.streams,
        "aligned": [f"aligned({out})" for out in nest.streams],
    }


def _unmark(text: str, sources: Sequence[tuple[str, int]]) -> tuple[str, tuple[SourceLine, ...]]:
    lines: list[str] = []
    found = []
    for line in text.split("\n"):
        if _MARK in line:
            line, index, _ = line.split(_MARK)
            found.append(SourceLine(len(lines) + 1, *sources[int(index)]))
        lines += broken(line.rstrip(" "))
    return "\n".join(lines), tuple(found)


def kernel_place(kernel: KernelOp) -> tuple[str, int] | None:
    """The first user's line a kernel computes."""
    for nest in kernel.nests():
        for op in nest.body.block.ops:
            if (place := location_of(op)) is not None:
                return place
    return None
