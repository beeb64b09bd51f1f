"""The dialect: every row of the table parses back, and the facts about xDSL that we lean on still hold."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, f32, i1, i64
from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import VerifyException

from juju.dialect import check_order, parse_text, print_text
from juju.dialect._xdsl import const_minus, file_location, new_op
from juju.dialect.library import LibraryOp
from juju.dialect.ops import SCALARS, ConstOp, YieldOp, int_params, make_nest
from juju.dialect.table import BY_PRIMITIVE, ROWS, TABLE
from juju.dialect.types import DTYPES, ELEMENT_TYPES, item_size, kind_of, tensor_type
from juju.rules._registry import add_const

SAMPLE = {"f": "float32", "i": "int32", "u": "uint8", "b": "bool"}


def _module_with(row, kind):
    """A function whose only nest holds one operation of a row."""
    element = ELEMENT_TYPES[SAMPLE[kind]]
    counts = {"unary": 1, "classify": 1, "convert": 1, "binary": 2, "compare": 2, "ternary": 3, "select": 2}
    block = Block(arg_types=[element] * counts[row.form])
    result = i1 if row.form in ("compare", "classify") else f32 if row.form == "convert" else element
    operands = list(block.args)
    if row.form == "select":
        which = block.insert_arg(i1, 2)
        operands = [which, operands]
    properties = {"params": int_params([2] * len(row.params))} if row.params else {}
    block.add_op(op := new_op(SCALARS[row.name], operands, [result], properties))
    block.add_op(new_op(YieldOp, [[op.results[0]]]))
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp, ReturnOp
    from xdsl.ir import Region

    from juju.dialect._xdsl import identity_map

    outer = Block(arg_types=[tensor_type((4,), DTYPES[a.type]) for a in block.args])
    nest = make_nest(
        [4],
        [(v, identity_map(1)) for v in outer.args],
        [(tensor_type((4,), DTYPES[result]), identity_map(1))],
        block,
    )
    outer.add_op(nest)
    outer.add_op(ReturnOp(*nest.outs))
    return ModuleOp([FuncOp("f", (list(outer.arg_types), [nest.outs[0].type]), Region(outer))])


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_row_prints_and_parses_back(row) -> None:
    for kind in row.kinds:
        module = _module_with(row, kind)
        module.verify()
        again = parse_text(print_text(module))
        assert again.is_structurally_equivalent(module)


def test_rows_are_unique_and_name_real_primitives() -> None:
    import jax
    import jax.extend.core.primitives as primitives

    assert len(ROWS) == len(TABLE)
    newer = {
        "log2_p",
        "one_minus_square_p",
        "square_p",
        "mulhi_p",
        "lt_to_p",
        "le_to_p",
        "add_any_p",
        "reduce_precision_p",
    }
    known = set(dir(jax.lax)) | set(dir(primitives))
    missing = {row.primitive for row in TABLE} - known - newer
    assert not missing, f"{missing} are no primitives of jax {jax.__version__}"
    assert BY_PRIMITIVE["round"].name == "round_half_even"


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_element_types_match_numpy(dtype) -> None:
    element = ELEMENT_TYPES[dtype]
    numpy_dtype = np.dtype(__import__("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
    assert item_size(element) == numpy_dtype.itemsize
    assert kind_of(element) == {"f": "f", "V": "f", "i": "i", "u": "u", "b": "b"}[numpy_dtype.kind]


@pytest.mark.parametrize(
    "value",
    [np.float32(v) for v in (np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38, 0.1, 123456792.0)]
    + [np.float64(0.1), np.int8(-128), np.uint64(2**64 - 1), np.bool_(True), np.bool_(False)],
    ids=repr,
)
def test_constants_keep_their_bits_through_text(value) -> None:
    from juju.dialect._xdsl import identity_map

    block = Block()
    result = add_const(block, value)
    block.add_op(new_op(YieldOp, [[result]]))
    dtype = str(value.dtype)
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp, ReturnOp
    from xdsl.ir import Region

    outer = Block()
    outer.add_op(nest := make_nest([3], [], [(tensor_type((3,), dtype), identity_map(1))], block))
    outer.add_op(ReturnOp(*nest.outs))
    module = ModuleOp([FuncOp("f", ([], [nest.outs[0].type]), Region(outer))])
    module.verify()
    again = parse_text(print_text(module))
    const = next(op for op in again.walk() if isinstance(op, ConstOp))
    got = const.value
    if isinstance(got, IntegerAttr):
        assert (got.value.data != 0) == bool(value) if dtype == "bool" else got.value.data == int(value)
    else:
        assert np.asarray(got.value.data).astype(dtype).tobytes() == np.asarray(value).tobytes()


class TestXdslCanaries:
    """One assertion for each trap or promise of this xDSL release; an upgrade that changes one says so here."""

    def test_int_minus_expression_has_the_wrong_sign_so_we_do_not_use_it(self) -> None:
        d0 = AffineExpr.dimension(0)
        assert const_minus(7, d0).eval([2], []) == 5

    def test_true_is_minus_one(self) -> None:
        assert IntegerAttr(1, i1).value.data != 0

    def test_nan_constants_are_equal_and_signed_zeros_are_not(self) -> None:
        assert FloatAttr(float("nan"), f32) == FloatAttr(float("nan"), f32)
        assert FloatAttr(0.0, f32) != FloatAttr(-0.0, f32)

    def test_locations_survive_clone(self) -> None:
        op = new_op(ConstOp, [], [f32], {"value": FloatAttr(1.0, f32)}, location=file_location("a.py", 3))
        assert op.clone().location == op.location

    def test_a_row_keeps_the_checks_of_its_form(self) -> None:
        block = Block(arg_types=[i64])
        op = new_op(SCALARS["exp"], [block.args[0]], [i64])
        with pytest.raises(VerifyException, match=r"juju\.exp takes kinds 'f', not i64"):
            op.verify()

    def test_use_before_definition_is_found_by_us(self) -> None:
        block = Block()
        first = new_op(ConstOp, [], [f32], {"value": FloatAttr(1.0, f32)})
        reader = new_op(SCALARS["neg"], [first.result], [f32])
        block.add_ops([reader, first])
        from xdsl.dialects.builtin import ModuleOp
        from xdsl.ir import Region

        module = ModuleOp(Region(block))
        with pytest.raises(VerifyException, match="defined later"):
            check_order(module)

    def test_string_attributes_hold_any_name(self) -> None:
        assert StringAttr('quote " and ünicode').data == 'quote " and ünicode'


CALL = """
func.func @f(%x: tensor<4x30xf32>) -> tensor<4x3xi32> {
  %values, %places = juju.library "juju_sort.top_rows" {order = 1 : i64, kind = "a", far = false}
    sizes array<i64: 30, 3>
    units 4 cost 1.35e+02 : f64 ins(%x : tensor<4x30xf32>) : tensor<4x3xf32>, tensor<4x3xi32>
  func.return %places : tensor<4x3xi32>
}
"""


def test_a_call_of_a_hand_written_kernel_parses_back() -> None:
    module = parse_text(CALL)
    module.verify()
    assert parse_text(print_text(module)).is_structurally_equivalent(module)
    call = next(op for op in module.walk() if isinstance(op, LibraryOp))
    assert (call.package, call.function) == ("juju_sort", "top_rows")
    assert call.parameters() == {"order": 1, "kind": "a", "far": False}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"juju_sort.top_rows"', '"top_rows"', "package.function, not top_rows"),
        ("units 4", "units 0", "at least one unit"),
        ("order = 1 : i64", "order = 1.0 : f64", "parameter order of juju_sort.top_rows"),
    ],
)
def test_what_no_kernel_can_be_called_with_is_refused(before: str, after: str, says: str) -> None:
    with pytest.raises(VerifyException, match=says):
        parse_text(CALL.replace(before, after)).verify()
