"""The rule of `juju.Primitive`: an opaque call that the engine lowers to MAX operations."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64

from juju.dialect._xdsl import new_op
from juju.dialect.ops import CustomOp
from juju.dialect.types import ELEMENT_TYPES, tensor_type
from juju.rules._registry import Operand, RuleContext, Unsupported


def custom_call(ctx: RuleContext, primitive: Any, operands: tuple[Operand, ...], params: dict[str, Any]) -> list[Any]:
    """Adds a `juju.custom`; the primitive and its parameters are kept beside the module."""
    outs = []
    for value in ctx.equation.outputs:
        if str(value.aval.dtype) not in ELEMENT_TYPES:
            raise Unsupported(f"{primitive.name} gives dtype {value.aval.dtype}, which juju does not compile")
        outs.append(tensor_type(tuple(value.aval.shape), str(value.aval.dtype)))
    ctx.customs.append((primitive, dict(params)))
    properties = {"callee": StringAttr(primitive.name), "index": IntegerAttr(len(ctx.customs) - 1, i64)}
    op = ctx.add(new_op(CustomOp, [[ctx.tensor(x) for x in operands]], [outs], properties))
    return list(op.outs)
