"""Rules of the scatters: a nest finds where each window begins, a hand-written kernel writes there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju.dialect.ops import ConstOp, NestOp
from juju.dialect.types import DTYPES, ELEMENT_TYPES, element_of, item_size, shape_of, tensor_type
from juju.passes.flatten import root_of
from juju.rules._places import Mask, Places
from juju.rules._registry import Operand, RuleContext, Unsupported, rule

COMBINES = {
    "scatter": "set",
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}
"""What a kernel does with an element and its update, by primitive."""

LARGEST = 2**31 - 1
"""Places are int32."""

PART = 1 << 18
"""Bytes of a part of the result, which should stay in cache while it is updated. Each part looks at all windows."""

COPY, SCAN, SINGLE, VECTOR = 0.05, 0.6, 1.2, 0.3
"""Nanoseconds to copy a byte, to look at a window, to update one element alone and one among others."""


@rule("scatter_p", "scatter_add_p", "scatter_sub_p", "scatter_mul_p", "scatter_min_p", "scatter_max_p")
def _scatter_rule(
    ctx: RuleContext,
    x: Operand,
    indices: Operand,
    updates: Operand,
    *,
    dimension_numbers: Any,
    mode: Any,
    update_jaxpr: Any = None,
    update_consts: Any = (),
    indices_are_sorted: Any = False,
    unique_indices: Any = False,
) -> Operand:
    """Windows at computed starts replaced by, or combined with, updates, one after the other in the order of indices.

    A window that would begin or end outside is left out, as a whole; with `clip` it is moved inside.
    """
    primitive = ctx.equation.primitive
    if mode.name not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise Unsupported(f"{primitive} with mode {mode.name.lower()}")
    if primitive == "scatter" and update_jaxpr is not None:
        raise Unsupported("x.at[...].apply with a function; write x.at[i].set(f(x[i])) instead")
    shape, counts = ctx.in_shape(0), ctx.in_shape(2)
    if 0 in shape or 0 in counts:
        return x
    size = math.prod(shape)
    if size > LARGEST:
        raise Unsupported(f"{primitive} into {size} elements, which is more than 2**31 - 1")
    numbers = dimension_numbers
    kept = [d for d in range(len(shape)) if d not in (*numbers.inserted_window_dims, *numbers.operand_batching_dims)]
    extents = [1] * len(shape)
    for d, axis in zip(kept, numbers.update_window_dims, strict=True):
        extents[d] = counts[axis]
    starts = _starts(ctx, ctx.tensor(indices), numbers, shape, extents, clips=mode.name == "CLIP")
    window = _window(shape, extents)
    elements = math.prod(extents)
    windows = math.prod(counts) // elements
    filler, update = _uniform(ctx, x), _uniform(ctx, updates)
    if update is None:
        update = _ordered(ctx, ctx.tensor(updates), numbers.update_window_dims)
    operand = filler if filler is not None else ctx.tensor(x)
    parts, cost = _parts(size * item_size(element_of(operand.type)), windows, elements)
    return ctx.library(
        "juju_scatter.scatter",
        [operand, starts, update],
        [tensor_type(shape, ctx.out_dtype())],
        units=parts,
        cost=cost,
        sizes=[parts, size, windows, *(n for axis in window for n in axis)],
        params={
            "combine": COMBINES[primitive],
            "rank": len(window),
            "filled": filler is not None,
            "same": math.prod(shape_of(update.type)) == 1 and windows * elements > 1,
        },
    )[0]


def _parts(size: int, windows: int, elements: int) -> tuple[int, float]:
    """How many parts a result of `size` bytes is computed in, and the nanoseconds for one of them."""
    work = size * COPY + windows * elements * (VECTOR if elements >= 16 else SINGLE)
    scan = windows * SCAN
    # Elements one by one would take as long to tell apart as to write.
    worth = (work if elements > 2 else size * COPY) / (4 * scan)
    parts = max(1, min(int(worth), -(-size // PART)))
    return parts, work / parts + scan


def _starts(
    ctx: RuleContext, indices: SSAValue, numbers: Any, shape: Sequence[int], extents: Sequence[int], *, clips: bool
) -> SSAValue:
    """The row-major position at which each window begins, or -1 if it is left out."""
    space = shape_of(indices.type)[:-1]
    rank = len(space)
    limits = [n - extent for n, extent in zip(shape, extents, strict=True)]
    strides = _strides(shape)
    # A start that may only be 0 need not be read, except to see whether it is outside.
    computed = {a: k for k, a in enumerate(numbers.scatter_dims_to_operand_dims) if limits[a] or not clips}
    along = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))

    def start(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        total: SSAValue | None = None
        masks: list[Mask] = []
        for a, found in [*zip(computed, args, strict=True), *((a, None) for a in along)]:
            if found is None:
                place = at.loop(along[a])
            elif clips:
                place = at.clamped(found, limits[a])
            else:
                place, inside = at.checked(found, limits[a])
                masks.append(inside)
            if strides[a] != 1:
                place = at.scalar("mul", place, at.extent(strides[a]))
            total = at.plus(total, place)
        place = at.const(0) if total is None else total
        return at.convert(at.select(at.both(*masks), place, at.const(-1)), ELEMENT_TYPES["int32"])

    loops = [AffineExpr.dimension(d) for d in range(rank)]
    maps = [AffineMap(rank, 0, (*loops, AffineExpr.constant(k))) for k in computed.values()]
    return ctx.pointwise(space, [indices] * len(maps), start, "int32", maps)


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _window(shape: Sequence[int], extents: Sequence[int]) -> list[tuple[int, int]]:
    """Extent and stride of a window's axes; neighbours that are walked together are one."""
    window: list[tuple[int, int]] = []
    for extent, stride in zip(extents, _strides(shape), strict=True):
        if extent == 1:
            continue
        if window and window[-1][1] == extent * stride:
            window[-1] = (window[-1][0] * extent, stride)
        else:
            window.append((extent, stride))
    return window


def _ordered(ctx: RuleContext, updates: SSAValue, window: Sequence[int]) -> SSAValue:
    """The updates with the axes of their windows last."""
    shape = shape_of(updates.type)
    order = [*(d for d in range(len(shape)) if d not in window), *window]
    long = [d for d in order if shape[d] != 1]
    if long == sorted(long):
        return updates
    places = tuple(AffineExpr.dimension(order.index(d)) for d in range(len(shape)))
    amap = AffineMap(len(shape), 0, places)
    dtype = DTYPES[element_of(updates.type)]
    return ctx.pointwise([shape[d] for d in order], [updates], lambda _, args: args[0], dtype, [amap])


def _uniform(ctx: RuleContext, x: Operand) -> SSAValue | None:
    """The one element that an array consists of, if its nest says so; the array itself is then not needed."""
    if not isinstance(x, SSAValue):
        return None
    made = root_of(x)
    nest = made.owner
    if not isinstance(nest, NestOp) or not shape_of(x.type):
        return None
    value = nest.yielded()[list[SSAValue](nest.outs).index(made)]
    if not isinstance(value.owner, ConstOp):
        return None
    const = value.owner.clone()

    def element(block: Block, _: list[SSAValue]) -> SSAValue:
        block.add_op(const)
        return const.result

    return ctx.pointwise((), [], element, ctx.out_dtype())
