"""Random programs that move, index and reduce: ten to twenty-five deep, beside `jax.jit`.

Numbers are small integers, also in float arrays, so that nearly everything is exact and a wrong element shows. The
programs are a function of the seed; JUJU_RANDOM_PROGRAMS sets how many there are. JAX without compilation is a second
witness: a program that `jax.jit` itself gets wrong (seed 760 with jax 0.10.2: slices of slices at negative starts) is
none to compare with.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from support import Batch, Case, assert_same, stepwise

PROGRAMS = int(os.environ.get("JUJU_RANDOM_PROGRAMS", "64"))
SHAPES = [(4, 5), (3, 1, 6), (2, 3, 4), (37,), (1, 1), (0, 3), (2, 1, 3, 2), (5, 17), (8, 3), (2, 70), (1, 9)]
DTYPES = ["float32", "int32", "uint8", "bool", "bfloat16", "int16"]
LARGEST = 4000

Step = Callable[[Any], Any]


def _moved(rng: random.Random, shape: tuple[int, ...]) -> Step:
    """A change of place that suits a shape."""
    rank = len(shape)
    axis = rng.randrange(rank) if rank else 0
    extent = shape[axis] if rank else 1
    order = rng.sample(range(rank), rank)
    start = rng.randrange(extent + 1)
    stop, stride = rng.randint(start, extent), rng.choice([1, 1, 2, 3])
    low, high, inner = rng.randint(-1, 2), rng.randint(-1, 2), rng.choice([0, 0, 1])
    factors = _reshaped(rng, math.prod(shape))
    choices: list[Step] = [
        lambda x: x.reshape(factors),
        lambda x: x.reshape(-1),
        lambda x: jnp.expand_dims(x, axis),
        lambda x: jnp.squeeze(x),
    ]
    if rank:
        padding = [(low, high, inner) if d == axis else (0, 0, 0) for d in range(rank)]
        indices = np.asarray([rng.randint(-extent, max(extent - 1, 0)) for _ in range(rng.choice([1, 3, 7]))])
        choices += [
            lambda x: jnp.transpose(x, order),
            lambda x: jnp.transpose(x, order),
            lambda x: jnp.flip(x, axis),
            lambda x: lax.slice_in_dim(x, start, stop, stride, axis),
            lambda x: jnp.roll(x, start, axis),
            lambda x: jnp.concatenate([x, jnp.flip(x, axis)], axis),
            lambda x: jnp.broadcast_to(x, (2, *x.shape)),
            lambda x: jnp.stack([x, x + x], axis),
            lambda x: (
                lax.dynamic_slice_in_dim(x, jnp.sum(x).astype(jnp.int32) % 5 - 2, extent // 2 + 1, axis)
                if extent
                else x
            ),
        ]
        if extent + low + high >= 0 and (extent > 0 or low + high >= 0):
            choices.append(lambda x: lax.pad(x, jnp.asarray(1, x.dtype), padding))
        if extent:
            choices.append(lambda x: jnp.take(x, indices, axis))
    return rng.choice(choices)


def _reshaped(rng: random.Random, count: int) -> tuple[int, ...]:
    """A shape of `count` elements."""
    shape = []
    while count > 1 and len(shape) < 3:
        factor = rng.choice([f for f in range(1, count + 1) if count % f == 0])
        shape.append(factor)
        count //= factor
    return (*shape, count)


def _reduced(rng: random.Random, shape: tuple[int, ...], is_bool: bool) -> Step:
    """A reduction along some axes, a running total, or what normalises along an axis."""
    rank = len(shape)
    axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank)))) if rank else ()
    axis = rng.randrange(rank) if rank else None
    keep = rng.random() < 0.5
    some = all(shape[d] for d in axes)
    choices: list[Step] = [
        lambda x: jnp.sum(x, axes, keepdims=keep),
        lambda x: jnp.any(x > 2, axes, keepdims=keep),
        lambda x: jnp.all(x > 1, axes),
        lambda x: jnp.sum(x * x, axes) - jnp.sum(x, axes),
    ]
    if some:
        choices += [
            lambda x: jnp.max(x, axes, keepdims=keep),
            lambda x: x == jnp.max(x, axes, keepdims=True),
            lambda x: jnp.min(x, axes, keepdims=keep),
            lambda x: x - jnp.min(x, axes, keepdims=True) if x.dtype != bool else x,
        ]
    if rank:
        reverse = rng.random() < 0.5
        if not is_bool:
            choices += [
                lambda x: lax.cumsum(x, axis, reverse=reverse),
                lambda x: lax.cummax(x, axis, reverse=reverse),
                lambda x: x + jnp.sum(x, axis, keepdims=True).astype(x.dtype),
            ]
        if shape[axis or 0]:
            choices += [lambda x: jnp.argmax(x, axis), lambda x: jnp.argmin(x, axis)]
    return rng.choice(choices)


def _simple(rng: random.Random) -> Step:
    return rng.choice(
        [
            lambda x: x + x,
            lambda x: jnp.abs(x.astype(jnp.float32)) - 1,
            lambda x: x > 2,
            lambda x: jnp.clip(x.astype(jnp.float32), -3, 5),
            lambda x: x.astype(jnp.bfloat16) * 0.5,
            lambda x: x.astype(jnp.uint8),
            lambda x: jnp.square(jnp.clip(x.astype(jnp.int32), -50, 50)),
            lambda x: x.astype(bool),
            lambda x: x.astype(jnp.int32) % 7,
            lambda x: jnp.where(x > 1, x, 0).astype(jnp.float32) % 11,
        ]
    )


def _binary(rng: random.Random) -> Callable[[Any, Any], Any]:
    return rng.choice(
        [
            lambda x, y: x + y,
            lambda x, y: jnp.maximum(x, y),
            lambda x, y: jnp.where(x > y, x, y),
            lambda x, y: x == y,
            lambda x, y: (x.astype(jnp.int32) * y.astype(jnp.int32)) % 13,
            lambda x, y: x.astype(jnp.float32) - y.astype(jnp.float32),
        ]
    )


def _pair(rng: random.Random, avals: list[Any]) -> tuple[int, int] | None:
    """Two values that broadcast together, one of them recent."""
    first = rng.randrange(max(0, len(avals) - 4), len(avals))
    fits = []
    for n, aval in enumerate(avals):
        try:
            shape = np.broadcast_shapes(aval.shape, avals[first].shape)
        except ValueError:
            continue
        if math.prod(shape) <= LARGEST:
            fits.append(n)
    return (first, rng.choice(fits[-8:])) if fits else None


def make_case(seed: int) -> Case:
    """A program over arrays of changing shapes."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    args: list[jax.Array] = []
    for _ in range(rng.randint(1, 4)):
        dtype = rng.choice(DTYPES)
        whole = numbers.integers(0, 2 if dtype == "bool" else 9, rng.choice(SHAPES))
        args.append(jnp.asarray(whole.astype(np.int32)).astype(dtype))
    steps: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
    avals: list[Any] = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    while len(steps) < rng.randrange(10, 25):
        latest = rng.randrange(max(0, len(avals) - 4), len(avals))
        x = avals[latest]
        roll = rng.random()
        f: Callable[..., Any]
        if roll < 0.35:
            f, reads = _moved(rng, x.shape), (latest,)
        elif roll < 0.6:
            f, reads = _reduced(rng, x.shape, x.dtype == jnp.bool_), (latest,)
        elif roll < 0.75 or (pair := _pair(rng, avals)) is None:
            f, reads = _simple(rng), (latest,)
        else:
            f, reads = _binary(rng), pair
        made = jax.eval_shape(f, *(avals[n] for n in reads))
        if math.prod(made.shape) <= LARGEST and len(made.shape) <= 6:
            steps.append((f, reads))
            avals.append(made)
    wanted = sorted({len(avals) - 1, *(rng.randrange(len(args), len(avals)) for _ in range(3))})

    return Case(f"seed {seed}", stepwise(steps, wanted), tuple(args), ulp=1, scale=1e-5, kernels=None)


BATCH = Batch([make_case(seed) for seed in range(PROGRAMS)])


@BATCH.parametrize()
def test_program(name: str) -> None:
    try:
        BATCH.check(name)
    except AssertionError:
        case = BATCH.cases[name]
        compiled = BATCH[name]
        with jax.disable_jit():
            assert_same(compiled.call_flat(list(case.args)), case.f(*case.args), ulp=1, scale=1e-5)
