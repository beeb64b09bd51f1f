"""Operands of different shapes: axes of extent 1 are stretched inside the kernel, never stored."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import Batch, Case, assert_same

import juju

rng = np.random.default_rng(0)


def array(*shape, dtype="float32"):
    return jnp.asarray(rng.integers(-50, 50, shape) / 4, jnp.dtype(dtype))


def combine(*xs):
    total = xs[0]
    for x in xs[1:]:
        total = total * 2 + x
    return total, xs[-1] - xs[0] > 0


SHAPES = {
    "bias": [(5, 7), (7,)],
    "bias before": [(7,), (5, 7)],
    "column": [(5, 7), (5, 1)],
    "outer": [(5, 1), (1, 7)],
    "outer of vectors": [(5, 1), (7,)],
    "both": [(5, 7), (5, 1), (7,), ()],
    "middle": [(2, 3, 4), (2, 1, 4)],
    "middle and ends": [(2, 3, 4), (1, 3, 1), (2, 1, 4), (2, 1, 1)],
    "channels first": [(2, 3, 4, 5), (3, 1, 1)],
    "channels last": [(2, 3, 4, 5), (5,)],
    "alternating": [(2, 3, 4, 5, 6), (2, 1, 4, 1, 6), (1, 3, 1, 5, 1)],
    "rank 8": [(2, 1, 3, 1, 2, 1, 3, 2), (1, 2, 1, 2, 1, 2, 1, 1)],
    "ones": [(1, 1), (1,), ()],
    "one element": [(1, 1), (5, 7)],
    "one row": [(1, 7), (5, 1)],
    "empty": [(0, 7), (1, 7)],
    "empty inside": [(5, 0), (5, 1), (0,)],
    "long rows": [(3, 1000), (1000,), (3, 1)],
    "short rows": [(1000, 3), (3,), (1000, 1)],
    "more than a chunk": [(300, 257), (257,), (300, 1)],
}
CASES = [
    Case(name, combine, tuple(array(*s) for s in shapes), kernels=0 if name.startswith("empty") else 1)
    for name, shapes in SHAPES.items()
]
CASES += [
    Case(f"dtype {d}", combine, (array(5, 70, dtype=d), array(70, dtype=d), array(5, 1, dtype=d)))
    for d in ("int8", "uint16", "int32", "bfloat16", "float16")
]
CASES += [
    Case("bool", lambda a, b: (a & b, a ^ b, jnp.where(a, b, ~b)), (array(5, 70) > 0, array(70) > 0)),
    Case("select by column", lambda m, a, b: jnp.where(m, a, b), (array(5, 1) > 0, array(5, 7), array(7))),
    Case("broadcast_to", lambda x: (jnp.broadcast_to(x, (4, 5, 7)), x + 1), (array(5, 7),)),
    Case("broadcast_in_dim", lambda x: jax.lax.broadcast_in_dim(x, (5, 3, 7), (0, 2)) * 2, (array(5, 7),)),
    Case(
        "one space under two shapes", lambda x, b: (x.reshape(-1) * 3, x + b, x.reshape(7, 5)), (array(5, 7), array(7))
    ),
    Case("uniform results", lambda x, b, s: (x + b * s, s * 2), (array(5, 7), array(7), 3.0)),
    Case("several spaces", lambda x, b: (x + b, b * 2, x[None] + b[:, None, None]), (array(7, 7), array(7))),
    # What is computed on the small operand is computed before, and kept for the rows.
    Case("computed column", lambda x, c: x * jnp.exp(c) + jnp.exp(c), (array(5, 70), array(5, 1) / 20), ulp=4),
    Case("cheap bias", lambda x, b: (x + (b * 2 + 1), x * 3), (array(5, 70), array(70))),
    Case("cheap bias, also a result", lambda x, b: (x + (b * 2 + 1), b * 2 + 1), (array(5, 70), array(70))),
    # Too much to do again for every row: computed once, in a kernel before.
    Case("dear bias", lambda x, b: (x + jnp.exp(b / 50), x * 3), (array(5, 70), array(70)), kernels=2, ulp=4),
    Case(
        "bias of a sum",
        lambda x, b, c: x + jnp.exp(b[:, None] - c),
        (array(9, 5, 70), array(5) / 9, array(70) / 9),
        ulp=4,
        kernels=2,
    ),
    Case("scalar as one element, stretched", lambda o, v: jnp.where(o > 0, o, 0.0) * v, (array(1), array(3))),
    Case("elu of one element", lambda o, v: jax.nn.elu(o) * v, (array(1, 1), array(1, 5)), ulp=4),
    Case(
        "scalars broadcast twice",
        lambda s, t: jnp.broadcast_to(jnp.broadcast_to(-s, (1,)) * jnp.broadcast_to(-t, (1,)), (3,)),
        (np.float32(2), np.float32(3)),
    ),
    Case("mapped", jax.vmap(lambda x, s: x * s + 1, in_axes=(0, 0)), (array(5, 7), array(5))),
    Case("mapped twice", jax.vmap(jax.vmap(lambda a, b: a * b, (None, 0)), (0, None)), (array(5), array(7))),
]
BATCH = Batch(CASES)


@BATCH.parametrize()
def test_case(name) -> None:
    BATCH.check(name)


def test_no_compiler_runs_for_other_sizes() -> None:
    from juju.build import compiler_runs

    f = juju.fuse(lambda x, b, c: x * b + c)
    f(array(4, 6), array(6), array(4, 1))
    before = compiler_runs()
    for n, m in ((1000, 5), (3, 1000), (17, 64), (2, 2)):  # (innermost loops of two to four steps are unrolled)
        args = array(n, m), array(m), array(n, 1)
        assert_same(f(*args), jax.jit(f.__wrapped__)(*args))
    args = array(2, 3, 5), array(5), array(2, 3, 1)  # the same loops, once neighbours are merged
    assert_same(f(*args), jax.jit(f.__wrapped__)(*args))
    assert compiler_runs() == before


@pytest.mark.parametrize("m", [1, 2, 15, 16, 17, 63, 64, 65, 129])
def test_rows_of_every_length(m) -> None:
    f = juju.fuse(lambda x, b, c: (x - b, jnp.maximum(x, c), x == b))
    for n in (1, 2, 7, 64):
        args = array(n, m), array(m), array(n, 1)
        assert_same(f(*args), jax.jit(f.__wrapped__)(*args))
