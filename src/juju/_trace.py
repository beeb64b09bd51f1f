"""From a Python function and arguments to a closed jaxpr, with pytrees, argument names and checks on the way."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from juju._program import Program, flatten
from juju.errors import ArgumentError, LeakedTracerError, SideEffectError

COMPLEX = (
    "argument {name} of {function} has dtype {dtype}: juju does not compile complex numbers yet. Pass the real and the "
    "imaginary part as two arrays, or call the function through jax.jit."
)
NOT_AN_ARRAY = (
    "argument {name} of {function} is {value}, of type {type}, which is not an array, a number or a pytree of them. "
    "If it is an option of the function, name it in static_argnums or static_argnames."
)
UNKNOWN_DTYPE = "argument {name} of {function} has dtype {dtype}, which juju does not compile. It takes {known}."
SIDE_EFFECT = (
    "{function} has a side effect ({effects}), and a fused kernel cannot run Python. Remove the call, or keep that "
    "part of the program in jax.jit."
)
LEAKED = (
    "{function} reads a tracer that belongs to a transformation which has ended ({reason}). Return the value from the "
    "transformed function instead of storing it on the side."
)

NOT_USABLE = "Some donated buffers were not usable: {types}."
"""As JAX says it."""

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bfloat16", "float16", "float32", "float64"),
)
"""Dtypes an argument may have."""

_EFFECT_NAMES = {
    "DebugEffect": "jax.debug.print or jax.debug.callback",
    "OrderedDebugEffect": "jax.debug.print or jax.debug.callback",
    "IOEffect": "io_callback",
    "OrderedIOEffect": "io_callback",
    "FfiEffect": "a foreign call with side effects",
    "NamedAxisEffect": "a collective over a named axis",
    "WriteEffect": "a write to a mutable array reference",
    "ReadEffect": "a read of a mutable array reference",
    "AccumEffect": "an update of a mutable array reference",
}


@dataclass(frozen=True)
class Traced:
    """A function traced for certain avals. `operands` of `program` are the flat dynamic arguments, in order."""

    name: str
    program: Program
    jaxpr: Any
    in_tree: Any
    out_tree: Any
    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]
    arg_names: tuple[str, ...]
    donated: tuple[int, ...]


def function_name(f: Callable[..., Any]) -> str:
    """What to call a function in texts: its `__name__`, through partials and wrappers."""
    while not hasattr(f, "__name__") and hasattr(f, "func"):
        f = f.func  # type: ignore[attr-defined]
    return getattr(f, "__name__", type(f).__name__)


def trace(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, name: str, **jit_options: Any
) -> Traced:
    """Traces `f` on arrays, numbers or `jax.ShapeDtypeStruct`s; `jit_options` are those of `jax.jit`.

    Raises `ArgumentError`, `SideEffectError`, `LeakedTracerError`, and whatever the function itself raises. Static
    arguments that cannot be hashed raise `ValueError` with JAX's text.
    """
    try:
        traced = jax.jit(f, **jit_options).trace(*args, **kwargs)
    except jax.errors.UnexpectedTracerError as error:
        raise LeakedTracerError(LEAKED.format(function=name, reason=_first_sentence(error))) from error
    except TypeError as error:
        check_arguments(f, args, kwargs, name=name, error=error)
        raise
    jaxpr = traced.jaxpr
    effects = sorted({type(e).__name__ for e in jaxpr.effects})
    if effects:
        listed = ", ".join(dict.fromkeys(_EFFECT_NAMES.get(e, e) for e in effects))
        raise SideEffectError(SIDE_EFFECT.format(function=name, effects=listed))
    paths = jax.tree_util.tree_flatten_with_path(traced.args_info)[0]
    if len(jaxpr.in_avals) > len(paths):
        # JAX turns the constants of such a trace into leading operands.
        raise LeakedTracerError(LEAKED.format(function=name, reason="a closure over a value of jit, grad or vmap"))
    arg_names = tuple(_path_name(path, f) for path, _ in paths)
    for arg_name, aval in zip(arg_names, jaxpr.in_avals, strict=True):
        check_dtype(aval.dtype, arg_name, name)
    program = flatten(jaxpr, name)
    for operand, arg_name in zip(program.operands, arg_names, strict=True):
        operand.label = arg_name
    return Traced(
        name=name,
        program=program,
        jaxpr=jaxpr,
        in_tree=traced.in_tree,
        out_tree=traced.out_tree,
        in_avals=tuple(jaxpr.in_avals),
        out_avals=tuple(jaxpr.out_avals),
        arg_names=arg_names,
        donated=_usable([i for i, (_, info) in enumerate(paths) if info.donated], program, jaxpr.out_avals),
    )


def _usable(donated: Sequence[int], program: Program, out_avals: Sequence[Any]) -> tuple[int, ...]:
    """The donated operands whose memory some result could take, which is what JAX deletes; it keeps the others.

    As in JAX an operand that is used, and has as many elements as no result, is worth a warning.
    """
    used = {a for eqn in program.equations for a in eqn.inputs} | set(program.results)
    free = Counter(math.prod(a.shape) * a.dtype.itemsize for a in out_avals)
    sizes = {math.prod(a.shape) for a in out_avals}
    usable, unusable = [], []
    for i in donated:
        aval = program.operands[i].aval
        if program.operands[i] not in used:
            continue
        nbytes = math.prod(aval.shape) * aval.dtype.itemsize
        if free[nbytes]:
            free[nbytes] -= 1
            usable.append(i)
        elif math.prod(aval.shape) not in sizes:
            unusable.append(aval.str_short())
    if unusable:
        warnings.warn(NOT_USABLE.format(types=", ".join(unusable)), stacklevel=6)
    return tuple(usable)


def check_dtype(dtype: Any, arg_name: str, function: str) -> None:
    """Raises `ArgumentError` for a dtype juju does not compile."""
    if str(dtype) in DTYPES:
        return
    if jax.numpy.issubdtype(dtype, jax.numpy.complexfloating):
        raise ArgumentError(COMPLEX.format(name=arg_name, function=function, dtype=dtype))
    raise ArgumentError(UNKNOWN_DTYPE.format(name=arg_name, function=function, dtype=dtype, known=", ".join(DTYPES)))


def check_arguments(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, name: str, error: TypeError
) -> None:
    """Turns JAX's complaint about an argument that is not an array into ours, which names it."""
    for path, leaf in jax.tree_util.tree_flatten_with_path((tuple(args), kwargs))[0]:
        try:
            jax.typeof(leaf)
        except TypeError:
            if not isinstance(leaf, jax.ShapeDtypeStruct) and f"{type(leaf)}" in str(error):
                text = NOT_AN_ARRAY.format(
                    name=_path_name(path, f), function=name, value=_short(leaf), type=_type_name(leaf)
                )
                raise ArgumentError(text) from error


def parse_args(text: str) -> list[jax.ShapeDtypeStruct]:
    """Reads `"f32[1024], f32[], bool[2,3]"`, JAX's way of writing types.

    >>> parse_args("f32[4,2], i8[]")
    [ShapeDtypeStruct(shape=(4, 2), dtype=float32), ShapeDtypeStruct(shape=(), dtype=int8)]

    Raises `ValueError` naming the part that cannot be read.
    """
    structs = []
    rest = text.strip()
    while rest:
        match = re.match(r"([a-z]+\d*)\s*\[\s*((?:\d+\s*(?:,\s*\d+\s*)*,?)?)\s*\]\s*(?:,|$)\s*", rest)
        if match is None:
            raise ValueError(f"cannot read '{rest}' as a type: write for example f32[1024], i32[2,3] or bool[]")
        word = match[1]
        long = re.sub(
            r"^(bf|f|i|u)(?=\d)", lambda m: {"bf": "bfloat", "f": "float", "i": "int", "u": "uint"}[m[0]], word
        )
        if long not in DTYPES:
            raise ValueError(f"'{word}' is not a dtype juju compiles: it takes {', '.join(DTYPES)}")
        shape = tuple(int(n) for n in match[2].replace(" ", "").split(",") if n)
        structs.append(jax.ShapeDtypeStruct(shape, jax.numpy.dtype(long)))
        rest = rest[match.end() :]
    return structs


def _path_name(path: Sequence[Any], f: Callable[..., Any]) -> str:
    """`args[1]['w']` as `params['w']`, with the parameter's name where the signature gives one."""
    head, rest = path[:2], path[2:]
    tail = jax.tree_util.keystr(tuple(rest))
    key = head[1]
    if isinstance(key, jax.tree_util.DictKey):
        return f"{key.key}{tail}"
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return f"args[{key.idx}]{tail}"
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if key.idx < len(positional):
        return f"{positional[key.idx].name}{tail}"
    return f"args[{key.idx}]{tail}"


def _type_name(x: Any) -> str:
    name = type(x).__name__
    return f"{name} of dtype {x.dtype}" if hasattr(x, "dtype") else name


def _first_sentence(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."
