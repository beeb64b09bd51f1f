"""`convert` between all pairs of dtypes against `jax.jit`, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from harness import DTYPES, Entry, Library, check_equal
from jax import lax
from values import ALL, floats, flushed, jitted, values

PAIRS = [(a, b) for a in ALL for b in ALL]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library("convert", [Entry(f"{a}_{b}", f"convert[DType.{b}](x0)", (a,), (b,), width(a, b)) for a, b in PAIRS])


def width(a: str, b: str) -> int:
    return min(64, 256 // max(DTYPES[a].itemsize, DTYPES[b].itemsize))


def inputs(a: str, b: str) -> np.ndarray:
    """All values of small types; else adversarial ones, among them those around every rounding boundary of `b`."""
    if DTYPES[a].itemsize == 2:
        return np.arange(1 << 16, dtype=np.uint16).view(DTYPES[a])
    v = values(a)
    if a in ("float32", "float64") and b in ("float16", "bfloat16", "float32"):
        half = floats(b, random=2000)
        with np.errstate(all="ignore"):
            target = half[np.isfinite(half)].astype(np.float64)
            gap = np.abs(target) * (2.0**-8 if b == "bfloat16" else 2.0**-11 if b == "float16" else 2.0**-24)
            near = [
                target + gap * k * (1 + e) for k in (0, 0.5, 1, -0.5, -1) for e in (0, 2.0**-40, -(2.0**-40), 2.0**-20)
            ]
            v = np.concatenate([v, *[n.astype(a) for n in near]])
    if a in ("int32", "int64", "uint32", "uint64"):
        rng = np.random.default_rng(4)
        bits = rng.integers(1, 8 * DTYPES[a].itemsize - 1, 4000)
        top = (np.uint64(1) << bits.astype(np.uint64)) | rng.integers(0, 1 << 62, 4000).astype(np.uint64) % (
            np.uint64(1) << bits.astype(np.uint64)
        )
        v = np.concatenate([v, top.astype(a), (top >> np.uint64(9) << np.uint64(9)).astype(a) + np.array(1).astype(a)])
    if (a, b) == ("float32", "bfloat16"):
        v = flushed(v)  # the conversion instruction flushes first, XLA's bit arithmetic does not
    return v


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_convert(library, a, b):
    x = inputs(a, b)
    got = library(f"{a}_{b}", x)
    want = jitted(lambda v: lax.convert_element_type(v, b), x)
    if b in ("float32", "float64", "bfloat16"):
        got, want = flushed(got), flushed(want)
    check_equal(f"{a} to {b}", got, want, x)
