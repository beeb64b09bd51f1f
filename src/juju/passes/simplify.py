"""`juju-simplify`: the scalar operations of a nest's body become fewer and cheaper, and give the same bits.

One walk over each body folds constants (`dialect/fold.py`), applies the rules of `_identities.py`, and lets equal
operations be one. Then what nobody reads goes, and functions of one value that share work become one operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from juju.dialect._xdsl import insert_before, new_op, replace_op
from juju.dialect.body import ReadOp
from juju.dialect.fold import Number, fold, number_of, numpy_dtype
from juju.dialect.ops import (
    SCALARS,
    ConstOp,
    NestOp,
    ScalarOp,
    YieldOp,
    const_op,
    make_nest,
    param_values,
    scalar_op,
)
from juju.dialect.types import is_half
from juju.passes._identities import RULES, constant, operation


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
            value = self.known[key] = self._insert(scalar_op(name, operands, ty, params)).results[0]
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
        for rule in RULES.get(name, ()):
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
