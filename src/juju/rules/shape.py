"""Rules of the primitives that move elements: none computes, most are an affine map of the loops.

What is not affine (padding, concatenation) reads at computed indices under a condition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju.dialect import body
from juju.dialect._xdsl import const_minus, new_op
from juju.dialect.ops import ReshapeOp
from juju.dialect.types import ELEMENT_TYPES, shape_of, tensor_type
from juju.rules._places import Places, constant
from juju.rules._registry import WHOLE, Operand, RuleContext, Unsupported, add_const, projection, require_defaults, rule
from juju.rules.elementwise import scalar


def reshape(ctx: RuleContext, x: Operand, shape: Sequence[int]) -> Operand:
    """The same memory under another shape."""
    if _has_shape(x, shape):
        return x
    x = ctx.tensor(x)
    return ctx.add(new_op(ReshapeOp, [x], [tensor_type(tuple(shape), ctx.out_dtype())])).result


def _has_shape(x: Operand, shape: Sequence[int]) -> bool:
    own = shape_of(x.type) if isinstance(x, SSAValue) and isinstance(x.type, TensorType) else ()
    return own == tuple(shape)


def moved(ctx: RuleContext, x: Operand, shape: Sequence[int], places: Sequence[AffineExpr]) -> SSAValue:
    """An array of `shape` whose elements are those of `x` at `places`, expressions of the loops over `shape`."""
    amap = AffineMap(len(shape), 0, tuple(places))
    return ctx.pointwise(shape, [x], lambda _, args: args[0], ctx.out_dtype(), [amap])


def sliced(
    ctx: RuleContext, x: Operand, starts: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> Operand:
    """`shape` elements from `starts` on in steps of `strides`."""
    if _has_shape(x, shape):
        return x
    places = [
        AffineExpr.dimension(d) * int(stride) + int(start)
        for d, (start, stride) in enumerate(zip(starts, strides, strict=True))
    ]
    return moved(ctx, x, shape, places)


@rule("broadcast_in_dim_p")
def _broadcast_in_dim_rule(
    ctx: RuleContext, x: Operand, *dynamic: Any, shape: Any, broadcast_dimensions: Any, sharding: Any = None
) -> Operand:
    """Axis k of the operand becomes axis `broadcast_dimensions[k]`; all others, and those of extent 1, repeat it."""
    require_defaults("broadcast_in_dim", sharding=sharding)
    _require_static("broadcast_in_dim", dynamic)
    before, after = ctx.in_shape(0), ctx.out_shape()
    if math.prod(before) == math.prod(after) and list(broadcast_dimensions) == sorted(broadcast_dimensions):
        return reshape(ctx, x, after)
    maps = [projection(len(after), tuple(broadcast_dimensions), before, after)] if before else None
    return ctx.pointwise(after, [x], lambda _, args: args[0], ctx.out_dtype(), maps)


def _require_static(primitive: str, dynamic: Sequence[Any]) -> None:
    if dynamic:
        raise Unsupported(f"{primitive} to a shape that is only known at run time")


@rule("reshape_p")
def _reshape_rule(
    ctx: RuleContext, x: Operand, *dynamic: Any, new_sizes: Any, dimensions: Any = None, sharding: Any = None
) -> Operand:
    """Row-major: the memory does not change, unless `dimensions` permutes the axes before."""
    require_defaults("reshape", sharding=sharding)
    _require_static("reshape", dynamic)
    if dimensions is not None:
        x = transposed(ctx, x, ctx.in_shape(0), tuple(dimensions))
    return reshape(ctx, x, ctx.out_shape())


@rule("squeeze_p", "expand_dims_p")
def _squeeze_rule(ctx: RuleContext, x: Operand, *, dimensions: Any) -> Operand:
    """Axes of extent 1 go or come; the memory does not change."""
    return reshape(ctx, x, ctx.out_shape())


@rule("transpose_p")
def _transpose_rule(ctx: RuleContext, x: Operand, *, permutation: Any) -> Operand:
    """Axis k of the result is axis `permutation[k]` of the operand."""
    return transposed(ctx, x, ctx.in_shape(0), tuple(permutation))


def transposed(ctx: RuleContext, x: Operand, shape: Sequence[int], permutation: tuple[int, ...]) -> Operand:
    """The operand with permuted axes; where only axes of extent 1 move, the memory does not change."""
    after = [shape[a] for a in permutation]
    long = [a for a in permutation if shape[a] != 1]
    if long == sorted(long) or 0 in shape:
        return reshape(ctx, x, after)
    return moved(ctx, x, after, [AffineExpr.dimension(permutation.index(a)) for a in range(len(shape))])


@rule("rev_p")
def _rev_rule(ctx: RuleContext, x: Operand, *, dimensions: Any) -> Operand:
    """The axes of `dimensions`, last element first."""
    shape = ctx.out_shape()
    turned = [d for d in dimensions if shape[d] > 1]
    if not turned:
        return x
    loops = [AffineExpr.dimension(d) for d in range(len(shape))]
    return moved(
        ctx,
        x,
        shape,
        [const_minus(n - 1, e) if d in turned else e for d, (e, n) in enumerate(zip(loops, shape, strict=True))],
    )


@rule("slice_p")
def _slice_rule(ctx: RuleContext, x: Operand, *, start_indices: Any, limit_indices: Any, strides: Any) -> Operand:
    """Every `strides`-th element of a box."""
    return sliced(ctx, x, start_indices, strides or (1,) * len(start_indices), ctx.out_shape())


@rule("split_p")
def _split_rule(ctx: RuleContext, x: Operand, *, sizes: Any, axis: int) -> list[Operand]:
    """Consecutive pieces along one axis."""
    shape = ctx.in_shape(0)
    outs, start = [], 0
    for n, size in enumerate(sizes):
        starts = [start if d == axis else 0 for d in range(len(shape))]
        outs.append(sliced(ctx, x, starts, (1,) * len(shape), ctx.out_shape(n)))
        start += size
    return outs


@rule("unstack_p")
def _unstack_rule(ctx: RuleContext, x: Operand, *, axis: int) -> list[Operand]:
    """The elements along one axis, as arrays without it."""
    shape = list(ctx.in_shape(0))
    after = ctx.out_shape()
    loops = [AffineExpr.dimension(d) for d in range(len(after))]
    return [moved(ctx, x, after, [*loops[:axis], AffineExpr.constant(n), *loops[axis:]]) for n in range(shape[axis])]


@rule("tile_p")
def _tile_rule(ctx: RuleContext, x: Operand, *, reps: Any) -> Operand:
    """Each axis repeated as a whole."""
    before, after = ctx.in_shape(0), ctx.out_shape()
    if before == after:
        return x
    loops = [AffineExpr.dimension(d) for d in range(len(after))]
    places = [
        loop if count == 1 else AffineExpr.constant(0) if extent == 1 else loop % extent
        for loop, count, extent in zip(loops, reps, before, strict=True)
    ]
    if 0 in after:
        return ctx.pointwise(after, [], lambda block, _: constant(block, 0, ctx.out_dtype()), ctx.out_dtype())
    return moved(ctx, x, after, places)


@rule("pad_p")
def _pad_rule(ctx: RuleContext, x: Operand, value: Operand, *, padding_config: Any) -> Operand:
    """`value` before, after and between the elements of each axis; negative padding takes elements away."""
    before, after = ctx.in_shape(0), ctx.out_shape()
    padding = [tuple(int(n) for n in config) for config in padding_config]
    if not before:
        return x
    if 0 in before or 0 in after:
        return ctx.pointwise(after, [value], lambda _, args: args[0], ctx.out_dtype())
    if all(
        low <= 0 and high <= 0 and (not between or n == 1)
        for n, (low, high, between) in zip(before, padding, strict=True)
    ):
        return sliced(ctx, x, [-low for low, _, _ in padding], [1] * len(before), after)

    def guarded(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        array, filler = args
        indices, masks = [], []
        for d, (extent, (low, high, between)) in enumerate(zip(before, padding, strict=True)):
            step = between + 1 if extent > 1 else 1
            index = at.shift(at.loop(d), -low)
            masks.append(at.within(index, 0 if low > 0 else None, (extent - 1) * step + 1 if high > 0 else None))
            if step > 1:
                masks.append(at.compare("eq", at.scalar("rem", index, at.const(step)), at.const(0)))
                index = at.scalar("div", index, at.const(step))
            indices.append(index)
        mask = at.both(*masks)
        return at.select(mask, body.read(block, array, indices, mask), filler)

    return ctx.pointwise(after, [x, value], guarded, ctx.out_dtype(), [WHOLE, None])


@rule("concatenate_p")
def _concatenate_rule(ctx: RuleContext, *operands: Operand, dimension: int) -> Operand:
    """Operands one after the other along one axis."""
    extents = [ctx.in_shape(n)[dimension] for n in range(len(operands))]
    parts = [(x, n) for x, n in zip(operands, extents, strict=True) if n]
    return joined(ctx, [x for x, _ in parts] or list(operands[:1]), [n for _, n in parts] or [0], dimension)


@rule("stack_p")
def _stack_rule(ctx: RuleContext, *operands: Operand, axis: int) -> Operand:
    """Operands side by side along a new axis."""
    shape = ctx.in_shape(0)
    grown = [reshape(ctx, x, (*shape[:axis], 1, *shape[axis:])) for x in operands]
    return joined(ctx, grown, [1] * len(grown), axis)


def joined(ctx: RuleContext, parts: Sequence[Operand], extents: Sequence[int], axis: int) -> Operand:
    """`parts` one after the other; at each place one of them is read."""
    if len(parts) == 1:
        return parts[0]
    shape = ctx.out_shape()

    def chosen(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        loops = [at.loop(d) for d in range(len(shape))]
        ends = np.cumsum(extents).tolist()
        value: SSAValue | None = None
        for array, extent, end in reversed(list(zip(args, extents, ends, strict=True))):
            start = end - extent
            below = None if end == ends[-1] else at.compare("lt", loops[axis], at.extent(end))
            above = None if start == 0 else at.compare("ge", loops[axis], at.extent(start))
            indices = [at.shift(loop, -start) if d == axis else loop for d, loop in enumerate(loops)]
            found = body.read(block, array, indices, at.both(above, below))
            value = found if value is None else at.select(below, found, value)
        assert value is not None
        return value

    return ctx.pointwise(shape, parts, chosen, ctx.out_dtype(), [WHOLE] * len(parts))


@rule("iota_p")
def _iota_rule(
    ctx: RuleContext, *dynamic: Any, dtype: Any, shape: Any, dimension: int, sharding: Any = None
) -> SSAValue:
    """The index along `dimension`, in any dtype."""
    require_defaults("iota", sharding=sharding)
    _require_static("iota", dynamic)
    element = ELEMENT_TYPES[ctx.out_dtype()]
    return ctx.pointwise(
        ctx.out_shape(),
        [],
        lambda block, _: Places(block).convert(body.index(block, dimension), element),
        ctx.out_dtype(),
    )


@rule("iota_2x32_shape_p")
def _iota_2x32_shape_rule(ctx: RuleContext, *, shape: Any) -> list[Operand]:
    """The row-major position of each element, as the upper and the lower half of a 64-bit number."""
    total = math.prod(shape)
    element, wide = ELEMENT_TYPES["uint32"], ELEMENT_TYPES["uint64"]

    def halves(block: Block, _: list[SSAValue]) -> list[SSAValue]:
        at = Places(block)
        position = at.loop(0)
        low = at.convert(position, element)
        if total <= 2**32:
            return [add_const(block, np.uint32(0)), low]
        shift = add_const(block, np.uint64(32))
        high = scalar(block, "shift_right_logical", [at.convert(position, wide), shift], wide)
        return [at.convert(high, element), low]

    return [reshape(ctx, x, shape) for x in ctx.nest([total], [], halves, ["uint32", "uint32"])]


@rule("copy_p", "stop_gradient_p", "device_put_p", "optimization_barrier_p")
def _identity_rule(ctx: RuleContext, *operands: Operand, **_: Any) -> list[Operand]:
    """The operands as they are: values are immutable here."""
    return list(operands)


@rule("tie_p")
def _tie_rule(ctx: RuleContext, _: Operand, y: Operand) -> Operand:
    """The second operand, said to depend on the first."""
    return y


@rule("empty_p", "empty2_p")
def _empty_rule(
    ctx: RuleContext, *, dtype: Any, shape: Any = (), out_sharding: Any = None, memory_space: Any = None
) -> SSAValue:
    """Zeros, as XLA gives on CPU. `memory_space` is of no concern on a CPU."""
    require_defaults("empty", out_sharding=out_sharding)
    return ctx.pointwise(ctx.out_shape(), [], lambda block, _: constant(block, 0, ctx.out_dtype()), ctx.out_dtype())
