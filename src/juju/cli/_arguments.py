"""What a function is traced with: `--args`, the decorator's `example_args=`, or the function's annotations."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from juju.cli._target import Target

DEFAULT_SIZE = 128

BAD_ARGS = (
    "--args {text!r}: {why}; write one shape for each argument, as in 'f32[1024], f32[]', 'i32[8], 2.0' or "
    '\'{{"w": f32[3, 4], "b": f32[4]}}, x=f32[8, 3]\''
)
BAD_STATIC = "--static {text!r}: write NAME=VALUE, where VALUE is a Python literal (or bare text, taken as a string)"
BAD_SIZE = "--dim {text!r}: write NAME=SIZE, as in --dim n=4096"
UNUSED_SIZE = "--dim {name}: no axis of that name in the annotations of {function}"
NO_SHAPES = (
    "the shapes of {function}'s arguments are not known{detail}; give them with --args 'f32[1024], f32[]', or with "
    "example_args= on juju.fuse, or with jaxtyping annotations"
)


@dataclass
class Call:
    """The arguments a function is traced with, and what had to be assumed to get them."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    static: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_call(target: Target, text: str | None, statics: Sequence[str], sizes: Sequence[str]) -> Call:
    """The arguments for `target`: from `--args`, else from `example_args=`, else from its annotations.

    Raises:
        click.UsageError: none of the three gives them, or what was written does not read.
    """
    static = dict(parse_static(one) for one in statics)
    given = dict(parse_size(one) for one in sizes)
    if text is not None:
        args, kwargs = parse_arguments(text)
        return Call(args, kwargs, static)
    example = getattr(target.function, "example_args", None)
    if example is not None:
        return Call(tuple(example), {}, static)
    return _from_annotations(target, static, given)


def parse_arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments from `--args`: shapes, numbers, None, and dicts, lists and tuples of them.

    Example: `f32[1024], {"w": f32[3]}, axis=2`.

    Raises:
        click.UsageError: it does not read.
    """
    python = re.sub(r"(?<=\w)\[\s*\]", "[()]", text)  # f32[] is the one thing that Python does not read
    try:
        tree = ast.parse(f"_({python})", mode="eval").body
    except (SyntaxError, ValueError):
        raise click.UsageError(BAD_ARGS.format(text=text, why="this does not read")) from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise click.UsageError(BAD_ARGS.format(text=text, why="this does not read"))
    if any(word.arg is None for word in tree.keywords):
        raise click.UsageError(BAD_ARGS.format(text=text, why="'**' has no meaning here"))
    args = tuple(_value(node, text) for node in tree.args)
    return args, {str(word.arg): _value(word.value, text) for word in tree.keywords}


def parse_static(text: str) -> tuple[str, Any]:
    """`n=3` as `("n", 3)`; what is not a Python literal is a string."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip().isidentifier():
        raise click.UsageError(BAD_STATIC.format(text=text))
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (SyntaxError, ValueError):
        return name.strip(), value.strip()


def parse_size(text: str) -> tuple[str, int]:
    """`n=4096` as `("n", 4096)`."""
    name, _, value = text.partition("=")
    if not name.strip().isidentifier() or not value.strip().isdigit():
        raise click.UsageError(BAD_SIZE.format(text=text))
    return name.strip(), int(value)


def _value(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Subscript(value=ast.Name(id=dtype), slice=inside):
            return _shape(dtype, inside, text)
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            return {typing.cast(ast.Constant, key).value: _value(v, text) for key, v in zip(keys, values, strict=True)}
        case ast.Tuple(elts=elements):
            return tuple(_value(element, text) for element in elements)
        case ast.List(elts=elements):
            return [_value(element, text) for element in elements]
        case ast.Constant(value=bool() | int() | float() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    why = f"'{ast.unparse(node)}' is no shape and no number".replace("[()]", "[]")
    raise click.UsageError(BAD_ARGS.format(text=text, why=why))


def _shape(dtype: str, inside: ast.expr, text: str) -> Any:
    from juju._trace import parse_args
    from juju.errors import JujuError

    sizes = inside.elts if isinstance(inside, ast.Tuple) else [inside]
    leaf = f"{dtype}[{','.join(ast.unparse(size) for size in sizes)}]"
    try:
        return parse_args(leaf)[0]
    except (JujuError, ValueError, TypeError) as error:
        why = " ".join(str(error).split()) or f"{leaf!r} is no shape"
        raise click.UsageError(BAD_ARGS.format(text=text, why=why)) from None


# --- annotations ------------------------------------------------------------------------------------------------------


class _NoShape(Exception):
    """An annotation that gives no shape."""


def _from_annotations(target: Target, static: dict[str, Any], sizes: dict[str, int]) -> Call:
    function = inspect.unwrap(target.function)
    name = target.name
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function if hasattr(function, "__annotations__") else function.__call__)
    except (ValueError, TypeError, NameError, AttributeError) as error:
        raise click.UsageError(NO_SHAPES.format(function=name, detail=f" ({error})")) from None
    reader = _AnnotationReader(sizes)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name in static or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        try:
            value = reader.read(hints.get(parameter.name, inspect.Parameter.empty))
        except _NoShape as missing:
            if parameter.default is not parameter.empty:
                continue
            detail = f": {parameter.name!r} {missing}"
            raise click.UsageError(NO_SHAPES.format(function=name, detail=detail)) from None
        if parameter.kind is parameter.KEYWORD_ONLY or len(args) < parameters.index(parameter):
            kwargs[parameter.name] = value
        else:
            args.append(value)
    for unused in sizes.keys() - reader.used.keys():
        raise click.UsageError(UNUSED_SIZE.format(name=unused, function=name))
    assumed = {n: size for n, size in reader.used.items() if n not in sizes}
    notes = ()
    if assumed:
        shown = ", ".join(f"{n}={size}" for n, size in assumed.items())
        notes = (f"sizes assumed for named axes: {shown} (choose with --dim NAME=SIZE)",)
    return Call(tuple(args), kwargs, static, notes)


class _AnnotationReader:
    """Turns annotations into example values; remembers the sizes of named axes."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes
        self.used: dict[str, int] = {}

    def read(self, hint: Any) -> Any:
        if hint is inspect.Parameter.empty:
            raise _NoShape("has no annotation")
        if hint in (float, int, bool):
            return hint(1)
        if hint is None or hint is type(None):
            return None
        if hasattr(hint, "dim_str") and hasattr(hint, "dtypes"):
            return self._array(hint)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self._first(inner)
        if origin is tuple and inner and Ellipsis not in inner:
            return tuple(self.read(one) for one in inner)
        if isinstance(hint, type) and (fields := getattr(hint, "_fields", ())):  # a named tuple
            return hint(*self._fields(hint, fields))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return hint(*self._fields(hint, [f.name for f in dataclasses.fields(hint) if f.init]))
        word = str(getattr(hint, "__name__", hint)).rpartition(".")[2]
        raise _NoShape(f"is annotated {word!r}, which says no shape")

    def _first(self, options: Sequence[Any]) -> Any:
        reasons = []
        for option in options:
            if option is not type(None):
                try:
                    return self.read(option)
                except _NoShape as reason:
                    reasons.append(reason)
        raise reasons[0] if reasons else _NoShape("says no shape")

    def _fields(self, hint: Callable[..., Any], names: Sequence[str]) -> list[Any]:
        hints = typing.get_type_hints(hint)
        return [self.read(hints.get(name, inspect.Parameter.empty)) for name in names]

    def _array(self, hint: Any) -> Any:
        import jax

        shape = []
        for dim in hint.dim_str.split():
            shape += self._axis(dim)
        return jax.ShapeDtypeStruct(tuple(shape), _choose_dtype(hint.dtypes))

    def _axis(self, dim: str) -> list[int]:
        name = dim.lstrip("#*?").split("=")[-1]
        if dim in ("...", "_") or name == "":
            return [] if dim == "..." else [self._size("_")]
        if name.isdigit():
            return [int(name)]
        if "*" in dim[: len(dim) - len(name)]:
            return []
        if name.isidentifier():
            return [self._size(name)]
        try:  # an expression such as n+1 or 2*n
            names = {node.id for node in ast.walk(ast.parse(name, mode="eval")) if isinstance(node, ast.Name)}
            return [int(eval(name, {"__builtins__": {}}, {n: self._size(n) for n in names}))]
        except (SyntaxError, NameError, TypeError):
            raise _NoShape(f"has the axis {dim!r}, whose size cannot be told") from None

    def _size(self, name: str) -> int:
        return self.used.setdefault(name, self.sizes.get(name, DEFAULT_SIZE))


def _choose_dtype(dtypes: Any) -> Any:
    import jax
    import jax.numpy as jnp

    default = jnp.result_type(float)
    if not isinstance(dtypes, (tuple, list)):  # jaxtyping.Shaped: any dtype
        return default
    preferred = [str(default), "int32", "uint32", "bool"]
    for name in [*(p for p in preferred if p in dtypes), *dtypes]:
        try:
            return jax.dtypes.canonicalize_dtype(jnp.dtype(name))
        except TypeError:
            continue
    raise _NoShape(f"takes {', '.join(map(str, dtypes))} only")
