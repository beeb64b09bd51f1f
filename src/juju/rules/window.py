"""Rules of reductions over sliding windows, and of their derivatives.

The loops of a nest are those over windows, then those within a window. The gradient of a maximum over windows adds each
window's cotangent at the element that the window selected: as a nest over elements, which looks at the windows that
contain it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju.dialect import body
from juju.dialect._xdsl import new_op
from juju.dialect.ops import YieldOp
from juju.dialect.types import ELEMENT_TYPES
from juju.rules._computation import Computation
from juju.rules._places import Mask, Places, constant, neutral
from juju.rules._registry import WHOLE, Operand, RuleContext, Unsupported, Whole, add_const, require_defaults, rule
from juju.rules.reduction import combined

_PLACE = ELEMENT_TYPES["int32"]
"""The type of a place within a window."""


class Windows:
    """Sliding windows over an array of `shape`: their loops, and the elements they hold."""

    def __init__(
        self,
        shape: Sequence[int],
        counts: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        padding: Sequence[tuple[int, int]],
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
    ) -> None:
        ones = [1] * len(shape)
        self.shape = [int(n) for n in shape]
        self.window = [int(n) for n in window]
        self.strides = [int(n) for n in strides]
        self.low = [int(low) for low, _ in padding]
        self.base = [int(b) if n > 1 else 1 for b, n in zip(base_dilation or ones, shape, strict=True)]
        self.dilation = [int(n) for n in window_dilation or ones]
        self.counts = [int(n) for n in counts]
        self.long = [a for a, n in enumerate(self.window) if n != 1]
        self.loops = {a: len(self.shape) + k for k, a in enumerate(self.long)}

    @property
    def space(self) -> list[int]:
        return [*self.counts, *(self.window[a] for a in self.long)]

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(self.loops.values())

    def guards(self, axis: int) -> tuple[bool, bool]:
        """Whether an element of a window may lie before the array, or behind it."""
        last = (self.counts[axis] - 1) * self.strides[axis] + (self.window[axis] - 1) * self.dilation[axis]
        return self.low[axis] > 0, last - self.low[axis] >= self.extent(axis)

    def extent(self, axis: int) -> int:
        """The extent of an axis with its holes."""
        return (self.shape[axis] - 1) * self.base[axis] + 1 if self.shape[axis] else 0

    def map(self) -> AffineMap | Whole:
        """How the array is read: affine, if no window reaches beyond it."""
        axes = range(len(self.shape))
        if any(any(self.guards(a)) or self.base[a] > 1 for a in axes):
            return WHOLE
        rank = len(self.space)
        places = []
        for a in axes:
            place = AffineExpr.dimension(a) * self.strides[a] - self.low[a]
            if a in self.loops:
                place = place + AffineExpr.dimension(self.loops[a]) * self.dilation[a]
            places.append(place)
        return AffineMap(rank, 0, tuple(places))

    def elements(self, block: Block, arrays: Sequence[SSAValue]) -> tuple[list[SSAValue], Mask]:
        """The arrays' elements at a place of a window, 0 where the mask is false: there is none."""
        if not isinstance(self.map(), Whole):
            return list(arrays), None
        at = Places(block)
        indices, masks = [], list[Mask]()
        for a in range(len(self.shape)):
            place = at.scaled(at.loop(a), self.strides[a])
            if a in self.loops:
                place = at.plus(place, at.scaled(at.loop(self.loops[a]), self.dilation[a]))
            place = at.shift(place, -self.low[a])
            before, behind = self.guards(a)
            masks.append(at.within(place, 0 if before else None, self.extent(a) if behind else None))
            if self.base[a] > 1:
                step = at.const(self.base[a])
                masks.append(at.compare("eq", at.scalar("rem", place, step), at.const(0)))
                place = at.scalar("div", place, step)
            indices.append(place)
        mask = at.both(*masks)
        return [body.read(block, array, indices, mask) for array in arrays], mask

    def place(self, block: Block) -> SSAValue:
        """The row-major position within the window."""
        at = Places(block)
        inner = [at.loop(self.loops[a]) for a in self.long]
        return at.convert(at.flat(inner, [self.window[a] for a in self.long]), _PLACE)


def _windows(ctx: RuleContext, operand: int, params: dict[str, Any]) -> Windows:
    """Takes what describes windows out of the parameters of a primitive."""
    names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
    taken = [params.pop(name, None) for name in names]
    return Windows(ctx.in_shape(operand), ctx.out_shape(), *taken)


@rule("reduce_window_sum_p", "reduce_window_max_p", "reduce_window_min_p", kinds="fiub")
def _reduce_window_rule(ctx: RuleContext, x: Operand, **params: Any) -> SSAValue:
    """The sum or the extreme of each window; what lies outside the array does not count."""
    name = ctx.equation.primitive
    kind = {"sum": "add", "max": "max", "min": "min"}[name.rpartition("_")[2]]
    windows = _windows(ctx, 0, params)
    require_defaults(name, **params)
    dtype = ctx.out_dtype()

    def total(block: Block, args: list[SSAValue]) -> list[SSAValue]:
        [element] = _filled(block, windows, args, kind, dtype)
        return [body.reduce(block, kind, element) if windows.reduced else element]

    return ctx.nest(windows.space, [x], total, [dtype], [windows.map()], reduced=windows.reduced)[0]


def _filled(block: Block, windows: Windows, arrays: Sequence[SSAValue], kind: str, dtype: str) -> list[SSAValue]:
    """Elements of windows; outside the array what changes nothing in a reduction of this kind."""
    elements, mask = windows.elements(block, arrays)
    filler = neutral(kind, dtype)
    if mask is None or not filler:
        return elements  # a masked read is 0
    return [Places(block).select(mask, element, add_const(block, filler)) for element in elements]


@rule("reduce_window_p")
def _general_reduce_window_rule(
    ctx: RuleContext, *operands: Operand, jaxpr: Any, consts: Any = (), **params: Any
) -> list[SSAValue]:
    """Windows of several arrays reduced together by any computation of scalars, from first values on.

    As in XLA on CPU, what lies outside the arrays is left out: the first values count once.
    """
    windows = _windows(ctx, 0, params)
    require_defaults("reduce_window", **params)
    count = len(operands) // 2
    step = Computation("reduce_window", jaxpr, consts)
    dtypes = [ctx.out_dtype(n) for n in range(count)]
    kind = step.kind()

    def total(block: Block, args: list[SSAValue]) -> list[SSAValue]:
        arrays, firsts = args[:count], args[count:]
        if kind is not None and windows.reduced:
            elements = _filled(block, windows, arrays, kind, dtypes[0])
            return combined(block, step, firsts, elements, operands[count:], dtypes)
        elements, mask = windows.elements(block, arrays)
        if not windows.reduced:
            at = Places(block)
            steps = step.apply(block, [*firsts, *elements])
            return [at.select(mask, new, old) for new, old in zip(steps, firsts, strict=True)]
        if mask is None:
            return combined(block, step, firsts, elements, operands[count:], dtypes)
        region = _combiner([*elements, mask], lambda block, a, b: _skipping(block, step, a, b))
        firsts = [*firsts, add_const(block, np.bool_(True))]
        return body.reduce_general(block, firsts, [*elements, mask], region)[:count]

    maps = [windows.map()] * count + [None] * count
    return ctx.nest(windows.space, operands, total, dtypes, maps, reduced=windows.reduced)


def _combiner(
    elements: Sequence[SSAValue], step: Callable[[Block, list[SSAValue], list[SSAValue]], list[SSAValue]]
) -> Block:
    """The region of a general reduction; `step` takes the block, totals and elements."""
    block = Block(arg_types=[v.type for v in (*elements, *elements)])
    args: list[SSAValue] = list(block.args)
    block.add_op(new_op(YieldOp, [step(block, args[: len(elements)], args[len(elements) :])]))
    return block


def _skipping(block: Block, step: Computation, a: list[SSAValue], b: list[SSAValue]) -> list[SSAValue]:
    """`step` on values whose last one says whether they are there."""
    at = Places(block)
    both = at.scalar("and", a[-1], b[-1])
    steps = step.apply(block, [*a[:-1], *b[:-1]])
    lone = [at.select(a[-1], x, y) for x, y in zip(a[:-1], b[:-1], strict=True)]
    return [*(at.select(both, x, y) for x, y in zip(steps, lone, strict=True)), at.scalar("or", a[-1], b[-1])]


def _selection(primitive: str, select_prim: Any) -> tuple[str, str]:
    """The comparison by which a window selects, and the kind of extreme it selects."""
    if select_prim.name not in ("ge", "le"):
        raise Unsupported(f"{primitive} by {select_prim.name}")
    return select_prim.name, "max" if select_prim.name == "ge" else "min"


def _selecting(
    compare: str, *, from_nothing: bool
) -> Callable[[Block, list[SSAValue], list[SSAValue]], list[SSAValue]]:
    """Of two candidates (value, ..., place) the one that JAX selects: the earlier, if it compares so with the later.

    Places make it the same in any order. With `from_nothing` a place below 0 is no candidate.
    """

    def step(block: Block, a: list[SSAValue], b: list[SSAValue]) -> list[SSAValue]:
        at = Places(block)

        def wins(x: list[SSAValue], y: list[SSAValue]) -> SSAValue:
            wins = at.compare(compare, x[0], y[0])
            return at.scalar("and", wins, at.compare("ge", x[-1], _at(block, 0))) if from_nothing else wins

        earlier = at.compare("lt", a[-1], b[-1])
        keep = at.select(earlier, wins(a, b), at.scalar("not", wins(b, a)))
        return [at.select(keep, x, y) for x, y in zip(a, b, strict=True)]

    return step


def _at(block: Block, place: int) -> SSAValue:
    return add_const(block, np.int32(place))


@rule("select_and_gather_add_p", kinds="f")
def _select_and_gather_add_rule(
    ctx: RuleContext, tangents: Operand, x: Operand, *, select_prim: Any, **params: Any
) -> SSAValue:
    """The tangent of the element of `x` that each window selects: the derivative of its maximum or minimum."""
    compare, kind = _selection("select_and_gather_add", select_prim)
    windows = _windows(ctx, 1, params)
    require_defaults("select_and_gather_add", **params)
    dtype = ctx.out_dtype()
    step = _selecting(compare, from_nothing=False)

    def total(block: Block, args: list[SSAValue]) -> list[SSAValue]:
        [tangent, value], mask = windows.elements(block, args)
        first = add_const(block, neutral(kind, dtype))
        candidate = [Places(block).select(mask, value, first), tangent, windows.place(block)]
        firsts = [first, constant(block, 0, dtype), _at(block, -1)]
        if not windows.reduced:
            return [step(block, firsts, candidate)[1]]
        return [body.reduce_general(block, firsts, candidate, _combiner(candidate, step))[1]]

    maps = [windows.map()] * 2
    return ctx.nest(windows.space, [tangents, x], total, [dtype], maps, reduced=windows.reduced)[0]


@rule("select_and_scatter_add_p")
def _select_and_scatter_add_rule(
    ctx: RuleContext,
    source: Operand,
    x: Operand,
    *,
    select_prim: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    **params: Any,
) -> SSAValue:
    """Each window's element of `source`, added at the element of `x` that the window selects."""
    require_defaults("select_and_scatter_add", **params)
    compare, kind = _selection("select_and_scatter_add", select_prim)
    windows = Windows(ctx.in_shape(1), ctx.in_shape(0), window_dimensions, window_strides, padding)
    selected = _selected(ctx, x, windows, compare, kind)
    # Along each axis, an element lies in this window, the one before it, and so on.
    many = [-(-n // s) for n, s in zip(windows.window, windows.strides, strict=True)]
    rank = len(windows.shape)
    back = {a: rank + k for k, a in enumerate(a for a, n in enumerate(many) if n > 1)}
    dtype = ctx.out_dtype()

    def gathered(block: Block, args: list[SSAValue]) -> list[SSAValue]:
        at = Places(block)
        chosen, array = args
        indices, inner, masks = [], [], list[Mask]()
        for a in range(rank):
            stride, extent = windows.strides[a], windows.window[a]
            place = at.shift(at.loop(a), windows.low[a])
            window = at.scalar("div", place, at.const(stride)) if stride > 1 else place
            if windows.low[a] < 0:
                masks.append(at.within(place, 0, None))
            if a in back:
                window = at.scalar("sub", window, at.loop(back[a]))
                masks.append(at.within(window, 0, None))
            if (windows.shape[a] - 1 + windows.low[a]) // stride >= windows.counts[a]:
                masks.append(at.within(window, None, windows.counts[a]))
            within = at.scalar("sub", place, at.scaled(window, stride))
            if many[a] * stride != extent:
                masks.append(at.compare("lt", within, at.const(extent)))
            indices.append(window)
            if a in windows.loops:
                inner.append(within)
        mask = at.both(*masks)
        wanted = at.convert(at.flat(inner, [windows.window[a] for a in windows.long]), _PLACE)
        match = at.compare("eq", body.read(block, chosen, indices, mask), wanted)
        element = body.read(block, array, indices, at.both(mask, match))
        return [body.reduce(block, "add", element) if back else element]

    space = [*windows.shape, *(many[a] for a in back)]
    reduced = tuple(back.values())
    return ctx.nest(space, [selected, source], gathered, [dtype], [WHOLE, WHOLE], reduced=reduced)[0]


def _selected(ctx: RuleContext, x: Operand, windows: Windows, compare: str, kind: str) -> SSAValue:
    """The place, within each window, of the element it selects; it may lie in the padding."""
    step = _selecting(compare, from_nothing=True)
    dtype = ctx.out_dtype()

    def total(block: Block, args: list[SSAValue]) -> list[SSAValue]:
        if not windows.reduced:
            return [_at(block, 0)]
        candidate = [*_filled(block, windows, args, kind, dtype), windows.place(block)]
        firsts = [add_const(block, neutral(kind, dtype)), _at(block, -1)]
        return [body.reduce_general(block, firsts, candidate, _combiner(candidate, step))[1]]

    return ctx.nest(windows.space, [x], total, ["int32"], [windows.map()], reduced=windows.reduced)[0]
