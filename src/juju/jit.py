"""The original interface: `juju.jit`, whose results are MAX buffers, and `juju.make_max_graph`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from juju._fuse import Fused, fuse
from juju._stages import Compiled, Lowered
from juju._trace import trace

if TYPE_CHECKING:
    from juju.engines.linked import MaxGraph

_Entry = Callable[[Sequence[Any]], Any]


class JitFunction(Fused[..., Any]):
    """A function whose results are MAX buffers; made by `juju.jit`."""

    def _make_entry(self, key: Any, args: Any, kwargs: Any) -> _Entry:
        lowered = Lowered(trace(self._f, args, kwargs, name=self._name, **self._options), engine=self._engine)
        entry = self._entries[key] = _returning_buffers(lowered.compile(progress=self._progress()))
        return entry

    def __repr__(self) -> str:
        return f"<juju.jit of {self._name}>"


def jit(
    f: Callable[..., Any] | None = None,
    coerces_to_jnp: bool = False,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Sequence[int] = (),
    engine: str = "max",
    name: str | None = None,
) -> Any:
    """Compiles a JAX function with MAX. The result is a `max.driver.Buffer`, or a pytree of them.

    >>> import jax.numpy as jnp
    >>> from juju import jit
    >>> @jit
    ... def jax_code(x, y):
    ...     v = x + y
    ...     v = v * v
    ...     return jnp.sin(v)
    >>> print(f"{jax_code(5, 10).to_numpy():.6f}")
    -0.930095

    `jax.grad`, `jax.vmap` and other transformations go inside: `jit(grad(f))`. With `coerces_to_jnp=True` results are
    jax arrays, as of `juju.fuse`; the other arguments are as there. Functions that call a `juju.Primitive` run on the
    `linked` engine.

    Raises as `juju.fuse`.
    """
    options: dict[str, Any] = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "engine": engine,
        "name": name,
    }
    if f is None:
        return functools.partial(jit, coerces_to_jnp=coerces_to_jnp, **options)
    return fuse(f, **options) if coerces_to_jnp else JitFunction(f, **options)


def make_max_graph(f: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Returns a function that gives the MAX graph of `f` for its arguments, without compiling the graph.

    >>> from juju import make_max_graph
    >>> print(make_max_graph(lambda x: x * x)(5))                               # doctest: +ELLIPSIS
    mo.graph @"<lambda>"(%arg0: !mo.tensor<[], si32>) -> !mo.tensor<[], si32> ... {
      %0 = mo.chain.create()
      %1 = mo.custom [symbol = "lambda_...](%arg0) : (!mo.tensor<[], si32>) -> !mo.tensor<[], si32>
      mo.output %1 : !mo.tensor<[], si32>
    }

    The graph holds one `mo.custom` for each kernel, and what the rules of every `juju.Primitive` put there. Arguments
    may be `jax.ShapeDtypeStruct`s. `options` are those of `juju.jit`. The kernels are compiled into a Mojo package, as
    the graph refers to them; the first time, that takes a few seconds.

    Raises as `juju.fuse`, and `PrimitiveError` if a rule fails.
    """
    if f is None:
        return functools.partial(make_max_graph, **options)
    fused = fuse(f, **options)

    @functools.wraps(f)
    def graph(*args: Any, **kwargs: Any) -> MaxGraph:
        from juju.engines.linked import build_graph

        lowered = fused.lower(*args, **kwargs)
        return build_graph(lowered.plan, lowered._constants())

    return graph


def _returning_buffers(compiled: Compiled) -> _Entry:
    """Runs `compiled` and hands its results over as buffers, without a copy."""
    from max.driver import Buffer

    from juju.engines.linked import Executable

    executable = compiled._executable

    def entry(leaves: Sequence[Any]) -> Any:
        if isinstance(executable, Executable):
            buffers = executable.buffers(leaves)
        else:
            buffers = [Buffer.from_dlpack(array) for array in executable(leaves)]
        return jax.tree_util.tree_unflatten(compiled.out_tree, buffers)

    return entry
