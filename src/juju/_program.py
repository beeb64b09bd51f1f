"""A flat program: a jaxpr with its calls inlined, its dead equations dropped, and a content hash.

Everything after tracing starts here. `jit`, `custom_jvp`, `custom_vjp`, `checkpoint` and the other primitives that only
carry a jaxpr disappear (see `CALLS`), so rules, hashes and errors see one list of equations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.extend import core as jex
from jax.extend import source_info_util as siu

from juju._resources import PACKAGE

siu.register_exclusion(str(PACKAGE))


class Value:
    """The result of an equation, an operand, or a captured constant; compared by identity."""

    __slots__ = ("aval", "label")

    def __init__(self, aval: Any, label: str = "") -> None:
        self.aval = aval
        self.label = label


@dataclass(frozen=True)
class Scalar:
    """A rank-0 constant of the program, with its dtype."""

    value: np.generic

    @property
    def dtype(self) -> str:
        return str(self.value.dtype)


Atom = Value | Scalar


@dataclass(frozen=True)
class Source:
    """A place in the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Equation:
    """One primitive application on flat atoms. `info` is JAX's source information, read only when asked for."""

    primitive: str
    params: Mapping[str, Any]
    inputs: list[Atom]
    outputs: list[Value]
    info: Any
    jax_primitive: Any = None

    @property
    def source(self) -> Source | None:
        text = siu.summarize(self.info, num_frames=1)
        place, _, function = text.rpartition(" (")
        file, _, line = place.rpartition(":")
        if file.rpartition(":")[2].isdigit():  # file:line:column, or file:line
            file, _, line = file.rpartition(":")
        return Source(file, int(line), function.rstrip(")")) if file and line.isdigit() else None


@dataclass
class Program:
    """Equations over operands and captured constants; `results` may name anything, also twice."""

    name: str
    operands: list[Value]
    constants: list[tuple[Value, Any]]
    equations: list[Equation]
    results: list[Atom]
    _digest: str | None = field(default=None, repr=False)

    def digest(self, salt: str = "") -> str | None:
        """A content hash that does not depend on variable names, source lines or the values of captured arrays.

        None if a parameter has no canonical form, or a `juju.Primitive` is called: the program must then not be looked
        up by content.
        """
        from juju.primitive import REGISTERED

        numbers: dict[Value, int] = {}
        parts = [salt]

        def define(values: Sequence[Value]) -> str:
            for v in values:
                numbers[v] = len(numbers)
            return ",".join(f"{v.aval.dtype}{tuple(v.aval.shape)}" for v in values)

        def read(atoms: Sequence[Atom]) -> str:
            return ",".join(
                f"${numbers[a]}" if isinstance(a, Value) else f"{a.dtype}:{np.asarray(a.value).tobytes().hex()}"
                for a in atoms
            )

        try:
            parts += ["operands", define(self.operands), "constants", define([v for v, _ in self.constants])]
            for eqn in self.equations:
                if eqn.jax_primitive in REGISTERED:
                    return None  # its name says nothing of what it does
                parts += [eqn.primitive, _canonical(eqn.params), read(eqn.inputs), define(eqn.outputs)]
            parts += ["results", read(self.results)]
        except _NotCanonical:
            return None
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class _NotCanonical(Exception):
    pass


def no_sharding(x: Any) -> bool:
    """True for None and for the sharding over an empty mesh that gradients carry."""
    mesh = getattr(x, "mesh", None)
    return x is None or (mesh is not None and not mesh.axis_names)


def _canonical(x: Any) -> str:
    if x is None or isinstance(x, (bool, int, float, str, bytes)):
        return repr(x)
    if isinstance(x, np.generic):
        return f"{x.dtype}:{x.tobytes().hex()}"
    if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)):
        return f"dtype:{np.dtype(x)}"
    if isinstance(x, Enum):
        return f"{type(x).__name__}.{x.name}"
    if isinstance(x, (tuple, list)):
        return "(" + ",".join(_canonical(v) for v in x) + ")"
    if no_sharding(x):
        return "None"
    if isinstance(x, Mapping):
        return "{" + ",".join(f"{k}={_canonical(v)}" for k, v in sorted(x.items())) + "}"
    raise _NotCanonical


# ---------------------------------------------------------------------------------------------------------------------
# Jaxprs, across the change in jax 0.12 where Jaxpr and ClosedJaxpr became one class.


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """The equations-bearing jaxpr and its constants, of a closed or open jaxpr of any supported JAX."""
    return (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "consts") else (jaxpr, ())


def expand(closed: Any) -> Any:
    """The jaxpr with JAX 0.12's `call_hi_primitive` spelled out; unchanged where there is none."""
    if any(eqn.primitive.name == "call_hi_primitive" for eqn in _walk(closed)):
        return jax.jit(jex.jaxpr_as_fun(closed)).trace(*closed.in_avals).lojax.jaxpr
    return closed


def _walk(jaxpr: Any) -> Iterator[Any]:
    for eqn in opened(jaxpr)[0].eqns:
        yield eqn
        for inner in jex.jaxprs_in_params(eqn.params):
            yield from _walk(inner)


def _callee(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda params: params[name]


CALLS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "jit": _callee("jaxpr"),
    "pjit": _callee("jaxpr"),
    "closed_call": _callee("call_jaxpr"),
    "core_call": _callee("call_jaxpr"),
    "eval_jaxpr": _callee("call_jaxpr"),
    "custom_jvp_call": _callee("call_jaxpr"),
    "custom_vjp_call": _callee("call_jaxpr"),
    "remat2": _callee("jaxpr"),
    "checkpoint": _callee("jaxpr"),
    "custom_vmap_call": _callee("call"),
    "linear_call": _callee("callee"),
    "composite": lambda params: params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"],
}
"""Primitives that only carry a jaxpr, and where it is; they are inlined."""


def flatten(closed: Any, name: str) -> Program:
    """Inlines every call of a closed jaxpr and drops equations nobody reads."""
    closed = expand(closed)
    jaxpr, consts = opened(closed)
    operands = [Value(v.aval) for v in jaxpr.invars]
    equations: list[Equation] = []
    constants: dict[int, tuple[Value, Any]] = {}

    def constant(x: Any) -> Atom:
        extended = jax.numpy.issubdtype(getattr(x, "dtype", np.float32), jax.dtypes.extended)
        if np.ndim(x) == 0 and not isinstance(x, Tracer) and not extended:
            return Scalar(np.asarray(x).flat[0])
        if id(x) not in constants:
            constants[id(x)] = (Value(jax.typeof(x)), x)
        return constants[id(x)][0]

    def run(body: Any, body_consts: Sequence[Any], args: Sequence[Atom], info: Any) -> list[Atom]:
        env: dict[Any, Atom] = dict(zip(body.invars, args, strict=True))
        env.update(zip(body.constvars, map(constant, body_consts), strict=True))

        def read(v: Any) -> Atom:
            return constant(_literal(v)) if isinstance(v, jex.Literal) else env[v]

        for eqn in body.eqns:
            inputs = [read(v) for v in eqn.invars]
            place = eqn.source_info if info is None or siu.summarize(eqn.source_info) else info
            if (callee := CALLS.get(eqn.primitive.name)) is not None:
                inner, inner_consts = opened(callee(eqn.params))
                outs: Sequence[Atom] = run(inner, inner_consts, inputs, place)
            else:
                made = [Value(v.aval) for v in eqn.outvars]
                equations.append(Equation(eqn.primitive.name, eqn.params, inputs, made, place, eqn.primitive))
                outs = made
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in body.outvars]

    results = run(jaxpr, consts, operands, None)
    live = {a for a in results if isinstance(a, Value)}
    kept: list[Equation] = []
    for eqn in reversed(equations):
        if any(v in live for v in eqn.outputs):
            kept.append(eqn)
            live.update(a for a in eqn.inputs if isinstance(a, Value))
    used = [(v, x) for v, x in constants.values() if v in live]
    return Program(name, operands, used, kept[::-1], results)


def _literal(literal: Any) -> Any:
    """The value of a literal in the dtype of its aval; JAX keeps Python scalars in some."""
    value = literal.val
    if np.ndim(value) == 0:
        return np.asarray(value, dtype=literal.aval.dtype)
    return value
