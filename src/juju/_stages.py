"""`Lowered` and `Compiled`: a function on its way to a kernel, after `jax.stages`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import jax

from juju._lower import lower, make_plan, plan_digest
from juju._trace import Traced
from juju.engines import max as max_engine
from juju.engines.trampoline import stop_builds
from juju.errors import ArgumentError
from juju.plan import Kernel, Plan

if TYPE_CHECKING:
    from juju.build import BuildEvent
    from juju.debug.explain import Explanation
    from juju.debug.limits import Limits

Progress = Callable[["BuildEvent"], None]

STAGES = ("jaxpr", "mlir", "mojo", "graph", "llvm", "asm")
"""What `as_text` shows, in the order a function goes through them."""

UNKNOWN_STAGE = "there is no stage '{stage}'; choose one of {stages}"
WRONG_TREE = "{name} was compiled for arguments {want}, and is called with {got}. Call the decorated function instead."
WRONG_AVAL = (
    "{name} was compiled for {want} as argument {argument}, and is called with {got}. Call the decorated function "
    "instead: it compiles for every type it meets."
)
NOT_LOWERED = "juju.compile_all takes what f.lower(...) returns, not {type}"
NO_KERNELS = "{name} needs no kernel: its results are its arguments, captured constants, or empty.\n"


class Lowered:
    """A function lowered for certain argument types; nothing is compiled yet.

    >>> import jax, juju
    >>> low = juju.fuse(lambda x: x * 2 + 1).lower(jax.ShapeDtypeStruct((8,), "float32"))
    >>> len(low.kernels)
    1
    """

    def __init__(self, traced: Traced, *, engine: str = "max") -> None:
        self._traced = traced
        self._engine = engine
        self._plan: Plan | None = None
        self._mlir: str | None = None

    @property
    def plan(self) -> Plan:
        """Buffers, kernels and launches. Raises `UnsupportedPrimitive`."""
        if self._plan is None:
            lowering = lower(self._traced)
            self._plan = make_plan(self._traced, lowering)
            from juju.dialect import print_text

            self._mlir = print_text(lowering.module)
        return self._plan

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The Mojo kernels, each with `name`, `text` and `symbol`; as many as there are launches of distinct code."""
        return self.plan.kernels

    @property
    def in_avals(self) -> tuple[Any, ...]:
        """Types of the flat arguments."""
        return self._traced.in_avals

    @property
    def out_avals(self) -> tuple[Any, ...]:
        """Types of the flat results."""
        return self._traced.out_avals

    @property
    def in_tree(self) -> Any:
        return self._traced.in_tree

    @property
    def out_tree(self) -> Any:
        return self._traced.out_tree

    def as_text(self, stage: str = "mojo") -> str:
        """One stage as text: `jaxpr`, `mlir` (the juju dialect after all passes), `mojo`, `graph` (the MAX graph).

        `mojo` is what the Mojo compiler gets. Raises `ValueError` for another stage.
        """
        if stage == "jaxpr":
            return str(self._traced.jaxpr) + "\n"
        if stage == "mlir":
            _ = self.plan
            assert self._mlir is not None
            return self._mlir
        if stage == "mojo":
            if not self.kernels:
                return f"# {NO_KERNELS.format(name=self._traced.name)}"
            return "\n\n".join(kernel.text.rstrip("\n") + "\n" for kernel in self.kernels)
        if stage == "graph":
            from juju.engines.linked import build_graph

            return str(build_graph(self.plan, self._constants())).rstrip("\n") + "\n"
        if stage in ("llvm", "asm"):
            from juju.build import emit

            return "\n".join(emit(kernel, stage) for kernel in self.kernels)
        raise ValueError(UNKNOWN_STAGE.format(stage=stage, stages=", ".join(STAGES)))

    def explain(self, limits: Limits | None = None) -> Explanation:
        """What became one kernel, from which lines, why its borders are where they are, and what bounds its time.

        `print(low.explain())` shows it. The limits are those of this machine, measured once, if none are given. Raises
        `UnsupportedPrimitive`, `StoreError`.
        """
        from juju.debug.explain import explain
        from juju.debug.limits import machine_limits

        return explain(self._traced, limits or machine_limits())

    def compile(self, progress: Progress | None = None) -> Compiled:
        """Builds what is not in the store yet, and loads it.

        Raises `KernelCompileError`, `ToolchainError`, `StoreError`, `UnsupportedPrimitive`.
        """
        return compile_all([self], progress=progress)[0]

    # For the store ---------------------------------------------------------------------------------------------------

    def _plan_to_run(self) -> Plan:
        """The plan, from the store where it was finished before; rules and passes then do not run."""
        if self._plan is not None:
            return self._plan
        from juju.build import default_store

        digest = plan_digest(self._traced)
        store = default_store()
        text = store.read_plan(digest) if digest is not None else None
        if text is not None:
            return Plan.from_json(text)
        plan = self.plan
        if digest is not None and plan.storable:
            store.write_plan(digest, plan.to_json())
        return plan

    def _constants(self) -> list[Any]:
        return [jax.numpy.asarray(x) for _, x in self._traced.program.constants]


class Compiled:
    """A compiled function: call it with arguments of the types it was compiled for.

    `compile_seconds` is the time spent in the toolchain, `cache_hit` says that there was none to spend.
    """

    def __init__(self, lowered: Lowered, plan: Plan, executable: Any, seconds: float, cache_hit: bool) -> None:
        self._lowered = lowered
        self._plan = plan
        self._executable = executable
        self.compile_seconds = seconds
        self.cache_hit = cache_hit

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self._plan.kernels

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def out_tree(self) -> Any:
        return self._lowered.out_tree

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs on arguments of the compiled types. Raises `ArgumentError` for others."""
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        traced = self._lowered._traced
        if tree != traced.in_tree:
            raise ArgumentError(WRONG_TREE.format(name=traced.name, want=traced.in_tree, got=tree))
        for leaf, aval, name in zip(leaves, traced.in_avals, traced.arg_names, strict=True):
            got = jax.typeof(leaf)
            if (got.shape, got.dtype) != (aval.shape, aval.dtype):
                raise ArgumentError(
                    WRONG_AVAL.format(name=traced.name, argument=name, want=aval.str_short(), got=got.str_short())
                )
        return self.call_flat(leaves)

    def call_flat(self, leaves: Sequence[Any]) -> Any:
        """Runs on flat arguments, without checks."""
        return jax.tree_util.tree_unflatten(self._lowered.out_tree, self._executable(leaves))

    def as_text(self, stage: str = "asm") -> str:
        """`llvm` or `asm` of the kernels, or any stage of `Lowered.as_text`."""
        return self._lowered.as_text(stage)

    def explain(self) -> Explanation:
        """As `Lowered.explain`."""
        return self._lowered.explain()

    def cost_analysis(self) -> dict[str, int]:
        """Bytes that every call moves between memory and the kernels, scalar operations, and the number of kernels.

        Operations are weighted: one for an addition, about a dozen for an exponential.
        """
        launches = self._plan.launches
        return {
            "bytes": sum(step.bytes for step in launches),
            "flops": sum(step.flops for step in launches),
            "kernels": len(launches),
        }

    def export(self, path: str | Path) -> Path:
        """Writes a self-contained MAX model (`.mef`) of the function; running it needs MAX, but neither juju nor Mojo.

        Compiles a MAX graph, about 15 seconds.
        """
        from juju.engines import linked

        return linked.export(self._lowered.plan, self._lowered._constants(), Path(path))


@overload
def compile_all(
    lowered: Sequence[Lowered], return_exceptions: Literal[False] = ..., progress: Progress | None = ...
) -> list[Compiled]: ...
@overload
def compile_all(
    lowered: Sequence[Lowered], return_exceptions: bool, progress: Progress | None = ...
) -> list[Compiled | Exception]: ...
def compile_all(
    lowered: Sequence[Lowered], return_exceptions: bool = False, progress: Progress | None = None
) -> list[Compiled] | list[Compiled | Exception]:
    """Compiles many functions in one run of the toolchain.

    Returns one `Compiled` each, in order; with `return_exceptions` a function that fails has its exception in its
    place, otherwise the first one is raised.
    """
    for low in lowered:
        if not isinstance(low, Lowered):
            raise TypeError(NOT_LOWERED.format(type=type(low).__name__))
    plans: list[Plan | Exception] = []
    for low in lowered:
        try:
            plans.append(low._plan_to_run())
        except Exception as error:
            if not return_exceptions:
                raise
            plans.append(error)
    start = time.perf_counter()
    runs_linked = [
        isinstance(p, Plan) and (low._engine == "linked" or not p.storable)
        for low, p in zip(lowered, plans, strict=True)
    ]
    direct = [p for p, linked in zip(plans, runs_linked, strict=True) if isinstance(p, Plan) and not linked]
    built, known = _build(direct, progress)
    executables = _load_linked(lowered, plans, runs_linked, progress) if any(runs_linked) else {}
    results: list[Compiled | Exception] = []
    for n, (low, plan) in enumerate(zip(lowered, plans, strict=True)):
        try:
            if isinstance(plan, Exception):
                raise plan
            if runs_linked[n]:
                executable = executables[n]
                if isinstance(executable, Exception):
                    raise executable
                hit = executable.cache_hit
            else:
                executable = _load(low, plan, built, progress)
                hit = all(k.key in known for k in plan.kernels)
            seconds = 0.0 if hit else time.perf_counter() - start
            results.append(Compiled(low, plan, executable, seconds, hit))
        except Exception as error:
            if not return_exceptions:
                raise
            results.append(error)
    return results


def _build(plans: Sequence[Plan], progress: Progress | None) -> tuple[dict[str, Any], set[str]]:
    """The kernels of some plans, compiled or the exception instead, by key; and the keys that were in the store."""
    from juju.build import build_kernels, default_store

    kernels = {kernel.key: kernel for plan in plans for kernel in plan.kernels}
    store = default_store()
    known = {key for key in kernels if store.find(key) is not None}
    if len(known) < len(kernels):
        max_engine.prepare(progress, plans)
    try:
        built = build_kernels(list(kernels.values()), progress=progress, return_exceptions=True)
    except KeyboardInterrupt:
        stop_builds()
        raise
    return dict(zip(kernels, built, strict=True)), known


def _load_linked(
    lowered: Sequence[Lowered],
    plans: Sequence[Plan | Exception],
    runs_linked: Sequence[bool],
    progress: Progress | None,
) -> dict[int, Any]:
    """Executables of the `linked` engine by position; all their graphs are compiled together."""
    from juju.engines import linked

    chosen = {n: plan for n, plan in enumerate(plans) if runs_linked[n] and isinstance(plan, Plan)}
    requests = []
    for n, plan in chosen.items():
        traced = lowered[n]._traced
        requests.append(
            linked.Request(plan, lowered[n]._constants(), traced.out_avals, traced.donated, traced.arg_names)
        )
    return dict(zip(chosen, linked.load_all(requests, progress=progress), strict=True))


def _load(low: Lowered, plan: Plan, built: dict[str, Any], progress: Progress | None) -> Any:
    traced = low._traced
    units = []
    for kernel in plan.kernels:
        unit = built[kernel.key]
        if isinstance(unit, Exception):
            raise unit
        units.append(unit)
    return max_engine.load(
        plan,
        units,
        low._constants(),
        traced.out_avals,
        donated=traced.donated,
        names=traced.arg_names,
        progress=progress,
    )
