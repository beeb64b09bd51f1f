"""Rules of the elementwise primitives: all of them read the scalar-op table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju._program import Scalar
from juju.dialect import body, table
from juju.dialect.ops import const_op, scalar_op
from juju.dialect.table import TABLE, Row
from juju.dialect.types import ELEMENT_TYPES, KIND_NAMES, item_size, kind_of
from juju.rules._registry import (
    RULES,
    Operand,
    Rule,
    RuleContext,
    Unsupported,
    projection,
    require_defaults,
    rule,
)

_TABLE_FILE = table.__file__
_IGNORED = {"accuracy", "out_sharding", "sharding"}


def scalar(block: Block, name: str, operands: list[SSAValue], element: Any, params: tuple[int, ...] = ()) -> SSAValue:
    """Adds one scalar operation of the table to a body."""
    block.add_op(op := scalar_op(name, operands, element, params))
    return op.results[0]


def const(block: Block, value: int, element: Any) -> SSAValue:
    """A small integer in an integer type."""
    block.add_op(op := const_op(np.int64(value), element))
    return op.result


def _apply_row(row: Row, ctx: RuleContext, operands: tuple[Operand, ...], params: dict[str, Any]) -> SSAValue:
    extra = {k: v for k, v in params.items() if k not in row.params and k not in _IGNORED}
    require_defaults(row.primitive_name, **extra)
    kind = kind_of(ELEMENT_TYPES[_dtype(ctx, 0)])
    if kind not in row.kinds:
        takes = ", ".join(KIND_NAMES[k] for k in row.kinds)
        raise Unsupported(f"{row.primitive_name} takes {takes} operands, not {_dtype(ctx, 0)}")
    dtype = ctx.out_dtype()
    values = tuple(int(params[name]) for name in row.params)
    return ctx.pointwise(
        ctx.out_shape(),
        operands,
        lambda block, args: scalar(block, row.name, args, ELEMENT_TYPES[dtype], values),
        dtype,
        operand_maps(ctx, len(operands)),
    )


def operand_maps(ctx: RuleContext, count: int) -> list[AffineMap | None]:
    """How each operand is read: axes of extent 1 are stretched, rank 0 stands beside any rank."""
    shape = ctx.out_shape()
    maps: list[AffineMap | None] = []
    for n in range(count):
        own = ctx.in_shape(n)
        if own in ((), shape):
            maps.append(None)
        elif len(own) == len(shape) and all(a in (1, b) for a, b in zip(own, shape, strict=True)):
            maps.append(projection(len(shape), range(len(shape)), own, shape))
        else:
            raise Unsupported(f"an operand of shape {own} beside a result of shape {shape}")
    return maps


def _dtype(ctx: RuleContext, n: int) -> str:
    atom = ctx.equation.inputs[n]
    return atom.dtype if isinstance(atom, Scalar) else str(atom.aval.dtype)


def _register_table() -> None:
    lines = Path(_TABLE_FILE).read_text().splitlines()
    for row in TABLE:
        if row.form in ("convert", "select") or row.primitive == "round_p":
            continue
        line = next(n for n, text in enumerate(lines, 1) if f'"{row.primitive}"' in text)

        def apply(ctx: RuleContext, *operands: Operand, row: Row = row, **params: Any) -> SSAValue:
            return _apply_row(row, ctx, operands, params)

        RULES[row.primitive_name] = Rule(row.primitive_name, apply, _TABLE_FILE, line, row.kinds)


_register_table()


@rule("round_p", kinds="f")
def _round_rule(ctx: RuleContext, x: Operand, *, rounding_method: Any, **params: Any) -> SSAValue:
    """Half away from zero (0) or half to even (1)."""
    name = "round_half_away" if int(rounding_method) == 0 else "round_half_even"
    require_defaults("round", **params)
    dtype = ctx.out_dtype()
    return ctx.pointwise(
        ctx.out_shape(), [x], lambda block, args: scalar(block, name, args, ELEMENT_TYPES[dtype]), dtype
    )


@rule("select_n_p")
def _select_n_rule(ctx: RuleContext, which: Operand, *cases: Operand) -> SSAValue:
    """`cases[which]`; the selector may be a scalar, bool or int32."""
    dtype = ctx.out_dtype()
    element = ELEMENT_TYPES[dtype]
    if _dtype(ctx, 0) not in ("bool", "int32"):
        raise Unsupported(f"select_n by {_dtype(ctx, 0)}")
    operands = (which, *cases)
    maps = operand_maps(ctx, len(operands))
    if len(cases) == 1:
        return ctx.pointwise(ctx.out_shape(), operands, lambda _, args: args[1], dtype, maps)
    return ctx.pointwise(
        ctx.out_shape(), operands, lambda block, args: scalar(block, "select", args, element), dtype, maps
    )


@rule("convert_element_type_p")
def _convert_element_type_rule(ctx: RuleContext, x: Operand, *, new_dtype: Any, weak_type: Any = False, **params: Any):
    """Float to integer saturates with NaN to 0, anything to bool is `x != 0`; equal dtypes are the identity."""
    require_defaults("convert_element_type", **params)
    before, after = _dtype(ctx, 0), ctx.out_dtype()
    if before == after:
        return x
    if isinstance(x, Scalar) and before in ELEMENT_TYPES:
        return _constant_convert(x, after) or _convert(ctx, x, after)
    return _convert(ctx, x, after)


def _convert(ctx: RuleContext, x: Operand, after: str) -> SSAValue:
    return ctx.pointwise(
        ctx.out_shape(), [x], lambda block, args: scalar(block, "convert", args, ELEMENT_TYPES[after]), after
    )


def _constant_convert(x: Scalar, after: str) -> Scalar | None:
    """Folds conversions of constants that are exact in every library: small integers and bools to numbers."""
    if after == "bool" or np.asarray(x.value).dtype.kind not in "iub" or abs(int(x.value)) > 127 or int(x.value) < 0:
        return None
    return Scalar(np.asarray(x.value).astype(after).flat[0])


@rule("bitcast_convert_type_p")
def _bitcast_convert_type_rule(ctx: RuleContext, x: Operand, *, new_dtype: Any) -> Operand:
    """The same bits under another dtype; a last axis is added or dropped where their widths differ, low bits first."""
    before, after = _dtype(ctx, 0), ctx.out_dtype()
    if before == after:
        return x
    if "bool" in (before, after):
        raise Unsupported(f"bitcast_convert_type from {before} to {after}")
    count = item_size(ELEMENT_TYPES[before]) / item_size(ELEMENT_TYPES[after])
    if count > 1:
        return _bits_apart(ctx, x, before, after)
    if count < 1:
        return _bits_together(ctx, x, before, after)
    element = ELEMENT_TYPES[after]
    return ctx.pointwise(ctx.out_shape(), [x], lambda block, args: scalar(block, "bitcast", args, element), after)


def _bits(dtype: str) -> Any:
    return ELEMENT_TYPES[f"uint{8 * item_size(ELEMENT_TYPES[dtype])}"]


def _cast(block: Block, name: str, x: SSAValue, element: Any) -> SSAValue:
    return x if x.type == element else scalar(block, name, [x], element)


def _bits_apart(ctx: RuleContext, x: Operand, before: str, after: str) -> SSAValue:
    wide, narrow = _bits(before), _bits(after)
    space = ctx.out_shape()

    def part(block: Block, args: list[SSAValue]) -> SSAValue:
        place = _cast(block, "convert", body.index(block, len(space) - 1), wide)
        width = const(block, 8 * item_size(narrow), wide)
        bits = _cast(block, "bitcast", args[0], wide)
        moved = scalar(block, "shift_right_logical", [bits, scalar(block, "mul", [place, width], wide)], wide)
        return _cast(block, "bitcast", _cast(block, "convert", moved, narrow), ELEMENT_TYPES[after])

    rank = len(space)
    amap = AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in range(rank - 1)))
    return ctx.pointwise(space, [x], part, after, [amap])


def _bits_together(ctx: RuleContext, x: Operand, before: str, after: str) -> SSAValue:
    narrow, wide = _bits(before), _bits(after)
    space = ctx.out_shape()
    count = item_size(wide) // item_size(narrow)

    def whole(block: Block, args: list[SSAValue]) -> SSAValue:
        total = None
        for n, arg in enumerate(args):
            bits = _cast(block, "convert", _cast(block, "bitcast", arg, narrow), wide)
            if n:
                bits = scalar(block, "shift_left", [bits, const(block, 8 * item_size(narrow) * n, wide)], wide)
            total = bits if total is None else scalar(block, "or", [total, bits], wide)
        assert total is not None
        return _cast(block, "bitcast", total, ELEMENT_TYPES[after])

    loops = [AffineExpr.dimension(d) for d in range(len(space))]
    maps = [AffineMap(len(space), 0, (*loops, AffineExpr.constant(n))) for n in range(count)]
    return ctx.pointwise(space, [x] * count, whole, after, maps)


@rule("polynomial_p", kinds="f")
def _polynomial_rule(
    ctx: RuleContext, x: Operand, *coefficients: Operand, unroll: Any = None, **params: Any
) -> SSAValue:
    """`c0 + c1 x + c2 x^2 + ...` by Horner's scheme; new in JAX 0.12. There is no loop that `unroll` could concern."""
    require_defaults("polynomial", **params)
    dtype = ctx.out_dtype()
    element = ELEMENT_TYPES[dtype]

    def horner(block: Block, args: list[SSAValue]) -> SSAValue:
        point, *rest = args
        total = rest[-1]
        for coefficient in reversed(rest[:-1]):
            product = scalar(block, "mul", [total, point], element)
            total = scalar(block, "add", [product, coefficient], element)
        return total

    operands = (x, *coefficients)
    return ctx.pointwise(ctx.out_shape(), operands, horner, dtype, operand_maps(ctx, len(operands)))
