"""Which float operations of the table keep subnormal numbers, and which take them as 0: juju beside `jax.jit`.

for line in survey(): print(line)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import ad

import juju
from juju.dialect.table import TABLE

FLOATS = ("float32", "float64", "bfloat16", "float16")
KEPT, ZERO, MIXED, NONE = "kept", "0", "some", "-"
LENGTH = 64
"""Elements of each array: whole vectors."""

NEWER = ("log2", "one_minus_square")
"""Primitives of releases of JAX after the one installed."""

SPECIAL_CALLS: dict[str, Callable[..., Any]] = {
    "add_any": ad.add_jaxvals,
    "round_half_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round_half_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "integer_pow": lambda x: lax.integer_pow(x, 3),
    "reduce_precision": lambda x: lax.reduce_precision(x, 8, 7),
    "regularized_incomplete_beta": lax.betainc,
    "select": lambda x, y: lax.select_n(x == x, y, x),
    "lt_to": lambda x, y: lax.lt_to_p.bind(x, y),
    "le_to": lambda x, y: lax.le_to_p.bind(x, y),
}
"""Operations that are not called by their own name in `jax.lax`."""


@dataclass(frozen=True)
class Line:
    """One operation on one dtype: how each side reads subnormal operands, and how it writes subnormal results."""

    operation: str
    dtype: str
    reads: tuple[str, str]
    writes: tuple[str, str]


def calls(dtype: str) -> dict[str, tuple[Callable[..., Any], int]]:
    """Every float operation of the table by name, with the number of its operands; a conversion for each target."""
    found: dict[str, tuple[Callable[..., Any], int]] = {}
    for row in TABLE:
        if "f" not in row.kinds or row.name in (*NEWER, "bitcast"):
            continue
        if row.form == "convert":
            for to in ("bool", *FLOATS):
                if to != dtype:
                    found[f"convert to {to}"] = (lambda x, to=to: lax.convert_element_type(x, jnp.dtype(to)), 1)
            continue
        count = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2, "classify": 1, "select": 2}[row.form]
        found[row.name] = (SPECIAL_CALLS.get(row.name) or getattr(lax, row.name), count)
    return found


def operands(dtype: str, count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Operands of which the first is subnormal, and normal operands whose results may be subnormal."""
    info = jnp.finfo(dtype)
    kind, tiny = jnp.dtype(dtype), float(info.tiny)
    least = float(info.smallest_subnormal)
    first = np.resize([tiny / 2, -tiny / 2, least, -least, tiny * 0.75, tiny * 0.25], LENGTH)
    others = [np.resize(v, LENGTH) for v in ([1.0, 0.5, 0.0, 2.0, tiny], [1.0, 0.5])][: count - 1]
    edge = np.log2(tiny)
    small = [
        tiny,
        tiny * 1.5,
        -tiny * 1.25,
        np.sqrt(tiny) / 4,
        edge - 1.5,
        (edge - 1.5) * np.log(2),
        np.sqrt(-edge) * 0.9,
    ]
    small += [tiny ** (1 / 3) / 3, -(edge - 3) * np.log(2)]
    normal = [
        np.resize(small, LENGTH),
        np.resize([0.5, tiny, 0.5, tiny * 1.75, 3.0, 16.0, 1.0], LENGTH),
        np.full(LENGTH, 0.5),
    ]
    return [v.astype(kind) for v in (first, *others)], [v.astype(kind) for v in normal[:count]]


def survey(dtypes: Sequence[str] = FLOATS) -> list[Line]:
    """All lines; the kernels are compiled together."""
    with jax.enable_x64(True):
        cases = [
            (name, dtype, f, *operands(dtype, count)) for dtype in dtypes for name, (f, count) in calls(dtype).items()
        ]
        lowered = [juju.fuse(f, name="subnormal").lower(*inputs) for _, _, f, inputs, _ in cases]
        compiled = juju.compile_all(lowered)
        lines = []
        for (name, dtype, f, subnormal, normal), run in zip(cases, compiled, strict=True):
            sides = (lambda args, run=run: np.asarray(run.call_flat([jnp.asarray(a) for a in args])), _jit(f))
            lines.append(
                Line(
                    name,
                    dtype,
                    tuple(_reads(side, f, subnormal, dtype, name) for side in sides),  # type: ignore[arg-type]
                    tuple(_writes(side, f, normal) for side in sides),  # type: ignore[arg-type]
                )
            )
    return lines


def _jit(f: Callable[..., Any]) -> Callable[[list[np.ndarray]], np.ndarray]:
    return lambda args: np.asarray(jax.jit(f)(*args))


Side = Callable[[list[np.ndarray]], np.ndarray]


def _reads(side: Side, f: Callable[..., Any], args: list[np.ndarray], dtype: str, name: str) -> str:
    """Whether the results are those of zeros, at the points where that can be told from wider operands."""
    zeros = [np.copysign(np.zeros_like(args[0]), args[0]), *args[1:]]
    got, at_zero = side(args), side(zeros)
    if name.startswith("convert to "):
        to = got.dtype
        matters = ~_equal(args[0].astype(to), zeros[0].astype(to))
    else:
        matters = _matters(f, args, zeros, dtype)
    return _verdict(~_equal(got, at_zero), matters)


def _matters(f: Callable[..., Any], args: list[np.ndarray], zeros: list[np.ndarray], dtype: str) -> np.ndarray:
    """Where the exact result is another one than that of zero: found with the operands scaled into the normal range.

    A float32 subnormal is a normal float64. For float64 itself the operands of float32 say where.
    """
    if dtype == "float64":
        narrow = operands("float32", len(args))[0]
        return _matters(f, narrow, [np.copysign(np.zeros_like(narrow[0]), narrow[0]), *narrow[1:]], "float32")
    wide = [a.astype(np.float64) for a in args]
    at = [a.astype(np.float64) for a in zeros]
    exact, at_zero = _jit(f)(wide), _jit(f)(at)
    if exact.dtype == np.float64:  # what would be the same after rounding tells nothing
        exact, at_zero = exact.astype(args[0].dtype), at_zero.astype(args[0].dtype)
    return ~_equal(exact, at_zero)


def _writes(side: Side, f: Callable[..., Any], args: list[np.ndarray]) -> str:
    """Whether results that are subnormal are written as such."""
    got = side(args)
    if not jnp.issubdtype(got.dtype, jnp.floating):
        return NONE
    tiny = float(jnp.finfo(got.dtype).tiny)
    if args[0].dtype == np.float64:
        exact = _scaled(f, args, got)
    else:
        exact = _jit(f)([a.astype(np.float64) for a in args]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        subnormal = (np.abs(exact) < 0.99 * tiny) & (np.abs(exact) > float(jnp.finfo(got.dtype).smallest_subnormal))
    return _verdict(got.astype(np.float64) != 0, subnormal)


def _scaled(f: Callable[..., Any], args: list[np.ndarray], got: np.ndarray) -> np.ndarray:
    """Where float64 results are subnormal, by the same operation on float32 with the exponent's edge moved."""
    narrow = operands("float32", len(args))[1]
    return (
        _jit(f)([a.astype(np.float64) for a in narrow])
        / float(jnp.finfo("float32").tiny)
        * float(jnp.finfo(got.dtype).tiny)
    )


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    unsigned = f"u{a.dtype.itemsize}"
    both_nan = (a != a) & (b != b)
    return (np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned)) | both_nan


def _verdict(kept: np.ndarray, matters: np.ndarray) -> str:
    if not matters.any():
        return NONE
    chosen = kept[matters]
    return KEPT if chosen.all() else MIXED if chosen.any() else ZERO
