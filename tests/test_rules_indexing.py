"""Rules of the primitives that read at computed indices, through the interpreter, against `jax.jit`.

The interpreter raises for a read outside its array, so each of these also says that nothing wild is read.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import assert_interpreted, interpret
from jax import lax
from support import DTYPES, INTEGERS
from test_rules_shape import has_reads, sample

from juju.errors import UnsupportedPrimitive


@pytest.mark.parametrize("dtype", INTEGERS)
def test_starts_of_every_dtype_are_clamped(dtype) -> None:
    info = np.iinfo(dtype)
    starts = [v for v in (0, 1, 3, 4, 100, -1, -9, info.max, info.min, info.max - 1) if info.min <= v <= info.max]

    def f(x, y, starts):
        outs = []
        for i in starts:
            outs.append(lax.dynamic_slice(x, (i, i), (2, 3)))
            outs.append(lax.dynamic_update_slice(x, y, (i, i)))
        return outs

    assert_interpreted(f, sample((5, 4)), -sample((2, 3)), [np.dtype(dtype).type(v) for v in starts])


def test_dynamic_slice() -> None:
    zero = np.int32(0)

    def f(x, i, j):
        return (
            lax.dynamic_slice(x, (zero, zero, zero), (2, 3, 4)),
            lax.dynamic_slice(x, (i, zero, zero), (1, 3, 4)),
            lax.dynamic_slice(x, (i, j, np.int32(9)), (1, 1, 2)),
            lax.dynamic_slice(x, (i, j, i), (2, 3, 0)),
            lax.dynamic_slice(x, (i, j, j), (2, 3, 4)),
            lax.dynamic_index_in_dim(x, j, 1, keepdims=False),
            x[i, j, -1],
            x[-1, :, j],
        )

    assert_interpreted(f, sample((2, 3, 4)), np.int32(1), np.int32(-2))
    assert not has_reads(lambda x, i: lax.dynamic_slice(x, (i, zero), (2, 2)), sample((2, 3)), np.int32(1))


def test_dynamic_update_slice() -> None:
    zero = np.int32(0)

    def f(x, y, i, j):
        return (
            lax.dynamic_update_slice(x, y, (i, j)),
            lax.dynamic_update_slice(x, y, (zero, j)),
            lax.dynamic_update_slice(x, y, (np.int32(99), np.int32(-1))),
            lax.dynamic_update_slice(x, y[:0], (i, j)),
            lax.dynamic_update_slice(x, -x, (i, j)),
            lax.dynamic_update_slice(x, y[:1, :1], (np.int32(1), j)),
        )

    assert_interpreted(f, sample((3, 4)), -sample((2, 3)), np.int32(1), np.int32(0))


def test_rank_0_and_empty() -> None:
    def f(s, z, i):
        return (
            lax.dynamic_slice(s, (), ()),
            lax.dynamic_update_slice(s, s + 1, ()),
            lax.dynamic_slice(z, (i, i), (0, 2)),
            lax.dynamic_update_slice(z, z, (i, i)),
            jnp.take(z, jnp.zeros((0,), jnp.int32), axis=0),
            z[jnp.zeros((0, 3), jnp.int32)],
            s[None][jnp.array([0, 0])],
        )

    assert_interpreted(f, np.float32(2.5), np.zeros((0, 3), np.float32), np.int32(1))


MODES = ("clip", "fill", "promise_in_bounds")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices_of_every_dtype(dtype) -> None:
    info = np.iinfo(dtype)
    values = [v for v in (0, 1, 2, 3, 4, 100, -1, -3, info.max, info.min) if info.min <= v <= info.max]
    # XLA converts an index to int32 before it looks whether it is outside; here all are told apart.
    values = [v for v in values if abs(v) < 2**31]
    indices = np.array(values, dtype)[:, None]
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))

    def f(x, indices):
        return [lax.gather(x, indices, numbers, (1, 2), mode=mode, fill_value=-9) for mode in ("clip", "fill")]

    assert_interpreted(f, sample((4, 2)), indices)


def test_an_index_beyond_32_bits_is_outside() -> None:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    with jax.enable_x64(True):
        for dtype in (np.int64, np.uint64):
            indices = np.array([[2**32], [2**32 + 1], [2]], dtype)
            fill = interpret(
                lambda x, i: lax.gather(x, i, numbers, (1,), mode="fill", fill_value=-9), sample((4,)), indices
            )
            clip = interpret(lambda x, i: lax.gather(x, i, numbers, (1,), mode="clip"), sample((4,)), indices)
            assert fill.tolist() == [-9, -9, 3]
            assert clip.tolist() == [4, 4, 3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_defaults_of_fill(dtype) -> None:
    indices = np.array([0, 2, -1, 3, -4, 99], np.int32)

    def f(x, i):
        return (
            jnp.take(x, i),
            x.at[i].get(mode="fill"),
            x.at[i].get(mode="clip"),
            x.at[i].get(mode="promise_in_bounds"),
            x[i],
            jnp.take_along_axis(x, i, 0),
            x[i.astype(jnp.uint8)],
        )

    assert_interpreted(f, sample((3,), dtype), indices)


def test_indexing_as_in_numpy() -> None:
    i, j = np.array([[0, 2], [1, -1]]), np.array([3, 0])

    def f(x, i, j):
        return (
            x[i],
            x[:, i],
            x[i, j],
            x[j, :, i],
            x[:, 1:, j],
            x[0, ..., j],
            x[i[..., None], j, 1],
            jnp.take_along_axis(x, j.reshape(1, 1, 2), 2),
            jnp.take_along_axis(x, jnp.full((2, 3, 1), 1), 2),
            jax.vmap(lambda row, k: row[k])(x, i[:, 0]),
            jax.vmap(lambda row, k: row[:, k], in_axes=(0, None))(x, j),
            jax.vmap(lambda row, k: lax.dynamic_slice(row, (k, 0), (2, 2)))(x, i[:, 0]),
        )

    assert_interpreted(f, sample((2, 3, 4)), i, j)


def test_batching_dimensions() -> None:
    x, i = sample((2, 5, 3)), np.array([[[1, 0], [4, 2], [9, -1]], [[0, 1], [3, 1], [2, 2]]], np.int32)
    for mode in MODES:
        numbers = lax.GatherDimensionNumbers((2, 3), (), (1, 2), (0,), (0,))
        assert_interpreted(lambda x, i, m=mode, n=numbers: lax.gather(x, i, n, (1, 2, 2), mode=m), x, i)
        numbers = lax.GatherDimensionNumbers((0,), (1,), (2, 1), (0,), (0,))
        assert_interpreted(lambda x, i, m=mode, n=numbers: lax.gather(x, i, n, (1, 1, 2), mode=m), x, i)


@st.composite
def gathers(draw):
    """Operand shape, index array, dimension numbers and slice sizes of any gather."""
    rank = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 4)) for _ in range(rank)]
    axes = draw(st.permutations(range(rank)))
    batching = tuple(sorted(axes[: draw(st.integers(0, min(2, rank - 1)))]))
    others = [a for a in axes if a not in batching]
    indexed = tuple(others[: draw(st.integers(0, len(others)))])
    sizes = [1 if a in batching else draw(st.integers(1 if a in indexed else shape[a], shape[a])) for a in range(rank)]
    collapsed = tuple(sorted(a for a in range(rank) if a not in batching and sizes[a] == 1 and draw(st.booleans())))
    extents = [shape[a] for a in batching] + [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    order = draw(st.permutations(range(len(extents))))
    batch_shape = [extents[k] for k in order]
    start_batching = tuple(order.index(k) for k in range(len(batching)))
    windows = rank - len(batching) - len(collapsed)
    out_rank = len(batch_shape) + windows
    offset = tuple(sorted(draw(st.permutations(range(out_rank)))[:windows]))
    seed = draw(st.integers(0, 1000))
    indices = np.random.RandomState(seed).randint(-2, 6, (*batch_shape, len(indexed))).astype(np.int32)
    numbers = lax.GatherDimensionNumbers(offset, collapsed, indexed, batching, start_batching)
    return tuple(shape), indices, numbers, tuple(sizes), draw(st.sampled_from(MODES))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(gathers())
def test_any_gather(case) -> None:
    shape, indices, numbers, sizes, mode = case
    assert_interpreted(lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode), sample(shape), indices)


def test_gather_by_one_hot_is_named() -> None:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    with pytest.raises(UnsupportedPrimitive, match="gather with mode one_hot"):
        interpret(
            lambda x, i: lax.gather(x, i, numbers, (1,), mode=lax.GatherScatterMode.ONE_HOT),
            sample((3,)),
            np.array([[1]]),
        )
