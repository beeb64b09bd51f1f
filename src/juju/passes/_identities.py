"""What `juju-simplify` knows about each operation: a value that is the same, made of fewer or cheaper ones.

A rule holds at NaN, infinities and both zeros: `x * 0` stays, as it is not 0 for infinite `x`, and so does `x + 0`,
which is not -0 for `x` = -0. Signs that move through sums and products change no bit, by IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from juju.dialect.fold import Number, fold, number_of, numpy_dtype
from juju.dialect.ops import ConstOp, ScalarOp
from juju.dialect.types import is_half, item_size, kind_of


class Body(Protocol):
    """Where a rule builds."""

    def make(self, name: str, operands: Sequence[SSAValue], ty: Attribute, params: tuple[int, ...] = ()) -> SSAValue:
        """The value of an operation, which is a new one only if it must."""
        ...

    def const(self, number: Number, ty: Attribute) -> SSAValue: ...

    def whole(self, number: int, ty: Attribute) -> SSAValue:
        """A small integer in any type."""
        ...


# What a value is ------------------------------------------------------------------------------------------------------


def constant(value: SSAValue) -> Number | None:
    """The number a value always is."""
    op = value.owner
    return number_of(op.value, value.type) if isinstance(op, ConstOp) else None


def operation(value: SSAValue, *names: str) -> ScalarOp | None:
    """The operation a value is the result of, if it is one of `names`."""
    op = value.owner
    return op if isinstance(op, ScalarOp) and op.ROW.name in names else None


def is_number(value: SSAValue, number: float, *, negative_zero: bool | None = None) -> bool:
    """Whether a value is a constant equal to `number`; for zeros of floats, of the sign asked for."""
    found = constant(value)
    if found is None or not bool(found == number):
        return False
    return negative_zero is None or kind_of(value.type) != "f" or bool(np.signbit(found)) == negative_zero


# Rules ----------------------------------------------------------------------------------------------------------------

Operands = tuple[SSAValue, ...]
RuleFunction = Callable[[Body, Operands, Attribute, tuple[int, ...]], SSAValue | None]

RULES: dict[str, list[RuleFunction]] = {}
"""Rules by the name of the operation."""


def _rule(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Registers a rule for operations of the table: it returns a value that is the same, or None."""

    def register(function: RuleFunction) -> RuleFunction:
        for name in names:
            RULES.setdefault(name, []).append(function)
        return function

    return register


def _either(operands: Operands, *names: str) -> tuple[ScalarOp, SSAValue] | None:
    """An operand that is one of the operations `names`, and the other operand."""
    for value, other in (operands, operands[::-1]):
        if (op := operation(value, *names)) is not None:
            return op, other
    return None


@_rule("add", "add_any")
def _sum(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`x + -0` (integers: `x + 0`) is x; `x + -y` is `x - y`."""
    for x, y in (operands, operands[::-1]):
        if is_number(y, 0, negative_zero=True):
            return x
    if kind_of(ty) == "b":
        return operands[0] if operands[0] is operands[1] else None
    if (found := _either(operands, "neg")) is not None:
        negated, other = found
        return body.make("sub", [other, negated.operands[0]], ty)
    return None


@_rule("sub")
def _difference(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`x - 0` is x; `-0 - x` (integers: `0 - x`) is -x; `x - -y` is `x + y`; integers: `x - x` is 0."""
    x, y = operands
    if is_number(y, 0, negative_zero=False):
        return x
    if is_number(x, 0, negative_zero=True):
        return body.make("neg", [y], ty)
    if (negated := operation(y, "neg")) is not None:
        return body.make("add", [x, negated.operands[0]], ty)
    return body.whole(0, ty) if x is y and kind_of(ty) != "f" else None


@_rule("mul")
def _product(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`x * 1` is x, `x * -1` is -x; a sign moves into a constant, or behind a square; integers: `x * 0` is 0."""
    kind = kind_of(ty)
    if kind == "b":
        return _conjunction(body, operands, ty, params)
    for x, y in (operands, operands[::-1]):
        if is_number(y, 1):
            return x
        if kind != "u" and is_number(y, -1):
            return body.make("neg", [x], ty)
        if kind != "f" and is_number(y, 0):
            return y
    x, y = operands
    if x is y and (signed := operation(x, "neg", "abs")) is not None:
        return body.make("mul", [signed.operands[0]] * 2, ty)
    if (found := _either(operands, "neg")) is None:
        return None
    negated, other = found
    inner = negated.operands[0]
    if constant(other) is not None:
        return body.make("mul", [inner, body.make("neg", [other], ty)], ty)
    if (second := operation(other, "neg")) is not None:
        return body.make("mul", [inner, second.operands[0]], ty)
    # Others stay: the negated value may be the same at every point, and is then negated once.
    return body.make("neg", [body.make("mul", [inner, inner], ty)], ty) if other is inner else None


@_rule("square")
def _square(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    return body.make("mul", [operands[0]] * 2, ty) if kind_of(ty) != "b" else operands[0]


@_rule("div")
def _division(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`x / 1` is x; by powers of two: floats are multiplied by the reciprocal, unsigned integers shifted."""
    x, y = operands
    if is_number(y, 1):
        return x
    divisor = constant(y)
    if kind_of(ty) == "f":
        if divisor is not None and (inverse := _exact_reciprocal(divisor, ty)) is not None:
            return body.make("mul", [x, body.const(inverse, ty)], ty)
        if (top := operation(x, "neg")) is not None:
            if (below := operation(y, "neg")) is not None:
                return body.make("div", [top.operands[0], below.operands[0]], ty)
            if divisor is not None:
                return body.make("div", [top.operands[0], body.make("neg", [y], ty)], ty)
        return None
    if kind_of(ty) == "u" and divisor is not None and int(divisor).bit_count() == 1:
        return body.make("shift_right_logical", [x, body.whole(int(divisor).bit_length() - 1, ty)], ty)
    return None


def _exact_reciprocal(number: Number, ty: Attribute) -> Number | None:
    """1 / number if the number is a power of two and both are normal."""
    if not np.isfinite(number) or abs(np.frexp(float(number))[0]) != 0.5:
        return None
    return fold("div", [numpy_dtype(ty).type(1), number], ty)


@_rule("rem")
def _remainder(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """Integers: by 1 it is 0, unsigned by a power of two it is the low bits."""
    x, y = operands
    divisor = constant(y)
    if kind_of(ty) == "f" or divisor is None:
        return None
    if divisor == 1:
        return body.whole(0, ty)
    if kind_of(ty) == "u" and int(divisor).bit_count() == 1:
        return body.make("and", [x, body.whole(int(divisor) - 1, ty)], ty)
    return None


@_rule("integer_pow")
def _integer_power(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    x, (y,) = operands[0], params
    if 0 <= y <= 2:
        return _small_power(body, x, y, ty)
    if y in (-1, -2) and kind_of(ty) == "f" and not is_half(ty):
        return body.make("div", [body.whole(1, ty), _small_power(body, x, -y, ty)], ty)
    return None


@_rule("pow")
def _power(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """The exponents 0, 1 and 2, which have no special values that a product has not."""
    x, y = operands
    for exponent in range(3):
        if is_number(y, exponent):
            return _small_power(body, x, exponent, ty)
    return None


def _small_power(body: Body, x: SSAValue, exponent: int, ty: Attribute) -> SSAValue:
    return (body.whole(1, ty), x, None)[exponent] or body.make("mul", [x, x], ty)


@_rule("neg")
def _negation(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    inner = operation(operands[0], "neg")
    return inner.operands[0] if inner else None


@_rule("abs")
def _magnitude(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    if kind_of(ty) == "u" or operation(operands[0], "abs"):
        return operands[0]
    inner = operation(operands[0], "neg")
    return body.make("abs", [inner.operands[0]], ty) if inner else None


@_rule("cos")
def _even(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`cos` itself begins with the magnitude."""
    inner = operation(operands[0], "neg", "abs")
    return body.make("cos", [inner.operands[0]], ty) if inner else None


@_rule("max")
def _greatest(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`max(x, -inf)` is x, NaN included; softmax has it."""
    return _extreme(operands, -np.inf)


@_rule("min")
def _least(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`min(x, inf)` is x."""
    return _extreme(operands, np.inf)


def _extreme(operands: Operands, least: float) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if x is y or is_number(y, least):
            return x
    return None


@_rule("and")
def _conjunction(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if x is y or _has_every_bit(y):
            return x
        if is_number(y, 0):
            return y
    return None


@_rule("or")
def _disjunction(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if x is y or is_number(y, 0):
            return x
        if _has_every_bit(y):
            return y
    return None


@_rule("xor")
def _exclusion(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if is_number(y, 0):
            return x
    return body.whole(0, ty) if operands[0] is operands[1] else None


def _has_every_bit(value: SSAValue) -> bool:
    number = constant(value)
    return number is not None and not np.any(~number)


@_rule("not")
def _inversion(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    inner = operation(operands[0], "not")
    return inner.operands[0] if inner else None


@_rule("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    return operands[0] if is_number(operands[1], 0) else None


@_rule("eq", "le", "ge")
def _true_of_equals(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    same = operands[0] is operands[1] and kind_of(operands[0].type) != "f"
    return body.whole(1, ty) if same else None


@_rule("ne", "lt", "gt")
def _false_of_equals(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    same = operands[0] is operands[1] and kind_of(operands[0].type) != "f"
    return body.whole(0, ty) if same else None


@_rule("select")
def _choice(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """A constant selector; equal cases; a negated selector; cases that choose by the same selector; bool constants."""
    which, *cases = operands
    if all(case is cases[0] for case in cases):
        return cases[0]
    if (number := constant(which)) is not None:
        return cases[min(max(int(number), 0), len(cases) - 1)]
    if which.type != i1:
        return None
    no, yes = cases
    if (inverted := operation(which, "not")) is not None:
        return body.make("select", [inverted.operands[0], yes, no], ty)
    inner_no, inner_yes = (operation(case, "select") for case in cases)
    if inner_no and inner_no.operands[0] is which:
        return body.make("select", [which, inner_no.operands[1], yes], ty)
    if inner_yes and inner_yes.operands[0] is which:
        return body.make("select", [which, no, inner_yes.operands[2]], ty)
    if kind_of(ty) == "b" and constant(no) is not None and constant(yes) is not None:
        return which if constant(yes) else body.make("not", [which], ty)
    return None


@_rule("select")
def _normal_distribution(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`1 + erf(x)` near 0, else `erfc(|x|)` or 2 less that, by the sign of x: erfc(-x), as `jax.scipy` spells it."""
    if len(operands) != 3 or is_half(ty):
        return None
    near, outside, inside = (
        operation(v, *names) for v, names in zip(operands, (["lt"], ["select"], ["add"]), strict=True)
    )
    if not (near and outside and inside) or len(outside.operands) != 3:
        return None
    error, positive, tail = (
        _other_than(inside, 1, "erf"),
        operation(outside.operands[0], "gt"),
        operation(outside.operands[1], "erfc"),
    )
    above = operation(outside.operands[2], "sub")
    if not (error and positive and tail and above):
        return None
    x = error.operands[0]
    sized = operation(tail.operands[0], "abs")
    limit = constant(near.operands[1])
    matches = (
        sized is not None
        and sized.operands[0] is x
        and near.operands[0] is sized.results[0]
        and limit is not None
        and 0 < limit < 1
        and positive.operands[0] is x
        and is_number(positive.operands[1], 0)
        and is_number(above.operands[0], 2)
        and above.operands[1] is tail.results[0]
    )
    return body.make("erfc", [body.make("neg", [x], ty)], ty) if matches else None


def _other_than(op: ScalarOp, number: float, name: str) -> ScalarOp | None:
    """The operation `name` beside a constant in a sum."""
    for x, y in (op.operands, op.operands[::-1]):
        if is_number(x, number):
            return operation(y, name)
    return None


@_rule("convert")
def _conversion(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """A conversion of an exact conversion is one, and none if it goes back."""
    x = operands[0]
    if x.type == ty:
        return x
    inner = operation(x, "convert")
    if inner is None:
        return None
    source = inner.operands[0]
    if not _holds(x.type, source.type):
        return None
    # Floats saturate on the way to an integer, and integers wrap.
    if kind_of(x.type) == "f" and kind_of(source.type) in "iu" and kind_of(ty) in "iu" and not _holds(ty, source.type):
        return None
    return source if ty == source.type else body.make("convert", [source], ty)


def _holds(wide: Attribute, narrow: Attribute) -> bool:
    """Whether every number of one type is one of the other."""
    if kind_of(wide) == "f" and kind_of(narrow) in "iu" and item_size(narrow) == 8:
        return False  # which NumPy calls safe
    return narrow == wide or bool(np.can_cast(numpy_dtype(narrow), numpy_dtype(wide), "safe"))


@_rule("bitcast")
def _reinterpretation(body: Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    x = operands[0]
    if x.type == ty:
        return x
    inner = operation(x, "bitcast")
    if inner is None:
        return None
    source = inner.operands[0]
    return source if source.type == ty else body.make("bitcast", [source], ty)
