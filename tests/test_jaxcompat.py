"""Private names of jax against the public ways that stand in for them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray

from juju import _jaxcompat as compat
from juju.engines.pool import ResultPool

DEVICE = jax.devices("cpu")[0]


def aligned(n: int, value: float = 1) -> np.ndarray:
    raw = np.zeros(4 * n + 64, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + 4 * n].view(np.float32)
    array[:] = value
    return array


def capsule(array: np.ndarray) -> Any:
    return array.__dlpack__()


IMPORTS = [compat.adopt, compat.public_import]
POINTERS = [compat.pointer, compat.public_pointer]
FINISHERS = [compat.finisher, compat.public_finisher]
STATES = [compat.trace_state_clean, compat.public_trace_state_clean]
CONTEXTS = [compat.trace_context, compat.public_trace_context]


def test_this_jaxlib_has_the_private_names() -> None:
    """If this fails, a new jaxlib has renamed something: everything works, but calls take 30 us more."""
    assert all(compat.PRIVATE.values()), compat.PRIVATE


@pytest.mark.parametrize("adopt", IMPORTS)
def test_imported_memory_is_not_copied(adopt: Callable[..., jax.Array]) -> None:
    memory = aligned(16, 3)
    array = adopt(capsule(memory), DEVICE, None)
    assert array.unsafe_buffer_pointer() == memory.ctypes.data
    assert array.committed
    assert array.devices() == {DEVICE}
    assert (np.asarray(array) == 3).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_held_memory_survives_delete_and_donation(dtype: str) -> None:
    pool = ResultPool()

    def lent() -> int:
        gc.collect()
        return pool.stats().lent

    for end in (lambda x: x.delete(), lambda x: jax.jit(lambda x: x + 1, donate_argnums=0)(x).block_until_ready()):
        array = pool.give(pool.take(pool.layout((32,), dtype)), DEVICE)
        held = compat.holder(dtype)(array)
        end(array)
        del array
        assert lent() > 0
        del held
        assert lent() == 0


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_arrays_of_every_kind_can_be_held_and_donated_afterwards(dtype: str, shape: tuple) -> None:
    with jax.enable_x64(True):
        array = jnp.ones(shape, dtype) * 1
        compat.holder(dtype)(array)
        jax.jit(lambda x: x * 1, donate_argnums=0)(array)
        assert array.is_deleted()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_hold_waits(dtype: str) -> None:
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 3000, lambda i, c: jnp.sin(c) + 1, x))
    x = jnp.ones(1 << 14, dtype)
    slow(x).block_until_ready()
    y = slow(x)
    assert not y.is_ready(), "the computation was over too soon to show anything"
    compat.holder(dtype)(y)
    assert y.is_ready()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_deleted_array_cannot_be_held(dtype: str) -> None:
    x = jnp.ones(3, dtype) * 1
    x.delete()
    with pytest.raises((RuntimeError, BufferError)):
        compat.holder(dtype)(x)


@pytest.mark.parametrize("pointer", POINTERS)
def test_pointer_is_where_the_elements_are(pointer: Callable[[jax.Array], int]) -> None:
    x = jnp.arange(3.0)
    assert pointer(x) == np.asarray(x).ctypes.data
    with pytest.raises((TypeError, AttributeError)):
        pointer(np.ones(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", FINISHERS)
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("shape", [(), (5,), (0, 3)])
def test_finished_arrays_are_as_asked(make: Callable[..., Any], committed: bool, weak: bool, shape: tuple) -> None:
    aval = ShapedArray(shape, np.dtype("float32"), weak_type=weak)
    finish = make(aval, DEVICE, committed)
    array = finish(compat.adopt(capsule(aligned(int(np.prod(shape)), 4).reshape(shape)), DEVICE, None))
    assert (array.committed, array.weak_type, array.shape) == (committed, weak, shape)
    assert array.devices() == {DEVICE}
    assert (np.asarray(array) == 4).all()
    other = jax.jit(lambda x: jnp.broadcast_to(x, shape))(1.0 if weak else jnp.float32(1))
    other = jax.device_put(other, DEVICE) if committed else other
    assert array.aval == other.aval
    assert type(array) is type(other)
    assert ((array + jnp.ones(shape, jnp.bfloat16)).dtype == jnp.bfloat16) == weak


def test_finished_arrays_on_several_devices() -> None:
    program = """\
    import jax, numpy as np
    import test_jaxcompat as t
    for make in t.FINISHERS:
        for device in jax.devices():
            for committed in (False, True):
                for weak in (False, True):
                    aval = jax.core.ShapedArray((4,), np.dtype("float32"), weak_type=weak)
                    imported = t.compat.adopt(t.capsule(t.aligned(4, 2)), device, None)
                    array = make(aval, device, committed)(imported)
                    assert (array.committed, array.weak_type, array.devices()) == (committed, weak, {device})
                    assert (np.asarray(array) == 2).all()
    """
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=os.path.dirname(__file__),
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("clean", STATES)
def test_transformations_are_noticed(clean: Callable[[], bool]) -> None:
    seen: list[bool] = []

    def f(x: jax.Array) -> jax.Array:
        seen.append(clean())
        return x * 2

    assert clean()
    jax.jit(f)(1.0)
    jax.grad(f)(1.0)
    jax.vmap(f)(jnp.ones(3))
    jax.make_jaxpr(lambda: f(jnp.ones(3)))()
    assert seen == [False] * 4
    f(jnp.ones(3))
    assert seen[-1]
    assert clean()


OPTION = "jax_threefry_partitionable"
CHANGES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "x64": lambda: jax.enable_x64(True),
    "precision": lambda: jax.default_matmul_precision("float32"),
    "promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "rank": lambda: jax.numpy_rank_promotion("raise"),
    "threefry": lambda: jax.threefry_partitionable(not getattr(jax.config, OPTION)),
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("change", CHANGES)
def test_options_that_change_a_trace_change_the_context(context: Callable[[], Hashable], change: str) -> None:
    before = context()
    assert hash(before) == hash(context())
    with CHANGES[change]():
        assert context() != before
    assert context() == before


def test_without_private_names_everything_is_public() -> None:
    program = """\
    import importlib
    import jax, jaxlib._jax, jax._src.core, jax._src.config, jax.numpy as jnp, numpy as np
    from juju import _jaxcompat as compat
    from juju.engines import pool as pools
    hidden = [(jaxlib._jax, "dlpack_managed_tensor_to_buffer"), (jaxlib._jax, "array_result_handler"),
              (jaxlib._jax, "ArrayImpl"), (jax._src.core, "trace_state_clean"), (jax._src.config, "trace_context")]
    values = [getattr(*place) for place in hidden]
    for place in hidden:
        delattr(*place)
    importlib.reload(compat)
    for place, value in zip(hidden, values):  # jax itself needs them
        setattr(*place, value)
    importlib.reload(pools)
    assert not any(compat.PRIVATE.values()), compat.PRIVATE
    assert compat.adopt is compat.public_import
    assert compat.pointer is compat.public_pointer
    assert compat.trace_context is compat.public_trace_context
    assert compat.trace_state_clean is compat.public_trace_state_clean
    pool, device = pools.ResultPool(), jax.devices()[0]
    aval = jax.core.ShapedArray((3,), np.dtype("float32"), weak_type=False)
    for committed in (True, False):
        block = pool.take(pool.layout((3,), "float32"))
        array = pool.giver(device, compat.finisher(aval, device, committed))(block)
        assert array.committed == committed
        if committed:
            assert pool.stats().lent == 64
            del array
            assert pool.stats().lent == 0
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_private_ways_are_the_fast_ones() -> None:
    memory = aligned(16)

    def best(adopt: Callable[..., jax.Array]) -> float:
        times = []
        for _ in range(300):
            tensor = capsule(memory)
            start = time.perf_counter()
            adopt(tensor, DEVICE, None)
            times.append(time.perf_counter() - start)
        return min(times)

    assert best(compat.adopt) < best(compat.public_import)
