"""From a flat program to a module of the dialect: the one equation loop, with the one error path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jax.core import ShapedArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from juju._program import Equation, Program, Scalar
from juju.dialect._xdsl import UNKNOWN, file_location
from juju.dialect.types import ELEMENT_TYPES, tensor_type
from juju.errors import InternalError, Offender, UnsupportedPrimitive
from juju.rules._registry import RULES, Custom, RuleContext, Unsupported
from juju.rules.custom import custom_call

UNSUPPORTED = "juju cannot compile {function}:\n{list}\n{advice}"
OFFENDER = "  {primitive} at {where}: {why}"
ADVICE = (
    "What to do: leave these lines outside the fused function, ask for fallback='jax' to run the whole function "
    "through jax.jit, or list what is supported with `juju primitives`."
)


@dataclass(frozen=True)
class Lowering:
    """A module and what cannot stand in it: the primitives and parameters of its custom calls."""

    module: ModuleOp
    customs: tuple[Custom, ...]


def lower_program(program: Program) -> Lowering:
    """Applies the rules. Raises `UnsupportedPrimitive` listing every offender, not just the first."""
    offenders = find_offenders(program)
    if offenders:
        raise unsupported(program.name, offenders)
    constants = [v for v, _ in program.constants]
    arguments = [*program.operands, *constants]
    block = Block(arg_types=[_tensor(v.aval) for v in arguments])
    for n, (arg, value) in enumerate(zip(block.args, arguments, strict=True)):
        arg.name_hint = identifier(value.label) or ("const" if n >= len(program.operands) else "arg")
    env: dict[Any, Any] = dict(zip(arguments, block.args, strict=True))
    customs: list[Custom] = []
    for eqn in program.equations:
        context = RuleContext(block, eqn, _location(eqn), customs)
        operands = [a if isinstance(a, Scalar) else env[a] for a in eqn.inputs]
        try:
            outs = _apply(context, operands)
        except Unsupported as reason:
            raise unsupported(program.name, _alike(program, _offender(eqn, str(reason)))) from None
        except Exception as error:
            error.add_note(f"while juju lowered {eqn.primitive} of {program.name} at {eqn.source or 'an unknown line'}")
            raise
        env.update(zip(eqn.outputs, outs, strict=True))
    block.add_op(ReturnOp(*(_materialise(a, env, block) for a in program.results)))
    results = [v.type for v in block.last_op.operands]  # type: ignore[union-attr]
    function = FuncOp(identifier(program.name) or "f", (list(block.arg_types), results), Region(block))
    module = ModuleOp([function])
    module.verify()
    return Lowering(module, tuple(customs))


def _apply(context: RuleContext, operands: list[Any]) -> list[Any]:
    eqn = context.equation
    custom = _registered_primitive(eqn)
    if custom is not None:
        return custom_call(context, custom, tuple(operands), dict(eqn.params))
    outs = RULES[eqn.primitive].apply(context, *operands, **eqn.params)
    outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    if len(outs) != len(eqn.outputs):
        raise InternalError(f"the rule of {eqn.primitive} gave {len(outs)} results, not {len(eqn.outputs)}")
    return outs


def find_offenders(program: Program) -> list[Offender]:
    """Equations without a rule, or with types juju does not compile."""
    found = []
    for eqn in program.equations:
        values = [*eqn.inputs, *eqn.outputs]
        dtypes = [a.dtype if isinstance(a, Scalar) else str(a.aval.dtype) for a in values]
        strange = [d for d in dtypes if d not in ELEMENT_TYPES]
        if eqn.primitive not in RULES and _registered_primitive(eqn) is None:
            found.append(_offender(eqn, "there is no rule for this primitive"))
        elif strange:
            found.append(_offender(eqn, f"it works on {strange[0]}, which juju does not compile"))
    return found


def unsupported(function: str, offenders: list[Offender]) -> UnsupportedPrimitive:
    lines = dict.fromkeys(
        OFFENDER.format(primitive=f"{o.primitive} {o.types}", where=o.where, why=o.why) for o in offenders
    )
    return UnsupportedPrimitive(UNSUPPORTED.format(function=function, list="\n".join(lines), advice=ADVICE), offenders)


def identifier(text: str) -> str:
    """A name from the user's program as an ASCII identifier, or an empty string."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)
    clean = "_".join(part for part in clean.split("_") if part)[:40].rstrip("_")
    return f"_{clean}" if clean[:1].isdigit() else clean


def _alike(program: Program, first: Offender) -> list[Offender]:
    """The offender and every other equation of its primitive and types, so that one message names them all."""
    same = [_offender(eqn, first.why) for eqn in program.equations if eqn.primitive == first.primitive]
    return [o for o in same if o.types == first.types]


def _offender(eqn: Equation, why: str) -> Offender:
    def show(a: Any) -> str:
        aval = ShapedArray((), a.value.dtype) if isinstance(a, Scalar) else a.aval
        return aval.str_short(short_dtypes=True)

    types = f"({', '.join(map(show, eqn.inputs))}) -> {', '.join(map(show, eqn.outputs))}"
    return Offender(eqn.primitive, types, str(eqn.source or "an unknown line"), why)


def _registered_primitive(eqn: Equation) -> Any:
    from juju.primitive import REGISTERED

    return REGISTERED.get(eqn.jax_primitive)


def _location(eqn: Equation) -> Any:
    source = eqn.source
    return UNKNOWN if source is None else file_location(source.file, source.line)


def _tensor(aval: Any) -> Any:
    return tensor_type(tuple(aval.shape), str(aval.dtype))


def _materialise(atom: Any, env: dict[Any, Any], block: Block) -> SSAValue:
    value = atom if isinstance(atom, Scalar) else env[atom]
    if isinstance(value, Scalar):
        equation = Equation("constant", {}, [], [], None)
        return RuleContext(block, equation, UNKNOWN).tensor(value)
    return value
