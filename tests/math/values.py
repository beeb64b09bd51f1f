"""Adversarial inputs for every dtype, and reference values from `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import ml_dtypes
import numpy as np
from harness import DTYPES

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64")
ALL = ("bool", *INTEGERS, *HALVES, *FLOATS)


def integers(dtype: str, *, random: int = 40) -> np.ndarray:
    """Zero, small numbers, powers of two and their neighbours, extremes, random numbers of every size."""
    info = np.iinfo(dtype)
    values = {0, 1, 2, 3, 5, 6, 7, 10, 100, info.max, info.max - 1, info.max // 2, info.max // 3}
    for k in range(info.bits):
        values |= {(1 << k) - 1, 1 << k, (1 << k) + 1}
    if info.min < 0:
        values |= {-v for v in values} | {info.min, info.min + 1}
    rng = np.random.default_rng(1)
    values |= {
        int(v) >> int(s) for v, s in zip(rng.integers(info.min, info.max, random, dtype), range(random), strict=True)
    }
    return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype)


def floats(dtype: str, *, random: int = 60, subnormal: bool = False) -> np.ndarray:
    """NaNs of both signs, infinities, zeros, extremes, halves, integers around 2**mantissa, numbers of every size."""
    dt = DTYPES[dtype]
    info = ml_dtypes.finfo(dt)
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]
    tiny, largest, eps = float(info.tiny), float(info.max), float(info.eps)
    edge = [tiny, largest, largest / 3, eps, 1 + eps, 1 - eps / 2]
    plain = [
        1.0,
        2.0,
        0.5,
        1.5,
        2.5,
        3.5,
        0.49999997,
        0.1,
        0.3,
        3.0,
        5.0,
        7.3,
        10.0,
        100.25,
        127.5,
        255.0,
        256.0,
        300.0,
    ]
    powers = [
        2.0**k * f for k in (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64) for f in (1 - 2.0**-20, 1.0, 1 + 2.0**-20)
    ]
    powers += [2.0**k + d for k in (7, 8, 15, 16, 23, 31) for d in (-1.5, -1, -0.5, 0.5, 1.0)]
    rng = np.random.default_rng(2)
    low, high = np.log2(tiny), np.log2(largest)
    wide = 2.0 ** rng.uniform(low, high, random)
    moderate = rng.uniform(0, 20, random)
    small = [float(info.smallest_subnormal), tiny * 0.75] if subnormal else []
    positive = np.array([*edge, *plain, *powers, *wide, *moderate, *small], np.float64)
    with np.errstate(over="ignore"):
        return np.concatenate([np.array(special), positive, -positive]).astype(dt)


def values(dtype: str) -> np.ndarray:
    """Adversarial inputs of any dtype."""
    if dtype == "bool":
        return np.array([False, True] * 20)
    return integers(dtype) if dtype in INTEGERS else floats(dtype)


def pairs(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of the values."""
    x, y = np.meshgrid(a, b)
    return x.ravel(), y.ravel()


def jitted(function: Callable, *arrays: np.ndarray) -> np.ndarray:
    """What `jax.jit(function)` gives, in 64-bit mode."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(function)(*arrays))


def flushed(a: np.ndarray) -> np.ndarray:
    """The numbers with subnormals replaced by zeros of their sign."""
    tiny = float(ml_dtypes.finfo(a.dtype).tiny)
    return np.where(np.abs(a) < tiny, np.copysign(np.zeros_like(a), a), a)
