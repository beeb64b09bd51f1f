"""Builds one Mojo file with an entry point per case and runs the entries over NumPy arrays.

Every entry applies one expression of `juju_math` with a vector body and a width-1 tail. Subnormal numbers are flushed
while an entry runs, as they are in MAX's worker threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from juju.build import build_kernels, kernel_key
from juju.plan import Kernel

DTYPES: dict[str, np.dtype] = {
    name: np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64"),
    )
}

PRELUDE = """from juju_math import *
from std.sys.intrinsics import llvm_intrinsic

comptime Args = Pointer[Int64, MutAnyOrigin]


@always_inline
def flush(on: Bool) -> UInt32:
    var state = UInt32(0)
    llvm_intrinsic["llvm.x86.sse.stmxcsr", NoneType](Pointer(to=state))
    var wanted = (state | 0x8040) if on else (state & ~UInt32(0x8040))
    llvm_intrinsic["llvm.x86.sse.ldmxcsr", NoneType](Pointer(to=wanted))
    return state


@always_inline
def load[dt: DType, w: SIMDLength](args: Args, k: Int, i: Int) -> SIMD[dt, w]:
    return args.unsafe_bitcast[Pointer[Scalar[dt], MutAnyOrigin]]()[unsafe_offset=k].unsafe_load[width=w](i)


@always_inline
def store[dt: DType, w: SIMDLength](args: Args, k: Int, i: Int, v: SIMD[dt, w]):
    args.unsafe_bitcast[Pointer[Scalar[dt], MutAnyOrigin]]()[unsafe_offset=k].unsafe_store(i, v)

"""

ENTRY = """
@always_inline
def b_{name}[w: SIMDLength](args: Args, i: Int):
{body}

@export
def t_{name}(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    _ = flush(True)
    var i = lo
    if args[unsafe_offset={words}] == 0:
        while i + {width} <= hi:
            b_{name}[{width}](args, i)
            i += {width}
    while i < hi:
        b_{name}[1](args, i)
        i += 1
    _ = flush(False)
    return 0
"""


@dataclass(frozen=True)
class Entry:
    """One case: `expression` in terms of `x0, x1, ...` (a tuple for several results), its dtypes, its vector width."""

    name: str
    expression: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    width: int = 16

    def text(self) -> str:
        lines = [f"var x{k} = load[DType.{dt}, w](args, {k}, i)" for k, dt in enumerate(self.inputs)]
        lines.append(f"var r = {self.expression}")
        first = len(self.inputs)
        if len(self.outputs) == 1:
            lines.append(f"store[DType.{self.outputs[0]}, w](args, {first}, i, r)")
        else:
            lines += [f"store[DType.{dt}, w](args, {first + k}, i, r[{k}])" for k, dt in enumerate(self.outputs)]
        body = "".join(f"    {line}\n" for line in lines)
        return ENTRY.format(name=self.name, body=body, words=len(self.inputs) + len(self.outputs), width=self.width)


class Library:
    """The entries, built and loaded.

    >>> library = Library("demo", [Entry("square", "square(x0)", ("float32",), ("float32",))])
    >>> library("square", np.float32([1, 2, 3]))
    """

    def __init__(self, name: str, entries: Sequence[Entry]):
        self.entries = {entry.name: entry for entry in entries}
        assert len(self.entries) == len(entries), "two entries of one name"
        text = PRELUDE + "".join(entry.text() for entry in entries)
        imports = ("juju_math",)
        symbol = f"t_{entries[0].name}"  # the kernel's own symbol is one of many here
        kernel = Kernel(f"math tests: {name}", symbol, kernel_key(text, imports), text, imports)
        self.library = ctypes.CDLL(str(build_kernels([kernel])[0].path))

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
        """The results of entry `name`; checks that the vector body and the width-1 tail agree bit for bit."""
        body = self.run(name, *arrays)
        tail = self.run(name, *arrays, tail=True)
        for one, other in zip(body, tail, strict=True):
            same = (_bits(one) == _bits(other)) | (is_nan(one) & is_nan(other))
            if not same.all():
                at = np.flatnonzero(~same)[:5]
                inputs = [np.asarray(a)[at] for a in arrays]
                raise AssertionError(f"{name}: body {one[at]} and tail {other[at]} differ at {inputs}")
        return body[0] if len(body) == 1 else body

    def run(self, name: str, *arrays: np.ndarray, tail: bool = False) -> tuple[np.ndarray, ...]:
        """The results of entry `name` by the vector body (and its tail), or by the tail alone."""
        entry = self.entries[name]
        inputs = [np.ascontiguousarray(a) for a in np.broadcast_arrays(*arrays)]
        assert tuple(str(a.dtype) for a in inputs) == entry.inputs, (name, [a.dtype for a in inputs])
        size = inputs[0].size
        results = tuple(np.empty(inputs[0].shape, DTYPES[dt]) for dt in entry.outputs)
        words = [a.ctypes.data for a in (*inputs, *results)] + [int(tail)]
        args = (ctypes.c_int64 * len(words))(*words)
        function = getattr(self.library, f"t_{name}")
        function.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        function.restype = ctypes.c_int64
        assert function(args, 0, size) == 0
        return results


def is_nan(a: np.ndarray) -> np.ndarray:
    """Lanes that hold NaN, for any dtype."""
    return a != a


def _bits(a: np.ndarray) -> np.ndarray:
    return a.view(f"u{a.dtype.itemsize}")


def equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Lanes of the same value: same sign of zero, any NaN for any NaN."""
    return (_bits(a) == _bits(b)) | (is_nan(a) & is_nan(b))


def check_equal(name: str, got: np.ndarray, want: np.ndarray, *inputs: np.ndarray) -> None:
    """Raises `AssertionError` with the first lanes that differ."""
    want = np.asarray(want)
    assert got.dtype == want.dtype, (name, got.dtype, want.dtype)
    bad = np.flatnonzero(~equal(got, want))
    if bad.size:
        shown = [
            f"({', '.join(repr(np.asarray(a)[k]) for a in inputs)}) -> {got[k]!r}, not {want[k]!r}" for k in bad[:8]
        ]
        raise AssertionError(f"{name}: {bad.size} of {got.size} lanes differ: " + "; ".join(shown))
