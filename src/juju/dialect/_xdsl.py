"""The one place that follows xDSL's releases: construction with locations, text in and out, order check."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, IntAttr, LocationAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.dialects.func import Func
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

# Parsing may go through xDSL's ImplicitBuilder, which patches a class for the whole process.
_PARSE_LOCK = threading.Lock()


def new_op(
    cls: type,
    operands: Sequence[SSAValue | Sequence[SSAValue]] = (),
    types: Sequence[Attribute | Sequence[Attribute]] = (),
    properties: Mapping[str, Attribute] | None = None,
    regions: Sequence[Region | Sequence[Region]] = (),
    location: LocationAttr | None = None,
):
    """An operation of `cls` with its location, which no IRDL constructor takes."""
    op = cls(operands=operands, result_types=types, properties=dict(properties or {}), regions=regions)
    if location is not None:
        op.location = location
    return op


def replace_op(old: Operation, values: Sequence[SSAValue]) -> None:
    """Replaces the results of `old` by `values`, keeps name hints, and erases `old`."""
    for result, value in zip(old.results, values, strict=True):
        if value.name_hint is None:
            value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    Rewriter.erase_op(old)


def insert_before(op: Operation, anchor: Operation) -> None:
    Rewriter.insert_op(op, InsertPoint.before(anchor))


def file_location(file: str, line: int, column: int = 0) -> LocationAttr:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def location_of(op: Operation) -> tuple[str, int] | None:
    """The user's file and line of an operation, if it is known."""
    loc = op.location
    return (loc.filename.data, loc.line.data) if isinstance(loc, FileLineColLoc) else None


UNKNOWN = UnknownLoc()


@cache
def identity_map(rank: int) -> AffineMap:
    return AffineMap.identity(rank)


@cache
def uniform_map(rank: int) -> AffineMap:
    """The map of a rank-0 array read or written in a nest of `rank` loops: no result."""
    return AffineMap(rank, 0, ())


def const_minus(constant: int, expr: AffineExpr) -> AffineExpr:
    """`constant - expr`; xDSL's own `int - expr` has the wrong sign."""
    return AffineExpr.constant(constant) - expr


def make_context() -> Context:
    """A context with `builtin`, `func` and `juju`."""
    from juju.dialect.ops import JUJU

    ctx = Context()
    for dialect in (Builtin, Func, JUJU):
        ctx.load_dialect(dialect)
    return ctx


def print_text(op: Operation, *, locations: bool = False) -> str:
    Printer(text := StringIO(), print_debuginfo=locations).print_op(op)
    return text.getvalue() + "\n"


def parse_text(text: str, name: str = "<text>") -> ModuleOp:
    """Parses and verifies a module. Raises xDSL's `ParseError` or `VerifyException`."""
    with _PARSE_LOCK:
        module = Parser(make_context(), text, name).parse_module()
    module.verify()
    check_order(module)
    return module


def check_order(module: Operation) -> None:
    """Raises `VerifyException` if a value is read before it is defined, which `verify()` does not see."""
    seen: set[SSAValue] = set()
    for op in module.walk():
        for value in op.operands:
            if not isinstance(value, BlockArgument) and value not in seen:
                raise VerifyException(f"{op.name} reads a value that is defined later")
        seen.update(op.results)
