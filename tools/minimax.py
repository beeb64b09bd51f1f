"""Minimax polynomials in mpmath: the Remez exchange on a grid, with coefficients rounded one after the other.

    fit = Fit("sine", lambda x: mp.sin(x), "0", "0.786", exponents=(3, 5, 7), fixed={1: 1})
    coefficients, error = fit.solve("f32")

`error` is the largest error of `fixed + sum c_k x**e_k` relative to `scale` (by default the function itself) over the
interval, after rounding the coefficients to the type. `tools/coefficients.py` holds the fits of `juju_math`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np

mp: Any = mpmath.mp
"""The mpmath context; its stubs say too little for a type checker, and so do those of its numbers."""

mp.dps = 60

Number = Any
"""An mpmath number."""

Function = Callable[[Number], Number]
GRID = 24
"""Grid points per coefficient."""


@dataclass(frozen=True)
class Fit:
    """`function(x)` on [low, high] as `sum fixed[e] x**e + sum c_k x**exponents[k]`, error relative to `scale(x)`.

    `low` and `high` are expressions such as "sqrt(2)-1". The polynomial's exponents go up in equal steps, so it is
    evaluated as a power of x times a polynomial in x**step.
    """

    name: str
    function: Function
    low: str
    high: str
    exponents: Sequence[int]
    fixed: Mapping[int, object] = field(default_factory=dict)
    scale: Function | None = None
    about: str = ""

    def solve(self, kind: str) -> tuple[list[float], float]:
        """The rounded coefficients ("f32", "f64"), lowest exponent first, and the largest error. About a second."""
        low, high = (_evaluate(text) for text in (self.low, self.high))
        count = len(self.exponents)
        grid = _chebyshev_grid(low, high, GRID * (count + 1))
        scale = self.scale or self.function
        rows = [[x**e / scale(x) for e in self.exponents] for x in grid]
        fixed = [
            (self.function(x) - sum((_evaluate(c) * x**e for e, c in self.fixed.items()), mp.mpf(0))) / scale(x)
            for x in grid
        ]
        found: list[Number] = []
        reference = None
        while len(found) < count:
            done = len(found)
            target = [
                f - sum((c * r for c, r in zip(found, row, strict=False)), mp.mpf(0))
                for f, row in zip(fixed, rows, strict=True)
            ]
            free, _, reference = _remez([row[done:] for row in rows], target, reference)
            found.append(mp.mpf(rounded(free[0], kind)))
            if reference is not None:
                reference = reference[1:]
        errors = [
            abs(sum((c * r for c, r in zip(found, row, strict=True)), mp.mpf(0)) - f)
            for f, row in zip(fixed, rows, strict=True)
        ]
        return [float(c) for c in found], float(max(errors))


def _evaluate(value: object) -> Number:
    if isinstance(value, str):
        names = {name: getattr(mp, name) for name in ("sqrt", "log", "pi", "exp", "euler", "mpf")}
        return mp.mpf(eval(value, {"__builtins__": {}}, names))
    return mp.mpf(value)


def rounded(value: Number, kind: str) -> float:
    """The nearest number of the type "f32" or "f64"."""
    return float(np.float32(float(value))) if kind == "f32" else float(value)


def _chebyshev_grid(low: Number, high: Number, points: int) -> list[Number]:
    """Points dense at both ends; an end at zero, where relative errors are 0/0, is left out."""
    middle, half = (low + high) / 2, (high - low) / 2
    grid = [middle - half * mp.cos(mp.pi * k / (points - 1)) for k in range(points)]
    return [x for x in grid if x != 0]


def _remez(
    rows: list[list[Number]], target: list[Number], reference: list[int] | None
) -> tuple[list[Number], Number, list[int]]:
    """Best coefficients on the grid, their largest error, and the indices where it is attained with changing sign."""
    # where the first basis function is negative, turn the point over: alternation is counted relative to a positive one
    rows, target = (
        [[-r for r in row] if row[0] < 0 else row for row in rows],
        [-t if row[0] < 0 else t for t, row in zip(target, rows, strict=True)],
    )
    points, count = len(rows), len(rows[0])
    if reference is None or len(reference) != count + 1:
        reference = [round((points - 1) * (1 - np.cos(np.pi * k / count)) / 2) for k in range(count + 1)]
        reference = sorted(set(reference))
        spare = [k for k in range(points) if k not in set(reference)]
        reference = sorted(reference + spare[: count + 1 - len(reference)])
    for _ in range(60):
        system = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for i, k in enumerate(reference):
            for j in range(count):
                system[i, j] = rows[k][j]
            system[i, count] = (-1) ** i
            right[i] = target[k]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[j] for j in range(count)]
        errors = [
            t - sum((c * r for c, r in zip(coefficients, row, strict=True)), mp.mpf(0))
            for t, row in zip(target, rows, strict=True)
        ]
        level = abs(solution[count])
        largest = max(abs(e) for e in errors)
        if largest <= level * (1 + mp.mpf(10) ** -4):
            break
        reference = _exchange(errors, count + 1)
    return coefficients, largest, reference


def _exchange(errors: list[Number], wanted: int) -> list[int]:
    """Indices of the largest errors of alternating sign."""
    peaks: list[int] = []
    for k, e in enumerate(errors):
        if peaks and (errors[peaks[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = k
        else:
            peaks.append(k)
    while len(peaks) > wanted:
        if len(peaks) == wanted + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
            continue
        weakest = min(range(len(peaks)), key=lambda i: abs(errors[peaks[i]]))
        if weakest in (0, len(peaks) - 1):
            peaks.pop(weakest)
        else:  # drop it with the smaller neighbour, so that the signs go on alternating
            other = min((weakest - 1, weakest + 1), key=lambda i: abs(errors[peaks[i]]))
            for index in sorted((weakest, other), reverse=True):
                peaks.pop(index)
    if len(peaks) < wanted:
        raise ArithmeticError(f"the error changes sign only {len(peaks)} times, {wanted} are needed: lower the degree")
    return peaks
