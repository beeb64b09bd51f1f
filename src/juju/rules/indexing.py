"""Rules of the primitives that read at computed indices; none ever reads outside its array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju._program import Scalar
from juju.dialect import body
from juju.dialect._xdsl import uniform_map
from juju.rules._places import Mask, Places, constant
from juju.rules._registry import WHOLE, Operand, RuleContext, Unsupported, require_defaults, rule
from juju.rules.shape import sliced


def _starts(starts: Sequence[Operand], limits: Sequence[int]) -> tuple[list[int | None], list[Operand]]:
    """What is known of clamped start indices (None: nothing), and the operands for those that are not known."""
    known = [
        0 if limit == 0 else min(max(int(start.value), 0), limit) if isinstance(start, Scalar) else None
        for start, limit in zip(starts, limits, strict=True)
    ]
    return known, [start for start, number in zip(starts, known, strict=True) if number is None]


def _placed(
    at: Places, known: Sequence[int | None], unknown: Sequence[SSAValue], limits: Sequence[int]
) -> list[SSAValue | int]:
    """Clamped start indices: numbers where they are known, else values."""
    rest = iter(unknown)
    return [at.clamped(next(rest), limit) if n is None else n for n, limit in zip(known, limits, strict=True)]


def _plus(at: Places, loop: SSAValue, start: SSAValue | int) -> SSAValue:
    return at.shift(loop, start) if isinstance(start, int) else at.scalar("add", loop, start)


@rule("dynamic_slice_p")
def _dynamic_slice_rule(ctx: RuleContext, x: Operand, *starts: Operand, slice_sizes: Any) -> Operand:
    """A box from computed starts on, which are moved so that the box lies within the array."""
    shape, sizes = ctx.in_shape(0), ctx.out_shape()
    if len(starts) != len(shape):
        raise Unsupported("dynamic_slice of a size that is only known at run time")
    limits = [n - size for n, size in zip(shape, sizes, strict=True)]
    known, unknown = _starts(starts, limits)
    numbers = [n for n in known if n is not None]
    if not unknown:
        return sliced(ctx, x, numbers, [1] * len(shape), sizes)

    def box(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        array, *found = args
        places = _placed(at, known, found, limits)
        return body.read(block, array, [_plus(at, at.loop(d), start) for d, start in enumerate(places)])

    maps = [WHOLE, *[uniform_map(len(sizes))] * len(unknown)]
    return ctx.pointwise(sizes, [x, *unknown], box, ctx.out_dtype(), maps)


@rule("dynamic_update_slice_p")
def _dynamic_update_slice_rule(ctx: RuleContext, x: Operand, update: Operand, *starts: Operand) -> Operand:
    """The array with a box in it replaced; the starts are moved so that the box lies within the array."""
    shape, sizes = ctx.in_shape(0), ctx.in_shape(1)
    if sizes == shape:
        return update
    if 0 in sizes:
        return x
    limits = [n - size for n, size in zip(shape, sizes, strict=True)]
    known, unknown = _starts(starts, limits)

    def replaced(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        old, new, *found = args
        indices, masks = [], []
        for d, start in enumerate(_placed(at, known, found, limits)):
            loop = at.loop(d)
            index = at.shift(loop, -start) if isinstance(start, int) else at.scalar("sub", loop, start)
            indices.append(index)
            if limits[d]:
                masks.append(at.within(index, None if start == 0 else 0, None if start == limits[d] else sizes[d]))
        mask = at.both(*masks)
        return at.select(mask, body.read(block, new, indices, mask), old)

    maps = [None, WHOLE, *[uniform_map(len(shape))] * len(unknown)]
    return ctx.pointwise(shape, [x, update, *unknown], replaced, ctx.out_dtype(), maps)


@rule("gather_p")
def _gather_rule(
    ctx: RuleContext,
    x: Operand,
    indices: Operand,
    *,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    fill_value: Any,
    indices_are_sorted: Any = False,
    unique_indices: Any = False,
    **params: Any,
) -> Operand:
    """Boxes of `slice_sizes` from computed starts on.

    A start outside is moved inside (`clip`), or gives `fill_value` for the whole box (`fill`). Where the program
    promises that there is none, it is moved inside as well.
    """
    require_defaults("gather", **params)
    if mode.name not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        raise Unsupported(f"gather with mode {mode.name.lower()}")
    fills = mode.name == "FILL_OR_DROP"
    numbers = dimension_numbers
    shape, space, dtype = ctx.in_shape(0), ctx.out_shape(), ctx.out_dtype()
    rank = len(space)
    batch = [d for d in range(rank) if d not in numbers.offset_dims]
    limits = [n - size for n, size in zip(shape, slice_sizes, strict=True)]
    kept = [a for a in range(len(shape)) if a not in (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)]
    offsets = dict(zip(kept, numbers.offset_dims, strict=True))
    along = {
        a: batch[k] for a, k in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    }
    # A start that may only be 0 need not be read, except to see whether it is outside.
    computed = {a: k for k, a in enumerate(numbers.start_index_map) if fills or limits[a]}

    def boxes(block: Block, args: list[SSAValue]) -> SSAValue:
        at = Places(block)
        array, *found = args
        starts = dict(zip(computed, found, strict=True))
        places, masks = [], list[Mask]()
        for a in range(len(shape)):
            place: SSAValue | None = None
            if a in starts and fills:
                place, inside = at.checked(starts[a], limits[a])
                masks.append(inside)
            elif a in starts:
                place = at.clamped(starts[a], limits[a])
            elif a in along:
                place = at.loop(along[a])
            if a in offsets and slice_sizes[a] != 1:
                place = at.plus(place, at.loop(offsets[a]))
            places.append(at.const(0) if place is None else place)
        mask = at.both(*masks)
        value = body.read(block, array, places, mask)
        return value if mask is None else at.select(mask, value, constant(block, fill_value, dtype))

    loops = [AffineExpr.dimension(d) for d in batch]
    maps = [AffineMap(rank, 0, (*loops, AffineExpr.constant(k))) for k in computed.values()]
    return ctx.pointwise(space, [x, *[indices] * len(maps)], boxes, dtype, [WHOLE, *maps])
