"""Small hand-written kernels, plans made of them, and processes of their own, for the tests of the max engine."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from juju.build import Built, build_kernels, kernel_key
from juju.engines import max as engine
from juju.engines.max import Executable
from juju.engines.pool import default_pool
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


def compile_kernels(*names: str) -> None:
    """Compiles kernels of `BODIES`, all of them if none is named, in one run of the compiler."""
    KERNELS.update({name: make_kernel(name) for name in names or BODIES})
    BUILT.update(zip(KERNELS, build_kernels(list(KERNELS.values())), strict=True))


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


MUCH, VERY_MUCH = 2e6, 6e7
"""Nanoseconds of launches that the crew, and the MAX graph, are for."""


def chunks_of(n: int, cost: float) -> tuple[np.ndarray, np.ndarray]:
    """For every point, the first point of the chunk that computed it, and the thread."""
    with jax.enable_x64(True):
        plan = make_plan(
            [("chunks", (0, 1), (), n, cost)], [("result", (n,), "int64"), ("result", (n,), "int64")], [0, 1]
        )
        f = load(plan, [aval((n,), "int64")] * 2)
        starts, threads = poisoned(lambda: f([]))
    return starts, threads


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
