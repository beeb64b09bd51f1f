"""Every width from 1 to 64 gives the bits that width 1 gives, also where a branch or a loop is inside."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Entry, Library
from values import pairs, values

UNARY = {
    "sin": ("float32", "float64"),
    "exp": ("float32", "float64"),
    "log1p": ("float64",),
    "cbrt": ("float64",),
    "lgamma": ("float32",),
    "digamma": ("float64",),
    "erf_inv": ("float64",),
    "sign": ("int8", "uint16"),
    "convert[DType.int8]": ("float32", "float64", "bfloat16"),
    "convert[DType.float16]": ("float64", "bool"),
}
BINARY = {
    "pow": ("float32", "float64"),
    "float_rem": ("float32", "float64"),
    "maximum": ("float32", "bool"),
    "int_div": ("int8", "int32", "uint64"),
    "int_pow": ("int16",),
    "mulhi": ("int64", "uint8"),
    "shift_left": ("int64",),
}
WIDTHS = (2, 4, 8, 16, 32, 64)


def entry(name: str, dtype: str, width: int, arguments: int) -> Entry:
    out = name.partition("DType.")[2].rstrip("]") or dtype
    label = "".join(c if c.isalnum() else "_" for c in name)
    call = f"{name}({', '.join(f'x{k}' for k in range(arguments))})"
    return Entry(f"{label}_{dtype}_{width}", call, (dtype,) * arguments, (out,), width)


CASES = [(name, dt, n) for n, table in ((1, UNARY), (2, BINARY)) for name, dts in table.items() for dt in dts]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library("widths", [entry(name, dt, width, n) for name, dt, n in CASES for width in WIDTHS])


@pytest.mark.parametrize(("name", "dtype", "arguments"), CASES)
def test_widths_agree(library, name, dtype, arguments):
    x = values(dtype)[:150]
    inputs = (x,) if arguments == 1 else pairs(x[::4], x[::3])
    for length in (1, 63, inputs[0].size):
        for width in WIDTHS:
            library(entry(name, dtype, width, arguments).name, *(np.resize(a, length) for a in inputs))
