"""Random programs: elementwise operations over random shapes and dtypes, ten to thirty deep, beside `jax.jit`.

Operations are exact, or nearly so (a multiply-add may be contracted), so values are compared closely. The programs
are a function of the seed; JUJU_RANDOM_PROGRAMS sets how many there are.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from support import Batch, Case, stepwise

PROGRAMS = int(os.environ.get("JUJU_RANDOM_PROGRAMS", "64"))
SPACES = [(4, 5), (3, 1, 6), (2, 3, 4), (70,), (1, 1), (0, 3), (2, 1, 3, 2)]
DTYPES = ["float32", "bfloat16", "int32", "uint8", "bool", "float16", "int16"]


def _shrink(rng: random.Random, space: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to a space: axes of 1, or none in front."""
    shape = tuple(1 if rng.random() < 0.4 else n for n in space)
    return shape[rng.randrange(len(shape) + 1) :] if rng.random() < 0.3 else shape


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> jax.Array:
    whole = rng.integers(0, 2 if dtype == "bool" else 9, shape)
    return jnp.asarray(whole, jnp.dtype(dtype)) if dtype != "uint8" else jnp.asarray(whole.astype(np.uint8))


def _unary(rng: random.Random) -> Callable[[Any], Any]:
    return rng.choice(
        [
            lambda x: x + x,
            lambda x: jnp.abs(x.astype(jnp.float32)),
            lambda x: -x.astype(jnp.int32),
            lambda x: x > 2,
            lambda x: jnp.clip(x.astype(jnp.float32), 1, 5),
            lambda x: x.astype(jnp.bfloat16) * 0.5,
            lambda x: x.reshape(-1).reshape(x.shape),
            lambda x: jnp.floor(x.astype(jnp.float32) / 2),
            lambda x: x.astype(jnp.uint8) >> 1,
            lambda x: jnp.square(x.astype(jnp.int16)),
            lambda x: jnp.sign(x.astype(jnp.float16)),
            lambda x: x.astype(bool),
        ]
    )


def _binary(rng: random.Random) -> Callable[[Any, Any], Any]:
    return rng.choice(
        [
            lambda x, y: x + y,
            lambda x, y: jnp.maximum(x, y),
            lambda x, y: jnp.where(x > y, x, y),
            lambda x, y: x == y,
            lambda x, y: x.astype(jnp.int32) * y.astype(jnp.int32),
            lambda x, y: jnp.minimum(x, y.astype(x.dtype)),
            lambda x, y: x.astype(jnp.int32) // (y.astype(jnp.int32) + 1),
            lambda x, y: x.astype(jnp.int32) ^ y.astype(jnp.int32),
            lambda x, y: x.astype(jnp.float32) - y.astype(jnp.float32),
            lambda x, y: jnp.where(y.astype(bool), x, x + 1),
        ]
    )


def make_case(seed: int) -> Case:
    """A program whose operands broadcast to one space, except that results may be of any shape on the way."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    space = rng.choice(SPACES)
    args = [_values(numbers, space, rng.choice(DTYPES))]
    args += [_values(numbers, _shrink(rng, space), rng.choice(DTYPES)) for _ in range(rng.randrange(1, 5))]
    steps: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
    for n in range(rng.randrange(10, 30)):
        known = len(args) + n
        recent = [rng.randrange(max(0, known - 6), known) for _ in range(2)]
        steps.append((_unary(rng), (recent[0],)) if rng.random() < 0.4 else (_binary(rng), tuple(recent)))
    wanted = sorted({len(args) + len(steps) - 1, *(rng.randrange(len(args) + len(steps)) for _ in range(3))})

    return Case(f"seed {seed}", stepwise(steps, wanted), tuple(args), ulp=1, scale=1e-5, kernels=None)


BATCH = Batch([make_case(seed) for seed in range(PROGRAMS)])


@BATCH.parametrize()
def test_program(name: str) -> None:
    BATCH.check(name)
