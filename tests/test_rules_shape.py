"""Rules of the primitives that move elements, through the interpreter, against `jax.jit`."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreter import OutOfBounds, assert_interpreted, evaluate, interpret
from jax import lax
from jax.extend import core as jex_core
from jax.extend import random as jex_random
from support import DTYPES
from xdsl.dialects.builtin import i1

from juju._program import opened
from juju._trace import trace
from juju.dialect._xdsl import insert_before, new_op
from juju.dialect.body import ReadOp
from juju.dialect.ops import SCALARS
from juju.dialect.types import DTYPES as NAMES
from juju.dialect.types import element_of
from juju.errors import UnsupportedPrimitive
from juju.rules import Unsupported, lower_program
from juju.rules._registry import require_defaults

SHAPES = [(), (1,), (5,), (0,), (3, 4), (1, 4), (3, 1), (0, 3), (2, 3, 4), (2, 1, 3), (2, 0, 3), (2, 3, 2, 2)]


def sample(shape, dtype="float32"):
    """Different values at every place."""
    values = np.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    return (values % 2 == 1) if dtype == "bool" else (values + 1).astype(jnp.dtype(dtype))


def has_reads(f, *args) -> bool:
    module = lower_program(trace(f, args, {}, name="f").program).module
    return any(isinstance(op, ReadOp) for op in module.walk())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_affine(shape) -> None:
    """All of it in one program: what only moves elements needs no computed read."""
    rank = len(shape)

    def f(x):
        flat = x.size
        return (
            [lax.transpose(x, p) for p in itertools.permutations(range(rank))][:6],
            [lax.rev(x, d) for n in range(rank + 1) for d in itertools.combinations(range(rank), n)],
            lax.reshape(x, (flat,)),
            lax.reshape(x, (1, flat, 1)),
            lax.reshape(x, (flat,), dimensions=tuple(range(rank))[::-1]) if rank else x,
            lax.expand_dims(x, (0, rank + 1)),
            lax.squeeze(lax.expand_dims(x, (0,)), (0,)),
            lax.broadcast(x, (2, 3)),
            lax.broadcast_in_dim(x, (*shape, 3), tuple(range(rank))),
            lax.broadcast_in_dim(lax.expand_dims(x, (rank,)), (2, *shape, 4), tuple(range(1, rank + 2))),
            lax.tile(x, tuple(range(1, rank + 1))),
            lax.tile(x, (2,) * rank),
        )

    assert_interpreted(f, sample(shape))
    assert not has_reads(f, sample(shape))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_slice_and_split(shape) -> None:
    def f(x):
        outs = []
        for axis, n in enumerate(shape):
            for start, stop, step in [(0, n, 1), (1, n, 1), (0, n, 2), (1, n, 3), (0, 0, 1), (n, n, 2), (0, n - 1, 1)]:
                if 0 <= start <= stop <= n:
                    outs.append(lax.slice_in_dim(x, start, stop, step, axis))
            outs += lax.split(x, (n // 2, 0, n - n // 2), axis)
            outs += jnp.unstack(x, axis=axis) if n else []
        return outs

    assert_interpreted(f, sample(shape))
    assert not has_reads(f, sample(shape))


CONFIGS = [
    (0, 0, 0),
    (1, 2, 0),
    (-1, 0, 0),
    (0, -1, 0),
    (2, -1, 0),
    (-1, 2, 0),
    (0, 0, 1),
    (1, 1, 2),
    (-1, -1, 1),
    (-2, 3, 1),
]


@pytest.mark.parametrize("n", [5, 1, 0, 2])
def test_pad_one_axis(n) -> None:
    possible = [c for c in CONFIGS if c[0] + c[1] + n + c[2] * max(n - 1, 0) >= 0]
    assert_interpreted(lambda x, v: [lax.pad(x, v, (c,)) for c in possible], sample((n,)), np.float32(-7))


SEVERAL = list(itertools.permutations([(0, 0, 0), (2, -1, 1), (-1, 1, 0), (1, 0, 0)], 3))


def test_pad_several_axes() -> None:
    def f(x, v):
        return [lax.pad(x, v, configs) for configs in SEVERAL]

    assert_interpreted(f, sample((2, 3, 4), "int16"), np.int16(-7))


def test_pad_with_nothing_inside() -> None:
    x = np.zeros((0, 3), np.float32)
    assert_interpreted(lambda x: lax.pad(x, np.float32(4), ((1, 2, 0), (0, 1, 1))), x)
    assert_interpreted(lambda x: lax.pad(x, np.float32(4), ((0, 0, 0), (0, -3, 0))), np.ones((2, 3), np.float32))
    assert_interpreted(lambda x: lax.pad(x, np.float32(4), ()), np.float32(2))


def test_gradients_of_pad_and_slice() -> None:
    zero = np.float32(0)

    def f(x):
        return (
            jax.grad(lambda v: (jnp.pad(v, (2, 1)) ** 2).sum())(x),
            jax.grad(lambda v: v[1:-1:2].sum())(x),
            jax.vjp(lambda v: lax.pad(v, zero, ((-1, 2, 1),)), x)[1](jnp.ones(10, x.dtype)),
        )

    assert_interpreted(f, sample((5,)))


@pytest.mark.parametrize("extents", [(2,), (2, 3), (0, 2), (2, 0, 1), (0, 0), (1, 1, 1), (3, 1, 2, 4)], ids=str)
def test_concatenate(extents) -> None:
    parts = {
        axis: [sample((*(2, 3, 2)[:axis], n, *(2, 3, 2)[axis + 1 :]), "int32") + 100 * k for k, n in enumerate(extents)]
        for axis in range(3)
    }
    assert_interpreted(lambda parts: [lax.concatenate(xs, axis) for axis, xs in parts.items()], parts)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_moves(dtype) -> None:
    def f(x, v):
        shape = x.shape
        return (
            lax.concatenate([x, lax.rev(x, (0,))], 1),
            lax.pad(x, v, ((1, 0, 1), (0, 1, 0))),
            jnp.stack([x, x[::-1]], axis=1),
            lax.broadcasted_iota(jnp.dtype(dtype), shape, 1) if dtype != "bool" else x,
            lax.empty(shape, jnp.dtype(dtype)),
        )

    assert_interpreted(f, sample((3, 4), dtype), sample((), dtype))


def test_stack() -> None:
    x, y = sample((2, 3)), -sample((2, 3))
    assert_interpreted(lambda x, y: [jnp.stack([x, y, x], axis=n) for n in range(3)], x, y)
    assert_interpreted(lambda a, b: jnp.stack([a, b, 4.0]), np.float32(1), np.float32(2))
    assert_interpreted(lambda x: jnp.stack([x]), x)


@pytest.mark.parametrize("shape", [(5,), (0,), (2, 3), (3, 1, 2), (2, 0)], ids=str)
def test_iota(shape) -> None:
    def f():
        dtypes = [jnp.dtype(d) for d in ("int32", "uint8", "int64", "float32", "bfloat16")]
        return [lax.broadcasted_iota(d, shape, axis) for d in dtypes for axis in range(len(shape))]

    assert_interpreted(f)


def iota_2x32_shape(shape):
    """The counters of threefry's random bits, whose primitive has no public name."""
    jaxpr = jax.make_jaxpr(lambda key: jex_random.threefry_prng_impl.random_bits(key, 32, (1,)))(np.zeros(2, np.uint32))
    waiting = [jaxpr]
    while waiting:
        for eqn in opened(waiting.pop())[0].eqns:
            if eqn.primitive.name == "iota_2x32_shape":
                return eqn.primitive.bind(shape=shape)
            waiting += jex_core.jaxprs_in_params(eqn.params)
    raise AssertionError("threefry uses another primitive now")


def test_iota_of_random_bits() -> None:
    assert_interpreted(lambda: iota_2x32_shape((3, 4)))
    assert_interpreted(lambda: iota_2x32_shape((2, 0, 3)))


def test_iota_of_random_bits_beyond_32_bits() -> None:
    module = lower_program(trace(lambda: iota_2x32_shape((3, 2**31)), (), {}, name="f").program).module
    nest = next(op for op in module.walk() if op.name == "juju.nest")
    assert [NAMES[element_of(r.type)] for r in nest.outs] == ["uint32", "uint32"]
    assert any(op.name == "juju.shift_right_logical" for op in module.walk())


@pytest.mark.parametrize("before", [d for d in DTYPES if d != "bool"])
def test_bitcast_between_widths(before) -> None:
    size = jnp.dtype(before).itemsize
    bits = np.random.RandomState(0).randint(0, 256, (3, 8, size)).astype(np.uint8).view(jnp.dtype(before))[..., 0]

    def f(x):
        outs = []
        for after in DTYPES:
            wide = jnp.dtype(after).itemsize
            if after == "bool":
                continue
            part = x[:, : wide // size] if wide > size else x
            out = lax.bitcast_convert_type(part, jnp.dtype(after))
            # Bits of a NaN may change on their way through XLA's float conversions, so they are compared as integers.
            outs.append(lax.bitcast_convert_type(out, jnp.dtype(f"uint{8 * wide}")))
        return outs

    assert_interpreted(f, bits)


def test_identities() -> None:
    x = sample((2, 3))
    assert_interpreted(lambda x: (jnp.copy(x), lax.stop_gradient(x), lax.optimization_barrier(x)), x)


def test_a_shape_that_is_not_supported_says_so() -> None:
    with pytest.raises(Unsupported, match="slice with strange=3 is not supported"):
        require_defaults("slice", strange=3)
    with pytest.raises(UnsupportedPrimitive, match="there is no rule"):
        interpret(lambda x: lax.conv(x, x, (1,), "SAME"), np.ones((1, 1, 3), np.float32))


def test_the_interpreter_sees_a_read_outside() -> None:
    module = lower_program(trace(lambda x: lax.pad(x, 0.0, ((2, 0, 0),)), (sample((3,)),), {}, name="f").program).module
    read = next(op for op in module.walk() if isinstance(op, ReadOp))
    always = read.mask.owner
    wrong = new_op(SCALARS["eq"], [always.operands[0], always.operands[0]], [i1])
    insert_before(wrong, read)
    read.operands[-1] = wrong.results[0]
    with pytest.raises(OutOfBounds):
        evaluate(module, [sample((3,))])
