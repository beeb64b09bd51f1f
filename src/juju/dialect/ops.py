"""The operations of the `juju` dialect, declared with xDSL.

Scalar operations come from the table. `juju.nest` is a loop nest after `linalg.generic`, `juju.kernel` a group of
independent nests that run as one launch, `juju.reshape` a change of shape without a change of memory,
`juju.custom` an opaque `juju.Primitive`, and `juju.library` a call of a hand-written kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    TensorType,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import ConstantLike, HasParent, IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from juju.dialect import affine
from juju.dialect._xdsl import new_op
from juju.dialect.body import BODY_OPS, CumulateOp, IndexOp, ReduceOp, WeaveOp
from juju.dialect.library import LibraryOp
from juju.dialect.table import SHARED, TABLE, Row
from juju.dialect.types import element_of, kind_of, shape_of

T = VarConstraint("T", AnyAttr())
U = VarConstraint("U", AnyAttr())


class ScalarOp(IRDLOperation):
    """One scalar operation of the table; `ROW` is its row."""

    ROW: ClassVar[Row]
    traits = traits_def(Pure())

    def check_kind(self, ty: Attribute) -> None:
        if kind_of(ty) not in self.ROW.kinds:
            raise VerifyException(f"juju.{self.ROW.name} takes kinds '{self.ROW.kinds}', not {ty}")


@irdl_op_definition
class UnaryOp(ScalarOp):
    name = "juju.unary"
    x = operand_def(T)
    result = result_def(T)
    params = opt_prop_def(DenseArrayBase[IntegerType])
    assembly_format = "$x (`params` qualified($params)^)? attr-dict `:` type($result)"

    def verify_(self) -> None:
        self.check_kind(self.result.type)
        count = 0 if self.params is None else len(self.params.get_values())
        if count != len(self.ROW.params):
            raise VerifyException(f"juju.{self.ROW.name} takes parameters {self.ROW.params}, {count} are given")


@irdl_op_definition
class BinaryOp(ScalarOp):
    name = "juju.binary"
    x = operand_def(T)
    y = operand_def(U)
    result = result_def(T)
    assembly_format = "$x `,` $y attr-dict `:` type($result) `,` type($y)"

    def verify_(self) -> None:
        self.check_kind(self.result.type)
        if self.y.type != self.x.type and not (self.ROW.mixed and kind_of(self.y.type) in "iuf"):
            raise VerifyException(f"juju.{self.ROW.name} takes two operands of one type, not {self.y.type}")


@irdl_op_definition
class TernaryOp(ScalarOp):
    name = "juju.ternary"
    x = operand_def(T)
    y = operand_def(T)
    z = operand_def(T)
    result = result_def(T)
    assembly_format = "$x `,` $y `,` $z attr-dict `:` type($result)"

    def verify_(self) -> None:
        self.check_kind(self.result.type)


@irdl_op_definition
class CompareOp(ScalarOp):
    name = "juju.compare"
    x = operand_def(T)
    y = operand_def(T)
    result = result_def(i1)
    assembly_format = "$x `,` $y attr-dict `:` type($x)"

    def verify_(self) -> None:
        self.check_kind(self.x.type)


@irdl_op_definition
class ClassifyOp(ScalarOp):
    name = "juju.classify"
    x = operand_def(T)
    result = result_def(i1)
    assembly_format = "$x attr-dict `:` type($x)"

    def verify_(self) -> None:
        self.check_kind(self.x.type)


@irdl_op_definition
class ConversionOp(ScalarOp):
    name = "juju.conversion"
    x = operand_def(T)
    result = result_def(U)
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    def verify_(self) -> None:
        self.check_kind(self.x.type)
        self.check_kind(self.result.type)


@irdl_op_definition
class ChoiceOp(ScalarOp):
    """`select_n`: case `which` of the cases; bool or int32 selector, clamped as in JAX."""

    name = "juju.choice"
    which = operand_def(U)
    cases = var_operand_def(T)
    result = result_def(T)
    assembly_format = "$which `,` $cases attr-dict `:` type($which) `,` type($cases) `->` type($result)"

    def verify_(self) -> None:
        self.check_kind(self.result.type)
        if any(case.type != self.result.type for case in self.cases):
            raise VerifyException("all cases of juju.select have the result's type")
        if not self.cases or (self.which.type == i1 and len(self.cases) > 2) or self.which.type not in (i1, i32):
            raise VerifyException(f"juju.select cannot choose among {len(self.cases)} cases by {self.which.type}")


@irdl_op_definition
class SharedOp(ScalarOp):
    """Several functions of one value."""

    name = "juju.shared"
    x = operand_def(T)
    values = var_result_def(T)
    assembly_format = "$x attr-dict `:` type($x) `->` type($values)"

    def verify_(self) -> None:
        self.check_kind(self.x.type)
        if len(self.values) != self.ROW.results:
            raise VerifyException(f"juju.{self.ROW.name} has {self.ROW.results} results, not {len(self.values)}")


_FORMS: dict[str, type[ScalarOp]] = {
    "unary": UnaryOp,
    "binary": BinaryOp,
    "ternary": TernaryOp,
    "compare": CompareOp,
    "classify": ClassifyOp,
    "convert": ConversionOp,
    "select": ChoiceOp,
    "shared": SharedOp,
}


def _op_class(row: Row) -> type[ScalarOp]:
    # A plain subclass of a decorated class; decorating it again fails.
    title = "".join(part.title() for part in row.name.split("_"))
    members = {"name": f"juju.{row.name}", "ROW": row, "__doc__": f"`{row.primitive}` of JAX."}
    return cast(type[ScalarOp], type(f"{title}Op", (_FORMS[row.form],), members))


SCALARS: dict[str, type[ScalarOp]] = {row.name: _op_class(row) for row in (*TABLE, *SHARED)}
"""Op classes by dialect name."""


@irdl_op_definition
class ConstOp(IRDLOperation):
    """A scalar constant, bit-exact."""

    name = "juju.const"
    value = prop_def(base(FloatAttr) | base(IntegerAttr))
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "$value attr-dict `->` type($result)"


def const_op(number: np.generic, element: Attribute) -> ConstOp:
    """A `juju.const` with the bits of a NumPy scalar."""
    make = FloatAttr if kind_of(element) == "f" else IntegerAttr
    value = float(number) if make is FloatAttr else int(number)
    return new_op(ConstOp, [], [element], {"value": make(value, element)})  # type: ignore[arg-type]


@irdl_op_definition
class YieldOp(IRDLOperation):
    name = "juju.yield"
    values = var_operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(NestOp, KernelOp, ReduceOp)))
    assembly_format = "($values^ `:` type($values))? attr-dict"


@irdl_op_definition
class NestOp(IRDLOperation):
    """Loops over `bounds` around a body of scalar operations, after `linalg.generic`.

    Loops are `"parallel"` or `"reduction"`, in the order of memory. `maps` holds one affine map per operand, then one
    per result. An operand is an argument of the body either as the element at its map, or as the whole tensor that
    `juju.read` reads at computed indices. `juju.reduce` and `juju.cumulate` run along the reduction loops. A result is
    written along the loops of its map, and must not depend on others: without any it is *uniform*, written once. One of
    `juju.weave` is written whole along its last axis, which the map leaves at 0.
    """

    name = "juju.nest"
    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    bounds = prop_def(DenseArrayBase[IntegerType])
    iterators = prop_def(ArrayAttr[StringAttr])
    maps = prop_def(ArrayAttr[AffineMapAttr])
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    assembly_format = (
        "qualified($bounds) $iterators `maps` $maps (`ins` `(` $ins^ `:` type($ins) `)`)? $body attr-dict "
        "`:` type($outs)"
    )

    @property
    def space(self) -> tuple[int, ...]:
        return tuple(self.bounds.get_values())

    @property
    def reduced(self) -> tuple[int, ...]:
        """The reduction loops."""
        return tuple(n for n, kind in enumerate(self.iterators.data) if kind.data == "reduction")

    def in_maps(self) -> list[AffineMap]:
        return [m.data for m in self.maps.data[: len(self.ins)]]

    def out_maps(self) -> list[AffineMap]:
        return [m.data for m in self.maps.data[len(self.ins) :]]

    def yielded(self) -> Sequence[SSAValue]:
        return cast(YieldOp, self.body.block.last_op).values

    def loops_of_values(self) -> dict[SSAValue, frozenset[int]]:
        """The loops each value of the body depends on."""
        reduced = frozenset(self.reduced)
        loops: dict[SSAValue, frozenset[int]] = {}
        for arg, amap in zip(self.body.block.args, self.in_maps(), strict=True):
            loops[arg] = frozenset() if isinstance(arg.type, TensorType) else frozenset(amap.used_dims())
        for op in self.body.block.ops:
            found = frozenset[int]().union(*(loops[v] for v in op.operands))
            if isinstance(op, IndexOp):
                found = frozenset([op.loop])
            elif isinstance(op, ReduceOp):
                found -= reduced
            elif isinstance(op, CumulateOp):
                found |= reduced
            loops.update((r, found) for r in op.results)
        return loops

    def verify_(self) -> None:
        space = self.space
        if len(self.maps) != len(self.ins) + len(self.outs):
            raise VerifyException("juju.nest needs one map per operand and result")
        if any(kind.data not in ("parallel", "reduction") for kind in self.iterators.data):
            raise VerifyException(f"loops are parallel or reduction, not {self.iterators}")
        block = self.body.block
        if len(block.args) != len(self.ins):
            raise VerifyException(f"the body takes {len(block.args)} operands, not {len(self.ins)}")
        whole = [isinstance(arg.type, TensorType) for arg in block.args] + [False] * len(self.outs)
        names = [*(f"operand {n}" for n in range(len(self.ins))), *(f"result {n}" for n in range(len(self.outs)))]
        for name, value, attr, all_of_it in zip(names, (*self.ins, *self.outs), self.maps, whole, strict=True):
            amap, shape = attr.data, shape_of(value.type)
            results = 0 if all_of_it else len(shape)
            if not len(space) == len(self.iterators) == amap.num_dims or len(amap.results) != results:
                raise VerifyException(f"map {amap} of {name} does not fit {len(space)} loops and {value.type}")
            for axis, (expr, extent) in enumerate(zip(amap.results, shape, strict=not all_of_it)):
                low, high = affine.bounds(expr, space)
                if (low < 0 or high >= extent) and 0 not in space:
                    raise VerifyException(f"{expr} runs from {low} to {high}, axis {axis} of {name} has {extent}")
        last = block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("the body of juju.nest must end in juju.yield")
        got = [
            arg.type if all_of_it else TensorType(arg.type, shape_of(value.type))
            for arg, value, all_of_it in zip(block.args, self.ins, whole, strict=False)
        ]
        for what, found, values in (
            ("takes", got, [v.type for v in self.ins]),
            ("yields", list(last.operand_types), list(map(_yielded_type, last.values, self.outs))),
        ):
            if found != values:
                raise VerifyException(f"the body {what} {list(map(str, found))}, not {list(map(str, values))}")
        loops = self.loops_of_values()
        for n, (value, amap) in enumerate(zip(last.values, self.out_maps(), strict=True)):
            stray = sorted(d for d in loops[value] - amap.used_dims() if space[d] != 1)
            if stray:
                along = ", ".join(f"d{d}" for d in stray)
                raise VerifyException(f"result {n} changes along {along}, where it is written once")


def _yielded_type(value: SSAValue, result: SSAValue) -> Attribute:
    """What the body yields for a result: an element, or all along its last axis if they are woven."""
    element, shape = element_of(result.type), shape_of(result.type)
    return VectorType(element, shape[-1:]) if isinstance(value.owner, WeaveOp) and shape else element


@irdl_op_definition
class KernelOp(IRDLOperation):
    """Independent nests that run as one launch of one Mojo function."""

    name = "juju.kernel"
    sym_name = prop_def(StringAttr)
    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())
    assembly_format = "$sym_name (`ins` `(` $ins^ `:` type($ins) `)`)? $body attr-dict `:` type($outs)"

    def nests(self) -> list[NestOp]:
        return [op for op in self.body.block.ops if isinstance(op, NestOp)]

    def verify_(self) -> None:
        block = self.body.block
        if not isinstance(last := block.last_op, YieldOp):
            raise VerifyException("the body of juju.kernel must end in juju.yield")
        if list(block.arg_types) != [v.type for v in self.ins] or list(last.operand_types) != [
            v.type for v in self.outs
        ]:
            raise VerifyException("the body of juju.kernel does not fit its operands and results")
        made = {r for nest in self.nests() for r in nest.outs}
        if any(v in made for nest in self.nests() for v in nest.ins):
            raise VerifyException("the nests of one juju.kernel must not depend on each other")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same memory under another shape of the same number of elements, row-major."""

    name = "juju.reshape"
    x = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    def verify_(self) -> None:
        before, after = (cast(TensorType, v.type) for v in (self.x, self.result))
        if before.element_type != after.element_type or _count(before) != _count(after):
            raise VerifyException(f"juju.reshape cannot turn {before} into {after}")


@irdl_op_definition
class CustomOp(IRDLOperation):
    """A call of an opaque `juju.Primitive`; `index` finds its parameters beside the module."""

    name = "juju.custom"
    callee = prop_def(StringAttr)
    index = prop_def(IntegerAttr.constr(i64))
    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    assembly_format = "$callee $index (`ins` `(` $ins^ `:` type($ins) `)`)? attr-dict `:` type($outs)"


def _count(ty: TensorType) -> int:
    total = 1
    for extent in ty.get_shape():
        total *= extent
    return total


def make_nest(
    space: Sequence[int],
    ins: Sequence[tuple[SSAValue, AffineMap]],
    outs: Sequence[tuple[Attribute, AffineMap]],
    body: Block,
    location: LocationAttr | None = None,
    reduced: Sequence[int] = (),
) -> NestOp:
    """A nest of loops over `space`, parallel but for those of `reduced`."""
    kinds = ["reduction" if d in reduced else "parallel" for d in range(len(space))]
    return new_op(
        NestOp,
        [[v for v, _ in ins]],
        [[t for t, _ in outs]],
        {
            "bounds": DenseArrayBase.from_list(i64, list(space)),
            "iterators": ArrayAttr([StringAttr(kind) for kind in kinds]),
            "maps": ArrayAttr([AffineMapAttr(m) for _, m in (*ins, *outs)]),
        },
        [Region(body)],
        location,
    )


def param_values(op: ScalarOp) -> dict[str, int]:
    """The parameters of a scalar operation by name."""
    given = getattr(op, "params", None)
    values = () if given is None else given.get_values()
    return dict(zip(op.ROW.params, (int(v) for v in values), strict=True))


def int_params(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def scalar_op(name: str, operands: Sequence[SSAValue], result: Attribute, params: Sequence[int] = ()) -> ScalarOp:
    """A scalar operation of the table with one result."""
    cls = SCALARS[name]
    groups = [operands[0], operands[1:]] if cls.ROW.form == "select" else list(operands)
    return new_op(cls, groups, [result], {"params": int_params(params)} if cls.ROW.params else {})


JUJU = Dialect(
    "juju", [*SCALARS.values(), *BODY_OPS, ConstOp, YieldOp, NestOp, KernelOp, ReshapeOp, CustomOp, LibraryOp], []
)
"""The dialect, for `Context.load_dialect`."""
