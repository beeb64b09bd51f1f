"""Computations that a primitive carries as a jaxpr of scalars: reducers, as scalar operations of a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend import core as jex
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineMap

from juju._program import Program, Scalar, Value, flatten, opened
from juju.dialect._xdsl import UNKNOWN
from juju.rules._registry import RULES, Operand, RuleContext, Unsupported, Whole, add_const

_KINDS = ("add", "mul", "max", "min", "and", "or", "xor")


class _ScalarContext(RuleContext):
    """Where a rule builds within a body: its nest of rank 0 is the body itself."""

    def nest(
        self,
        space: Sequence[int],
        operands: Sequence[Operand],
        body: Callable[[Block, list[SSAValue]], Sequence[SSAValue]],
        dtypes: Sequence[str],
        maps: Sequence[AffineMap | Whole | None] | None = None,
        *,
        reduced: Sequence[int] = (),
        outs: Sequence[Sequence[int]] | None = None,
    ) -> list[SSAValue]:
        if tuple(space) or any(isinstance(m, Whole) for m in maps or ()):
            raise Unsupported("it works on arrays, not on scalars")
        return list(body(self.block, [self.tensor(x) for x in operands]))

    def tensor(self, operand: Operand) -> SSAValue:
        return add_const(self.block, operand.value) if isinstance(operand, Scalar) else operand


class Computation:
    """A function of scalars, as `reduce_p` and `reduce_window_p` carry it."""

    def __init__(self, owner: str, jaxpr: Any, consts: Sequence[Any] = ()) -> None:
        self.owner = owner
        closed = jaxpr if hasattr(jaxpr, "consts") else jex.ClosedJaxpr(opened(jaxpr)[0], list(consts))
        self.program: Program = flatten(closed, owner)
        if self.program.constants:
            raise Unsupported(f"{owner} by a computation that reads an array")
        for eqn in self.program.equations:
            if any(v.aval.shape for v in eqn.outputs):
                raise Unsupported(f"{eqn.primitive} in its computation: it works on arrays, not on scalars")

    def kind(self) -> str | None:
        """The kind of `juju.reduce` that this is, or None: a single operation on both of two operands."""
        program = self.program
        if len(program.equations) != 1 or len(program.operands) != 2:
            return None
        [eqn] = program.equations
        same = set(eqn.inputs) == set(program.operands) and len(eqn.inputs) == 2
        return eqn.primitive if same and program.results == eqn.outputs and eqn.primitive in _KINDS else None

    def apply(self, block: Block, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Adds the computation to a block."""
        env: dict[Value, Operand] = dict(zip(self.program.operands, values, strict=True))

        def read(atom: Value | Scalar) -> Operand:
            return atom if isinstance(atom, Scalar) else env[atom]

        for eqn in self.program.equations:
            rule = RULES.get(eqn.primitive)
            if rule is None:
                raise Unsupported(f"there is no rule for {eqn.primitive} in its computation")
            outs = rule.apply(_ScalarContext(block, eqn, UNKNOWN), *map(read, eqn.inputs), **eqn.params)
            env.update(zip(eqn.outputs, outs if isinstance(outs, (list, tuple)) else [outs], strict=True))
        return [
            add_const(block, value.value) if isinstance(value := read(atom), Scalar) else value
            for atom in self.program.results
        ]
