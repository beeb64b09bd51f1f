"""`juju.Primitive`: a MAX operation, for example a hand-written Mojo kernel, called from JAX code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive as JaxPrimitive
from jax.interpreters import ad, batching, mlir

from juju.errors import ArgumentError, JujuError, PrimitiveError, UnsupportedPrimitive

if TYPE_CHECKING:
    from max.graph import TensorValue

ON_XLA = (
    "{name} is a juju.Primitive: it runs on MAX, and jax.jit compiles for XLA. Compile the function that calls it with "
    "juju.jit or juju.fuse instead of jax.jit."
)
NO_DERIVATIVE = (
    "{name} is a juju.Primitive and has no derivative of its own. Give it one with jax.custom_jvp or jax.custom_vjp "
    "around the call."
)
NO_BATCHING = (
    "{name} is a juju.Primitive and cannot be mapped by jax.vmap. Give it a rule with jax.custom_batching.custom_vmap, "
    "or an operand with a batch axis."
)
UNHASHABLE = "parameter {parameter} of {name} is {value}, which cannot be hashed. Pass arrays as positional operands."
RULE_FAILED = (
    "the max_lowering_rule of {name} raised {error}. Its operands are {operands}, its parameters {parameters}."
)
RULE_RESULT = "the max_lowering_rule of {name} returned {value}, which is not a graph value or a list of them."
RULE_COUNT = "the max_lowering_rule of {name} returned {got} values, but its abstract_eval promises {want}."
RULE_TYPE = "result {index} of the max_lowering_rule of {name} is {got}, but its abstract_eval promises {want}."
EVAL_RESULT = "the abstract_eval of {name} returned {value}, which is not a jax.core.ShapedArray or a list of them."
EVAL_COUNT = "the abstract_eval of {name} returned a list of {got}, but multiple_results=False promises one result."

REGISTERED: dict[JaxPrimitive, Primitive] = {}
"""The `juju.Primitive` behind each JAX primitive, for the compiler."""


class Primitive:
    """A JAX function whose body is MAX graph operations, usually one `ops.custom` of a hand-written kernel.

    ```python
    def lowering(x, *, times):                        # graph values in, a graph value or a list of them out
        return ops.custom("repeat", DeviceRef.CPU(), [x], [x.type], parameters={"times": times})[0]

    def abstract_eval(x, *, times):                   # the same in types
        return jax.core.ShapedArray(x.shape, x.dtype)

    repeat = juju.Primitive("repeat", lowering, abstract_eval, multiple_results=False)
    juju.jit(lambda x: repeat(x + 1, times=3))(x)
    ```

    Operands are positional arrays, parameters hashable keywords. Every package in `kernels/` is at hand; `kernels`
    names the author's own: `.mojo` files, package folders, or compiled `.mojoc` files. A call returns a list if
    `abstract_eval` returns one, else a single array.

    Called outside of `juju.jit` and `juju.fuse` it is compiled by itself. Under `jax.jit`, `jax.grad` and `jax.vmap` of
    the primitive itself it raises `UnsupportedPrimitive`. Rules that fail or disagree raise `PrimitiveError`.
    """

    def __init__(
        self,
        name: str,
        max_lowering_rule: Callable[..., Any],
        abstract_eval: Callable[..., Any],
        multiple_results: bool = True,
        *,
        kernels: Sequence[str | Path] | str | Path = (),
    ) -> None:
        self.name = name
        self.max_lowering_rule = max_lowering_rule
        self.abstract_eval = abstract_eval
        self.multiple_results = multiple_results
        self.kernels = tuple(
            Path(path).resolve() for path in ([kernels] if isinstance(kernels, str | Path) else kernels)
        )
        self._jax = _jax_primitive(self)
        REGISTERED[self._jax] = self

    def __call__(self, *operands: Any, **params: Any) -> Any:
        single, _ = self._evaluate([jax.typeof(x) for x in operands], params)
        results = self._jax.bind(*operands, **params)
        return results[0] if single else results

    def __repr__(self) -> str:
        return f"juju.Primitive({self.name!r})"

    def out_avals(self, avals: Sequence[Any], params: Mapping[str, Any]) -> list[ShapedArray]:
        """The types of the results. Raises `PrimitiveError` if `abstract_eval` returns anything else than types."""
        return self._evaluate(avals, params)[1]

    def _evaluate(self, avals: Sequence[Any], params: Mapping[str, Any]) -> tuple[bool, list[ShapedArray]]:
        raw = self.abstract_eval(*avals, **params)
        single = hasattr(raw, "shape") and hasattr(raw, "dtype")
        if not single and not self.multiple_results and isinstance(raw, Sequence):
            raise PrimitiveError(EVAL_COUNT.format(name=self.name, got=len(raw)))
        listed = [raw] if single else raw
        if not isinstance(listed, Sequence) or not all(hasattr(a, "shape") and hasattr(a, "dtype") for a in listed):
            raise PrimitiveError(EVAL_RESULT.format(name=self.name, value=raw))
        return single, [ShapedArray(tuple(a.shape), jax.numpy.dtype(a.dtype)) for a in listed]

    def lower(
        self, operands: Sequence[TensorValue], params: Mapping[str, Any], want: Sequence[Any]
    ) -> list[TensorValue]:
        """The graph values of a call, inside a `max.graph.Graph`; `want` holds the shape and dtype of each result.

        Raises `PrimitiveError` if the rule raises, or returns other values than `abstract_eval` promised.
        """
        try:
            raw = self.max_lowering_rule(*operands, **params)
        except JujuError:
            raise
        except Exception as error:
            raise PrimitiveError(
                RULE_FAILED.format(
                    name=self.name,
                    error=f"{type(error).__name__}: {error}",
                    operands=[_type_text(x) for x in operands],
                    parameters=dict(params),
                )
            ) from error
        values = list(raw) if isinstance(raw, list | tuple) else [raw]
        if not all(hasattr(value, "tensor") for value in values):
            raise PrimitiveError(RULE_RESULT.format(name=self.name, value=raw))
        if len(values) != len(want):
            raise PrimitiveError(RULE_COUNT.format(name=self.name, got=len(values), want=len(want)))
        tensors = [value.tensor for value in values]
        for index, (tensor, aval) in enumerate(zip(tensors, want, strict=True)):
            promised = _text(str(jax.numpy.dtype(aval.dtype)), aval.shape)
            if _type_text(tensor) != promised:
                raise PrimitiveError(
                    RULE_TYPE.format(name=self.name, index=index, got=_type_text(tensor), want=promised)
                )
        return tensors


def _text(dtype: str, shape: Sequence[Any]) -> str:
    return f"{dtype}[{','.join(str(n) for n in shape)}]"


def _type_text(value: TensorValue) -> str:
    return _text(value.dtype.name, value.shape)


def _jax_primitive(primitive: Primitive) -> JaxPrimitive:
    """The JAX primitive of `primitive`: its types are known to JAX, everything else says what to do instead."""
    name = primitive.name
    jax_primitive = JaxPrimitive(name)
    jax_primitive.multiple_results = True
    jax_primitive.def_abstract_eval(lambda *avals, **params: primitive.out_avals(avals, params))
    jax_primitive.def_impl(lambda *operands, **params: _run(jax_primitive, operands, params))

    def refuse(text: str) -> Callable[..., NoReturn]:
        def rule(*_: Any, **__: Any) -> NoReturn:
            raise UnsupportedPrimitive(text.format(name=name))

        return rule

    ad.primitive_jvps[jax_primitive] = refuse(NO_DERIVATIVE)
    batching.primitive_batchers[jax_primitive] = refuse(NO_BATCHING)
    mlir.register_lowering(jax_primitive, refuse(ON_XLA))
    return jax_primitive


def _run(jax_primitive: JaxPrimitive, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Evaluates one call by itself, through `juju.jit`."""
    for key, value in params.items():
        try:
            hash(value)
        except TypeError as error:
            text = UNHASHABLE.format(parameter=key, name=jax_primitive.name, value=value)
            raise ArgumentError(text) from error
    # The types tell 1 from True and from 1.0.
    return _compiled(jax_primitive, tuple((key, type(params[key]), params[key]) for key in sorted(params)))(*operands)


@lru_cache(maxsize=256)
def _compiled(jax_primitive: JaxPrimitive, params: tuple[tuple[str, type, Any], ...]) -> Callable[..., Any]:
    from juju.jit import jit  # the compiler imports REGISTERED from here

    def call(*operands: Any) -> Any:
        return jax_primitive.bind(*operands, **{key: value for key, _, value in params})

    call.__name__ = jax_primitive.name
    return jit(call, coerces_to_jnp=True)
