"""Nests made by hand against NumPy: reads at any map, computed reads, reductions, running totals."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pytest
from nest_support import build, nest, plan_of

RNG = np.random.default_rng(7)


@dataclass
class Case:
    """A function of one nest, operands for it, and what NumPy makes of them."""

    text: str
    operands: Sequence[np.ndarray]
    expect: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    tolerance: float = 0.0


CASES: dict[str, Case] = {}


def case(name, space, operands, results, body, arrays, expect, reduced=(), tolerance=0.0) -> None:
    CASES[name] = Case(nest(space, operands, results, body, reduced=reduced), arrays, expect, tolerance)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


NEG = "%v = juju.neg %x0 : f32\nyield %v"

# Reads at affine maps.
case("transposed", (5, 37), [("37x5xf32", "d1, d0")], [("5x37xf32", "d0, d1")], NEG, [floats(37, 5)], lambda x: -x.T)
case(
    "sliced",
    (4, 70),
    [("9x100xf32", "d0 * 2 + 1, d1 + 13")],
    [("4x70xf32", "d0, d1")],
    NEG,
    [floats(9, 100)],
    lambda x: -x[1:9:2, 13:83],
)
case(
    "reversed",
    (3, 70),
    [("3x70xf32", "2 - d0, 69 - d1")],
    [("3x70xf32", "d0, d1")],
    NEG,
    [floats(3, 70)],
    lambda x: -x[::-1, ::-1],
)
case("strided", (200,), [("600xf32", "d0 * 3 + 2")], [("200xf32", "d0")], NEG, [floats(600)], lambda x: -x[2::3])
case(
    "permuted",
    (4, 3, 50),
    [("3x50x4xf32", "d1, d2, d0")],
    [("4x3x50xf32", "d0, d1, d2")],
    NEG,
    [floats(3, 50, 4)],
    lambda x: -x.transpose(2, 0, 1),
)
case(
    "swapped rows",
    (4, 3, 50),
    [("3x4x50xf32", "d1, d0, d2")],
    [("4x3x50xf32", "d0, d1, d2")],
    NEG,
    [floats(3, 4, 50)],
    lambda x: -x.transpose(1, 0, 2),
)
case(
    "divided",
    (210,),
    [("10x3x7xf32", "d0 floordiv 21, (d0 floordiv 7) mod 3, d0 mod 7")],
    [("210xf32", "d0")],
    NEG,
    [floats(10, 3, 7)],
    lambda x: -x.reshape(-1),
)
case(
    "divided rows",
    (12, 40),
    [("3x4x40xf32", "d0 mod 3, d0 floordiv 3, d1")],
    [("12x40xf32", "d0, d1")],
    NEG,
    [floats(3, 4, 40)],
    lambda x: -x.transpose(1, 0, 2).reshape(12, 40),
)
case(
    "half transposed",
    (5, 37),
    [("37x5xbf16", "d1, d0")],
    [("5x37xbf16", "d0, d1")],
    "%v = juju.neg %x0 : bf16\nyield %v",
    [floats(37, 5).astype("bfloat16")],
    lambda x: -x.T,
)
case(
    "bool reversed",
    (70,),
    [("70xi1", "69 - d0")],
    [("70xi1", "d0")],
    "%v = juju.not %x0 : i1\nyield %v",
    [RNG.random(70) < 0.5],
    lambda x: ~x[::-1],
)

for step in (2, 3, 4, 5):
    for length in (1, 16, 64, 200):
        for dtype, numpy in (("f32", "f4"), ("f64", "f8"), ("i8", "i1"), ("bf16", "bfloat16")):
            x = RNG.integers(0, 100, (length - 1) * step + 1).astype(numpy)
            case(
                f"every {step} of {length} {dtype}",
                (length,),
                [(f"{len(x)}x{dtype}", f"d0 * {step}")],
                [(f"{length}x{dtype}", "d0")],
                "yield %x0",
                [x],
                lambda x, step=step: x[::step],
            )
for rows, columns in ((8, 8), (64, 64), (70, 130), (129, 65), (200, 9)):
    for dtype in ("f32", "f64", "i8", "bf16", "i1"):
        x = RNG.integers(0, 2 if dtype == "i1" else 100, (columns, rows))
        x = x.astype({"f32": "f4", "f64": "f8", "i8": "i1", "bf16": "bfloat16", "i1": "bool"}[dtype])
        case(
            f"turned {rows} {columns} {dtype}",
            (rows, columns),
            [(f"{columns}x{rows}x{dtype}", "d1, d0")],
            [(f"{rows}x{columns}x{dtype}", "d0, d1")],
            "yield %x0",
            [x],
            lambda x: x.T,
        )
case(
    "turned and not",
    (70, 130),
    [("130x70xf32", "d1, d0"), ("70x130xf32", "d0, d1"), ("130xf32", "d1"), ("70xf32", "d0")],
    [("70x130xf32", "d0, d1")],
    """%a = juju.add %x0, %x1 : f32, f32
%b = juju.add %a, %x2 : f32, f32
%c = juju.add %b, %x3 : f32, f32
yield %c""",
    [floats(130, 70), floats(70, 130), floats(130), floats(70)],
    lambda x, y, b, c: x.T + y + b + c[:, None],
    tolerance=1e-6,
)
case(
    "turned slice",
    (70, 90),
    [("130x80xf32", "d1 + 20, d0 + 5")],
    [("70x90xf32", "d0, d1")],
    NEG,
    [floats(130, 80)],
    lambda x: -x[20:110, 5:75].T,
)
case(
    "turned first",
    (70, 3, 90),
    [("3x90x70xf32", "d1, d2, d0")],
    [("70x3x90xf32", "d0, d1, d2")],
    NEG,
    [floats(3, 90, 70)],
    lambda x: -x.transpose(2, 0, 1),
)
case(
    "turned middle",
    (2, 70, 3, 90),
    [("90x2x3x70xf32", "d3, d0, d2, d1")],
    [("2x70x3x90xf32", "d0, d1, d2, d3")],
    NEG,
    [floats(90, 2, 3, 70)],
    lambda x: -x.transpose(1, 3, 2, 0),
)
case(
    "turned with indices",
    (2, 70, 90),
    [("2x90x70xf32", "d0, d2, d1")],
    [("2x70x90xf32", "d0, d1, d2")],
    """%i = juju.index 1
%j = juju.index 2
%a = juju.lt %i, %j : index
%z = juju.const 0.0 : f32 -> f32
%v = juju.select %a, %z, %x0 : i1, f32, f32 -> f32
yield %v""",
    [floats(2, 90, 70)],
    lambda x: np.where(np.arange(70)[:, None] < np.arange(90), x.transpose(0, 2, 1), np.float32(0)),
)

# Indices and computed reads.
case(
    "iota",
    (3, 40),
    [],
    [("3x40xi32", "d0, d1")],
    """%i = juju.index 0
%j = juju.index 1
%m = juju.extent 40
%k = juju.mul %i, %m : index, index
%l = juju.add %k, %j : index, index
%v = juju.convert %l : index -> i32
yield %v""",
    [],
    lambda: np.arange(120, dtype=np.int32).reshape(3, 40),
)
case(
    "padded",
    (8, 90),
    [("5x70xf32", "whole")],
    [("8x90xf32", "d0, d1")],
    """%i = juju.index 0
%j = juju.index 1
%one = juju.const 1 : index -> index
%zero = juju.const 0 : index -> index
%left = juju.extent 13
%rows = juju.extent 5
%columns = juju.extent 70
%a = juju.sub %i, %one : index, index
%b = juju.sub %j, %left : index, index
%c = juju.ge %a, %zero : index
%d = juju.lt %a, %rows : index
%e = juju.ge %b, %zero : index
%g = juju.lt %b, %columns : index
%h = juju.and %c, %d : i1, i1
%k = juju.and %e, %g : i1, i1
%m = juju.and %h, %k : i1, i1
%x = juju.read %x0[%a, %b] if %m : tensor<5x70xf32> -> f32
yield %x""",
    [floats(5, 70)],
    lambda x: np.pad(x, ((1, 2), (13, 7))),
)
case(
    "gathered",
    (5, 70),
    [("5x70xi32", "d0, d1"), ("11x30xf32", "whole")],
    [("5x70xf32", "d0, d1")],
    """%i = juju.index 0
%j = juju.convert %x0 : i32 -> index
%x = juju.read %x1[%i, %j] : tensor<11x30xf32> -> f32
yield %x""",
    [RNG.integers(0, 30, (5, 70), dtype=np.int32), floats(11, 30)],
    lambda n, x: np.take_along_axis(x[:5], n, 1),
)
case(
    "rows taken",
    (6, 70),
    [("6xi32", "d0"), ("11x70xf32", "whole")],
    [("6x70xf32", "d0, d1")],
    """%i = juju.convert %x0 : i32 -> index
%j = juju.index 1
%x = juju.read %x1[%i, %j] : tensor<11x70xf32> -> f32
yield %x""",
    [RNG.integers(0, 11, 6, dtype=np.int32), floats(11, 70)],
    lambda n, x: x[n],
)
case(
    "read backwards",
    (70,),
    [("50xf32", "whole")],
    [("70xf32", "d0")],
    """%i = juju.index 0
%m = juju.extent 59
%zero = juju.const 0 : index -> index
%fifty = juju.extent 50
%j = juju.sub %m, %i : index, index
%a = juju.ge %j, %zero : index
%b = juju.lt %j, %fifty : index
%c = juju.and %a, %b : i1, i1
%x = juju.read %x0[%j] if %c : tensor<50xf32> -> f32
yield %x""",
    [floats(50)],
    lambda x: np.concatenate([np.zeros(10, "f"), x[::-1], np.zeros(10, "f")]),
)
case(
    "one read where",
    (70,),
    [("70xi1", "d0"), ("3xf32", "whole")],
    [("70xf32", "d0")],
    """%two = juju.const 2 : index -> index
%x = juju.read %x1[%two] if %x0 : tensor<3xf32> -> f32
yield %x""",
    [RNG.random(70) < 0.5, floats(3)],
    lambda m, x: np.where(m, x[2], 0),
)


# Reductions.
SOFTMAX = """%m = juju.reduce "max" %x0 : f32 -> f32
%d = juju.sub %x0, %m : f32, f32
%e = juju.exp %d : f32
%s = juju.reduce "add" %e : f32 -> f32
%q = juju.div %e, %s : f32, f32
yield %q"""


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x.astype("f8") - x.max(axis, keepdims=True))
    return (e / e.sum(axis, keepdims=True)).astype("f4")


def total(kind: str, dtype: str = "f32") -> str:
    return f'%v = juju.reduce "{kind}" %x0 : {dtype} -> {dtype}\nyield %v'


for length in (1, 3, 16, 300, 5000):
    x = floats(5, length)
    case(
        f"softmax {length}",
        x.shape,
        [(f"5x{length}xf32", "d0, d1")],
        [(f"5x{length}xf32", "d0, d1")],
        SOFTMAX,
        [x],
        lambda x: softmax(x, 1),
        reduced=(1,),
        tolerance=1e-6,
    )
    x = floats(length, 37)
    case(
        f"softmax down {length}",
        x.shape,
        [(f"{length}x37xf32", "d0, d1")],
        [(f"{length}x37xf32", "d0, d1")],
        SOFTMAX,
        [x],
        lambda x: softmax(x, 0),
        reduced=(0,),
        tolerance=1e-6,
    )
    for kind, function in (("add", np.sum), ("max", np.max), ("min", np.min)):
        x = RNG.integers(-1000, 1000, (4, length), dtype=np.int32)
        case(
            f"int {kind} {length}",
            x.shape,
            [(f"4x{length}xi32", "d0, d1")],
            [("4xi32", "d0")],
            total(kind, "i32"),
            [x],
            lambda x, f=function: f(x, 1).astype("i4"),
            reduced=(1,),
        )
x = floats(7, 6, 200)
case(
    "all",
    (7, 6, 200),
    [("7x6x200xf32", "d0, d1, d2")],
    [("f32", "")],
    total("add"),
    [x],
    lambda x: np.float32(x.sum(dtype="f8")),
    reduced=(0, 1, 2),
    tolerance=1e-5,
)
case(
    "outer and inner",
    (7, 6, 200),
    [("7x6x200xf32", "d0, d1, d2")],
    [("6xf32", "d1")],
    total("add"),
    [x],
    lambda x: x.sum((0, 2), dtype="f8").astype("f4"),
    reduced=(0, 2),
    tolerance=1e-5,
)
case(
    "middle",
    (7, 6, 200),
    [("7x6x200xf32", "d0, d1, d2")],
    [("7x200xf32", "d0, d2")],
    total("add"),
    [x],
    lambda x: x.sum(1, dtype="f8").astype("f4"),
    reduced=(1,),
    tolerance=1e-5,
)
case(
    "inner of a transposed",
    (6, 200),
    [("200x6xf32", "d1, d0")],
    [("6xf32", "d0")],
    total("add"),
    [floats(200, 6)],
    lambda x: x.sum(0, dtype="f8").astype("f4"),
    reduced=(1,),
    tolerance=1e-5,
)
case(
    "mean and variance",
    (5, 1000),
    [("5x1000xf32", "d0, d1"), ("1000xf32", "d1")],
    [("5x1000xf32", "d0, d1"), ("5xf32", "d0")],
    """%n = juju.const 1000.0 : f32 -> f32
%s = juju.reduce "add" %x0 : f32 -> f32
%mean = juju.div %s, %n : f32, f32
%d = juju.sub %x0, %mean : f32, f32
%dd = juju.square %d : f32
%ss = juju.reduce "add" %dd : f32 -> f32
%variance = juju.div %ss, %n : f32, f32
%r = juju.rsqrt %variance : f32
%y = juju.mul %d, %r : f32, f32
%z = juju.add %y, %x1 : f32, f32
yield %z, %variance""",
    [floats(5, 1000), floats(1000)],
    lambda x, b: ((x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) + b, x.var(1)),
    reduced=(1,),
    tolerance=1e-5,
)
case(
    "empty sum",
    (5, 0),
    [("5x0xf32", "d0, d1")],
    [("5xf32", "d0")],
    total("add"),
    [floats(5, 0)],
    lambda x: np.zeros(5, "f4"),
    reduced=(1,),
)
case(
    "empty max",
    (5, 0),
    [("5x0xf32", "d0, d1")],
    [("5xf32", "d0")],
    total("max"),
    [floats(5, 0)],
    lambda x: np.full(5, -np.inf, "f4"),
    reduced=(1,),
)
case(
    "empty max down",
    (0, 5),
    [("0x5xf32", "d0, d1")],
    [("5xf32", "d1")],
    total("max"),
    [floats(0, 5)],
    lambda x: np.full(5, -np.inf, "f4"),
    reduced=(0,),
)
for kind, function in (
    ("add", np.any),
    ("mul", np.all),
    ("max", np.any),
    ("min", np.all),
    ("xor", np.logical_xor.reduce),
):
    x = RNG.random((6, 77)) < [[0.0], [0.01], [0.5], [0.99], [1.0], [0.02]]
    case(
        f"bool {kind}",
        x.shape,
        [("6x77xi1", "d0, d1")],
        [("6xi1", "d0")],
        total(kind, "i1"),
        [x],
        lambda x, f=function: f(x, 1),
        reduced=(1,),
    )
    case(
        f"bool {kind} down",
        x.shape,
        [("6x77xi1", "d0, d1")],
        [("77xi1", "d1")],
        total(kind, "i1"),
        [x],
        lambda x, f=function: f(x, 0),
        reduced=(0,),
    )
x = floats(6, 300)
x[1, 7], x[2, 299], x[3, :] = np.nan, np.nan, -np.inf
case(
    "max of NaN",
    x.shape,
    [("6x300xf32", "d0, d1")],
    [("6xf32", "d0")],
    total("max"),
    [x],
    lambda x: x.max(1),
    reduced=(1,),
)
x = floats(40, 300).astype("bfloat16")
case(
    "bfloat16 sum",
    x.shape,
    [("40x300xbf16", "d0, d1")],
    [("40xbf16", "d0")],
    total("add", "bf16"),
    [x],
    lambda x: x.astype("f4").sum(1).astype("bfloat16"),
    reduced=(1,),
    tolerance=1e-2,
)
case(
    "bfloat16 softmax",
    x.shape,
    [("40x300xbf16", "d0, d1")],
    [("40x300xbf16", "d0, d1")],
    SOFTMAX.replace("f32", "bf16"),
    [x],
    lambda x: softmax(x.astype("f4"), 1).astype("bfloat16"),
    reduced=(1,),
    tolerance=2e-2,
)
case(
    "softmax of a sum",
    (4, 333),
    [("4x333xf32", "d0, d1"), ("333xf32", "d1")],
    [("4xf32", "d0")],
    """%y = juju.add %x0, %x1 : f32, f32
%m = juju.reduce "max" %y : f32 -> f32
%d = juju.sub %y, %m : f32, f32
%e = juju.exp %d : f32
%s = juju.reduce "add" %e : f32 -> f32
%q = juju.div %e, %s : f32, f32
%q2 = juju.square %q : f32
%p = juju.reduce "add" %q2 : f32 -> f32
yield %p""",
    [floats(4, 333), floats(333)],
    lambda x, b: (softmax(x + b, 1).astype("f8") ** 2).sum(1).astype("f4"),
    reduced=(1,),
    tolerance=1e-5,
)
case(
    "softmax of a sum down",
    (333, 44),
    [("333x44xf32", "d0, d1"), ("333xf32", "d0")],
    [("44xf32", "d1")],
    """%y = juju.add %x0, %x1 : f32, f32
%m = juju.reduce "max" %y : f32 -> f32
%d = juju.sub %y, %m : f32, f32
%e = juju.exp %d : f32
%s = juju.reduce "add" %e : f32 -> f32
%q = juju.div %e, %s : f32, f32
%q2 = juju.square %q : f32
%p = juju.reduce "add" %q2 : f32 -> f32
yield %p""",
    [floats(333, 44), floats(333)],
    lambda x, b: (softmax(x + b[:, None], 0).astype("f8") ** 2).sum(0).astype("f4"),
    reduced=(0,),
    tolerance=1e-5,
)


# Places of extremes.
for kind, function in (("argmax", np.argmax), ("argmin", np.argmin)):
    for length in (1, 7, 16, 300, 1000):
        x = np.round(floats(8, length) * 3)
        x[1, length // 2] = x[2, length - 1] = np.nan
        x[2, length // 2] = np.nan
        x[3], x[4], x[5, ::2], x[6] = -np.inf, np.inf, 0.0, 5.0
        body = f'%v = juju.reduce "{kind}" %x0 : f32 -> i32\nyield %v'
        shape = f"8x{length}xf32"
        row, down = (lambda x, f=function, axis=axis: f(x, axis).astype("i4") for axis in (1, 0))
        case(f"{kind} {length}", x.shape, [(shape, "d0, d1")], [("8xi32", "d0")], body, [x], row, reduced=(1,))
        case(
            f"{kind} down {length}",
            (8, length),
            [(shape, "d0, d1")],
            [(f"{length}xi32", "d1")],
            body,
            [x],
            down,
            reduced=(0,),
        )
x = RNG.integers(-3, 3, (5, 200), dtype=np.int8)
x[0] = -128
case(
    "argmax of int8",
    x.shape,
    [("5x200xi8", "d0, d1")],
    [("5xi64", "d0")],
    '%v = juju.reduce "argmax" %x0 : i8 -> i64\nyield %v',
    [x],
    lambda x: x.argmax(1),
    reduced=(1,),
)
x = RNG.random((5, 200)) < 0.01
case(
    "argmax of bool",
    x.shape,
    [("5x200xi1", "d0, d1")],
    [("5xui8", "d0")],
    '%v = juju.reduce "argmax" %x0 : i1 -> ui8\nyield %v',
    [x],
    lambda x: x.argmax(1).astype("u1"),
    reduced=(1,),
)
case(
    "argmax of nothing",
    (3, 0),
    [("3x0xf32", "d0, d1")],
    [("3xi32", "d0")],
    '%v = juju.reduce "argmax" %x0 : f32 -> i32\nyield %v',
    [floats(3, 0)],
    lambda x: np.zeros(3, "i4"),
    reduced=(1,),
)


# Running totals.
def running(kind: str, dtype: str = "f32", reverse: bool = False) -> str:
    return f'%v = juju.cumulate "{kind}" {"reverse " if reverse else ""}%x0 : {dtype}\nyield %v'


ACCUMULATE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "logaddexp": np.logaddexp}
for kind, ufunc in ACCUMULATE.items():
    for length in (1, 5, 16, 333):
        for reverse in (False, True):
            x = 1 + 0.1 * floats(3, length)
            x[0, length // 3] = np.nan if kind != "mul" else 0
            x[1, length // 2] = -np.inf if kind == "logaddexp" else 1
            way = slice(None, None, -1 if reverse else 1)
            for axis in (0, 1):
                shape = x.shape if axis else x.T.shape
                ty = "x".join(map(str, shape)) + "xf32"

                def expect(x, ufunc=ufunc, way=way, axis=axis):
                    y = x[:, way] if axis else x[way]
                    total = ufunc.accumulate(y.astype("f8"), axis).astype("f4")
                    return total[:, way] if axis else total[way]

                case(
                    f"running {kind} {length} {reverse} {axis}",
                    shape,
                    [(ty, "d0, d1")],
                    [(ty, "d0, d1")],
                    running(kind, "f32", reverse),
                    [x if axis else x.T.copy()],
                    expect,
                    reduced=(axis,),
                    tolerance=1e-5,
                )
x = RNG.integers(-100, 100, (3, 500), dtype=np.int64)
case(
    "running sum of int64",
    x.shape,
    [("3x500xi64", "d0, d1")],
    [("3x500xi64", "d0, d1")],
    running("add", "i64"),
    [x],
    lambda x: x.cumsum(1),
    reduced=(1,),
)
x = RNG.integers(0, 5, (3, 500), dtype=np.uint8)
case(
    "running sum of uint8",
    x.shape,
    [("3x500xui8", "d0, d1")],
    [("3x500xui8", "d0, d1")],
    running("add", "ui8"),
    [x],
    lambda x: x.cumsum(1, dtype="u1"),
    reduced=(1,),
)
x = 1 + floats(3, 500).astype("f8")
case(
    "running sum of float64 to infinity",
    x.shape,
    [("3x500xf64", "d0, d1")],
    [("3x500xf64", "d0, d1")],
    running("add", "f64"),
    [np.where(np.arange(500) == 70, np.inf, x)],
    lambda x: x.cumsum(1),
    reduced=(1,),
    tolerance=1e-12,
)
case(
    "distribution",
    (4, 300),
    [("4x300xf32", "d0, d1")],
    [("4x300xf32", "d0, d1"), ("4x300xf32", "d0, d1"), ("4xf32", "d0")],
    """%e = juju.exp %x0 : f32
%c = juju.cumulate "add" %e : f32
%s = juju.reduce "add" %e : f32 -> f32
%p = juju.div %c, %s : f32, f32
%b = juju.cumulate "add" reverse %e : f32
yield %p, %b, %s""",
    [floats(4, 300)],
    lambda x: (
        np.exp(x).cumsum(1) / np.exp(x).sum(1, keepdims=True),
        np.exp(x)[:, ::-1].cumsum(1)[:, ::-1],
        np.exp(x).sum(1),
    ),
    reduced=(1,),
    tolerance=1e-4,
)

# Reductions by any operation: log of a sum of exponentials that carries its maximum.
PAIRS = """%zero = juju.const 0.0 : f32 -> f32
%low = juju.const -3.0 : f32 -> f32
%one = juju.const 1.0 : f32 -> f32
%m, %s = juju.reduce "general" %low, %zero, %x0, %one by {
^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
  %m = juju.max %a, %c : f32, f32
  %e = juju.sub %a, %m : f32, f32
  %g = juju.exp %e : f32
  %h = juju.mul %b, %g : f32, f32
  %i = juju.sub %c, %m : f32, f32
  %j = juju.exp %i : f32
  %k = juju.mul %d, %j : f32, f32
  %l = juju.add %h, %k : f32, f32
  juju.yield %m, %l : f32, f32
} : f32, f32, f32, f32 -> f32, f32
%r = juju.log %s : f32
%v = juju.add %m, %r : f32, f32
yield %v"""
AVERAGE = """%first = juju.const 5 : i32 -> i32
%v = juju.reduce "general" %first, %x0 by {
^bb0(%a: i32, %b: i32):
  %c = juju.add %a, %b : i32, i32
  juju.yield %c : i32
} : i32, i32 -> i32
yield %v"""
for length in (0, 1, 7, 16, 333):
    for axis in (0, 1):
        shape = (5, length) if axis else (length, 21)
        ty, result = "x".join(map(str, shape)), str(shape[1 - axis])
        loops = [(f"{ty}xf32", "d0, d1")], [(f"{result}xf32", f"d{1 - axis}")]
        if length:
            case(
                f"log-sum-exp {length} {axis}",
                shape,
                *loops,
                PAIRS,
                [floats(*shape)],
                lambda x, axis=axis: np.log(np.exp(x.astype("f8")).sum(axis)).astype("f4"),
                reduced=(axis,),
                tolerance=1e-5,
            )
        loops = [(f"{ty}xi32", "d0, d1")], [(f"{result}xi32", f"d{1 - axis}")]
        case(
            f"any sum {length} {axis}",
            shape,
            *loops,
            AVERAGE,
            [RNG.integers(-9, 9, shape, dtype=np.int32)],
            lambda x, axis=axis: (5 + x.sum(axis)).astype("i4"),
            reduced=(axis,),
        )
case(
    "any sum of two loops",
    (3, 4, 5),
    [("3x4x5xi32", "d0, d1, d2")],
    [("4xi32", "d1")],
    AVERAGE,
    [RNG.integers(-9, 9, (3, 4, 5), dtype=np.int32)],
    lambda x: (5 + x.sum((0, 2))).astype("i4"),
    reduced=(0, 2),
)


def test_texts_are_formatted(tmp_path: Path) -> None:
    """Generated text is stable under `mojo format`."""
    from juju.build import toolchain

    texts = {}
    for n, case in enumerate(CASES.values()):
        texts |= {f"{n}_{k}.mojo": kernel.text for k, kernel in enumerate(plan_of(case.text)[0].kernels)}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    command = [str(toolchain().mojo), "format", "--quiet", "-l", "120", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    assert not [file for file, text in texts.items() if (tmp_path / file).read_text() != text]


def several(*texts: str) -> str:
    """The nests of some functions in one function, which makes one kernel of them."""
    params, bodies, names, types = [], [], [], []
    for n, text in enumerate(texts):
        head, _, rest = text.strip().partition(" {\n")
        body, _, _ = rest.rpartition("func.return")
        given, _, made = head.partition("(")[2].partition(") -> (")
        for variable in re.findall(r"%a\d+(?=:)", given):
            given, body = (re.sub(rf"{variable}\b", f"%p{n}{variable[1:]}", s) for s in (given, body))
        body = re.sub(r"%r0\b", f"%r0p{n}", body)
        params += [given] if given else []
        bodies.append(body)
        names.append(f"%r0p{n}")
        types.append(made.rpartition(")")[0] or made)
    types = [t.removesuffix(")") for t in types]
    return (
        f"func.func @f({', '.join(params)}) -> ({', '.join(types)}) {{\n{''.join(bodies)}"
        f"  func.return {', '.join(names)} : {', '.join(types)}\n}}\n"
    )


TOGETHER = (
    "softmax 300",
    "softmax down 16",
    "turned 70 130 f32",
    "iota",
    "argmax 7",
    "any sum 16 1",
    "padded",
    "int max 3",
)
CASES["together"] = Case(
    several(*(CASES[name].text for name in TOGETHER)),
    [x for name in TOGETHER for x in CASES[name].operands],
    lambda *xs: tuple(CASES[name].expect(*CASES[name].operands) for name in TOGETHER),
    1e-5,
)


@pytest.fixture(scope="module")
def built():
    return dict(zip(CASES, build([case.text for case in CASES.values()]), strict=True))


def test_results_do_not_depend_on_threads(built) -> None:
    for name, case in CASES.items():
        run = built[name]
        whole = run.in_pieces(case.operands, 1 << 40)
        for points in (64, 192):
            for one, other in zip(whole, run.in_pieces(case.operands, points), strict=True):
                assert one.tobytes() == other.tobytes(), name


def test_large_results_go_around_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("juju._lower.stream_bytes", lambda: 0)
    cases = [case for name, case in CASES.items() if name.startswith(("turned 64", "turned 70", "strided"))]
    for case, run in zip(cases, build([case.text for case in cases]), strict=True):
        assert "stream" in run.plan.kernels[0].text
        assert run.plan.launches[0].sizes[-1] == 1
        np.testing.assert_array_equal(run(*case.operands)[0], case.expect(*case.operands))


def test_long_sums_are_as_accurate_as_those_of_xla() -> None:
    n = 10_000_000
    x = RNG.random(n, dtype=np.float32)
    flat, row, down = f"{n}xf32", f"{n // 10}xf32", f"{n // 16}x16xf32"
    texts = [
        nest((n,), [(flat, "d0")], [("f32", "")], total("add"), reduced=(0,)),
        nest((n // 16, 16), [(down, "d0, d1")], [("16xf32", "d1")], total("add"), reduced=(0,)),
        nest((n // 10,), [(row, "d0")], [(row, "d0")], running("add"), reduced=(0,)),
        nest(
            (n // 16, 16),
            [(f"{n // 16}x16xf32", "d0, d1")],
            [(f"{n // 16}x16xf32", "d0, d1")],
            running("add"),
            reduced=(0,),
        ),
    ]
    theirs = [lambda x: x.sum(), lambda x: x.sum(0), lambda x: jax.numpy.cumsum(x), lambda x: jax.numpy.cumsum(x, 0)]
    exact = [np.sum, lambda x: x.sum(0), np.cumsum, lambda x: x.cumsum(0)]
    arrays = [x, x.reshape(-1, 16), x[: n // 10], x.reshape(-1, 16)]
    for run, other, reference, a in zip(build(texts), theirs, exact, arrays, strict=True):
        want = reference(a.astype("f8"))
        error, bound = (np.max(np.abs(y - want) / want) for y in (run(a)[0], np.asarray(jax.jit(other)(a))))
        assert error <= max(bound, 2e-7), run.plan.kernels[0].text


@pytest.mark.parametrize("name", CASES)
def test_nest(name: str, built) -> None:
    found = built[name](*CASES[name].operands)
    expected = CASES[name].expect(*CASES[name].operands)
    for got, want in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if CASES[name].tolerance:
            np.testing.assert_allclose(got, want, rtol=CASES[name].tolerance, atol=CASES[name].tolerance)
        else:
            np.testing.assert_array_equal(got, want)
