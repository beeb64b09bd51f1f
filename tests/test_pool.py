"""The result pool: memory is reused as soon as it can be, never before, and given back when it is idle."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juju.engines import pool as pools
from juju.engines.pool import BIG, Block, ResultPool, shelf_size
from juju.errors import ArgumentError

MEGABYTE = 1 << 20
DTYPES = ["bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "bfloat16"]
DTYPES += ["float16", "float32", "float64"]


def view(block: Block) -> np.ndarray:
    """The memory of a block, writable, as the result it was taken for."""
    layout = block.layout
    assert layout is not None
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * layout.nbytes).from_address(block.address))
    return raw.view(layout.dtype).reshape(layout.shape)


def result(pool: ResultPool, shape: tuple[int, ...] = (64,), dtype: str = "float32", value: float = 1) -> jax.Array:
    block = pool.take(pool.layout(shape, dtype))
    view(block)[...] = value
    return pool.give(block, jax.devices("cpu")[0])


def lent(pool: ResultPool) -> int:
    gc.collect()
    return pool.stats().lent


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def resident(address: int, size: int) -> int:
    """Bytes of this range that are in memory."""
    pages = -(-size // 4096)
    found = (ctypes.c_uint8 * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    assert libc.mincore(address // 4096 * 4096, size, found) == 0
    return 4096 * sum(page & 1 for page in found)


@given(st.integers(0, 1 << 36))
def test_a_block_holds_what_it_is_for_and_little_more(nbytes: int) -> None:
    size = shelf_size(nbytes)
    assert size >= nbytes
    assert size % 64 == 0
    assert size <= max(64, nbytes * 9 / 8 if nbytes > BIG else nbytes * 3 / 2 + 63)


@pytest.mark.parametrize("nbytes", [1 << 20, 64 << 20, 256 << 20, 1 << 30])
def test_results_of_a_power_of_two_waste_nothing(nbytes: int) -> None:
    assert shelf_size(nbytes) == nbytes


@pytest.mark.parametrize("count", [1, 100, 5000, 300_000, 600_000, 5_000_000])
def test_blocks_are_aligned_and_apart(count: int) -> None:
    pool = ResultPool()
    layout = pool.layout((count,), "float32")
    blocks = sorted((pool.take(layout) for _ in range(40)), key=lambda block: block.address)
    assert all(block.address % 64 == 0 for block in blocks)
    for first, second in itertools.pairwise(blocks):
        assert first.address + layout.nbytes <= second.address


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,), (4, 0, 2), (1,) * 16, (70_001,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_kind_come_out_as_written(dtype: str, shape: tuple[int, ...]) -> None:
    pool = ResultPool()
    with jax.enable_x64(True):
        array = result(pool, shape, dtype)
        assert array.shape == shape
        assert array.dtype == np.dtype(dtype)
        assert np.asarray(array).tobytes() == np.ones(shape, np.dtype(dtype)).tobytes()
        assert array.committed


def test_an_array_is_the_block_and_not_a_copy() -> None:
    pool = ResultPool()
    block = pool.take(pool.layout((64,), "float32"))
    assert pool.give(block, jax.devices("cpu")[0]).unsafe_buffer_pointer() == block.address


def test_memory_comes_back_when_the_last_array_dies() -> None:
    pool = ResultPool()
    array = result(pool)
    address = array.unsafe_buffer_pointer()
    assert lent(pool) == 256
    del array
    assert lent(pool) == 0
    assert result(pool).unsafe_buffer_pointer() == address


def test_the_block_used_last_is_used_first() -> None:
    pool = ResultPool()
    first, second = result(pool), result(pool)
    address = second.unsafe_buffer_pointer()
    del first
    pool.stats()
    del second
    assert result(pool).unsafe_buffer_pointer() == address


def test_a_block_changes_shape_and_dtype() -> None:
    pool = ResultPool()
    array = result(pool, (16, 4), "float32")
    address = array.unsafe_buffer_pointer()
    del array
    array = result(pool, (2, 128), "uint8", 7)
    assert array.unsafe_buffer_pointer() == address
    assert array.shape == (2, 128)
    assert array.dtype == np.uint8
    assert (np.asarray(array) == 7).all()


def test_a_numpy_view_keeps_the_memory() -> None:
    pool = ResultPool()
    array = result(pool, value=3)
    seen = np.asarray(array)
    assert seen.ctypes.data == array.unsafe_buffer_pointer()
    del array
    part = seen[5:9]
    del seen
    assert lent(pool) == 256
    other = result(pool, value=4)
    assert (part == 3).all()
    del part, other
    assert lent(pool) == 0


def test_a_second_array_over_the_same_memory_keeps_it() -> None:
    pool = ResultPool()
    array = result(pool)
    address = array.unsafe_buffer_pointer()
    second = jax.device_put(array, array.devices().pop())
    third = jnp.asarray(array)
    del array
    assert second.unsafe_buffer_pointer() == third.unsafe_buffer_pointer() == address
    assert lent(pool) == 256
    del second, third
    assert lent(pool) == 0


def test_delete_returns_the_memory_at_once() -> None:
    pool = ResultPool()
    array = result(pool)
    array.delete()
    assert lent(pool) == 0
    array = result(pool, value=2)
    seen = np.asarray(array)
    array.delete()
    assert lent(pool) == 256
    assert (seen == 2).all()


def test_donating_to_jit_returns_the_memory() -> None:
    pool = ResultPool()
    array = result(pool)
    out = jax.jit(lambda x: x + 1, donate_argnums=0)(array)
    out.block_until_ready()
    assert array.is_deleted()
    assert (np.asarray(out) == 2).all()
    if out.unsafe_buffer_pointer() not in [block.address for block in pool._blocks]:
        assert lent(pool) == 0
    del out
    assert lent(pool) == 0


def test_a_computation_in_flight_keeps_its_input() -> None:
    pool = ResultPool()
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 20_000, lambda i, c: jnp.sin(c) * 1.01, x))
    want = np.asarray(slow(np.full(1 << 14, 0.5, np.float32)))
    array = result(pool, (1 << 14,), value=0.5)
    out = slow(array)
    del array
    during = pool.stats().lent
    running = not out.is_ready()
    other = result(pool, (1 << 14,), value=-1)  # would overwrite the input if it had come back
    del other
    np.testing.assert_array_equal(np.asarray(out), want)
    assert running, "the computation was over too soon to show anything"
    assert during > 0
    assert eventually(lambda: lent(pool) == 0)


def test_arrays_in_a_garbage_cycle_come_back() -> None:
    pool = ResultPool()
    cycle: list[object] = [result(pool)]
    cycle.append(cycle)
    del cycle
    assert lent(pool) == 0


def test_hits_and_misses_are_counted() -> None:
    pool = ResultPool()
    for _ in range(10):
        result(pool)
    stats = pool.stats()
    assert (stats.misses, stats.hits) == (1, 9)
    held = [result(pool) for _ in range(3)]
    stats = pool.stats()
    assert (stats.misses, stats.hits) == (3, 10)
    assert stats.lent == 3 * 256
    assert stats.held == stats.lent + stats.free + stats.cold
    del held


def test_dropping_a_block_returns_it() -> None:
    pool = ResultPool()
    block = pool.take(pool.layout((64,), "float32"))
    pool.drop(block)
    assert pool.take(pool.layout((64,), "float32")) is block


def test_no_more_than_the_limit_waits_for_reuse() -> None:
    pool = ResultPool(limit=20 * MEGABYTE)
    arrays = [result(pool, (MEGABYTE,)) for _ in range(10)]  # of 4 MiB each
    places = [array.unsafe_buffer_pointer() for array in arrays]
    assert pool.stats().lent == 40 * MEGABYTE
    del arrays
    stats = pool.stats()
    assert (stats.lent, stats.free, stats.cold, stats.trimmed) == (0, 20 * MEGABYTE, 20 * MEGABYTE, 20 * MEGABYTE)
    gone = [place for place in places if resident(place, 4 * MEGABYTE) < MEGABYTE]
    assert len(gone) == 5


def test_a_limit_of_nothing_keeps_nothing() -> None:
    pool = ResultPool(limit=0)
    for _ in range(3):
        array = result(pool, (MEGABYTE,), value=5)
        assert float(array[-1]) == 5
        del array
        assert pool.stats().free == 0
    assert pool.stats().held == 4 * MEGABYTE


def test_idle_memory_is_given_back_and_the_thread_ends() -> None:
    pool = ResultPool(idle_seconds=0.1)
    array = result(pool, (4 * MEGABYTE,))
    address = array.unsafe_buffer_pointer()
    time.sleep(0.5)
    assert resident(address, 16 * MEGABYTE) == 16 * MEGABYTE
    assert float(array[12345]) == 1
    assert pool._watcher is not None
    del array
    assert eventually(lambda: pool.stats().free == 0)
    assert resident(address, 16 * MEGABYTE) < MEGABYTE
    assert eventually(lambda: pool._watcher is None)
    array = result(pool, (4 * MEGABYTE,), value=2)
    assert array.unsafe_buffer_pointer() == address
    assert pool._watcher is not None
    assert (np.asarray(array) == 2).all()


def test_memory_in_use_is_not_given_back() -> None:
    pool = ResultPool(idle_seconds=0.02)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        array = result(pool, (MEGABYTE,), value=9)
        assert (np.asarray(array) == 9).all()
        del array
        pool.trim()


def test_small_results_need_no_thread() -> None:
    pool = ResultPool(idle_seconds=0.05)
    kept = [result(pool) for _ in range(100)]
    assert pool._watcher is None
    del kept


def test_many_small_blocks_are_given_back() -> None:
    pool = ResultPool(idle_seconds=0.1)
    blocks = [pool.take(pool.layout((1000,), "float32")) for _ in range(4000)]
    for block in blocks:
        view(block)[...] = 1
    places = [block.address for block in blocks]
    keep = pool.give(blocks.pop(), jax.devices("cpu")[0])
    for block in blocks:
        pool.drop(block)
    del blocks
    assert eventually(lambda: pool.stats().cold > 12 * MEGABYTE)
    assert sum(resident(place, 4000) for place in places) < 2 * MEGABYTE
    assert (np.asarray(keep) == 1).all()
    assert eventually(lambda: pool._watcher is None)
    for _ in range(4000):
        assert float(result(pool, (1000,), value=3)[999]) == 3


def test_trim_gives_back_what_waits() -> None:
    pool = ResultPool()
    kept, gone = result(pool, (MEGABYTE,), value=6), result(pool, (MEGABYTE,))
    del gone
    assert pool.trim() == 4 * MEGABYTE
    assert (np.asarray(kept) == 6).all()
    assert pool.stats().cold == 4 * MEGABYTE


def test_threads_never_share_a_block() -> None:
    pool = ResultPool(limit=3 * MEGABYTE, idle_seconds=0.02)
    failures: list[str] = []

    def churn(seed: int) -> None:
        kept: list[tuple[jax.Array, int]] = []
        for i in range(150):
            value = seed * 1000 + i
            array = result(pool, ((1000, 40_000, 300_000)[i % 3],), "int32", value)
            kept.append((array, value))
            if i % 5 == 4:
                total = array[0] + 1
                if int(total) != value + 1:
                    failures.append(f"{value}: computed {total}")
            if len(kept) > 4:
                old, want = kept.pop(0)
                if not (np.asarray(old) == want).all():
                    failures.append(f"{want}: overwritten with {np.unique(np.asarray(old))}")

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert eventually(lambda: lent(pool) == 0)


@pytest.mark.parametrize(
    ("text", "want"), [("0", 0), ("123", 123), ("2K", 2048), ("3m", 3 << 20), ("1G", 1 << 30), ("4G", 4 << 30)]
)
def test_limit_from_the_environment(monkeypatch: pytest.MonkeyPatch, text: str, want: int) -> None:
    monkeypatch.setenv("JUJU_POOL_LIMIT", text)
    assert ResultPool().limit == want


@pytest.mark.parametrize("text", ["-1", "1.5G", "lots", "G", "1 G", "0x10", "٣"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JUJU_POOL_LIMIT", text)
    with pytest.raises(ArgumentError, match=r"JUJU_POOL_LIMIT is .*; it must be a number of bytes, such as"):
        ResultPool()


def test_the_default_limit_is_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUJU_POOL_LIMIT", raising=False)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < pools.default_limit() <= min(4 << 30, memory // 4)


def test_no_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ResultPool()
    with pytest.raises(MemoryError, match="cannot map"):
        pool.take(pool.layout((1 << 60,), "uint8"))


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


EXITS = {
    "globals": "",
    "module": "import types; sys.modules['keeper'] = types.ModuleType('keeper'); sys.modules['keeper'].kept = arrays",
    "cycle": "arrays.append(arrays)",
    "view": "arrays = [np.asarray(x) for x in arrays]",
    "error": "raise SystemExit(0)",
    "thread": "threading.Thread(target=lambda: (time.sleep(0.2), arrays.clear()), daemon=True).start()",
    "atexit": "import atexit; atexit.register(arrays.clear)",
    "deleter": "class K:\n    def __del__(self): arrays.clear()\nkeeper = K()",
}


@pytest.mark.parametrize("how", EXITS)
def test_nothing_is_said_at_exit(how: str) -> None:
    head = """\
    import sys, threading, time
    import jax, numpy as np
    from juju.engines.pool import ResultPool
    pool = ResultPool(idle_seconds=0.05)
    device = jax.devices("cpu")[0]
    arrays = [pool.give(pool.take(pool.layout((n,), "float32")), device) for n in (4, 70_000, 3_000_000)]
    jitted = jax.jit(lambda x: x + 1)(arrays[1])
    """
    done = run_python(textwrap.dedent(head) + EXITS[how] + "\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_reads_and_deletes_arrays() -> None:
    done = run_python("""\
        import os, sys, warnings
        import jax, numpy as np
        from juju.engines.pool import ResultPool
        warnings.filterwarnings("ignore")
        pool = ResultPool()
        array = pool.give(pool.take(pool.layout((1000,), "float32")), jax.devices("cpu")[0])
        seen = np.asarray(array)
        child = os.fork()
        if child == 0:
            total = seen.sum()
            del seen, array
            os._exit(0 if pool.stats().lent == 0 else 1)
        print(os.waitpid(child, 0)[1], pool.stats().lent)
        """)
    assert (done.stdout, done.stderr) == ("0 4096\n", "")


def test_bfloat16_results_have_their_dtype() -> None:
    array = result(ResultPool(), (3,), "bfloat16", 1.5)
    assert array.dtype == ml_dtypes.bfloat16
    assert float((array * 2)[0]) == 3
