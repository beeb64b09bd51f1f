"""JAX dtypes and MLIR element types, and the kind letters the scalar-op table uses."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute

ELEMENT_TYPES: dict[str, Attribute] = {
    "bool": i1,
    "float16": f16,
    "bfloat16": bf16,
    "float32": f32,
    "float64": f64,
    **{f"int{n}": IntegerType(n) for n in (8, 16, 32, 64)},
    **{f"uint{n}": IntegerType(n, Signedness.UNSIGNED) for n in (8, 16, 32, 64)},
}
"""JAX dtype name to MLIR type: bool is `i1`, signed integers are signless, unsigned ones are `ui<n>`."""

INDEX = IndexType()
"""The type of loop indices and of what is computed from them; no array has it."""

DTYPES: dict[Attribute, str] = {**{ty: name for name, ty in ELEMENT_TYPES.items()}, INDEX: "index"}
"""MLIR type to JAX dtype name; loop indices are `index`."""

KIND_NAMES = {"f": "float", "i": "signed integer", "u": "unsigned integer", "b": "bool"}


def kind_of(ty: Attribute) -> str:
    """`f` float, `i` signed, `u` unsigned integer, `b` bool, `?` anything else."""
    if isinstance(ty, IntegerType):
        if ty == i1:
            return "b"
        return "u" if ty.signedness.data is Signedness.UNSIGNED else "i"
    if isinstance(ty, IndexType):
        return "i"
    return "f" if isinstance(ty, AnyFloat) else "?"


def is_half(ty: Attribute) -> bool:
    """True for the 16-bit floats, which are computed in float32 and rounded after each operation, as XLA does."""
    return isinstance(ty, (Float16Type, BFloat16Type))


def item_size(ty: Attribute) -> int:
    """Bytes of one element in memory."""
    if isinstance(ty, IntegerType):
        return max(1, ty.width.data // 8)
    if isinstance(ty, IndexType):
        return 4
    if isinstance(ty, AnyFloat):
        return ty.bitwidth // 8
    raise TypeError(f"no size for {ty}")


@cache
def tensor_type(shape: tuple[int, ...], dtype: str) -> TensorType:
    """The tensor type of an array aval. Raises `KeyError` for a dtype juju does not know."""
    return TensorType(ELEMENT_TYPES[dtype], shape)


def shape_of(ty: Attribute) -> tuple[int, ...]:
    assert isinstance(ty, TensorType)
    return tuple(ty.get_shape())


def element_of(ty: Attribute) -> Attribute:
    assert isinstance(ty, TensorType)
    return ty.element_type
