"""Rules of the primitives that order rows: hand-written kernels find the places, nests read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju.dialect import body
from juju.dialect._xdsl import new_op
from juju.dialect.body import IndexOp
from juju.dialect.ops import SCALARS, NestOp, ReshapeOp
from juju.dialect.types import DTYPES, INDEX, element_of, item_size, shape_of, tensor_type
from juju.passes.flatten import root_of
from juju.rules._places import Places, constant
from juju.rules._registry import WHOLE, Operand, RuleContext, Unsupported, rule

SORT, TOTAL_REVERSED = 0, 1
"""`Order` of `kernels/juju_sort/key.mojo`."""

LONGEST = 2**31 - 1
"""Places are int32."""


@rule("sort_p")
def _sort_rule(ctx: RuleContext, *operands: Operand, dimension: int, is_stable: bool, num_keys: int) -> Any:
    """Rows in the order of the first `num_keys` operands; zeros are equal, NaN comes last. Always stable."""
    shape = ctx.in_shape(0)
    if math.prod(shape) == 0 or shape[dimension] == 1:
        return list(operands)
    _check_length("sort", shape[dimension])
    tensors = [ctx.tensor(x) for x in operands]
    if len(tensors) == 1:
        return _turned_back(ctx, _sorted_rows(ctx, _turned(ctx, tensors[0], dimension)), dimension)
    order: SSAValue | None = None
    for key in reversed(tensors[:num_keys]):
        order = _places(ctx, _turned(ctx, key, dimension), SORT, order)
    assert order is not None
    return [
        _turned_back(ctx, order, dimension) if _is_iota(x, dimension) else _read_at(ctx, x, order, dimension)
        for x in tensors
    ]


@rule("top_k_p")
def _top_k_rule(ctx: RuleContext, x: Operand, *, k: int, axis: int = -1, is_stable: bool = True) -> list[SSAValue]:
    """The `k` largest by all bits (NaN first, -NaN last, 0 before -0), and where they are; of equal ones the first.

    It is always stable; `is_stable` came with JAX 0.12.
    """
    return _first(ctx, x, k, axis % len(ctx.in_shape(0)), TOTAL_REVERSED)


@rule("approx_top_k_p", kinds="f")
def _approx_top_k_rule(
    ctx: RuleContext,
    x: Operand,
    *,
    reduction_dimension: int,
    is_max_k: bool,
    k: int,
    recall_target: float,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> list[SSAValue]:
    """Exact, as XLA's is on a CPU; without aggregation as many as an accelerator would give.

    The largest are in the order of `top_k`, the smallest in that of `sort`. XLA takes one or the other way by shape
    and dtype, and puts NaN nowhere in particular.
    """
    axis = reduction_dimension % len(ctx.in_shape(0))
    return _first(ctx, x, ctx.out_shape()[axis], axis, TOTAL_REVERSED if is_max_k else SORT)


def _first(ctx: RuleContext, x: Operand, k: int, axis: int, order: int) -> list[SSAValue]:
    """The first `k` along an axis in an order, and their places as int32."""
    shape = ctx.in_shape(0)
    n = shape[axis]
    x = ctx.tensor(x)
    if ctx.out_dtype(1) != "int32":
        raise Unsupported(f"{ctx.equation.primitive} with indices of {ctx.out_dtype(1)}")
    if 0 in (*shape, k):
        return [_nothing(ctx, ctx.out_shape(n), ctx.out_dtype(n)) for n in range(2)]
    _check_length(ctx.equation.primitive, n)
    rows = _turned(ctx, x, axis)
    before = shape_of(rows.type)
    outs = [tensor_type((*before[:-1], k), dtype) for dtype in (DTYPES[element_of(rows.type)], "int32")]
    values, places = ctx.library(
        "juju_sort.top_rows",
        [rows],
        outs,
        units=math.prod(before[:-1]),
        cost=n * (0.5 if k <= 16 else 3.0) + k * 40.0,
        sizes=[n, k],
        params={"order": order},
    )
    return [_turned_back(ctx, values, axis), _turned_back(ctx, places, axis)]


def _is_iota(x: SSAValue, axis: int) -> bool:
    """Whether an int32 array holds the index along an axis; in order it then is the places themselves."""
    made = root_of(x)
    nest = made.owner
    if not isinstance(nest, NestOp) or made.type != x.type or DTYPES[element_of(x.type)] != "int32":
        return False
    convert = nest.yielded()[list[SSAValue](nest.outs).index(made)].owner
    index = convert.operands[0].owner if isinstance(convert, SCALARS["convert"]) else None
    if not isinstance(index, IndexOp) or nest.reduced:
        return False
    return shape_of(x.type) == nest.space and index.loop == axis


def _nothing(ctx: RuleContext, shape: Sequence[int], dtype: str) -> SSAValue:
    """An array without elements."""
    return ctx.pointwise(shape, [], lambda block, _: constant(block, 0, dtype), dtype)


def _check_length(primitive: str, n: int) -> None:
    if n > LONGEST:
        raise Unsupported(f"{primitive} of rows of {n} elements, which is more than 2**31 - 1")


def _sorted_rows(ctx: RuleContext, x: SSAValue) -> SSAValue:
    shape = shape_of(x.type)
    return ctx.library(
        "juju_sort.sort_rows",
        [x],
        [x.type],
        units=math.prod(shape[:-1]),
        cost=_cost(shape[-1], item_size(element_of(x.type))),
        sizes=[shape[-1]],
    )[0]


def _places(ctx: RuleContext, key: SSAValue, order: int, before: SSAValue | None) -> SSAValue:
    """Where the elements of sorted rows come from; equal ones are in the order of `before`, or in their own."""
    shape = shape_of(key.type)
    result = tensor_type(shape, "int32")
    again = before is not None
    ins = [key, before] if before is not None else [key]
    return ctx.library(
        "juju_sort.order_rows" if not again else "juju_sort.order_rows_again",
        ins,
        [result],
        units=math.prod(shape[:-1]),
        cost=2 * _cost(shape[-1], item_size(element_of(key.type))),
        sizes=[shape[-1]],
        params={"order": order},
    )[0]


def _cost(n: int, size: int) -> float:
    """Nanoseconds to sort a row of numbers of `size` bytes."""
    return n * (1.0 + 1.5 * size) + (200.0 if n > 32 else 0.0)


# Axes -----------------------------------------------------------------------------------------------------------------


def _turned(ctx: RuleContext, x: SSAValue, axis: int) -> SSAValue:
    """`x` with an axis moved to the end."""
    rank = len(shape_of(x.type))
    return _transposed(ctx, x, [*(d for d in range(rank) if d != axis), axis])


def _turned_back(ctx: RuleContext, x: SSAValue, axis: int) -> SSAValue:
    """`x` with the last axis moved to another place."""
    rank = len(shape_of(x.type))
    return _transposed(ctx, x, [*range(axis), rank - 1, *range(axis, rank - 1)])


def _transposed(ctx: RuleContext, x: SSAValue, permutation: Sequence[int]) -> SSAValue:
    before = shape_of(x.type)
    after = tuple(before[a] for a in permutation)
    if [a for a in permutation if before[a] != 1] == [a for a, n in enumerate(before) if n != 1]:
        return x if before == after else ctx.add(_reshape(x, after)).result
    loops = [AffineExpr.dimension(list(permutation).index(a)) for a in range(len(before))]
    amap = AffineMap(len(after), 0, tuple(loops))
    return ctx.pointwise(after, [x], lambda _, args: args[0], DTYPES[element_of(x.type)], [amap])


def _reshape(x: SSAValue, shape: Sequence[int]) -> ReshapeOp:
    return new_op(ReshapeOp, [x], [tensor_type(tuple(shape), DTYPES[element_of(x.type)])])


def _read_at(ctx: RuleContext, x: SSAValue, places: SSAValue, axis: int) -> SSAValue:
    """`x` along an axis at `places`, whose last axis that is."""
    rank = len(shape_of(x.type))
    count = shape_of(places.type)[-1]
    space = tuple(count if d == axis else n for d, n in enumerate(shape_of(x.type)))
    loops = [AffineExpr.dimension(d) for d in range(rank)]
    where = AffineMap(rank, 0, (*(e for d, e in enumerate(loops) if d != axis), loops[axis]))

    def element(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        array, place = args
        indices = [at.convert(place, INDEX) if d == axis else at.loop(d) for d in range(rank)]
        return body.read(block, array, indices)

    return ctx.pointwise(space, [x, places], element, DTYPES[element_of(x.type)], [WHOLE, where])
