"""Calls of hand-written kernels to Mojo text: one file with one exported function each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from juju.dialect.library import LibraryOp, Parameter
from juju.dialect.types import DTYPES, element_of
from juju.mojo import spelling
from juju.mojo.render import SYMBOL, environment
from juju.plan import SourceLine


@dataclass(frozen=True)
class RenderedCall:
    """A call's text with a placeholder for its symbol, and what it is compiled with."""

    text: str
    canonical: str
    imports: tuple[str, ...]
    lines: tuple[SourceLine, ...] = ()


def render_call(op: LibraryOp, *, title: Sequence[str] = ()) -> RenderedCall:
    """The text of a call, readable and canonical; the canonical one holds no name and no line of the user's."""
    return RenderedCall(_render(op, title), _render(op, ()), ("juju_kernel", op.package))


def _render(op: LibraryOp, title: Sequence[str]) -> str:
    return (
        environment()
        .get_template("library.mojo.j2")
        .render(
            header=[spelling.string(line) for line in title],
            package=op.package,
            function=op.function,
            symbol=SYMBOL,
            params=[f"{name}={_spelled(value)}" for name, value in op.parameters().items()],
            arrays=[_dtype(v.type) for v in (*op.ins, *op.outs)],
            sizes=len(op.sizes.get_values()),
        )
        .lstrip("\n")
    )


def _spelled(value: Parameter) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _dtype(ty: object) -> str:
    """Hand-written kernels see a bool as the byte it is."""
    dtype = DTYPES[element_of(ty)]  # type: ignore[arg-type]
    return "uint8" if dtype == "bool" else dtype
