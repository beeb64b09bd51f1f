"""Nests made by hand that read at any map and at computed indices, each beside what NumPy makes of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from nest_support import nest

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
