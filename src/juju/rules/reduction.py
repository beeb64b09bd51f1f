"""Rules of reductions and running totals."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, SSAValue

from juju._program import Scalar
from juju.dialect import body
from juju.dialect._xdsl import new_op
from juju.dialect.ops import YieldOp
from juju.dialect.types import ELEMENT_TYPES
from juju.rules._computation import Computation
from juju.rules._places import neutral
from juju.rules._registry import Operand, RuleContext, Unsupported, require_defaults, rule
from juju.rules.elementwise import scalar
from juju.rules.shape import reshape

_REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}

_RUNNING = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min", "cumlogsumexp": "logaddexp"}


@rule("reduce_sum_p", "reduce_prod_p", "reduce_max_p", "reduce_min_p", kinds="fiub")
def _reduce_rule(ctx: RuleContext, x: Operand, *, axes: Any, **params: Any) -> Operand:
    """All elements along some axes combined; none gives 0, 1 or the lowest or highest value."""
    return _reduced(ctx, x, axes, params)


@rule("reduce_and_p", "reduce_or_p", "reduce_xor_p", kinds="iub")
def _reduce_bits_rule(ctx: RuleContext, x: Operand, *, axes: Any, **params: Any) -> Operand:
    """All elements along some axes combined, bit by bit; none gives all bits set, or none."""
    return _reduced(ctx, x, axes, params)


def _reduced(ctx: RuleContext, x: Operand, axes: Any, params: dict[str, Any]) -> Operand:
    name = ctx.equation.primitive
    require_defaults(name, **params)
    shape = ctx.in_shape(0)
    if all(shape[a] == 1 for a in axes):
        return reshape(ctx, x, ctx.out_shape())  # a lone -0.0 stays what it is
    kind = _REDUCTIONS[name]
    return ctx.nest(
        shape,
        [x],
        lambda block, args: [body.reduce(block, kind, args[0])],
        [ctx.out_dtype()],
        reduced=tuple(axes),
    )[0]


@rule("argmax_p", "argmin_p")
def _argmax_rule(ctx: RuleContext, x: Operand, *, axes: Any, index_dtype: Any, **params: Any) -> SSAValue:
    """The index of the first extreme along one axis; the first NaN is one."""
    name = ctx.equation.primitive
    require_defaults(name, **params)
    if len(axes) != 1:
        raise Unsupported(f"{name} along {len(axes)} axes")
    element = ELEMENT_TYPES[ctx.out_dtype()]
    return ctx.nest(
        ctx.in_shape(0),
        [x],
        lambda block, args: [body.reduce(block, name, args[0], element)],
        [ctx.out_dtype()],
        reduced=tuple(axes),
    )[0]


@rule("cumsum_p", "cumprod_p", "cummax_p", "cummin_p", kinds="fiu")
def _cumulate_rule(ctx: RuleContext, x: Operand, *, axis: int, reverse: bool, **params: Any) -> Operand:
    """The running total along one axis, of the same dtype; `reverse` runs from its end."""
    return _cumulated(ctx, x, axis, reverse, params)


@rule("cumlogsumexp_p", kinds="f")
def _cumlogsumexp_rule(ctx: RuleContext, x: Operand, *, axis: int, reverse: bool, **params: Any) -> Operand:
    """The logarithm of the running sum of exponentials."""
    return _cumulated(ctx, x, axis, reverse, params)


def _cumulated(ctx: RuleContext, x: Operand, axis: int, reverse: bool, params: dict[str, Any]) -> Operand:
    name, shape = ctx.equation.primitive, ctx.in_shape(0)
    require_defaults(name, **params)
    if shape[axis] == 1 or 0 in shape:
        return x
    kind = _RUNNING[name]
    return ctx.nest(
        shape,
        [x],
        lambda block, args: [body.cumulate(block, kind, args[0], reverse=bool(reverse))],
        [ctx.out_dtype()],
        reduced=(axis,),
        outs=[range(len(shape))],
    )[0]


@rule("reduce_p")
def _general_reduce_rule(
    ctx: RuleContext, *operands: Operand, computation: Any, jaxpr: Any, dimensions: Any, **params: Any
) -> list[Operand]:
    """Arrays reduced together by any computation of scalars, from first values on; along no axis it does nothing."""
    require_defaults("reduce", **params)
    count = len(operands) // 2
    if not dimensions:
        return list(operands[:count])
    step = Computation("reduce", jaxpr)
    dtypes = [ctx.out_dtype(n) for n in range(count)]

    def total(block: Block, args: list[SSAValue]) -> list[SSAValue]:
        return combined(block, step, args[count:], args[:count], operands[count:], dtypes)

    return [*ctx.nest(ctx.in_shape(0), operands, total, dtypes, reduced=tuple(dimensions))]


def combined(
    block: Block,
    step: Computation,
    firsts: list[SSAValue],
    elements: list[SSAValue],
    values: tuple[Operand, ...],
    dtypes: list[str],
) -> list[SSAValue]:
    """Elements combined over the reduction loops, from `firsts` on; `values` are those as far as they are known."""
    kind = step.kind()
    if kind is None:
        return body.reduce_general(block, firsts, elements, combiner(step, elements))
    result = body.reduce(block, kind, elements[0])
    known = values[0]
    if isinstance(known, Scalar) and known.value.tobytes() == neutral(kind, dtypes[0]).tobytes():
        return [result]
    return [scalar(block, kind, [firsts[0], result], result.type)]


def combiner(step: Computation, elements: list[SSAValue]) -> Block:
    """The region of a general reduction: totals, then elements, to totals."""
    region = Block(arg_types=[v.type for v in (*elements, *elements)])
    region.add_op(new_op(YieldOp, [step.apply(region, list(region.args))]))
    return region
