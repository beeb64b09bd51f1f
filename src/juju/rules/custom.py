"""The rule of `juju.Primitive`: an opaque call that the engine lowers to MAX operations."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64

from juju._program import Scalar
from juju.dialect._xdsl import new_op
from juju.dialect.ops import CustomOp
from juju.dialect.types import ELEMENT_TYPES, tensor_type
from juju.rules._registry import Custom, Operand, RuleContext, Unsupported, name_hint


def custom_call(ctx: RuleContext, primitive: Any, operands: tuple[Operand, ...], params: dict[str, Any]) -> list[Any]:
    """Adds a `juju.custom`; the primitive and its parameters are kept beside the module."""
    outs = []
    for value in ctx.equation.outputs:
        if str(value.aval.dtype) not in ELEMENT_TYPES:
            raise Unsupported(f"{primitive.name} gives dtype {value.aval.dtype}, which juju does not compile")
        outs.append(tensor_type(tuple(value.aval.shape), str(value.aval.dtype)))
    scalars = tuple(x.value if isinstance(x, Scalar) else None for x in operands)
    ctx.customs.append(Custom(primitive, dict(params), scalars))
    properties = {"callee": StringAttr(primitive.name), "index": IntegerAttr(len(ctx.customs) - 1, i64)}
    op = ctx.add(new_op(CustomOp, [[x for x in operands if not isinstance(x, Scalar)]], [outs], properties))
    for result in op.outs:
        result.name_hint = name_hint(primitive.name)
    return list(op.outs)
