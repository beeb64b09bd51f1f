"""Nests made by hand that reduce, look for extremes and keep running totals; they join `CASES`."""

from __future__ import annotations

import numpy as np
from nest_cases import RNG, case, floats

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
