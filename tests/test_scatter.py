"""Writing by index: wild indices, duplicates in order, windows, batches, modes, all dtypes, nothing to write."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support import DTYPES, FLOATS, Batch, Case

import juju

WRITES = (lax.scatter, lax.scatter_add, lax.scatter_sub, lax.scatter_mul, lax.scatter_min, lax.scatter_max)
MODES = ("clip", "fill", "promise_in_bounds")
RNG = np.random.default_rng(0)


def _case(name, f, args, **options):
    return Case(name, f, args, kernels=None, **options)


def _normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def _of_dtype(dtype, *shape):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if dtype in FLOATS:
        return _normal(*shape).astype(jnp.dtype(dtype))
    return RNG.integers(0, 100, shape).astype(dtype)


def _every_write(x, i, u):
    """Windows of two neighbours into a row, duplicates included."""
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    writes = (lax.scatter, lax.scatter_min, lax.scatter_max) if x.dtype == bool else WRITES
    return [write(x, i, u, numbers) for write in writes]


def _modes(x, i, u):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0, 1))
    return [
        write(x, i, u, numbers, mode=lax.GatherScatterMode.from_any(mode))
        for write, mode in itertools.product((lax.scatter, lax.scatter_add), MODES)
        if mode != "promise_in_bounds"  # a promise that these indices break
    ]


def _kept_promise(x, i, u):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    promise = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.scatter_add(x, i, u, numbers, mode=promise, indices_are_sorted=True, unique_indices=True)


def _numpy_writing(x, i, j, u):
    return (
        x.at[i].set(7.0),
        x.at[:, i].add(1.0),
        x.at[i, j].multiply(u[0, 0]),
        x.at[i, :, j].set(u[:3, 0, :4]),
        x.at[0, ..., i].min(u[:3, 0, :4]),
        x.at[::2, 1:3].add(3.0),
        x.at[i[:, None], j[None, :]].max(u[:3, :3, :3].sum(-1, keepdims=True)),
        x.at[-1, i].subtract(0.5),
        x.at[1].set(0.0),
        x.at[1:3, i, 2].set(u[:2, 0, :3]),
    )


def _segments(x, i):
    return (
        jax.ops.segment_sum(x, i, 5),
        jax.ops.segment_prod(x, i, 5),
        jax.ops.segment_min(x, i, 5),
        jax.ops.segment_max(x, i, 5),
        jnp.bincount(i, length=4),
        jnp.bincount(i, weights=x[:, 0], length=9),
        jnp.nonzero(x[:, 0] > 0, size=6, fill_value=-1),
    )


def _batches(x, i, u):
    """Batch dimensions, of `vmap` and of the primitive."""
    numbers = lax.ScatterDimensionNumbers(
        (), (1,), (1,), operand_batching_dims=(0,), scatter_indices_batching_dims=(0,)
    )
    return (
        jax.vmap(lambda row, k, v: row.at[k].add(v))(x, i, u),
        jax.vmap(lambda row, k, v: row.at[k].set(v), in_axes=(1, 0, 0), out_axes=1)(x.T, i, u),
        jax.vmap(lambda k: x.at[k].mul(2.0))(i),
        lax.scatter_add(x, i[..., None], u, numbers),
        jax.vmap(lambda row, k: lax.dynamic_update_slice(row, k * jnp.ones(2), (k.astype(int),)))(x, u[:, 0]),
    )


def _gradients(x, i, labels):
    def cross_entropy(v):
        return -jnp.take_along_axis(jax.nn.log_softmax(v), labels[:, None], -1).mean()

    return (
        jax.grad(lambda v: (jnp.take(v, i, 0) ** 2).sum())(x),
        jax.grad(lambda v: (v[i, 1:] * v[i, :-1]).sum())(x),
        jax.grad(cross_entropy)(x),
        jax.grad(lambda v: (v.at[i].set(0.5) ** 2).sum())(x),
        jax.grad(lambda v: (v.at[i].add(v[0]) ** 2).sum())(x),
        jax.grad(lambda v: lax.dynamic_slice(v, (i[0], 1), (2, 2)).sum())(x),
        jax.grad(lambda v: jnp.sort(v, 0)[1].sum())(x),
        jax.jvp(lambda v: v.at[i].multiply(2.0), (x,), (x,)),
    )


def _nothing(x, empty, none):
    return (
        x.at[none].set(1.0),
        x.at[:, none].add(1.0),
        empty.at[none].set(2.0),
        x.at[:0].set(3.0),
        jax.ops.segment_sum(x[:0], none, 3),
    )


def _scalars(s, x, k):
    return s.at[()].add(1.0), x.at[k].set(s), x.at[k].add(s), jnp.zeros(5).at[k].set(s), jnp.full(4, s).at[k].mul(2)


def _out_of_bounds(x, i):
    return (
        x.at[i].set(7.0),
        x.at[i].add(1.0, mode="drop"),
        x.at[:, i].set(5.0),
        jnp.nonzero(x[0] > 0, size=4),
        jnp.bincount(jnp.abs(i), length=3),
    )


DUPLICATES = np.array([1, 1, 0, 1], np.int32)
FACTORS = np.array([np.nan, 2.0, 3.0, 5.0], np.float32)


def _duplicates(x):
    i, u = DUPLICATES, FACTORS
    return (
        x.at[i].add(1.0),
        x.at[i].multiply(2.0),
        x.at[i].multiply(u),
        x.at[i].max(u),
        x.at[i].min(u),
        jax.ops.segment_sum(u[1:], i[1:], 3),
        x.at[i].set(u),
        jnp.zeros(3).at[i[:2]].max(jnp.array([-0.0, 0.0])),
    )


def _many_parts(x, i, j, u):
    """A result of many parts; windows lie in one of them, or across several, with strides or without."""
    boxes = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    columns = lax.ScatterDimensionNumbers((1,), (1,), (1,))
    starts = jnp.stack([i, j], -1)
    return (
        x.at[i].add(u),
        x.at[:, j].multiply(u[: x.shape[0], :1]),
        lax.scatter_add(x, j[:, None], u[:, : x.shape[0]], columns),
        lax.scatter_add(x, starts, jnp.broadcast_to(u[:, :5, None], (*i.shape, 5, 3)), boxes),
        lax.scatter_max(x, starts[:9], jnp.broadcast_to(u[:9, :1, None], (9, 700, 3)), boxes),
        x.reshape(-1).at[j * 997].add(u[:, 0]),
        x.at[i, 7].set(2.0),
    )


WILD = np.array([3, -1, 1, 7, 8, -9, 100, 2**31 - 1, -(2**31), 3, 1], np.int32)
WIDE = WILD.astype(np.int64) * 2**33 + 2
BOX = np.array([[0, 0], [1, 2], [2, 3], [-1, 1], [0, 4], [3, 0], [1, 2], [0, -1]], np.int32)

REPEATED = np.array([0, 3, 3, -1, 9])

BATCH = Batch(
    [
        *(
            _case(f"every write, {d}", _every_write, (_of_dtype(d, 9), WILD[:, None], _of_dtype(d, 11, 2)), x64=True)
            for d in DTYPES
        ),
        *(
            _case(f"indices of {d}", _every_write, (_normal(200), WILD.astype(d)[:, None], _normal(11, 2)), x64=True)
            for d in DTYPES
            if d not in ("bool", *FLOATS)
        ),
        _case(
            "wide indices",
            _every_write,
            (_normal(9), WIDE[:, None], _normal(11, 2)),
            x64=True,
        ),
        _case("modes", _modes, (_normal(4, 6), BOX, _normal(8, 3))),
        _case("promise", _kept_promise, (_normal(4, 6), np.array([[0], [1], [3]]), _normal(3, 6))),
        _case(
            "as numpy writes",
            _numpy_writing,
            (_normal(3, 4, 5), np.array([0, 2, -1], np.int32), np.array([1, 3, 0], np.int32), _normal(5, 5, 5)),
        ),
        _case("segments", _segments, (_normal(30, 3), RNG.integers(-1, 7, 30))),
        _case("batches", _batches, (_normal(4, 6), RNG.integers(-7, 7, (4, 3)), _normal(4, 3))),
        _case(
            "gradients", _gradients, (_normal(5, 4), np.array([0, 3, 3, -1, 9]), np.array([0, 3, 1, 1, 2])), scale=1e-6
        ),
        _case("nothing", _nothing, (_normal(3, 4), np.zeros((0, 3), np.float32), np.zeros(0, np.int32))),
        _case("scalars", _scalars, (np.float32(2.5), _normal(6), np.int32(3))),
        _case(
            "many parts",
            _many_parts,
            (_normal(1000, 1024), RNG.integers(-5, 1005, 1500), RNG.integers(-5, 1030, 1500), _normal(1500, 1024)),
        ),
        _case("out of bounds", _out_of_bounds, (np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 5, -1, 1]))),
        _case("duplicates", _duplicates, (np.ones(3, np.float32),)),
    ]
)


@BATCH.parametrize()
def test_like_jax(name: str) -> None:
    BATCH.check(name)


def test_constants_are_not_written_out() -> None:
    exe = juju.fuse(lambda i: jnp.bincount(i, length=1000)).lower(np.arange(50, dtype=np.int32)).compile()
    scatter = exe.plan.launches[-1]
    assert "filled=True, same=True" in exe.plan.kernels[scatter.kernel].text
    assert [exe.plan.buffers[b].shape for b in scatter.buffers] == [(), (50,), (), (1000,)]


def test_a_function_of_elements_is_refused_with_a_way_out() -> None:
    with pytest.raises(juju.UnsupportedPrimitive, match=r"write x\.at\[i\]\.set\(f\(x\[i\]\)\) instead"):
        juju.fuse(lambda x: x.at[1].apply(jnp.sin)).lower(np.ones(3, np.float32)).compile()
