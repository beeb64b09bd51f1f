"""How a JAX primitive finds its rule, and what a rule is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from juju._program import Equation, Scalar, no_sharding
from juju.dialect._xdsl import UNKNOWN, identity_map, new_op, uniform_map
from juju.dialect.library import Parameter, library_op
from juju.dialect.ops import YieldOp, const_op, make_nest
from juju.dialect.types import ELEMENT_TYPES, shape_of, tensor_type

Operand = SSAValue | Scalar
"""What a rule reads: a tensor of the dialect, or a rank-0 constant."""


class Whole:
    """The type of `WHOLE`."""


WHOLE = Whole()
"""In the place of an operand's map: the body reads the tensor at computed indices."""


class Custom(NamedTuple):
    """What cannot stand in a `juju.custom`: the primitive, its parameters, and its operands that are constants."""

    primitive: Any
    params: dict[str, Any]
    scalars: tuple[np.generic | None, ...]
    """One for each operand; None where it is a tensor."""


class Unsupported(Exception):
    """Raised by a rule: the primitive is known, but not with these types or parameters. Says why and what to do."""


@dataclass
class RuleContext:
    """Where a rule builds: a block, the location of its equation, and the equation's avals."""

    block: Block
    equation: Equation
    location: LocationAttr
    customs: list[Custom] = field(default_factory=list)

    def in_shape(self, n: int) -> tuple[int, ...]:
        atom = self.equation.inputs[n]
        return () if isinstance(atom, Scalar) else tuple(atom.aval.shape)

    def out_shape(self, n: int = 0) -> tuple[int, ...]:
        return tuple(self.equation.outputs[n].aval.shape)

    def out_dtype(self, n: int = 0) -> str:
        return str(self.equation.outputs[n].aval.dtype)

    def add(self, op: Any) -> Any:
        """Adds an operation at the end of the block, with the equation's location."""
        if op.location == UNKNOWN:
            op.location = self.location
        self.block.add_op(op)
        return op

    def pointwise(
        self,
        space: Sequence[int],
        operands: Sequence[Operand],
        body: Callable[[Block, list[SSAValue]], SSAValue],
        dtype: str,
        maps: Sequence[AffineMap | Whole | None] | None = None,
    ) -> SSAValue:
        """One nest of parallel loops with one result; rank-0 operands are read at every point."""
        return self.nest(space, operands, lambda block, args: [body(block, args)], [dtype], maps)[0]

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
        """One nest over `space`; `body(block, values)` adds its operations and returns a value for each result.

        An operand is read at its map: by default point by point, or at its only element if it has rank 0. For one that
        is `WHOLE`, `body` gets the tensor, to `read` it at computed indices. `reduced` are the reduction loops, `outs`
        the loops each result is written along: by default the parallel ones.
        """
        rank = len(space)
        block = Block()
        values: list[SSAValue] = []
        ins: list[tuple[SSAValue, AffineMap]] = []
        for n, operand in enumerate(operands):
            amap = maps[n] if maps is not None else None
            if isinstance(amap, Whole):
                operand = self.tensor(operand)
                ins.append((operand, uniform_map(rank)))
                values.append(block.insert_arg(operand.type, len(block.args)))
                continue
            if isinstance(operand, Scalar):
                values.append(add_const(block, operand.value))
                continue
            if amap is None:
                amap = identity_map(rank) if shape_of(operand.type) else uniform_map(rank)
            ins.append((operand, amap))
            values.append(block.insert_arg(_element(operand.type), len(block.args)))
        results = list(body(block, values))
        block.add_op(new_op(YieldOp, [results], location=self.location))
        for op in block.walk():
            op.location = self.location
        parallel = tuple(d for d in range(rank) if d not in reduced)
        written = [tuple(loops) for loops in outs] if outs is not None else [parallel] * len(dtypes)
        types = [
            (
                tensor_type(tuple(space[d] for d in loops), dtype),
                AffineMap(rank, 0, tuple(AffineExpr.dimension(d) for d in loops)),
            )
            for loops, dtype in zip(written, dtypes, strict=True)
        ]
        nest = self.add(make_nest(space, ins, types, block, self.location, reduced))
        for result in nest.outs:
            result.name_hint = name_hint(self.equation.primitive)
        return list(nest.outs)

    def library(
        self,
        callee: str,
        ins: Sequence[SSAValue],
        outs: Sequence[Attribute],
        *,
        units: int,
        cost: float,
        sizes: Sequence[int] = (),
        params: Mapping[str, Parameter] | None = None,
    ) -> list[SSAValue]:
        """A call of a hand-written kernel, see `juju.dialect.library`."""
        op = self.add(library_op(callee, ins, outs, units=units, cost=cost, sizes=sizes, params=params))
        for result in op.outs:
            result.name_hint = name_hint(self.equation.primitive)
        return list(op.outs)

    def tensor(self, operand: Operand) -> SSAValue:
        """The operand as a tensor; a constant becomes a nest of rank 0."""
        if isinstance(operand, Scalar):
            return self.pointwise((), [operand], lambda _, scalars: scalars[0], operand.dtype)
        return operand


class Rule(NamedTuple):
    """A registered rule: `apply(context, *operands, **params)` gives one result or a list of them."""

    primitive: str
    apply: Callable[..., Any]
    file: str
    line: int
    kinds: str


RULES: dict[str, Rule] = {}
"""Rules by JAX's primitive name."""

_NAMES = {f"scatter_{kind}": f"scatter-{kind}" for kind in ("add", "sub", "mul", "min", "max")}
"""Primitives that JAX names otherwise than their objects."""


def rule(*primitives: str, kinds: str = "fiub") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a rule for primitives, written as JAX's object names (`"cumsum_p"`), so that one search finds it."""

    def register(apply: Callable[..., Any]) -> Callable[..., Any]:
        code = inspect.unwrap(apply).__code__
        for primitive in primitives:
            name = primitive.removesuffix("_p")
            name = _NAMES.get(name, name)
            RULES[name] = Rule(name, apply, code.co_filename, code.co_firstlineno, kinds)
        return apply

    return register


def require_defaults(primitive: str, **params: Any) -> None:
    """Raises `Unsupported` for a parameter that is neither None nor an empty sharding."""
    for name, value in params.items():
        if not no_sharding(value):
            raise Unsupported(f"{primitive} with {name}={value} is not supported")


def projection(rank: int, loops: Sequence[int], own: Sequence[int], space: Sequence[int]) -> AffineMap:
    """The map of an operand whose axis k runs along `loops[k]`, or stays at 0 if it is stretched."""
    return AffineMap(
        rank,
        0,
        tuple(
            AffineExpr.dimension(loop) if extent == space[loop] else AffineExpr.constant(0)
            for loop, extent in zip(loops, own, strict=True)
        ),
    )


def add_const(block: Block, value: np.generic) -> SSAValue:
    """A `juju.const` with the bits of a NumPy scalar."""
    block.add_op(op := const_op(value, ELEMENT_TYPES[str(value.dtype)]))
    return op.result


def _element(ty: Attribute) -> Attribute:
    return ty.element_type  # type: ignore[attr-defined]


def name_hint(primitive: str) -> str:
    """What results of a primitive are called in texts."""
    return "".join(c if c.isalnum() else "_" for c in primitive)
