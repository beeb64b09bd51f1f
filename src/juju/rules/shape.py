"""Rules of the primitives that change shapes. In this release: what needs no copy and no index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from juju.dialect._xdsl import new_op
from juju.dialect.ops import ReshapeOp
from juju.dialect.types import tensor_type
from juju.rules._registry import Operand, RuleContext, Unsupported, projection, require_defaults, rule


def reshape(ctx: RuleContext, x: Operand, shape: Sequence[int]) -> SSAValue:
    """The same memory under another shape."""
    x = ctx.tensor(x)
    target = tensor_type(tuple(shape), ctx.out_dtype())
    return x if x.type == target else ctx.add(new_op(ReshapeOp, [x], [target])).result


@rule("broadcast_in_dim_p")
def _broadcast_in_dim_rule(
    ctx: RuleContext, x: Operand, *dynamic: Any, shape: Any, broadcast_dimensions: Any, sharding: Any = None
) -> SSAValue:
    """Axis k of the operand becomes axis `broadcast_dimensions[k]`; all others, and those of extent 1, repeat it."""
    require_defaults("broadcast_in_dim", sharding=sharding)
    before, after = ctx.in_shape(0), ctx.out_shape()
    if math.prod(before) == math.prod(after) and list(broadcast_dimensions) == sorted(broadcast_dimensions):
        return reshape(ctx, x, after)
    maps = [projection(len(after), tuple(broadcast_dimensions), before, after)] if before else None
    return ctx.pointwise(after, [x], lambda _, args: args[0], ctx.out_dtype(), maps)


@rule("reshape_p")
def _reshape_rule(ctx: RuleContext, x: Operand, *_: Any, new_sizes: Any, dimensions: Any = None, sharding: Any = None):
    """Row-major: the memory does not change."""
    require_defaults("reshape", dimensions=dimensions, sharding=sharding)
    return reshape(ctx, x, ctx.out_shape())


@rule("squeeze_p", "expand_dims_p")
def _squeeze_rule(ctx: RuleContext, x: Operand, *, dimensions: Any) -> SSAValue:
    """Axes of extent 1 go or come; the memory does not change."""
    return reshape(ctx, x, ctx.out_shape())


@rule("transpose_p")
def _transpose_rule(ctx: RuleContext, x: Operand, *, permutation: Any) -> SSAValue:
    """Only permutations that leave the order of axes longer than 1 as it is."""
    shape = ctx.in_shape(0)
    if [a for a in permutation if shape[a] != 1] != sorted(a for a in permutation if shape[a] != 1) and 0 not in shape:
        raise Unsupported(f"transpose of {shape} by {tuple(permutation)} moves memory, which juju does not do yet")
    return reshape(ctx, x, ctx.out_shape())


@rule("copy_p", "stop_gradient_p", "device_put_p", "optimization_barrier_p")
def _identity_rule(ctx: RuleContext, *operands: Operand, **_: Any) -> list[Operand]:
    """The operands as they are: values are immutable here."""
    return list(operands)
