"""The max engine on small hand-written kernels: every byte of every result, whoever calls, however it is run."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray

from juju import _machine as machine
from juju import build
from juju.build import Built, Store, build_kernels, kernel_key
from juju.engines import max as engine
from juju.engines import trampoline as trampolines
from juju.engines.max import Executable, check_devices, dispatch_of, points
from juju.engines.pool import default_pool
from juju.engines.trampoline import trampoline
from juju.errors import ArgumentError, DeletedArrayError, DeviceError, KernelStatusError, ToolchainError
from juju.plan import Buffer, Kernel, Launch, Plan

HEAD = """\
from std.ffi import external_call

comptime Args = Pointer[Int64, MutAnyOrigin]


@always_inline
def array[dt: DType](args: Args, k: Int) -> Pointer[Scalar[dt], MutAnyOrigin]:
    return args.unsafe_bitcast[Pointer[Scalar[dt], MutAnyOrigin]]()[unsafe_offset=k]


@export
def SYMBOL(args: Args, lo: Int, hi: Int) abi("C") -> Int:
"""
F32 = "array[DType.float32](args, {})[unsafe_offset=i]"
X, Y, Z = (F32.format(k) for k in range(3))
BODIES = {
    # o = 2 x + y
    "axpy": f"for i in range(lo, hi):\n    {Z} = {X} * 2 + {Y}\nreturn 0",
    # o = x + sizes[0]
    "shift": f"for i in range(lo, hi):\n    {Y} = {X} + Float32(Int(args[unsafe_offset=2]))\nreturn 0",
    "double": f"for i in range(lo, hi):\n    {Y} = {X} * 2\nreturn 0",
    # o = what the machine makes of a subnormal, so that NaN-free code shows how they are treated
    "halve": f"for i in range(lo, hi):\n    {Y} = {X} * 0.5\nreturn 0",
    "positive": f"for i in range(lo, hi):\n    {Y} = Float32(1) if {X} > 0 else Float32(0)\nreturn 0",
    # o[i] = first point of the chunk that computed i; o[n + chunk] = thread
    "chunks": (
        "var starts = array[DType.int64](args, 0)\n"
        "var threads = array[DType.int64](args, 1)\n"
        "var id = Int64(external_call['gettid', Int32]())\n"
        "for i in range(lo, hi):\n    starts[unsafe_offset=i] = Int64(lo)\n    threads[unsafe_offset=i] = id\nreturn 0"
    ).replace("'", '"'),
    # copies bytes, whatever they are
    "bytes": (
        "var x = array[DType.uint8](args, 0)\nvar o = array[DType.uint8](args, 1)\nvar w = Int(args[unsafe_offset=2])\n"
        "for i in range(lo * w, hi * w):\n    o[unsafe_offset=i] = x[unsafe_offset=i]\nreturn 0"
    ),
    # fails in the chunk that holds the point sizes[0]
    "fails": (
        "var at = Int(args[unsafe_offset=1])\nif lo <= at and at < hi:\n    return 41\n"
        "for i in range(lo, hi):\n    array[DType.float32](args, 0)[unsafe_offset=i] = 0\nreturn 0"
    ),
    # a sum into a scalar, by the chunk that starts at 0 only
    "uniform": "if lo == 0:\n    array[DType.float32](args, 1)[] = array[DType.float32](args, 0)[] * 3\nreturn 0",
    # waits until word 1 is not 0, then copies x to o
    "waits": (
        "var gate = array[DType.int64](args, 1)\n"
        "var x = array[DType.float32](args, 0)\nvar o = array[DType.float32](args, 2)\n"
        "gate[unsafe_offset=1] = 1\n"
        "while gate.unsafe_load[volatile=True]() == 0:\n    _ = external_call['usleep', Int32](UInt32(100))\n"
        "for i in range(lo, hi):\n    o[unsafe_offset=i] = x[unsafe_offset=i]\nreturn 0"
    ).replace("'", '"'),
    # o0 = x + y, o1 = x - y, and reads its own first result
    "pair": (
        f"for i in range(lo, hi):\n    {Z} = {X} + {Y}\n    {F32.format(3)} = {X} - {Y}\nreturn 0"
    ),
}  # fmt: skip
LONG = 1 << 20
"""Points of a launch that is split."""


def make_kernel(name: str) -> Kernel:
    text = HEAD + textwrap.indent(BODIES[name], "    ") + "\n"
    key = kernel_key(text, ())
    symbol = f"test_{name}_{key[:16]}"
    return Kernel(name, symbol, key, text.replace("SYMBOL", symbol))


KERNELS: dict[str, Kernel] = {}
BUILT: dict[str, Built] = {}


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """All kernels of this file, in one run of the compiler; and no trimming in the middle of a test."""
    default_pool().idle_seconds = 3600
    KERNELS.update({name: make_kernel(name) for name in BODIES})
    BUILT.update(zip(KERNELS, build_kernels(list(KERNELS.values())), strict=True))
    trampoline().open_graph(wait=True)


def aval(shape: Sequence[int], dtype: str = "float32", weak: bool = False) -> Any:
    return ShapedArray(tuple(shape), np.dtype(dtype), weak_type=weak)


def make_plan(
    steps: Sequence[tuple[str, Sequence[int], Sequence[int], int, float]],
    buffers: Sequence[tuple[str, Sequence[int], str]],
    results: Sequence[int],
) -> Plan:
    """Steps are (kernel, buffers, sizes, extent, nanoseconds a point); buffers are (kind, shape, dtype)."""
    names = list(dict.fromkeys(step[0] for step in steps))
    count: dict[str, int] = {}
    described = []
    for kind, shape, dtype in buffers:
        described.append(Buffer(kind, count.setdefault(kind, 0), tuple(shape), dtype))  # type: ignore[arg-type]
        count[kind] += 1
    launches = tuple(
        Launch(names.index(name), tuple(places), tuple(sizes), extent, cost, name=name)
        for name, places, sizes, extent, cost in steps
    )
    return Plan("f", tuple(KERNELS[name] for name in names), tuple(described), launches, tuple(results))


def load(plan: Plan, avals: Sequence[Any], constants: Sequence[Any] = (), **options: Any) -> Executable:
    return engine.load(plan, [BUILT[kernel.name] for kernel in plan.kernels], constants, avals, **options)


def axpy(n: int, cost: float = 0.2) -> Executable:
    plan = make_plan(
        [("axpy", (0, 1, 2), (), n, cost)],
        [("operand", (n,), "float32"), ("operand", (n,), "float32"), ("result", (n,), "float32")],
        [2],
    )
    return load(plan, [aval((n,))])


def unary(name: str, n: int, cost: float = 0.2, sizes: Sequence[int] = (), **options: Any) -> Executable:
    plan = make_plan([(name, (0, 1), sizes, n, cost)], [("operand", (n,), "float32"), ("result", (n,), "float32")], [1])
    return load(plan, [aval((n,), weak=options.pop("weak", False))], **options)


def poison() -> None:
    """Fills all memory that waits for reuse with 0xAB."""
    gc.collect()
    pool = default_pool()
    pool.stats()
    for shelf in pool._shelves.values():
        blocks = [shelf.free.popleft() for _ in range(len(shelf.free))]
        for block in blocks:
            ctypes.memset(block.address, 0xAB, shelf.size)
        shelf.free.extend(blocks)


def poisoned(run: Callable[[], list[jax.Array]]) -> list[np.ndarray]:
    """The results of a second call, which writes into memory full of 0xAB."""
    run()
    poison()
    misses = default_pool().stats().misses
    arrays = run()
    assert default_pool().stats().misses == misses, "the second call did not reuse memory"
    return [np.asarray(array) for array in arrays]


RNG = np.random.default_rng(0)
LENGTHS = [1, 2, 63, 64, 65, 1000, LONG, LONG + 1, LONG + 63, 3 * LONG - 1]


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nanoseconds", [1e3, 5e6, 6e7], ids=["serial", "crew", "graph"])
@pytest.mark.parametrize("n", LENGTHS)
def test_every_element_is_computed(n: int, nanoseconds: float) -> None:
    f = axpy(n, nanoseconds / n)
    assert f._dispatch == ("serial" if nanoseconds < 1e5 or machine.cores() == 1 else f._dispatch)
    x, y = (jnp.asarray(RNG.standard_normal(n, np.float32)) for _ in range(2))
    (got,) = poisoned(lambda: f([x, y]))
    np.testing.assert_array_equal(got, np.asarray(x) * 2 + np.asarray(y))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "bfloat16", "float16", "int32", "float64", "uint64"])
@pytest.mark.parametrize("shape", [(), (1,), (7, 9), (300, 1001)])
def test_every_byte_of_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    with jax.enable_x64(True):
        width, size = np.dtype(dtype).itemsize, int(np.prod(shape))
        plan = make_plan(
            [("bytes", (0, 1), (width,), size, 2)], [("operand", shape, dtype), ("result", shape, dtype)], [1]
        )
        f = load(plan, [aval(shape, dtype)])
        x = jnp.asarray(RNG.integers(0, 2, shape).astype(dtype))
        (got,) = poisoned(lambda: f([x]))
        assert got.dtype == x.dtype
        assert got.shape == shape
        assert got.tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 2)])
def test_empty_results_need_no_launch(shape: tuple[int, ...]) -> None:
    f = load(make_plan([], [("operand", shape, "int32"), ("result", shape, "int32")], [1]), [aval(shape, "int32")])
    (got,) = f([jnp.zeros(shape, jnp.int32)])
    assert got.shape == shape
    assert got.dtype == jnp.int32


def test_rank_0_in_and_out() -> None:
    plan = make_plan([("uniform", (0, 1), (), 1, 1)], [("operand", (), "float32"), ("result", (), "float32")], [1])
    f = load(plan, [aval(())])
    (got,) = poisoned(lambda: f([jnp.float32(7)]))
    assert got.shape == ()
    assert got == 21


def test_a_uniform_result_of_a_split_launch_is_written_once() -> None:
    plan = make_plan([("uniform", (0, 1), (), LONG, 1)], [("operand", (), "float32"), ("result", (), "float32")], [1])
    (got,) = poisoned(lambda: load(plan, [aval(())])([jnp.float32(7)]))
    assert got == 21


def test_sizes_reach_the_kernel() -> None:
    f = unary("shift", 100, sizes=(-(1 << 20),))
    np.testing.assert_array_equal(np.asarray(f([jnp.zeros(100)])[0]), np.full(100, -(1 << 20), np.float32))


@pytest.mark.parametrize("n", [100, LONG])
def test_launches_run_in_order(n: int) -> None:
    steps = [("double", (0, 2), (), n, 1), ("shift", (2, 3), (5,), n, 1), ("axpy", (3, 2, 1), (), n, 1)]
    buffers = [("operand", (n,), "float32"), ("result", (n,), "float32"), *[("scratch", (n,), "float32")] * 2]
    f = load(make_plan(steps, buffers, [1]), [aval((n,))])
    x = jnp.arange(n, dtype=jnp.float32)
    for _ in range(5):
        (got,) = poisoned(lambda: f([x]))
        np.testing.assert_array_equal(got, (np.asarray(x) * 2 + 5) * 2 + np.asarray(x) * 2)


def test_scratch_goes_back_to_the_pool() -> None:
    n = 1000
    steps = [("double", (0, 2), (), n, 1), ("double", (2, 1), (), n, 1)]
    buffers = [("operand", (n,), "float32"), ("result", (n,), "float32"), ("scratch", (n,), "float32")]
    f = load(make_plan(steps, buffers, [1]), [aval((n,))])
    gc.collect()
    before = default_pool().stats().lent
    (got,) = f([jnp.ones(n)])
    assert default_pool().stats().lent == before + 4096
    assert (np.asarray(got) == 4).all()


def test_a_hundred_operands_and_results() -> None:
    n, count = 70, 100
    steps = [("axpy", (i, (i + 1) % count, count + i), (), n, 0.2) for i in range(count)]
    buffers = [*[("operand", (n,), "float32")] * count, *[("result", (n,), "float32")] * count]
    f = load(make_plan(steps, buffers, range(count, 2 * count)), [aval((n,))] * count)
    xs = [jnp.full(n, float(i)) for i in range(count)]
    got = poisoned(lambda: f(xs))
    for i in range(count):
        assert (got[i] == 2 * i + (i + 1) % count).all()


def test_no_operands_and_no_results() -> None:
    assert load(make_plan([], [], []), [])([]) == []


def test_result_shapes_are_those_of_the_avals() -> None:
    plan = make_plan(
        [("double", (0, 1), (), 12, 1)], [("operand", (12,), "float32"), ("result", (12,), "float32")], [1]
    )
    (got,) = load(plan, [aval((3, 4))])([jnp.arange(12.0).reshape(3, 4)])
    np.testing.assert_array_equal(np.asarray(got), np.arange(12.0).reshape(3, 4) * 2)


# Results that are something else ------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("n", [3, 64, 1001, LONG + 5])
def test_operands_constants_and_repeats_are_results_of_their_own(
    n: int, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "stream_bytes", lambda: 0 if streamed else 1 << 60)
    buffers = [("operand", (n,), "float32"), ("constant", (n,), "float32"), ("result", (n,), "float32")]
    plan = make_plan([("double", (0, 2), (), n, 1)], buffers, [0, 2, 1, 2, 0])
    constant = jnp.arange(n, dtype=jnp.float32)
    f = load(plan, [aval((n,))] * 5, [constant])
    x = jnp.full(n, 3.0)
    poisoned(lambda: f([x]))
    got = f([x])
    wanted = [np.full(n, 3), np.full(n, 6), np.arange(n), np.full(n, 6), np.full(n, 3)]
    for array, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(array), want.astype(np.float32))
    assert len({array.unsafe_buffer_pointer() for array in (*got, x, constant)}) == 7
    got[0].delete()
    got[1].delete()
    assert not x.is_deleted()
    assert not got[3].is_deleted()
    assert float(got[4][2]) == 3


def test_a_constant_survives_its_array() -> None:
    n = 1000
    buffers = [("operand", (n,), "float32"), ("constant", (n,), "float32"), ("result", (n,), "float32")]
    constant = jnp.full(n, 5.0) * 1
    f = load(make_plan([("axpy", (0, 1, 2), (), n, 1)], buffers, [2]), [aval((n,))], [constant])
    constant.delete()
    del constant
    gc.collect()
    rubbish = [jnp.full(n, -1.0) * 1 for _ in range(50)]
    assert (np.asarray(f([jnp.ones(n)])[0]) == 7).all()
    del rubbish


@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_results_are_those_of_jit(weak: bool, committed: bool) -> None:
    # The one way to a weak array of rank 1 is a function of a Python scalar.
    x = jax.jit(lambda s: jnp.broadcast_to(s, (5,)))(1.0 if weak else jnp.float32(1))
    if committed:
        x = jax.device_put(x, jax.devices()[0])
    (got,) = unary("double", 5, weak=weak)([x])
    want = jax.jit(lambda x: x * 2)(x)
    assert got.weak_type == want.weak_type == weak
    assert got.committed == want.committed == committed
    assert got.aval == want.aval
    assert got.sharding == want.sharding
    assert type(got) is type(want)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


# Operands -----------------------------------------------------------------------------------------------------------


def test_numpy_operands_of_all_layouts() -> None:
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    read_only = table[1].copy()
    read_only.flags.writeable = False
    f = unary("double", 6)
    for row in (
        table[0],
        table[1, ::-1],
        table.T[:, 2][[0, 1, 2, 3, 0, 1]],
        np.asfortranarray(table)[2],
        np.broadcast_to(np.float32(3), (6,)),
        table[0].astype(">f4"),
        table[0].astype(np.float64),
        np.frombuffer(b"x" + table[3].tobytes(), np.uint8)[1:].view(np.float32),
        read_only,
    ):
        (got,) = f([row])
        np.testing.assert_array_equal(np.asarray(got), row.astype(np.float32) * 2)
        assert not got.committed


def test_scalars_are_operands() -> None:
    plan = make_plan([("uniform", (0, 1), (), 1, 1)], [("operand", (), "float32"), ("result", (), "float32")], [1])
    f = load(plan, [aval((), weak=True)])
    for scalar in (2, 2.5, True, np.float32(4), np.float64(0.1), np.int64(3), jnp.float32(1.5)):
        (got,) = f([scalar])
        assert np.asarray(got) == np.float32(scalar) * np.float32(3)


def test_an_operand_that_is_still_computed_is_waited_for() -> None:
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 2000, lambda i, c: jnp.sin(c) + 1, x))
    x = jnp.full(1 << 14, 0.5)
    want = np.asarray(slow(x)) * 2
    f = unary("double", 1 << 14)
    y = slow(x)
    waited = not y.is_ready()
    np.testing.assert_array_equal(np.asarray(f([y])[0]), want)
    assert waited, "the operand was ready too soon to show anything"


def test_results_are_operands_of_jit_and_of_us() -> None:
    f = unary("double", 100)
    x = jnp.arange(100.0)
    for _ in range(20):
        x = f([x])[0]
        x = jax.jit(lambda x: x / 2)(x)
    np.testing.assert_array_equal(np.asarray(x), np.arange(100.0))


def test_a_deleted_operand_is_refused_in_the_words_of_jax() -> None:
    x = jnp.ones(3) * 1
    x.delete()
    with pytest.raises(RuntimeError) as of_jax:
        jax.jit(lambda x: x * 2)(x)
    with pytest.raises(DeletedArrayError) as ours:
        unary("double", 3)([x])
    assert str(ours.value) == str(of_jax.value) == "Array has been deleted with shape=float32[3]."


def test_deleting_an_operand_in_use_does_not_free_it() -> None:
    n = 5000
    (x,) = unary("double", n)([jnp.full(n, 2.0)])  # memory of the pool
    address = x.unsafe_buffer_pointer()
    gate = np.zeros(2, np.int64)
    buffers = [("operand", (n,), "float32"), ("constant", (2,), "int64"), ("result", (n,), "float32")]
    f = load(make_plan([("waits", (0, 1, 2), (), n, 1)], buffers, [2]), [aval((n,))])
    f._constants.append(gate)
    f._programs.append(trampolines.Program(_with_constant(f), f._variable, [gate.ctypes.data]))
    got: list[jax.Array] = []
    thread = threading.Thread(target=lambda: got.extend(f([x])))
    thread.start()
    while not gate[1]:
        time.sleep(0.001)
    x.delete()
    others = [unary("double", n)([jnp.full(n, -1.0)])[0] for _ in range(5)]
    assert address not in [other.unsafe_buffer_pointer() for other in others]
    gate[0] = 1
    thread.join()
    assert (np.asarray(got[0]) == 4).all()


def _with_constant(f: Executable) -> list[trampolines.Call]:
    """The calls of a plan whose constant buffer was added by hand."""
    return f._calls


# Donation -----------------------------------------------------------------------------------------------------------


def test_donated_operands_are_deleted() -> None:
    f = unary("double", 100, donated=(0,))
    x = jnp.ones(100) * 1
    (got,) = f([x])
    assert x.is_deleted()
    assert (np.asarray(got) == 2).all()
    (again,) = f([got])
    assert got.is_deleted()
    assert (np.asarray(again) == 4).all()
    assert (np.asarray(f([np.ones(100, np.float32)])[0]) == 2).all()
    with pytest.raises(DeletedArrayError, match="Array has been deleted"):
        f([x])


def test_memory_of_a_donated_result_is_used_again() -> None:
    f = unary("double", 3 * LONG, donated=(0,))
    (x,) = unary("double", 3 * LONG)([jnp.ones(3 * LONG)])
    x, places = f([x])[0], []
    for _ in range(6):
        places.append(x.unsafe_buffer_pointer())
        x = f([x])[0]
    assert len(set(places)) <= 2


@pytest.mark.parametrize(("donated", "places"), [((0,), 2), ((1,), 2), ((0, 1), 2), ((2,), 3), ((0, 2), 3)])
def test_donated_and_used_is_refused_in_the_words_of_jax(donated: tuple[int, ...], places: int) -> None:
    n = 4
    buffers = [*[("operand", (n,), "float32")] * places, *[("result", (n,), "float32")] * places]
    steps = [("double", (i, places + i), (), n, 1) for i in range(places)]
    f = load(make_plan(steps, buffers, range(places, 2 * places)), [aval((n,))] * places, donated=donated)
    x = jnp.ones(n) * 1
    with pytest.raises(jax.errors.JaxRuntimeError) as ours:
        f([x] * places)
    assert not x.is_deleted()
    with pytest.raises(jax.errors.JaxRuntimeError) as of_jax:
        jax.jit(lambda *xs: tuple(x * 2 for x in xs), donate_argnums=donated)(*[x] * places)
    assert str(ours.value) == str(of_jax.value)
    distinct = [jnp.ones(n) * i for i in range(places)]
    f(distinct)
    assert [x.is_deleted() for x in distinct] == [i in donated for i in range(places)]


def test_a_donated_operand_may_be_a_result() -> None:
    plan = make_plan([], [("operand", (50,), "float32")], [0])
    x = jnp.arange(50.0) * 1
    (got,) = load(plan, [aval((50,))], donated=(0,))([x])
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(got), np.arange(50.0))


# How it is run ------------------------------------------------------------------------------------------------------


def chunks_of(n: int, cost: float) -> tuple[np.ndarray, np.ndarray]:
    """For every point, the first point of the chunk that computed it, and the thread."""
    with jax.enable_x64(True):
        plan = make_plan(
            [("chunks", (0, 1), (), n, cost)], [("result", (n,), "int64"), ("result", (n,), "int64")], [0, 1]
        )
        f = load(plan, [aval((n,), "int64")] * 2)
        starts, threads = poisoned(lambda: f([]))
    return starts, threads


def test_little_work_runs_on_the_calling_thread() -> None:
    starts, threads = chunks_of(100_000, 0.5)
    assert (starts == 0).all()
    assert (threads == threading.get_native_id()).all()


several = pytest.mark.skipif(machine.cores() < 2, reason="needs two cores")
MUCH, VERY_MUCH = 5e6, 6e7
"""Nanoseconds of launches that the crew, and the MAX graph, are for."""


@several
@pytest.mark.parametrize("nanoseconds", [MUCH, VERY_MUCH])
@pytest.mark.parametrize("n", [LONG, LONG + 1, LONG - 1, 100_003, 1000])
def test_much_work_is_split_at_multiples_of_64_points(n: int, nanoseconds: float) -> None:
    starts, threads = chunks_of(n, nanoseconds / n)
    borders = np.unique(starts)
    assert len(borders) > 1
    assert borders[0] == 0
    assert (borders % 64 == 0).all()
    # Every point was computed by the chunk it lies in.
    np.testing.assert_array_equal(starts, borders[np.searchsorted(borders, np.arange(n), side="right") - 1])
    sizes = np.diff(np.append(borders, n))
    assert sizes.max() < 2 * np.median(sizes)
    if nanoseconds == VERY_MUCH:
        assert threading.get_native_id() not in np.unique(threads)


@several
def test_the_crew_helps_with_much_work() -> None:
    seen: set[int] = set()
    for _ in range(100):
        seen |= set(np.unique(chunks_of(LONG, MUCH / LONG)[1]))
        if len(seen) > 1:
            break
    mine = threading.get_native_id()
    helpers = {thread.native_id for thread in threading.enumerate() if thread.name.startswith("juju-crew")}
    assert len(seen) > 1
    assert seen <= {mine, *helpers}


def test_a_busy_crew_keeps_nobody_waiting() -> None:
    """A launch that waits inside a task occupies the crew; others run meanwhile, on their own threads."""
    gate = np.zeros(2, np.int64)
    buffers = [("operand", (LONG,), "float32"), ("constant", (2,), "int64"), ("result", (LONG,), "float32")]
    f = load(make_plan([("waits", (0, 1, 2), (), LONG, MUCH / LONG)], buffers, [2]), [aval((LONG,))])
    f._programs.append(trampolines.Program(f._calls, f._variable, [gate.ctypes.data]))
    got: list[jax.Array] = []
    thread = threading.Thread(target=lambda: got.extend(f([jnp.full(LONG, 3.0)])))
    thread.start()
    while not gate[1]:
        time.sleep(0.001)
    for _ in range(3):
        starts, threads = chunks_of(LONG, MUCH / LONG)
        assert (starts == 0).all()
        assert (threads == threading.get_native_id()).all()
    assert thread.is_alive()
    gate[0] = 1
    thread.join()
    assert (np.asarray(got[0]) == 3).all()


def test_thousands_of_shared_launches() -> None:
    """Helpers that come late, rounds that are over before they come, threads that take turns: nothing is lost."""
    n, failures = 64 * 40, []

    def work(seed: int) -> None:
        f = axpy(n, MUCH / n)
        assert f._dispatch == "crew" or machine.cores() == 1
        x = jnp.full(n, float(seed))
        for i in range(700):
            (got,) = f([x, x])
            if i % 50 == seed:
                time.sleep(0.002)  # helpers fall asleep
            if not (np.asarray(got) == 3 * seed).all():
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_counts_as_much() -> None:
    def dispatch(n: int, cost: float) -> str:
        buffers = [("operand", (n,), "float32"), ("result", (n,), "float32")]
        return dispatch_of(make_plan([("double", (0, 1), (), n, cost)], buffers, [1]))

    many = machine.cores() > 1
    assert dispatch(1000, 99) == "serial"
    assert dispatch(1000, 101) == ("crew" if many else "serial")
    assert dispatch(1000, 49_999) == ("crew" if many else "serial")
    assert dispatch(1000, 50_001) == ("graph" if many else "serial")
    assert dispatch_of(make_plan([], [("operand", (1 << 10,), "float32")], [0])) == "serial"
    assert dispatch_of(make_plan([], [("operand", (1 << 24,), "float32")], [0])) == ("crew" if many else "serial")
    assert dispatch_of(make_plan([], [], [])) == "serial"


def test_a_task_is_worth_its_while() -> None:
    assert points(1e6) == points(1e300) == 64
    assert points(1.0) == 25_024
    assert points(0.0) == points(-1.0) > 1 << 20


@pytest.mark.parametrize(("n", "cost"), [(4, 1), (LONG, MUCH / LONG), (LONG, VERY_MUCH / LONG)])
def test_subnormal_numbers_are_zero_as_in_jit(n: int, cost: float) -> None:
    x = jnp.asarray(np.resize(np.array([1e-39, -1e-39, 2e-38, 1.0], np.float32), n))
    for name, same in (("halve", lambda x: x * 0.5), ("positive", lambda x: jnp.where(x > 0, 1.0, 0.0))):
        (got,) = unary(name, n, cost)([x])
        want = np.asarray(jax.jit(same)(x))
        assert np.asarray(got).tobytes() == want.tobytes(), name
    assert np.float32(1e-39) * np.float32(0.5) != 0, "the calling thread keeps its own way"


@pytest.mark.parametrize("cost", [MUCH / LONG, VERY_MUCH / LONG])
@pytest.mark.parametrize(("n", "at"), [(100, 0), (100, 99), (LONG, 0), (LONG, LONG - 1)])
def test_a_status_is_an_error_and_the_next_call_works(n: int, cost: float, at: int) -> None:
    steps = [("double", (0, 1), (), n, cost), ("fails", (2,), (at,), n, cost), ("double", (0, 3), (), n, cost)]
    buffers = [("operand", (n,), "float32"), *[("result", (n,), "float32")] * 3]
    f = load(make_plan(steps, buffers, [1, 2, 3]), [aval((n,))] * 3)
    gc.collect()
    before = default_pool().stats().lent
    with pytest.raises(KernelStatusError, match=r"^kernel fails of f returned status 41$"):
        f([jnp.ones(n)])
    gc.collect()
    assert default_pool().stats().lent == before
    assert (np.asarray(unary("double", n)([jnp.ones(n)])[0]) == 2).all()


def test_other_threads_run_meanwhile() -> None:
    for cost in (1, MUCH, VERY_MUCH):
        gate = np.zeros(2, np.int64)
        buffers = [("operand", (1,), "float32"), ("constant", (2,), "int64"), ("result", (1,), "float32")]
        f = load(make_plan([("waits", (0, 1, 2), (), 1, cost)], buffers, [2]), [aval((1,))])
        f._programs.append(trampolines.Program(f._calls, f._variable, [gate.ctypes.data]))
        thread = threading.Thread(target=lambda run=f: run([jnp.ones(1)]))
        thread.start()
        while not gate[1]:  # needs Python's lock while the kernel runs
            time.sleep(0.001)
        assert thread.is_alive()
        gate[0] = 1
        thread.join()


@pytest.mark.parametrize(("n", "cost"), [(50, 1), (LONG, MUCH / LONG), (LONG, VERY_MUCH / LONG)])
def test_threads_call_at_the_same_time(n: int, cost: float) -> None:
    f, failures = axpy(n, cost), []

    def work(seed: int) -> None:
        for i in range(60 if n == 50 else 6):
            x, y = jnp.full(n, float(seed)), jnp.full(n, float(i))
            (got,) = f([x, y])
            if not (np.asarray(got) == 2 * seed + i).all():
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Devices ------------------------------------------------------------------------------------------------------------


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parent,
    )


FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}

PLACES = """\
import json, jax, jax.numpy as jnp, numpy as np
import test_engine_max as t
from juju.errors import DeviceError
t.KERNELS.update({name: t.make_kernel(name) for name in t.BODIES})
t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
d = jax.devices()
f, g = t.axpy(4), jax.jit(lambda x, y: x * 2 + y)
u = jnp.arange(4.)
with jax.default_device(d[2]):
    v = jnp.arange(4.)
on = [jax.device_put(u, x) for x in d]
def where(h, *xs):
    try:
        r = h(xs)[0] if h is f else h(*xs)
    except ValueError as error:
        return str(error)
    assert (np.asarray(r) == np.arange(4.) * 3).all()
    return [sorted(x.id for x in r.devices()), r.committed, str(r.sharding)]
f._names = ("x", "y")
f._plan = f._plan.__class__(**{**f._plan.__dict__, "name": "<lambda>"})
cases = {"uu": (u, u), "u1": (u, on[1]), "1u": (on[1], u), "33": (on[3], on[3]), "0u": (on[0], u), "vv": (v, v),
         "uv": (u, v), "v3": (v, on[3]), "12": (on[1], on[2]), "n2": (np.arange(4, dtype=np.float32), on[2])}
out = {name: (where(f, *xs), where(g, *xs)) for name, xs in cases.items()}
with jax.default_device(d[3]):
    out["default"] = (where(f, u, v), where(g, u, v))
    out["default, committed"] = (where(f, u, on[1]), where(g, u, on[1]))
mesh = jax.make_mesh((4,), ("i",))
spread = jax.device_put(u, jax.NamedSharding(mesh, jax.P("i")))
try:
    f([spread, u])
except DeviceError as error:
    out["spread"] = (str(error),) * 2
print(json.dumps(out))
"""


def test_results_lie_where_jit_puts_them() -> None:
    done = run_python(PLACES, **FOUR)
    assert done.stderr == ""
    places = json.loads(done.stdout)
    for name, (ours, of_jax) in places.items():
        assert ours == of_jax, name
    assert places["33"][0][:2] == [[3], True]
    assert places["uu"][0][:2] == [[0], False]
    assert places["default"][0][:2] == [[3], False]
    assert places["12"][0].startswith(
        "Received incompatible devices for jitted computation. Got argument x of <lambda>"
    )
    assert places["spread"][0] == (
        "argument x of <lambda> is spread over 4 devices; juju runs on one. Call the function inside jax.shard_map, or "
        "through jax.jit."
    )


def test_devices_of_nothing_are_the_default() -> None:
    assert check_devices([], [], "f") == (jax.devices()[0], False)
    assert check_devices([np.ones(3), 2.0]) == (jax.devices()[0], False)


def test_a_device_that_is_no_cpu_is_refused() -> None:
    gpu = mock.Mock(platform="gpu", __str__=lambda self: "cuda:0")
    array = mock.Mock(spec=jax.Array, devices=lambda: {gpu})
    assert isinstance(array, jax.Array)
    with pytest.raises(DeviceError, match=r"^juju runs on CPU, and argument x of f is on cuda:0\. Move it there with"):
        check_devices([array], ["x"], "f")


# Forks, and processes ----------------------------------------------------------------------------------------------


def test_a_fork_after_use_is_an_error_and_not_a_hang() -> None:
    done = run_python(
        """\
        import os, sys, warnings, signal
        import jax.numpy as jnp
        import test_engine_max as t
        warnings.filterwarnings("ignore")
        t.KERNELS.update({"axpy": t.make_kernel("axpy")})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        from juju.errors import ForkError
        from juju.engines.trampoline import trampoline
        n = int(os.environ["N"])
        f = t.axpy(n)
        x = jnp.ones(n)
        f([x, x])
        trampoline().open_graph(wait=True)
        f([x, x])
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            code = 0
            for attempt in (lambda: f([x, x]), lambda: t.axpy(n), trampoline):
                try:
                    attempt()
                except ForkError as error:
                    assert str(error).startswith("this process was forked after juju had started in its parent"), error
                    code += 1
            os._exit(code)  # after a fork an ordinary exit is a crash of JAX, with or without us
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(float(f([x, x])[0][0]))
        """,
        N=str(LONG),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3\n3.0\n", "", 0)


def test_multiprocessing_by_fork_reports_the_error() -> None:
    done = run_python("""\
        import multiprocessing, warnings
        import jax.numpy as jnp
        import test_engine_max as t
        warnings.filterwarnings("ignore")
        t.KERNELS.update({"axpy": t.make_kernel("axpy")})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        f = t.axpy(3)
        x = jnp.ones(3)
        f([x, x])
        child = multiprocessing.get_context("fork").Process(target=f, args=([x, x],))
        child.start()
        child.join(30)
        print(child.exitcode)
        """)
    assert done.stdout == "1\n"
    assert "juju.errors.ForkError: this process was forked after juju had started in its parent" in done.stderr


def test_a_fork_before_use_works() -> None:
    done = run_python("""\
        import os, sys
        import test_engine_max as t
        t.KERNELS.update({"axpy": t.make_kernel("axpy")})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        child = os.fork()
        if child == 0:
            import jax.numpy as jnp
            sys.exit(int(t.axpy(3)([jnp.ones(3), jnp.ones(3)])[0][0]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_exit_right_after_a_large_call_is_quiet() -> None:
    done = run_python(f"""\
        import jax.numpy as jnp
        import test_engine_max as t
        t.KERNELS.update({{"axpy": t.make_kernel("axpy")}})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        f = t.axpy({LONG})
        kept = f([jnp.ones({LONG}), jnp.ones({LONG})])
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("dispatch", ["serial", "crew", "graph", "auto"])
def test_dispatch_can_be_chosen(dispatch: str) -> None:
    done = run_python(
        f"""\
        import numpy as np, jax.numpy as jnp, threading
        import test_engine_max as t
        t.KERNELS.update({{name: t.make_kernel(name) for name in t.BODIES}})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        for n in (5, {LONG}):
            assert float(t.axpy(n)([jnp.ones(n), jnp.ones(n)])[0][-1]) == 3
        alone = (t.chunks_of(10, 1)[1] == threading.get_native_id()).all()
        print(alone, *(len(np.unique(t.chunks_of({LONG}, x / {LONG})[0])) > 1 for x in (5e6, 6e7)))
        """,
        JUJU_DISPATCH=dispatch,
        JUJU_THREADS="2",
    )
    wanted = {
        "serial": "True False False",
        "crew": "True True True",
        "graph": f"False {os.cpu_count() != 1} {os.cpu_count() != 1}",
        "auto": "True True True",
    }
    assert (done.stdout.strip(), done.stderr) == (wanted[dispatch], "")


def test_streaming_begins_beyond_the_cache() -> None:
    assert 1 << 20 <= machine.stream_bytes() < 4 << 30


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JUJU_THREADS", text)
    with pytest.raises(ArgumentError, match=rf"^JUJU_THREADS is '{text}'; it must be a number of threads, such as 4$"):
        machine.cores.__wrapped__()


def test_a_dispatch_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUJU_DISPATCH", "both")
    with pytest.raises(ArgumentError, match=r"^JUJU_DISPATCH is 'both'; it must be one of auto, serial, crew, graph$"):
        trampolines._dispatch()


def test_results_take_no_more_memory_than_they_have() -> None:
    done = run_python("""\
        import jax.numpy as jnp
        import test_engine_max as t
        t.KERNELS.update({"axpy": t.make_kernel("axpy")})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        n = 1 << 24
        x = jnp.ones(n)
        t.axpy(1 << 20)([x[:1 << 20], x[:1 << 20]])
        t.trampoline().open_graph(wait=True)
        f = t.axpy(n)
        def memory(field):
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024
        before = memory("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
        for _ in range(5):
            y = f([x, x])
            del y
        print(memory("VmHWM") - before)
        """)
    assert done.stderr == ""
    assert 50 < float(done.stdout) < 72  # megabytes; the result has 64


# Compiling the graph -----------------------------------------------------------------------------------------------


def test_the_graph_is_in_the_store_under_what_decides_it() -> None:
    path = trampolines.graph_file()
    assert path.parent.parent.name == "g"
    assert path.name == "juju_launch.mef"
    assert path.is_relative_to(build.default_store().root)


def test_a_graph_max_refuses_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; print('some reason'); sys.exit(3)")
    monkeypatch.setattr(trampolines, "_GRAPH_SOURCE", broken)
    monkeypatch.setattr(trampolines, "helper_package", lambda name, **_: tmp_path)
    store = Store(tmp_path / "store")
    with pytest.raises(ToolchainError, match=r"(?s)launch graph \(exit status 3\).*some reason.*juju doctor"):
        trampolines.graph_file(store=store)
    assert list((tmp_path / "store").rglob("*.mef")) == []


FAKE = """\
import os, sys, time, pathlib
pathlib.Path({log!r}).open("a").write("x")
pathlib.Path({log!r} + ".pid").write_text(str(os.getpid()))
time.sleep({seconds})
pathlib.Path(sys.argv[2]).write_bytes(b"a graph")
"""

BUILDER = """\
import sys, time, pathlib
from juju.build import Store
from juju.engines import trampoline as t
t._GRAPH_SOURCE = pathlib.Path({fake!r})
t.helper_package = lambda name, **_: pathlib.Path({folder!r})
pathlib.Path({ready!r}).touch()
print(t.graph_file(store=Store({store!r})).read_bytes())
"""


def start_builder(folder: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that compiles the graph with a stand-in for MAX that takes so many seconds."""
    fake, log = folder / "fake graph's.py", folder / "log"
    fake.write_text(FAKE.format(log=str(log), seconds=seconds))
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    program = BUILDER.format(fake=str(fake), folder=str(folder), ready=str(ready), store=str(folder / "the store"))
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    while not ready.exists():
        assert child.poll() is None or ready.exists(), child.communicate()
        time.sleep(0.01)
    return child


def test_two_processes_compile_the_graph_once(tmp_path: Path) -> None:
    children = [start_builder(tmp_path, 1) for _ in range(3)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert (out, err) == ("b'a graph'\n", "")
    assert (tmp_path / "log").read_text() == "x"


def test_ctrl_c_ends_the_compile_within_a_second(tmp_path: Path) -> None:
    child = start_builder(tmp_path, 300)
    running = tmp_path / "log.pid"
    while not running.exists() or not running.read_text():
        time.sleep(0.05)
    compiler = Path("/proc") / running.read_text()
    assert compiler.exists()
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    while compiler.exists():
        time.sleep(0.01)
    assert time.monotonic() - start < 1
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    store = tmp_path / "the store"
    assert [path for path in store.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    assert start_builder(tmp_path, 0).communicate(timeout=60) == ("b'a graph'\n", "")


def test_a_damaged_graph_is_compiled_again(tmp_path: Path) -> None:
    assert start_builder(tmp_path, 0).communicate(timeout=60)[0] == "b'a graph'\n"
    (path,) = (tmp_path / "the store").rglob("*.mef")
    path.write_bytes(b"a gra")
    assert start_builder(tmp_path, 0).communicate(timeout=60)[0] == "b'a graph'\n"
    assert (tmp_path / "log").read_text() == "xx"
    assert path.read_bytes() == b"a graph"


def test_builds_started_early_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(log), seconds=0.5))
    store = Store(tmp_path / "store")
    monkeypatch.setattr(trampolines, "_GRAPH_SOURCE", fake)
    monkeypatch.setattr(trampolines, "helper_package", lambda name, **_: tmp_path)
    monkeypatch.setattr(trampolines, "default_store", lambda: store)
    monkeypatch.setattr(trampolines, "kernels", lambda: ())
    events: list[Any] = []
    start = time.monotonic()
    trampolines.start_builds(events.append)
    assert time.monotonic() - start < 0.4
    assert trampolines.graph_file(events.append).read_bytes() == b"a graph"
    assert log.read_text() == "x"
    # Either may have been first at the lock.
    while len(events) < 3:
        time.sleep(0.01)
    assert {(event.stage, event.name) for event in events} == {("trampoline", "juju_launch")}
    assert sorted(event.state for event in events) == ["done", "hit", "start"]
    little, much = (make_plan([], [("operand", (n,), "float32")], [0]) for n in (1 << 24, 1 << 28))
    monkeypatch.setattr(engine, "start_builds", lambda progress, graph: events.append(graph))
    engine.prepare(None)
    engine.prepare(None, [little])
    engine.prepare(None, [little, much])
    assert events[-3:] == [False, False, True]


def test_builds_started_early_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(log), seconds=300))
    store = Store(tmp_path / "store")
    monkeypatch.setattr(trampolines, "_GRAPH_SOURCE", fake)
    monkeypatch.setattr(trampolines, "helper_package", lambda name, **_: tmp_path)
    monkeypatch.setattr(trampolines, "default_store", lambda: store)
    monkeypatch.setattr(trampolines, "kernels", lambda: ())
    trampolines.start_builds()
    while not log.exists():
        time.sleep(0.01)
    trampolines.stop_builds()
    trampolines._pending["graph"].join(1)
    assert not trampolines._pending["graph"].is_alive()
    assert list((tmp_path / "store").rglob("*.mef")) == []


def test_large_calls_work_while_the_interpreter_ends() -> None:
    done = run_python(f"""\
        import atexit
        import jax.numpy as jnp
        import test_engine_max as t
        t.KERNELS.update({{"axpy": t.make_kernel("axpy")}})
        t.BUILT.update(zip(t.KERNELS, t.build_kernels(list(t.KERNELS.values()))))
        f, x = t.axpy({LONG}, t.MUCH / {LONG}), jnp.ones({LONG})
        atexit.register(lambda: print(float(f([x, x])[0][-1])))
        """)
    assert (done.stdout, done.stderr, done.returncode) == ("3.0\n", "", 0)
