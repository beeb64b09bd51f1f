"""`juju-simplify`: the scalar operations of a nest's body become fewer and cheaper, and give the same bits.

One walk over each body folds constants (`dialect/fold.py`), applies the rules below, and lets equal operations be one.
Then what nobody reads goes, and functions of one value that share work become one operation.

A rule holds at NaN, infinities and both zeros: `x * 0` stays, as it is not 0 for infinite `x`, and so does `x + 0`,
which is not -0 for `x` = -0. Signs that move through sums and products change no bit, by IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from juju.dialect._xdsl import insert_before, new_op, replace_op
from juju.dialect.body import ReadOp
from juju.dialect.fold import Number, fold, number_of, numpy_dtype
from juju.dialect.ops import SCALARS, ConstOp, NestOp, ScalarOp, YieldOp, const_op, int_params, make_nest, param_values
from juju.dialect.types import is_half, item_size, kind_of


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Simplifies the body of every nest, and drops operands that it no longer reads."""

    name = "juju-simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for nest in [n for n in op.walk() if isinstance(n, NestOp)]:
            body = _Body(nest.body.block)
            body.simplify()
            if body.share():
                body.simplify()
            drop_operands(nest)


class _Body:
    """A body being rewritten; new operations stand before `anchor` and have its location."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.anchor: Operation | None = None
        self.known: dict[object, SSAValue] = {}

    def simplify(self) -> None:
        self.known.clear()
        for op in list(self.block.ops):
            self.anchor = op
            if isinstance(op, ConstOp):
                key = _const_key(number_of(op.value, op.result.type), op.result.type)
                if (same := self.known.setdefault(key, op.result)) is not op.result:
                    replace_op(op, [same])
            elif isinstance(op, ReadOp) and op.mask is not None and (known := constant(op.mask)) is not None:
                if known:
                    insert_before(new := new_op(ReadOp, [op.array, op.indices, []], [op.result.type]), op)
                else:
                    insert_before(new := const_op(numpy_dtype(op.result.type).type(0), op.result.type), op)
                new.location = op.location
                replace_op(op, new.results)
            elif isinstance(op, ScalarOp) and op.ROW.form != "shared":
                name, params = op.ROW.name, tuple(param_values(op).values())
                value = self._simpler(name, op.operands, op.results[0].type, params)
                if value is None:
                    value = self.known.setdefault(_key(name, op.operands, op.results[0].type, params), op.results[0])
                if value is not op.results[0]:
                    replace_op(op, [value])
        self._drop_dead()

    def _drop_dead(self) -> None:
        for op in reversed(list(self.block.ops)):
            if not isinstance(op, YieldOp) and not any(r.uses for r in op.results):
                Rewriter.erase_op(op)

    # What rules work with ---------------------------------------------------------------------------------------------

    def make(self, name: str, operands: Sequence[SSAValue], ty: Attribute, params: tuple[int, ...] = ()) -> SSAValue:
        """The value of an operation, which is a new one only if it must."""
        value = self._simpler(name, operands, ty, params)
        if value is None and (value := self.known.get(key := _key(name, operands, ty, params))) is None:
            properties = {"params": int_params(params)} if params else {}
            groups = [operands[0], operands[1:]] if name == "select" else list(operands)
            value = self.known[key] = self._insert(new_op(SCALARS[name], groups, [ty], properties)).results[0]
        return value

    def const(self, number: Number, ty: Attribute) -> SSAValue:
        key = _const_key(number, ty)
        if key not in self.known:
            self.known[key] = self._insert(const_op(number, ty)).results[0]
        return self.known[key]

    def whole(self, number: int, ty: Attribute) -> SSAValue:
        """A small integer in any type."""
        return self.const(numpy_dtype(ty).type(number), ty)

    def _insert(self, op: Operation) -> Operation:
        assert self.anchor is not None
        op.location = self.anchor.location
        insert_before(op, self.anchor)
        return op

    def _simpler(self, name: str, operands: Sequence[SSAValue], ty: Attribute, params: tuple[int, ...]):
        """A value known to be the same, or None."""
        numbers = [number for v in operands if (number := constant(v)) is not None]
        if len(numbers) == len(operands) and not params and (folded := fold(name, numbers, ty)) is not None:
            return self.const(folded, ty)
        for rule in _RULES.get(name, ()):
            if (value := rule(self, tuple(operands), ty, params)) is not None:
                return value
        return None

    # Functions that share work ----------------------------------------------------------------------------------------

    def share(self) -> bool:
        """Puts one operation in the place of several that share work; whether there were such."""
        angles: dict[SSAValue, dict[str, ScalarOp]] = {}
        errors: dict[SSAValue, list[ScalarOp]] = {}
        for op in self.block.ops:
            if not isinstance(op, ScalarOp):
                continue
            if op.ROW.name in ("sin", "cos"):
                angles.setdefault(op.operands[0], {})[op.ROW.name] = op
            elif (base := _error_base(op)) is not None:
                errors.setdefault(base, []).append(op)
        pairs = {angle: pair for angle, pair in angles.items() if len(pair) == 2}
        for angle, pair in pairs.items():
            sine, cosine = self._shared("sincos", angle, next(iter(pair.values())))
            replace_op(pair["sin"], [sine])
            replace_op(pair["cos"], [cosine])
        families = {
            base: ops for base, ops in errors.items() if len(ops) > 1 and any(op.ROW.name == "erfc" for op in ops)
        }
        for base, ops in families.items():
            self.known.clear()  # it holds values that are defined further down
            values = self._shared("error_functions", base, ops[0])
            for op in ops:
                replace_op(op, [self._error_function(op, base, *values)])
        return bool(pairs or families)

    def _shared(self, name: str, operand: SSAValue, first: Operation) -> Sequence[SSAValue]:
        """The results of a shared operation in front of the first it replaces."""
        self.anchor = first
        cls = SCALARS[name]
        return self._insert(new_op(cls, [operand], [[operand.type] * cls.ROW.results])).results

    def _error_function(self, op: ScalarOp, base: SSAValue, erf: SSAValue, tail: SSAValue, bell: SSAValue) -> SSAValue:
        """What one of `_error_base`'s operations is, by erf(base), erfc(|base|) and exp(-base * base)."""
        self.anchor, ty, operand = op, base.type, op.operands[0]
        flip = operation(operand, "neg", "abs") if operand is not base else None
        if op.ROW.name == "exp":
            return bell
        if op.ROW.name == "erf":
            return self.make(flip.ROW.name, [erf], ty) if flip else erf
        if flip and flip.ROW.name == "abs":
            return tail
        outside = self.make("gt" if flip else "lt", [base, self.whole(0, ty)], i1)
        return self.make("select", [outside, tail, self.make("sub", [self.whole(2, ty), tail], ty)], ty)


def _error_base(op: ScalarOp) -> SSAValue | None:
    """The value `x` if an operation is erf or erfc of x, -x or |x|, or exp(-x * x)."""
    value = op.operands[0]
    if op.ROW.name in ("erf", "erfc"):
        flip = operation(value, "neg", "abs")
        return flip.operands[0] if flip else value
    if op.ROW.name == "exp" and not is_half(value.type) and (negated := operation(value, "neg")):
        square = operation(negated.operands[0], "mul")
        if square and square.operands[0] is square.operands[1]:
            return square.operands[0]
    return None


def drop_operands(nest: NestOp) -> None:
    """A nest without the operands its body does not read."""
    block = nest.body.block
    if all(arg.uses for arg in block.args):
        return
    operands = zip(block.args, nest.ins, nest.in_maps(), strict=True)
    ins = [(value, amap) for arg, value, amap in operands if arg.uses]
    outs = [(r.type, amap) for r, amap in zip(nest.outs, nest.out_maps(), strict=True)]
    for arg in list(block.args):
        if not arg.uses:
            block.erase_arg(arg)
    made = make_nest(nest.space, ins, outs, nest.body.detach_block(0), nest.location, nest.reduced)
    made.attributes.update(nest.attributes)
    insert_before(made, nest)
    replace_op(nest, made.outs)


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


_COMMUTATIVE = frozenset("add add_any mul max min and or xor eq ne".split())
_MIRRORED = {"gt": "lt", "ge": "le"}


def _key(name: str, operands: Sequence[SSAValue], ty: Attribute, params: tuple[int, ...]) -> object:
    """Equal for operations with equal results: `y > x` is `x < y`, `y + x` is `x + y`."""
    if name in _MIRRORED:
        name, operands = _MIRRORED[name], tuple(reversed(operands))
    ordered = sorted(operands, key=id) if name in _COMMUTATIVE else operands
    return ("add" if name == "add_any" else name, ty, params, *ordered)


def _const_key(number: Number, ty: Attribute) -> object:
    return ("const", ty, number.tobytes())


# Rules ----------------------------------------------------------------------------------------------------------------

Operands = tuple[SSAValue, ...]
RuleFunction = Callable[[_Body, Operands, Attribute, tuple[int, ...]], SSAValue | None]

_RULES: dict[str, list[RuleFunction]] = {}


def _rule(*names: str) -> Callable[[RuleFunction], RuleFunction]:
    """Registers a rule for operations of the table: it returns a value that is the same, or None."""

    def register(function: RuleFunction) -> RuleFunction:
        for name in names:
            _RULES.setdefault(name, []).append(function)
        return function

    return register


def _either(operands: Operands, *names: str) -> tuple[ScalarOp, SSAValue] | None:
    """An operand that is one of the operations `names`, and the other operand."""
    for value, other in (operands, operands[::-1]):
        if (op := operation(value, *names)) is not None:
            return op, other
    return None


@_rule("add", "add_any")
def _sum(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _difference(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _product(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _square(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    return body.make("mul", [operands[0]] * 2, ty) if kind_of(ty) != "b" else operands[0]


@_rule("div")
def _division(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _remainder(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _integer_power(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    x, (y,) = operands[0], params
    if 0 <= y <= 2:
        return _small_power(body, x, y, ty)
    if y in (-1, -2) and kind_of(ty) == "f" and not is_half(ty):
        return body.make("div", [body.whole(1, ty), _small_power(body, x, -y, ty)], ty)
    return None


@_rule("pow")
def _power(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """The exponents 0, 1 and 2, which have no special values that a product has not."""
    x, y = operands
    for exponent in range(3):
        if is_number(y, exponent):
            return _small_power(body, x, exponent, ty)
    return None


def _small_power(body: _Body, x: SSAValue, exponent: int, ty: Attribute) -> SSAValue:
    return (body.whole(1, ty), x, None)[exponent] or body.make("mul", [x, x], ty)


@_rule("neg")
def _negation(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    inner = operation(operands[0], "neg")
    return inner.operands[0] if inner else None


@_rule("abs")
def _magnitude(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    if kind_of(ty) == "u" or operation(operands[0], "abs"):
        return operands[0]
    inner = operation(operands[0], "neg")
    return body.make("abs", [inner.operands[0]], ty) if inner else None


@_rule("cos")
def _even(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    """`cos` itself begins with the magnitude."""
    inner = operation(operands[0], "neg", "abs")
    return body.make("cos", [inner.operands[0]], ty) if inner else None


@_rule("max", "min")
def _extreme(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    return operands[0] if operands[0] is operands[1] else None


@_rule("and")
def _conjunction(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if x is y or _has_every_bit(y):
            return x
        if is_number(y, 0):
            return y
    return None


@_rule("or")
def _disjunction(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if x is y or is_number(y, 0):
            return x
        if _has_every_bit(y):
            return y
    return None


@_rule("xor")
def _exclusion(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    for x, y in (operands, operands[::-1]):
        if is_number(y, 0):
            return x
    return body.whole(0, ty) if operands[0] is operands[1] else None


def _has_every_bit(value: SSAValue) -> bool:
    number = constant(value)
    return number is not None and not np.any(~number)


@_rule("not")
def _inversion(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    inner = operation(operands[0], "not")
    return inner.operands[0] if inner else None


@_rule("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    return operands[0] if is_number(operands[1], 0) else None


@_rule("eq", "le", "ge")
def _true_of_equals(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    same = operands[0] is operands[1] and kind_of(operands[0].type) != "f"
    return body.whole(1, ty) if same else None


@_rule("ne", "lt", "gt")
def _false_of_equals(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    same = operands[0] is operands[1] and kind_of(operands[0].type) != "f"
    return body.whole(0, ty) if same else None


@_rule("select")
def _choice(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _normal_distribution(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _conversion(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
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
def _reinterpretation(body: _Body, operands: Operands, ty: Attribute, params: tuple[int, ...]) -> SSAValue | None:
    x = operands[0]
    if x.type == ty:
        return x
    inner = operation(x, "bitcast")
    if inner is None:
        return None
    source = inner.operands[0]
    return source if source.type == ty else body.make("bitcast", [source], ty)
