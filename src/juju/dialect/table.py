"""The scalar-op table: one row is one scalar operation, with exactly JAX's semantics.

The table drives the op classes (`ops.py`), the rules (`rules/elementwise.py`), the renderer (`mojo/render.py`),
`juju primitives` and the reference page. A new elementwise primitive is a new row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Form = Literal["unary", "binary", "ternary", "compare", "classify", "convert", "select", "shared"]
"""How types relate. unary, binary, ternary: all equal. compare: (T, T) to bool. classify: T to bool.
convert: any to any. select: (bool or int32, T, T, ...) to T. shared: T to `results` times T."""


@dataclass(frozen=True)
class Row:
    """One scalar operation.

    `mojo` maps kind letters (`f` float, `i` signed, `u` unsigned, `b` bool) to the Mojo expression, in which `{0}`,
    `{1}` are the operands, `{to}` is the result's dtype and `{name}` a parameter. `cost` counts machine operations of
    one float32 element. `exact` says that a 16-bit float result needs no rounding, because the operation only
    picks, compares or changes signs. `mixed` lets the second operand have another type (`pow`).
    """

    name: str
    primitive: str
    form: Form
    mojo: Mapping[str, str]
    cost: float = 1
    exact: bool = False
    accuracy: str = "exact"
    params: tuple[str, ...] = ()
    mixed: bool = False
    half_native: bool = False
    results: int = 1
    functions: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        found = {m for text in self.mojo.values() for m in re.findall(r"(?<![.\w])([a-z][a-z0-9_]*)[\[(]", text)}
        object.__setattr__(self, "functions", tuple(sorted(found)))

    @property
    def primitive_name(self) -> str:
        """JAX's name of the primitive, without the `_p` of the object."""
        return self.primitive.removesuffix("_p")

    @property
    def kinds(self) -> str:
        return "".join(self.mojo)

    def spelling(self, kind: str) -> str:
        """The Mojo expression for an operand kind. Raises `KeyError` if the operation does not take it."""
        for kinds, text in self.mojo.items():
            if kind in kinds:
                return text
        raise KeyError(kind)


def _math(
    name: str, primitive: str, cost: float, accuracy: str, *, form: Form = "unary", exact: bool = False, call: str = ""
) -> Row:
    """A float function of `juju_math`."""
    operands = {"unary": "{0}", "binary": "{0}, {1}", "ternary": "{0}, {1}, {2}"}[form]
    return Row(name, primitive, form, {"f": f"{call or name}({operands})"}, cost, exact, accuracy)


def _compare(name: str, primitive: str, method: str, bool_text: str) -> Row:
    text = f"{{0}}.{method}({{1}})"
    # Mojo's `ne` of floats is false for NaN.
    kinds = {"f": "~{0}.eq({1})", "iu": text} if name == "ne" else {"fiu": text}
    return Row(name, primitive, "compare", {**kinds, "b": bool_text}, exact=True)


TABLE: tuple[Row, ...] = (
    # Arithmetic. On bool, JAX's add is or and its mul is and.
    Row("add", "add_p", "binary", {"fiu": "{0} + {1}", "b": "{0} | {1}"}, accuracy="0.5 ulp"),
    Row("add_any", "add_any_p", "binary", {"fiu": "{0} + {1}", "b": "{0} | {1}"}, accuracy="0.5 ulp"),
    Row("sub", "sub_p", "binary", {"fiu": "{0} - {1}"}, accuracy="0.5 ulp"),
    Row("mul", "mul_p", "binary", {"fiu": "{0} * {1}", "b": "{0} & {1}"}, accuracy="0.5 ulp"),
    Row("div", "div_p", "binary", {"f": "{0} / {1}", "iu": "int_div({0}, {1})"}, 6, accuracy="0.5 ulp"),
    Row("rem", "rem_p", "binary", {"f": "float_rem({0}, {1})", "iu": "int_rem({0}, {1})"}, 15),
    Row("neg", "neg_p", "unary", {"fiu": "negate({0})"}, exact=True),
    Row("abs", "abs_p", "unary", {"fiu": "absolute({0})"}, exact=True),
    Row("sign", "sign_p", "unary", {"fiu": "sign({0})"}, 3, exact=True),
    Row("square", "square_p", "unary", {"fiu": "{0} * {0}", "b": "{0}"}, accuracy="0.5 ulp"),
    Row(
        "integer_pow",
        "integer_pow_p",
        "unary",
        {"fiu": "integer_pow[{y}]({0})"},
        4,
        accuracy="0.5 ulp each multiplication",
        params=("y",),
    ),
    Row(
        "pow",
        "pow_p",
        "binary",
        {"f": "pow({0}, {1})", "iu": "int_pow({0}, {1})"},
        40,
        accuracy="4 ulp",
        mixed=True,
    ),
    Row("one_minus_square", "one_minus_square_p", "unary", {"f": "(1 + {0}) * (1 - {0})"}, 3, accuracy="1.5 ulp"),
    Row("max", "max_p", "binary", {"fiub": "maximum({0}, {1})"}, 3, exact=True),
    Row("min", "min_p", "binary", {"fiub": "minimum({0}, {1})"}, 3, exact=True),
    Row("clamp", "clamp_p", "ternary", {"fiub": "clamp({0}, {1}, {2})"}, 6, exact=True),
    Row("nextafter", "nextafter_p", "binary", {"f": "nextafter({0}, {1})"}, 8, exact=True, half_native=True),
    Row("mulhi", "mulhi_p", "binary", {"iu": "mulhi({0}, {1})"}, 4),
    # Rounding and classification.
    Row("floor", "floor_p", "unary", {"f": "floor({0})"}, exact=True),
    Row("ceil", "ceil_p", "unary", {"f": "ceil({0})"}, exact=True),
    Row("round_half_even", "round_p", "unary", {"f": "round_half_even({0})"}, exact=True),
    Row("round_half_away", "round_p", "unary", {"f": "round_half_away({0})"}, 4, exact=True),
    Row(
        "reduce_precision",
        "reduce_precision_p",
        "unary",
        {"f": "reduce_precision[{exponent_bits}, {mantissa_bits}]({0})"},
        8,
        exact=True,
        params=("exponent_bits", "mantissa_bits"),
    ),
    Row("is_finite", "is_finite_p", "classify", {"f": "is_finite({0})"}, 2, exact=True),
    # Comparison and choice.
    _compare("eq", "eq_p", "eq", "~({0} ^ {1})"),
    _compare("ne", "ne_p", "ne", "{0} ^ {1}"),
    _compare("lt", "lt_p", "lt", "~{0} & {1}"),
    _compare("le", "le_p", "le", "~{0} | {1}"),
    _compare("gt", "gt_p", "gt", "{0} & ~{1}"),
    _compare("ge", "ge_p", "ge", "{0} | ~{1}"),
    Row("lt_to", "lt_to_p", "compare", {"f": "total_order_key({0}).lt(total_order_key({1}))"}, 6, exact=True),
    Row("le_to", "le_to_p", "compare", {"f": "total_order_key({0}).le(total_order_key({1}))"}, 6, exact=True),
    Row("select", "select_n_p", "select", {"fiub": ""}, exact=True),
    # Bits.
    Row("and", "and_p", "binary", {"iub": "{0} & {1}"}),
    Row("or", "or_p", "binary", {"iub": "{0} | {1}"}),
    Row("xor", "xor_p", "binary", {"iub": "{0} ^ {1}"}),
    Row("not", "not_p", "unary", {"iub": "~{0}"}),
    Row("shift_left", "shift_left_p", "binary", {"iu": "shift_left({0}, {1})"}, 3),
    Row("shift_right_logical", "shift_right_logical_p", "binary", {"iu": "shift_right_logical({0}, {1})"}, 3),
    Row("shift_right_arithmetic", "shift_right_arithmetic_p", "binary", {"iu": "shift_right_arithmetic({0}, {1})"}, 3),
    Row("population_count", "population_count_p", "unary", {"iu": "population_count({0})"}, 4),
    Row("clz", "clz_p", "unary", {"iu": "clz({0})"}, 4),
    # Conversion.
    Row("convert", "convert_element_type_p", "convert", {"fiub": "convert[{to}]({0})"}, 2, accuracy="as JAX"),
    Row("bitcast", "bitcast_convert_type_p", "convert", {"fiub": ""}),
    # Exponential family.
    _math("exp", "exp_p", 12, "2 ulp"),
    _math("exp2", "exp2_p", 12, "2 ulp"),
    _math("expm1", "expm1_p", 18, "2 ulp"),
    _math("log", "log_p", 16, "2 ulp"),
    _math("log1p", "log1p_p", 22, "2 ulp"),
    _math("log2", "log2_p", 18, "2 ulp"),
    _math("tanh", "tanh_p", 16, "2 ulp"),
    _math("logistic", "logistic_p", 18, "2 ulp"),
    _math("sqrt", "sqrt_p", 6, "0.5 ulp"),
    _math("rsqrt", "rsqrt_p", 8, "2 ulp"),
    _math("cbrt", "cbrt_p", 16, "2 ulp"),
    _math("sinh", "sinh_p", 20, "2 ulp"),
    _math("cosh", "cosh_p", 16, "2 ulp"),
    _math("asinh", "asinh_p", 26, "2 ulp"),
    _math("acosh", "acosh_p", 26, "2 ulp"),
    _math("atanh", "atanh_p", 26, "2 ulp"),
    # Trigonometric family.
    _math("sin", "sin_p", 16, "2 ulp"),
    _math("cos", "cos_p", 16, "2 ulp"),
    _math("tan", "tan_p", 24, "4 ulp"),
    _math("asin", "asin_p", 20, "2 ulp"),
    _math("acos", "acos_p", 20, "2 ulp"),
    _math("atan", "atan_p", 20, "2 ulp"),
    _math("atan2", "atan2_p", 28, "2 ulp", form="binary"),
    # Error functions.
    _math("erf", "erf_p", 24, "2 ulp"),
    _math("erfc", "erfc_p", 40, "2 ulp"),
    _math("erf_inv", "erf_inv_p", 30, "4 ulp"),
    # Gamma family.
    _math("lgamma", "lgamma_p", 60, "4 ulp"),
    _math("digamma", "digamma_p", 60, "4 ulp"),
    _math("igamma", "igamma_p", 400, "as JAX", form="binary"),
    _math("igammac", "igammac_p", 400, "as JAX", form="binary"),
    _math("igamma_grad_a", "igamma_grad_a_p", 600, "as JAX", form="binary"),
    _math("zeta", "zeta_p", 200, "as JAX", form="binary"),
    _math("polygamma", "polygamma_p", 300, "as JAX", form="binary"),
    _math("bessel_i0e", "bessel_i0e_p", 60, "as JAX"),
    _math("bessel_i1e", "bessel_i1e_p", 60, "as JAX"),
    _math(
        "regularized_incomplete_beta",
        "regularized_incomplete_beta_p",
        500,
        "as JAX",
        form="ternary",
    ),
)

SHARED: tuple[Row, ...] = (
    Row("sincos", "", "shared", {"f": "sincos({0})"}, 24, accuracy="2 ulp", results=2),
    Row("error_functions", "", "shared", {"f": "error_functions({0})"}, 50, accuracy="2.4 ulp", results=3),
)
"""Operations that stand for several functions of one value, which `juju-simplify` puts in their place: sin(x) and
cos(x); erf(x), erfc(|x|) and exp(-x * x). They are no primitives of JAX."""

ROWS: dict[str, Row] = {row.name: row for row in TABLE}
"""Rows by dialect name."""

BY_PRIMITIVE: dict[str, Row] = {row.primitive_name: row for row in reversed(TABLE)}
"""Rows by JAX's name; where several share a primitive (`round`), the first."""
