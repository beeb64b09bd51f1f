"""Operations inside a nest that know of its loops: indices, computed reads, reductions and running totals.

An index is a value of MLIR's `index` type; ordinary scalar operations of the table (`add`, `max`, `lt`, `select`, ...)
compute with it. What follows from the shape alone comes in by `juju.extent`, a run-time argument of the kernel, so that
another size needs no other text.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from juju.dialect._xdsl import new_op
from juju.dialect.types import INDEX, element_of, kind_of, shape_of

T = VarConstraint("T", AnyAttr())

COMBINERS = ("add", "mul", "max", "min", "and", "or", "xor")
"""Reductions by an operation of the table, with its semantics; booleans and NaN included."""

ARGUMENTS = ("argmax", "argmin")
"""Reductions to the place, along the one reduction loop, of the first extreme (of the first NaN, if there is one)."""

CUMULATIVE = ("add", "mul", "max", "min", "logaddexp")
"""Running totals."""


@irdl_op_definition
class IndexOp(IRDLOperation):
    """The index of a loop of the nest."""

    name = "juju.index"
    dim = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$dim attr-dict"

    @property
    def loop(self) -> int:
        return self.dim.value.data


@irdl_op_definition
class ExtentOp(IRDLOperation):
    """A number that follows from shapes; the kernel gets it as an argument."""

    name = "juju.extent"
    value = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict"

    @property
    def number(self) -> int:
        return self.value.value.data


@irdl_op_definition
class ReadOp(IRDLOperation):
    """An element of an array operand at computed indices; zero, and no access, where `mask` is false, else in bounds.

    The array is an argument of the nest's body that has the whole tensor's type.
    """

    name = "juju.read"
    array = operand_def(TensorType)
    indices = var_operand_def(IndexType)
    mask = opt_operand_def(i1)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = "$array `[` $indices `]` (`if` $mask^)? attr-dict `:` type($array) `->` type($result)"

    def verify_(self) -> None:
        if len(self.indices) != len(shape_of(self.array.type)):
            raise VerifyException(f"juju.read of {self.array.type} with {len(self.indices)} indices")
        if self.result.type != element_of(self.array.type):
            raise VerifyException(f"juju.read of {self.array.type} gives {self.result.type}")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """One value for all points of the nest's reduction loops.

    `kind` is one of `COMBINERS` or `ARGUMENTS` with one operand and one result, or `"general"`: then `combine` maps
    n totals and n elements to n totals, and the operands are n first totals and n elements.
    """

    name = "juju.reduce"
    kind = prop_def(StringAttr)
    operands_ = var_operand_def()
    results_ = var_result_def()
    combine = opt_region_def("single_block")
    traits = traits_def(Pure())
    assembly_format = "$kind $operands_ (`by` $combine^)? attr-dict `:` type($operands_) `->` type($results_)"

    @property
    def elements(self) -> list[SSAValue]:
        """The values that are reduced."""
        return list(self.operands_)[-len(self.results_) :]

    @property
    def firsts(self) -> list[SSAValue]:
        """The totals a general reduction begins with."""
        return list(self.operands_)[: -len(self.results_)]

    def verify_(self) -> None:
        kind, many = self.kind.data, len(self.results_)
        if kind == "general":
            if self.combine is None or len(self.operands_) != 2 * many:
                raise VerifyException("a general juju.reduce has a region, and two operands for each result")
        elif kind not in COMBINERS + ARGUMENTS or self.combine is not None or (many, len(self.operands_)) != (1, 1):
            raise VerifyException(f"juju.reduce by {kind} of {len(self.operands_)} operands")
        elif kind in COMBINERS and self.results_[0].type != self.operands_[0].type:
            raise VerifyException(f"juju.reduce by {kind} keeps its type")
        elif kind in ARGUMENTS and kind_of(self.results_[0].type) not in "iu":
            raise VerifyException(f"juju.reduce by {kind} gives an integer")


@irdl_op_definition
class CumulateOp(IRDLOperation):
    """The running total of `x` along the nest's one reduction loop, or from its end with `reverse`."""

    name = "juju.cumulate"
    kind = prop_def(StringAttr)
    reverse = opt_prop_def(UnitAttr)
    x = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$kind (`reverse` $reverse^)? $x attr-dict `:` type($result)"

    def verify_(self) -> None:
        if self.kind.data not in CUMULATIVE:
            raise VerifyException(f"juju.cumulate by {self.kind.data}")


@irdl_op_definition
class WeaveOp(IRDLOperation):
    """Neighbours in memory: the elements of a result along its last axis, which no loop of the nest walks."""

    name = "juju.weave"
    elements = var_operand_def(T)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$elements attr-dict `:` type($elements) `->` type($result)"

    def verify_(self) -> None:
        if not self.elements or self.result.type != VectorType(self.elements[0].type, [len(self.elements)]):
            raise VerifyException(f"juju.weave of {len(self.elements)} elements gives {self.result.type}")


BODY_OPS = (IndexOp, ExtentOp, ReadOp, ReduceOp, CumulateOp, WeaveOp)


def index(block: Block, dim: int) -> SSAValue:
    """The index of loop `dim`."""
    return _added(block, new_op(IndexOp, [], [INDEX], {"dim": IntegerAttr(dim, i64)}))


def extent(block: Block, value: int) -> SSAValue:
    """A number that follows from shapes."""
    return _added(block, new_op(ExtentOp, [], [INDEX], {"value": IntegerAttr(value, i64)}))


def read(block: Block, array: SSAValue, indices: list[SSAValue], mask: SSAValue | None = None) -> SSAValue:
    """An element at computed indices, zero where `mask` is false."""
    masks = [] if mask is None else [mask]
    return _added(block, new_op(ReadOp, [array, indices, masks], [element_of(array.type)]))


def reduce(block: Block, kind: str, x: SSAValue, result: Attribute | None = None) -> SSAValue:
    """A reduction of one value over all reduction loops."""
    return _added(block, new_op(ReduceOp, [[x]], [[result or x.type]], {"kind": StringAttr(kind)}, [[]]))


def reduce_general(block: Block, firsts: list[SSAValue], elements: list[SSAValue], combine: Block) -> list[SSAValue]:
    """A reduction by any operation; `combine` takes totals, then elements, and yields totals."""
    op = new_op(
        ReduceOp,
        [[*firsts, *elements]],
        [[v.type for v in elements]],
        {"kind": StringAttr("general")},
        [[Region(combine)]],
    )
    block.add_op(op)
    return list(op.results)


def weave(block: Block, elements: list[SSAValue]) -> SSAValue:
    """Elements that stand beside each other in memory."""
    return _added(block, new_op(WeaveOp, [elements], [VectorType(elements[0].type, [len(elements)])]))


def cumulate(block: Block, kind: str, x: SSAValue, *, reverse: bool = False) -> SSAValue:
    """A running total along the one reduction loop."""
    properties: dict[str, Attribute] = {"kind": StringAttr(kind)}
    if reverse:
        properties["reverse"] = UnitAttr()
    return _added(block, new_op(CumulateOp, [x], [x.type], properties))


def _added(block: Block, op: IRDLOperation) -> SSAValue:
    block.add_op(op)
    return op.results[0]
