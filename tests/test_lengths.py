"""Every length around the vector widths, for each size of element: body and tail give the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_same

import juju

LENGTHS = [*range(0, 70), 127, 128, 129, 255, 256, 257, 1000, 4095, 4097, 70001]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "bfloat16", "float32", "int64", "float64"])
def test_every_tail(dtype) -> None:
    @juju.fuse
    def f(x, y, s):
        return jnp.where(x > s, x, y), x == y, jnp.maximum(x, y)

    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        for n in LENGTHS:
            x, y = (
                jnp.asarray(rng.integers(0, 2 if dtype == "bool" else 50, n).astype(jnp.dtype(dtype))) for _ in "xy"
            )
            s = jnp.asarray(rng.integers(0, 2)).astype(dtype)
            assert_same(f(x, y, s), jax.jit(f.__wrapped__)(x, y, s))


def test_mixed_element_sizes() -> None:
    @juju.fuse
    def f(a, b, c, m):
        return a + b.astype(jnp.float32), jnp.where(m, c, b), c.astype(jnp.int8)

    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        for n in LENGTHS:
            args = (
                jnp.asarray(rng.standard_normal(n), jnp.float32),
                jnp.asarray(rng.integers(-9, 9, n), jnp.int16),
                jnp.asarray(rng.integers(-9, 9, n), jnp.int64),
                jnp.asarray(rng.integers(0, 2, n), bool),
            )
            assert_same(f(*args), jax.jit(f.__wrapped__)(*args))


def test_no_compiler_runs_for_another_size() -> None:
    from juju.build import compiler_runs

    @juju.fuse
    def f(x, y):
        return x * 3 + y

    f(jnp.ones(16), 1.0)
    before = compiler_runs()
    for shape in ((1,), (17,), (4, 5), (2, 3, 4), (0,), (0, 3), (1, 1)):
        f(jnp.ones(shape), 1.0)
    assert compiler_runs() == before
