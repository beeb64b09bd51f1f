"""`juju.library`: a call of a hand-written kernel in `kernels/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from juju.dialect._xdsl import new_op

Parameter = int | str
"""What a kernel is specialised by."""


@irdl_op_definition
class LibraryOp(IRDLOperation):
    """A call of the function `callee`, `package.function`, of a package in `kernels/`.

    It is compiled for the element types of its arrays and for `params`, and gets the numbers `sizes` at run time. The
    work comes in `units` that may run in any order and at the same time, each of about `cost` nanoseconds.
    """

    name = "juju.library"
    callee = prop_def(StringAttr)
    params = prop_def(DictionaryAttr)
    sizes = prop_def(DenseArrayBase[IntegerType])
    units = prop_def(IntegerAttr.constr(i64))
    cost = prop_def(base(FloatAttr))
    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$callee $params `sizes` qualified($sizes) `units` $units `cost` $cost (`ins` `(` $ins^ `:` type($ins) `)`)? "
        "attr-dict `:` type($outs)"
    )

    @property
    def package(self) -> str:
        return self.callee.data.split(".")[0]

    @property
    def function(self) -> str:
        return self.callee.data.split(".")[1]

    def parameters(self) -> dict[str, Parameter]:
        """The parameters as Python values."""
        return {name: _value(attr) for name, attr in self.params.data.items()}

    def verify_(self) -> None:
        if len(self.callee.data.split(".")) != 2:
            raise VerifyException(f"juju.library calls package.function, not {self.callee.data}")
        if self.units.value.data < 1:
            raise VerifyException("juju.library needs at least one unit of work")
        for name, attr in self.params.data.items():
            if not isinstance(attr, (StringAttr, IntegerAttr)):
                raise VerifyException(f"parameter {name} of {self.callee.data} is a number or a text, not {attr}")


def library_op(
    callee: str,
    ins: Sequence[SSAValue],
    outs: Sequence[Attribute],
    *,
    units: int,
    cost: float,
    sizes: Sequence[int] = (),
    params: Mapping[str, Parameter] | None = None,
) -> LibraryOp:
    """A `juju.library`; `params` in the order of the function's parameters."""
    return new_op(
        LibraryOp,
        [list(ins)],
        [list(outs)],
        {
            "callee": StringAttr(callee),
            "params": DictionaryAttr({name: _attribute(value) for name, value in (params or {}).items()}),
            "sizes": DenseArrayBase.from_list(i64, list(sizes)),
            "units": IntegerAttr(units, i64),
            "cost": FloatAttr(cost, f64),
        },
    )


def _attribute(value: Parameter) -> Attribute:
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    return StringAttr(value) if isinstance(value, str) else IntegerAttr(value, i64)


def _value(attr: Attribute) -> Parameter:
    if isinstance(attr, StringAttr):
        return attr.data
    assert isinstance(attr, IntegerAttr)
    number = attr.value.data
    return number if attr.type == i64 else bool(number)
