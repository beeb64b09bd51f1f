"""`juju.fuse`: the decorator, its signature cache, and first calls."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

import jax
import numpy as np
from jax.core import Tracer
from jax.tree_util import tree_flatten, tree_unflatten

from juju._jaxcompat import trace_context, trace_state_clean
from juju._stages import Compiled, Lowered, Progress
from juju._trace import function_name, trace
from juju.errors import InternalError, JujuError, UnsupportedPrimitive

P = ParamSpec("P")
R = TypeVar("R")

ENGINES = ("max", "linked")
UNKNOWN_ENGINE = "there is no engine '{engine}'; choose one of {engines}"
UNKNOWN_OPTION = "{option}={value!r} is not one of {choices}"
FELL_BACK = "{name} runs through jax.jit, as fallback='jax' allows: {reason}"

_Entry = Callable[[Sequence[Any]], Any]


class Fused(Generic[P, R]):
    """A function compiled to Mojo kernels, once for each combination of argument types; made by `juju.fuse`."""

    __wrapped__: Callable[P, R]
    """The function itself."""

    def __init__(
        self,
        f: Callable[P, R],
        *,
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Iterable[str] = (),
        donate_argnums: int | Sequence[int] = (),
        engine: str = "max",
        compile: Literal["wait", "background"] = "wait",
        fallback: Literal["jax"] | None = None,
        name: str | None = None,
        example_args: Sequence[Any] | None = None,
    ) -> None:
        if not callable(f):
            raise TypeError(f"juju.fuse takes a function, not {type(f).__name__}")
        _choose("engine", engine, ENGINES)
        _choose("compile", compile, ("wait", "background"))
        _choose("fallback", fallback, (None, "jax"))
        functools.update_wrapper(self, f)
        self._f: Callable[..., Any] = f
        self._name = name or function_name(f)
        self._statics = _Statics(f, static_argnums, static_argnames)
        self._options: dict[str, Any] = {}
        if self._statics.nums:
            self._options["static_argnums"] = self._statics.nums
        if self._statics.names:
            self._options["static_argnames"] = self._statics.names
        donate = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
        if donate:
            self._options["donate_argnums"] = donate
        self._engine = engine
        self._background = compile == "background"
        self._fallback = fallback
        self.example_args = None if example_args is None else tuple(example_args)
        self._entries: dict[Any, _Entry] = {}
        self._lock = threading.Lock()
        self._building: dict[Any, threading.Lock] = {}

    # Calls ------------------------------------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._statics:
            static_key, dynamic_args, dynamic_kwargs = self._statics.split(args, kwargs)
        else:
            static_key, dynamic_args, dynamic_kwargs = None, args, kwargs
        leaves, tree = tree_flatten((dynamic_args, dynamic_kwargs))
        try:
            avals = [x.aval for x in leaves]
        except AttributeError:
            avals = None
        if not trace_state_clean() or (avals is not None and any(isinstance(x, Tracer) for x in leaves)):
            return self._f(*args, **kwargs)
        if avals is None:
            try:
                avals = [jax.typeof(x) for x in leaves]
            except TypeError:
                return self._irregular_call(leaves, args, kwargs)
        key = (tree, tuple(avals), trace_context(), static_key)
        entry = self._entries.get(key)
        if entry is None:
            return self._first_call(key, leaves, args, kwargs)
        return entry(leaves)

    def _irregular_call(self, leaves: Sequence[Any], args: Any, kwargs: Any) -> R:
        """A call with something that has no type in JAX: NumPy arrays of the other byte order are turned around."""
        if any(_is_swapped(x) for x in leaves):
            args, kwargs = _all_native(args, kwargs)
            again: Any = self
            return again(*args, **kwargs)
        trace(self._f, args, kwargs, name=self._name, **self._options)  # raises, and says which argument it is
        raise InternalError(f"{self._name} was traced with arguments that have no type")

    def _first_call(self, key: Any, leaves: Sequence[Any], args: Any, kwargs: Any) -> R:
        if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
            return self._f(*args, **kwargs)
        with self._lock:
            mine = self._building.setdefault(key, threading.Lock())
        with mine:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._make_entry(key, args, kwargs)
        with self._lock:
            self._building.pop(key, None)
        return entry(leaves)

    def _make_entry(self, key: Any, args: Any, kwargs: Any) -> _Entry:
        jitted = jax.jit(self._f, **self._options)
        traced = trace(self._f, args, kwargs, name=self._name, **self._options)
        lowered = Lowered(traced, engine=self._engine)
        if self._fallback == "jax":
            try:
                lowered._plan_to_run()
            except UnsupportedPrimitive as reason:
                warnings.warn(FELL_BACK.format(name=self._name, reason=_list_of(reason)), stacklevel=4)
                self._entries[key] = entry = self._through_jax(jitted, args, kwargs)
                return entry
        if self._background:
            entry = self._in_background(lowered, key, self._through_jax(jitted, args, kwargs))
        else:
            entry = lowered.compile(progress=self._progress()).call_flat
        self._entries[key] = entry
        return entry

    def _through_jax(self, jitted: Any, args: Any, kwargs: Any) -> _Entry:
        tree = tree_flatten(self._statics.split(args, kwargs)[1:])[1]
        join = self._statics.joiner(args, kwargs)

        def entry(leaves: Sequence[Any]) -> Any:
            new_args, new_kwargs = join(*tree_unflatten(tree, leaves))
            return jitted(*new_args, **new_kwargs)

        return entry

    def _in_background(self, lowered: Lowered, key: Any, meanwhile: _Entry) -> _Entry:
        """Calls go to `meanwhile` until the kernel is there; if there will be none, the next call says why."""
        done: list[_Entry] = []

        def work() -> None:
            try:
                done.append(lowered.compile().call_flat)
            except Exception as error:
                done.append(_raiser(error))

        def entry(leaves: Sequence[Any]) -> Any:
            if not done:
                return meanwhile(leaves)
            self._entries[key] = done[0]
            return done[0](leaves)

        threading.Thread(target=work, name=f"juju-compile-{self._name}", daemon=True).start()
        return entry

    def _progress(self) -> Progress | None:
        from juju._progress import default_progress

        return default_progress()

    # Stages -----------------------------------------------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Lowers for the types of these arguments, which may be `jax.ShapeDtypeStruct`s; runs and compiles nothing.

        Raises `ArgumentError`, `SideEffectError`, `LeakedTracerError`.
        """
        args, kwargs = _all_native(args, kwargs)
        return Lowered(trace(self._f, args, kwargs, name=self._name, **self._options), engine=self._engine)

    # As jax.jit's -----------------------------------------------------------------------------------------------------

    def clear_cache(self) -> None:
        """Forgets every compiled signature of this function; the store on disk keeps its kernels."""
        self._entries.clear()

    def _cache_size(self) -> int:
        return len(self._entries)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<juju.fuse of {self._name}>"


class _Statics:
    """Which arguments are static, by position and by name, completed from the signature as `jax.jit` does."""

    def __init__(self, f: Callable[..., Any], nums: int | Sequence[int], names: str | Iterable[str]) -> None:
        self.nums = (nums,) if isinstance(nums, int) else tuple(nums)
        self.names = (names,) if isinstance(names, str) else tuple(names)
        self._positions = set(self.nums)
        self._keywords = set(self.names)
        if not (self.nums or self.names):
            return
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except (TypeError, ValueError):
            return
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for n, parameter in enumerate(positional):
            if n in self._positions or n - len(positional) in self._positions:
                self._positions.add(n)
                self._keywords.add(parameter.name)
            elif parameter.name in self._keywords:
                self._positions.add(n)

    def __bool__(self) -> bool:
        return bool(self._positions or self._keywords)

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """(key of the static ones with their types, dynamic positional, dynamic keyword arguments)."""
        if not self:
            return None, tuple(args), kwargs
        key = [(n, type(x), x) for n, x in enumerate(args) if self._is_static(n, len(args))]
        key += [(k, type(x), x) for k, x in sorted(kwargs.items()) if k in self._keywords]
        dynamic = tuple(x for n, x in enumerate(args) if not self._is_static(n, len(args)))
        return _Hashable(tuple(key)), dynamic, {k: x for k, x in kwargs.items() if k not in self._keywords}

    def joiner(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[..., tuple[list[Any], dict[str, Any]]]:
        """The inverse of `split` for calls with the same static arguments."""
        statics = {n: x for n, x in enumerate(args) if self._is_static(n, len(args))}
        keywords = {k: x for k, x in kwargs.items() if k in self._keywords}
        total = len(args)

        def join(dynamic: Sequence[Any], dynamic_kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
            rest = iter(dynamic)
            return [statics[n] if n in statics else next(rest) for n in range(total)], {**dynamic_kwargs, **keywords}

        return join

    def _is_static(self, n: int, total: int) -> bool:
        return n in self._positions or n - total in self._positions


class _Hashable:
    """A tuple of static arguments; one that cannot be hashed hashes to nothing, and tracing then says so."""

    __slots__ = ("_hash", "items")

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items
        try:
            self._hash = hash(items)
        except TypeError:
            self._hash = 0

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Hashable) or self._hash == 0 or self._hash != other._hash:
            return self is other
        return self.items == other.items


@overload
def fuse(f: Callable[P, R], /, **options: Any) -> Fused[P, R]: ...
@overload
def fuse(**options: Any) -> Callable[[Callable[P, R]], Fused[P, R]]: ...
def fuse(f: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compiles a JAX function into fused Mojo kernels; results are jax arrays, as of `jax.jit`.

    >>> import jax.numpy as jnp, juju
    >>> @juju.fuse
    ... def f(x, y):
    ...     return jnp.sin((x + y) ** 2)
    >>> print(f"{f(5.0, 10.0):.6f}")
    -0.930095

    Arguments:
        static_argnums, static_argnames, donate_argnums: as of `jax.jit`.
        engine: `max` (default), or `linked` to compile the kernels into the MAX graph.
        compile: `wait` for the kernel at the first call, or compile in the `background` and answer through `jax.jit`
            until it is ready.
        fallback: `jax` runs a function that juju cannot compile through `jax.jit`, and warns once; the default raises.
        name: what to call the function in texts; its own name by default.
        example_args: arguments for `juju codegen` and other tools to lower it with.

    Called with tracers, under `jit`, `grad` or `vmap`, the function is traced inline.

    Raises `UnsupportedPrimitive` naming every offender with the user's line, `ArgumentError` for arguments juju does
    not take, and `KernelCompileError`, `ToolchainError` or `StoreError` from the toolchain.
    """
    if f is None:
        return lambda g: Fused(g, **options)
    return Fused(f, **options)


def _raiser(error: Exception) -> _Entry:
    def entry(leaves: Sequence[Any]) -> Any:
        raise error

    return entry


def _is_swapped(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) and not x.dtype.isnative


def _all_native(args: Any, kwargs: Any) -> tuple[Any, Any]:
    def native(x: Any) -> Any:
        return np.asarray(x).astype(x.dtype.newbyteorder("=")) if _is_swapped(x) else x

    return jax.tree_util.tree_map(native, (tuple(args), kwargs))


def _choose(option: str, value: Any, choices: Sequence[Any]) -> None:
    if value not in choices:
        if option == "engine":
            raise ValueError(UNKNOWN_ENGINE.format(engine=value, engines=", ".join(choices)))
        raise ValueError(UNKNOWN_OPTION.format(option=option, value=value, choices=tuple(choices)))


def _list_of(error: JujuError) -> str:
    offenders = getattr(error, "offenders", ())
    return "; ".join(f"{o.primitive} at {o.where}: {o.why}" for o in offenders) or str(error)


__all__ = ["Compiled", "Fused", "fuse"]
