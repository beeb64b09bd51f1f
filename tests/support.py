"""Comparing with `jax.jit`, and compiling many cases in one run of the toolchain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import juju

FLOATS = ("bfloat16", "float16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
DTYPES = ("bool", *INTEGERS, *FLOATS)


def _ordered_bits(x: np.ndarray) -> np.ndarray:
    """Floats as integers whose differences count representable values."""
    unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[x.dtype.itemsize]
    bits = x.view(unsigned).astype(object) if x.dtype.itemsize == 8 else x.view(unsigned).astype(np.int64)
    half = 1 << (8 * x.dtype.itemsize - 1)
    return np.where(bits >= half, half - bits, bits)


def ulp_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many representable values lie between two arrays of one float dtype; NaN against NaN is 0."""
    distance = np.abs(_ordered_bits(a) - _ordered_bits(b))
    both = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return np.where(both, 0, distance)


def assert_same(got: Any, want: Any, *, ulp: float = 0, scale: float = 0, subnormals: bool = False) -> None:
    """`got` is `want` in structure, dtype, weak type, shape, NaN, sign of zero and value.

    Integers and bools are exact; floats differ by at most `ulp` representable values, or by `scale` relative to the
    largest magnitude of the array. Where either side is subnormal, both count as zero unless `subnormals`.
    """
    got_leaves, got_tree = jax.tree_util.tree_flatten_with_path(got)
    want_leaves, want_tree = jax.tree_util.tree_flatten_with_path(want)
    assert got_tree == want_tree
    for (path, g), (_, w) in zip(got_leaves, want_leaves, strict=True):
        where = jax.tree_util.keystr(path)
        assert g.dtype == w.dtype, f"{where}: dtype {g.dtype}, not {w.dtype}"
        assert g.shape == w.shape, f"{where}: shape {g.shape}, not {w.shape}"
        assert g.weak_type == w.weak_type, f"{where}: weak_type {g.weak_type}, not {w.weak_type}"
        _assert_values(where, np.asarray(g), np.asarray(w), ulp, scale, subnormals)


def _assert_values(where: str, g: np.ndarray, w: np.ndarray, ulp: float, scale: float, subnormals: bool) -> None:
    if not jnp.issubdtype(g.dtype, jnp.floating):
        np.testing.assert_array_equal(g, w, err_msg=where)
        return
    wide_g, wide_w = g.astype(np.float64), w.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide_g), np.isnan(wide_w), err_msg=f"{where}: NaN")
    tiny = float(jnp.finfo(g.dtype).tiny)
    small = (np.abs(wide_g) < tiny) & (np.abs(wide_w) < tiny) if not subnormals else np.zeros(g.shape, bool)
    far = (ulp_distance(g, w) > ulp) & ~small
    zero = (wide_g == 0) & (wide_w == 0)
    far |= zero & (np.signbit(wide_g) != np.signbit(wide_w))
    if scale and np.isfinite(wide_w).any():
        bound = scale * np.max(np.abs(wide_w[np.isfinite(wide_w)]))
        with np.errstate(invalid="ignore"):
            far &= ~(np.abs(wide_g - wide_w) <= bound) | zero & (np.signbit(wide_g) != np.signbit(wide_w))
    if far.any():
        at = np.argwhere(far)[0] if far.ndim else ()
        index = tuple(at)
        raise AssertionError(
            f"{where}: {far.sum()} of {far.size} differ, first at {index}: {g[index]!r}, not {w[index]!r} "
            f"({ulp_distance(g, w)[index]} ulp)"
        )


@dataclass
class Case:
    """One function on one set of arguments. `kernels` is the expected number of launches."""

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    ulp: float = 0
    scale: float = 0
    kernels: int | None = 1
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    x64: bool = False

    def check(self, compiled: juju.Compiled) -> None:
        with jax.enable_x64(self.x64):
            leaves = jax.tree_util.tree_leaves((self.args, self.kwargs))
            got = compiled.call_flat([jnp.asarray(x) for x in leaves])
            want = jax.jit(self.f)(*self.args, **self.kwargs)
            assert_same(got, want, ulp=self.ulp, scale=self.scale)
        if self.kernels is not None:
            assert len(compiled.plan.launches) == self.kernels


class Batch:
    """Cases that are compiled together when the first of them runs."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = {case.name: case for case in cases}
        assert len(self.cases) == len(cases), "every case has a name of its own"
        self._compiled: dict[str, Any] | None = None

    def parametrize(self) -> pytest.MarkDecorator:
        return pytest.mark.parametrize("name", list(self.cases))

    def __getitem__(self, name: str) -> juju.Compiled:
        """A compiled case. Raises what its compilation raised."""
        if self._compiled is None:
            lowered = {}
            for case in self.cases.values():
                with jax.enable_x64(case.x64):
                    lowered[case.name] = juju.fuse(case.f, **case.options).lower(*case.args, **case.kwargs)
            done = juju.compile_all(list(lowered.values()), return_exceptions=True)
            self._compiled = dict(zip(lowered, done, strict=True))
        compiled = self._compiled[name]
        if isinstance(compiled, Exception):
            raise compiled
        return compiled

    def check(self, name: str) -> None:
        self.cases[name].check(self[name])


def stepwise(
    steps: Sequence[tuple[Callable[..., Any], tuple[int, ...]]], wanted: Sequence[int]
) -> Callable[..., list[Any]]:
    """A function of steps, each with the numbers of the values it reads: arguments first, then results of steps."""

    def program(*xs: Any) -> list[Any]:
        values = list(xs)
        for f, reads in steps:
            values.append(f(*(values[k] for k in reads)))
        return [values[k] for k in wanted]

    return program


def edge_values(dtype: str) -> np.ndarray:
    """Values at which implementations of scalar functions differ."""
    if dtype == "bool":
        return np.array([False, True])
    kind = jnp.dtype(dtype)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        picks = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 100, info.max, info.max - 1, info.max // 2, info.min]
        if info.min < 0:
            picks += [-1, -2, -3, -7, -32, -100, info.min + 1]
        return np.array([p for p in dict.fromkeys(picks) if info.min <= p <= info.max], dtype)
    info = jnp.finfo(kind)
    picks = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 2.0, 3.0, -3.0, 0.1, -0.1]
    picks += [7.25, -7.25, 100.5, 255.9, 1e-4, 1e4, -1e4, float(info.max), float(info.min), float(info.tiny)]
    if dtype in ("float32", "float64"):
        picks += [3e9, -3e9, 1e-20, -1e-20, 88.0, -88.0, 1e19]
    with np.errstate(over="ignore"):
        return np.array(picks).astype(kind)


def pairs(dtype: str, other: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Every edge value against every other."""
    a, b = edge_values(dtype), edge_values(other or dtype)
    return np.repeat(a, len(b)), np.tile(b, len(a))
