"""Affine index expressions: their bounds, their coefficients, and substitution with simplification by bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

ADD, MUL = AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul
MOD, DIV = AffineBinaryOpKind.Mod, AffineBinaryOpKind.FloorDiv


class Linear(NamedTuple):
    """`constant` plus the sum of `coefficients[d]` times loop d; coefficients are not zero."""

    coefficients: dict[int, int]
    constant: int

    def expression(self) -> AffineExpr:
        """The affine expression, loops in order."""
        total: AffineExpr | None = None
        for d, c in sorted(self.coefficients.items()):
            term = AffineExpr.dimension(d) if c == 1 else AffineExpr.dimension(d) * c
            total = term if total is None else total + term
        if total is None:
            return AffineExpr.constant(self.constant)
        return total + self.constant if self.constant else total

    def bounds(self, space: Sequence[int]) -> tuple[int, int]:
        """The least and the largest value over loops of these extents."""
        low = high = self.constant
        for d, c in self.coefficients.items():
            reach = c * max(space[d] - 1, 0)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high


def linear(expr: AffineExpr) -> Linear | None:
    """The coefficients of an expression, or None if it divides."""
    if isinstance(expr, AffineConstantExpr):
        return Linear({}, expr.value)
    if isinstance(expr, AffineDimExpr):
        return Linear({expr.position: 1}, 0)
    if not isinstance(expr, AffineBinaryOpExpr):
        return None
    left, right = linear(expr.lhs), linear(expr.rhs)
    if left is None or right is None:
        return None
    if expr.kind is ADD:
        return plus(left, right)
    if expr.kind is MUL and not right.coefficients:
        return times(left, right.constant)
    if expr.kind is MUL and not left.coefficients:
        return times(right, left.constant)
    return None


def plus(a: Linear, b: Linear) -> Linear:
    keys = {**a.coefficients, **b.coefficients}
    sums = {d: a.coefficients.get(d, 0) + b.coefficients.get(d, 0) for d in keys}
    return Linear({d: c for d, c in sums.items() if c}, a.constant + b.constant)


def times(a: Linear, factor: int) -> Linear:
    return Linear({d: c * factor for d, c in a.coefficients.items() if factor}, a.constant * factor)


def bounds(expr: AffineExpr, space: Sequence[int]) -> tuple[int, int]:
    """The least and the largest value of an expression over loops of these extents."""
    if (flat := linear(expr)) is not None:
        return flat.bounds(space)
    assert isinstance(expr, AffineBinaryOpExpr)
    low, high = bounds(expr.lhs, space)
    other = bounds(expr.rhs, space)
    if expr.kind is ADD:
        return low + other[0], high + other[1]
    factor = other[0]
    if expr.kind is MUL:
        return min(low * factor, high * factor), max(low * factor, high * factor)
    if expr.kind is DIV:
        return low // factor, high // factor
    return (low % factor, high % factor) if low // factor == high // factor else (0, factor - 1)


def divide(expr: AffineExpr, factor: int, space: Sequence[int]) -> AffineExpr:
    """`expr // factor`, without a division where the coefficients and the extents allow it."""
    if factor == 1:
        return expr
    if (flat := linear(expr)) is not None:
        whole = {d: c for d, c in flat.coefficients.items() if c % factor == 0}
        rest = Linear({d: c for d, c in flat.coefficients.items() if c % factor}, flat.constant % factor)
        if rest.bounds(space)[0] >= 0 and rest.bounds(space)[1] < factor:
            return Linear({d: c // factor for d, c in whole.items()}, flat.constant // factor).expression()
    low, high = bounds(expr, space)
    return AffineExpr.constant(low // factor) if low // factor == high // factor else expr // factor


def remainder(expr: AffineExpr, factor: int, space: Sequence[int]) -> AffineExpr:
    """`expr % factor`, without a division where the coefficients and the extents allow it."""
    if factor == 1:
        return AffineExpr.constant(0)
    if (flat := linear(expr)) is not None:
        rest = Linear({d: c for d, c in flat.coefficients.items() if c % factor}, flat.constant % factor)
        if rest.bounds(space)[0] >= 0 and rest.bounds(space)[1] < factor:
            return rest.expression()
        expr = rest.expression()
    low, high = bounds(expr, space)
    return expr if low >= 0 and high < factor else expr % factor


def substitute(expr: AffineExpr, places: Sequence[AffineExpr], space: Sequence[int]) -> AffineExpr:
    """`expr` with `places[d]` in the place of loop d; `space` are the extents of the loops in `places`."""
    if isinstance(expr, AffineConstantExpr):
        return expr
    if isinstance(expr, AffineDimExpr):
        return places[expr.position]
    assert isinstance(expr, AffineBinaryOpExpr)
    left, right = (substitute(e, places, space) for e in (expr.lhs, expr.rhs))
    if expr.kind in (DIV, MOD):
        assert isinstance(right, AffineConstantExpr)
        return (divide if expr.kind is DIV else remainder)(left, right.value, space)
    total = left + right if expr.kind is ADD else left * right
    flat = linear(total)
    return total if flat is None else flat.expression()


def compose(amap: AffineMap, places: Sequence[AffineExpr], space: Sequence[int]) -> AffineMap:
    """The map of an operand of a nest whose loops run at `places` of loops over `space`."""
    return AffineMap(len(space), 0, tuple(substitute(e, places, space) for e in amap.results))


def flat_index(indices: Sequence[AffineExpr], shape: Sequence[int]) -> AffineExpr:
    """The row-major position of an element."""
    total: AffineExpr = AffineExpr.constant(0)
    stride = 1
    for expr, extent in zip(reversed(indices), reversed(shape), strict=True):
        total = total + expr * stride
        stride *= extent
    flat = linear(total)
    return total if flat is None else flat.expression()


def unflatten(position: AffineExpr, shape: Sequence[int], space: Sequence[int]) -> list[AffineExpr]:
    """The indices of the element at a row-major position: the inverse of `flat_index`."""
    found: list[AffineExpr] = []
    for n, extent in enumerate(reversed(shape)):
        outermost = n == len(shape) - 1
        found.append(position if outermost else remainder(position, extent, space))
        position = divide(position, extent, space)
    return found[::-1]


def reshape(
    indices: Sequence[AffineExpr], before: Sequence[int], after: Sequence[int], space: Sequence[int]
) -> list[AffineExpr]:
    """Indices into an array of shape `before` as indices into the same memory of shape `after`."""
    if tuple(before) == tuple(after):
        return list(indices)
    if not after or 0 in after:
        return [AffineExpr.constant(0)] * len(after)
    return unflatten(flat_index(indices, before), after, space)
