"""How this release of Mojo spells things: dtypes, constants, names. The only module to change with a new release."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute

from juju.dialect.types import DTYPES, is_half, kind_of

ALIASES = {
    "bool": "Mask",
    "bfloat16": "BF16",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    **{f"int{n}": f"I{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"U{n}" for n in (8, 16, 32, 64)},
}
"""Short names of vector types inside a body: `comptime F32 = SIMD[DType.float32, w]`."""

SCALAR_NAMES = {
    "DType.bool": "SIMD[DType.bool, 1]",
    "DType.float32": "Float32",
    "DType.float64": "Float64",
    **{f"DType.int{n}": f"Int{n}" for n in (8, 16, 32, 64)},
    **{f"DType.uint{n}": f"UInt{n}" for n in (8, 16, 32, 64)},
}
"""Mojo's names of one-lane vectors, by register dtype."""

STD_FUNCTIONS = {"floor": "std.math", "ceil": "std.math", "bitcast": "std.memory"}
"""Functions of the table that come from Mojo's library; all others are in `juju_math`."""

KEYWORDS = frozenset(
    "alias and as assert async await break case class comptime continue def del elif else except finally fn for from "
    "global if import imm in inout is lambda let match mut nonlocal not or out owned pass raise raises read ref return "
    "self Self struct trait try type var where while with yield True False None".split()
)
"""Words that cannot name a variable."""


def dtype(ty: Attribute) -> str:
    """The dtype of an element in memory; a bool is a byte that is 0 or 1."""
    return "DType.uint8" if kind_of(ty) == "b" else f"DType.{DTYPES[ty]}"


def value_dtype(ty: Attribute) -> str:
    """The dtype of an element in a register: 16-bit floats are held as float32."""
    return "DType.float32" if is_half(ty) else f"DType.{DTYPES[ty]}"


def value_alias(ty: Attribute) -> str:
    """The body's short name of the register type."""
    return "F32" if is_half(ty) else ALIASES[DTYPES[ty]]


def constant(attr: FloatAttr | IntegerAttr, ty: Attribute) -> str:
    """The text between the parentheses of a vector constructor, exact to the bit."""
    if isinstance(attr, IntegerAttr):
        value = int(attr.value.data)
        if kind_of(ty) == "b":
            return f"fill={bool(value)}"
        # The most negative number has no literal of its own type.
        return f"{value}" if value >= 0 or value != -(1 << _bits(ty) - 1) else f"{value + 1} - 1"
    wide = DTYPES[ty] == "float64"
    number = np.float64(attr.value.data) if wide else np.float32(attr.value.data)
    if np.isfinite(number) and not (number == 0 and np.signbit(number)) and _is_plain(number):
        return repr(float(number)) if wide else str(number)
    bits = int(number.view(np.uint64 if wide else np.uint32))
    return f"from_bits={'UInt64' if wide else 'UInt32'}(0x{bits:X})"


def constructor(attr: FloatAttr | IntegerAttr, ty: Attribute, width: str) -> str:
    """A constant in every lane: `F32(0.5)` in a body, `Float32(0.5)` outside."""
    head = value_alias(ty) if width == "w" else SCALAR_NAMES[value_dtype(ty)]
    return f"{head}({constant(attr, ty)})"


def _is_plain(number: np.floating) -> bool:
    # Subnormals and huge exponents go through bits: no reader of decimal numbers has to be trusted with them.
    return number == 0 or 1e-30 < abs(float(number)) < 1e30


def _bits(ty: Attribute) -> int:
    return int(DTYPES[ty].lstrip("uint"))


def variable(name: str, taken: set[str]) -> str:
    """`name` as a fresh Mojo variable; adds it to `taken`."""
    base = name or "v"
    candidate, n = base, 2
    while candidate in taken or candidate in KEYWORDS:
        candidate, n = f"{base}_{n}", n + 1
    taken.add(candidate)
    return candidate


def string(text: str) -> str:
    """A name of the user's program inside a comment: one line, printable."""
    return "".join(c if c.isprintable() else "?" for c in text)
