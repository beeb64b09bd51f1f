"""JAX primitives to the dialect, one file a family."""

from __future__ import annotations

from dataclasses import dataclass

from juju.dialect.table import BY_PRIMITIVE
from juju.dialect.types import ELEMENT_TYPES, kind_of
from juju.rules import custom, elementwise, indexing, reduction, scatter, shape, sorting, window
from juju.rules._registry import RULES as RULES
from juju.rules._registry import Unsupported as Unsupported
from juju.rules._registry import rule as rule
from juju.rules.module import Lowering as Lowering
from juju.rules.module import lower_program as lower_program

_FAMILIES = (custom, elementwise, indexing, reduction, scatter, shape, sorting, window)


@dataclass(frozen=True)
class PrimitiveInfo:
    """One line of `juju primitives`."""

    primitive: str
    dtypes: tuple[str, ...]
    file: str
    line: int
    accuracy: str


def primitives() -> list[PrimitiveInfo]:
    """Every supported primitive, with dtypes, the place of its rule and its accuracy, by name."""
    rows = []
    for name, found in sorted(RULES.items()):
        dtypes = tuple(d for d, ty in ELEMENT_TYPES.items() if kind_of(ty) in found.kinds)
        row = BY_PRIMITIVE.get(name)
        rows.append(PrimitiveInfo(name, dtypes, found.file, found.line, row.accuracy if row else "exact"))
    return rows
