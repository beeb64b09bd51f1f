"""The `linked` engine: kernels compiled into a MAX graph, for `juju.Primitive`, `make_max_graph` and `export`.

Compiling a MAX graph takes about 13 seconds however small it is, so the `max` engine is the default. This one is for
plans that hold operations of MAX itself, and for models that live without juju.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from max.driver import CPU, Buffer
from max.dtype import DType
from max.engine import Model
from max.graph import DeviceRef, Graph, KernelLibrary, Module, TensorType, TensorValue, ops

from juju._jaxcompat import adopt, finisher
from juju.build import Progress
from juju.build.progress import report
from juju.engines import graphs, packages
from juju.engines.max import DELETED, check_devices
from juju.engines.trampoline import check_fork
from juju.errors import DeletedArrayError, InternalError, KernelStatusError
from juju.mojo import linked as package_text
from juju.plan import Buffer as PlanBuffer
from juju.plan import CustomCall, Launch, Plan

KERNEL_FAILED = "kernel {kernel} of {name} returned status {status}"
UNWRITTEN = "{name} reads buffer {index}, which no step writes"

SERIAL_NANOSECONDS = 100_000
"""A launch that takes one core less than this runs on one thread: the others need 10 to 200 us to begin."""

GRAIN_NANOSECONDS = 25_000
"""The least work of one chunk of a launch that is split."""

SHOWN_ELEMENTS = 64
"""Captured constants of up to so many elements are constants of a printed graph; others are inputs."""

_FORMAT = 1
"""Raised when the same plan gives another graph; part of every key."""

_BORROWED = ("operand", "constant")
_STATUS = re.compile(r"juju-status (-?\d+) in (\w+)")
_PATHS = re.compile(r"_kernel_library_paths = \[[^\]]*\],? ?")


class MaxGraph:
    """A thin MAX graph: one `mo.custom` for each kernel launch, and the operations of each `juju.Primitive`.

    `graph` is the `max.graph.Graph`. Its inputs are the operands, and then the arrays in `constants`: those captured
    constants that are too large to stand in a graph.
    """

    def __init__(self, graph: Graph, constants: Sequence[Any] = ()) -> None:
        self.graph = graph
        self.constants = tuple(constants)

    def __str__(self) -> str:
        # Where the compiled packages are says nothing about the graph, and differs between machines.
        return _PATHS.sub("", str(self.graph), count=1)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Request:
    """A plan to compile; the other fields are as those of `juju.engines.max.load`.

    Constants are part of the graph with `embed`, and inputs of it otherwise: MAX evaluates what depends on constants
    only while it compiles, and takes twice as long.
    """

    plan: Plan
    constants: Sequence[Any]
    out_avals: Sequence[Any] = ()
    donated: Sequence[int] = ()
    names: Sequence[str] = ()
    embed: bool = False

    @property
    def limit(self) -> float:
        """How many elements a constant of the graph may have; larger ones are inputs."""
        return math.inf if self.embed else -1


class Executable:
    """A compiled graph. Called with the flat operands as jax arrays, it returns jax arrays as `jax.jit` would."""

    def __init__(self, request: Request, model: Model, *, cache_hit: bool) -> None:
        self.plan = request.plan
        self.cache_hit = cache_hit
        self._model = model
        self._constants = request.constants
        captured = [(request.constants[b.index], b.dtype) for b in _of_kind(request.plan, "constant").values()]
        captured += [(x, str(x.dtype)) for x in _scalars(request.plan)]
        self._inputs = [_to_max(x, dtype) for x, dtype in captured]
        self._operands = [(b.index, b.dtype) for b in _of_kind(request.plan, "operand").values()]
        self._avals = tuple(request.out_avals)
        self._donated = tuple(request.donated)
        self._names = tuple(request.names)
        results, places = request.plan.results, request.plan.buffers
        self._shared = [n for n, i in enumerate(results) if places[i].kind in _BORROWED or i in results[:n]]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Raises `KernelStatusError`, `DeletedArrayError`, `DeviceError`, `ForkError`."""
        buffers, device, committed = self._run(leaves)
        results = []
        for aval, buffer in zip(self._avals, buffers, strict=True):
            if 0 in aval.shape:  # MAX gives such a buffer no address
                empty = jax.numpy.zeros(aval.shape, aval.dtype)
                results.append(jax.device_put(empty, device) if committed else empty)
            else:
                results.append(finisher(aval, device, committed)(adopt(buffer.__dlpack__(), device, None)))
        for index in self._donated:
            if isinstance(leaves[index], jax.Array):
                leaves[index].delete()
        return results

    def buffers(self, leaves: Sequence[Any]) -> list[Buffer]:
        """As a call, with MAX buffers as results. Each has memory of its own."""
        return self._run(leaves)[0]

    def _run(self, leaves: Sequence[Any]) -> tuple[list[Buffer], Any, bool]:
        """The results, and the device they belong on, committed or not."""
        check_fork()
        for leaf in leaves:
            if isinstance(leaf, jax.Array) and leaf.is_deleted():
                raise DeletedArrayError(DELETED.format(aval=leaf.aval.str_short()))
        device, committed = check_devices(leaves, self._names, self.plan.name)
        buffers = self.execute([_to_max(leaves[n], dtype) for n, dtype in self._operands])
        for n in self._shared:
            buffers[n] = buffers[n].copy()
        return buffers, device, committed

    def execute(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The results for operands that are MAX buffers; one that is an operand or a constant shares its memory."""
        try:
            return self._model.execute(*buffers, *self._inputs)
        except ValueError as error:
            found = _STATUS.search(str(error))
            if found is None:
                raise
            status, kernel = found.groups()
            raise KernelStatusError(KERNEL_FAILED.format(kernel=kernel, name=self.plan.name, status=status)) from error


def build_graph(plan: Plan, constants: Sequence[Any] = (), *, progress: Progress | None = None) -> MaxGraph:
    """The thin graph of a plan, to look at. The kernels' package is compiled if it is new, the graph is not.

    Raises `KernelCompileError`, `PrimitiveError`, `ToolchainError`.
    """
    captured = _of_kind(plan, "constant")
    extensions = _extensions([plan], progress)
    with graphs.building():
        graph = _build(plan, constants, SHOWN_ELEMENTS, plan.name, Module(), graphs.library(extensions))
    return MaxGraph(graph, [constants[b.index] for b in captured.values() if not _fits(b.shape, SHOWN_ELEMENTS)])


def load_all(requests: Sequence[Request], *, progress: Progress | None = None) -> list[Executable | Exception]:
    """An executable for each request; graphs that are new are compiled together. One that fails has its exception."""
    outcome: dict[int, Executable | Exception] = {}
    keys: dict[int, str] = {}
    places: dict[str, graphs.Place] = {}
    missing: dict[str, Request] = {}
    for n, request in enumerate(requests):
        try:
            keys[n] = _key(request, progress)
            place = graphs.find(keys[n])
        except Exception as error:
            outcome[n] = error
            continue
        if place is None:
            missing[keys[n]] = request
        else:
            places[keys[n]] = place
            report(progress, "graph", request.plan.name, "hit")
    compiled, failed = _compile(missing, progress)
    places.update(compiled)
    for n, key in keys.items():
        if n not in outcome:
            model = failed.get(key) or graphs.load(places[key])
            hit = key not in missing
            outcome[n] = model if isinstance(model, Exception) else Executable(requests[n], model, cache_hit=hit)
    return [outcome[n] for n in range(len(requests))]


def export(plan: Plan, constants: Sequence[Any], path: Path, *, progress: Progress | None = None) -> Path:
    """Writes a self-contained `.mef`: its inputs are the operands, kernels and captured constants are inside.

    Raises as `build_graph`, and `OSError` if `path` cannot be written.
    """
    request = Request(plan, constants, embed=True)  # with a key of its own, so that it is alone in its file
    key = _key(request, progress)
    place = graphs.find(key)
    if place is None:
        draft = _draft(request, _extensions([plan], progress))
        place = graphs.compile_drafts({key: draft}, progress)[key]
    path.write_bytes(place.path.read_bytes())
    return path


def _compile(
    missing: dict[str, Request], progress: Progress | None
) -> tuple[dict[str, graphs.Place], dict[str, Exception]]:
    """Compiles all in one module; if that fails, each alone, to know which of them fail."""
    if not missing:
        return {}, {}
    try:
        extensions = _extensions([request.plan for request in missing.values()], progress)
        drafts = {key: _draft(request, extensions) for key, request in missing.items()}
        return graphs.compile_drafts(drafts, progress), {}
    except Exception as error:
        if len(missing) == 1:
            return {}, dict.fromkeys(missing, error)
    places: dict[str, graphs.Place] = {}
    failed: dict[str, Exception] = {}
    for key, request in missing.items():
        compiled, errors = _compile({key: request}, progress)
        places.update(compiled)
        failed.update(errors)
    return places, failed


def _draft(request: Request, extensions: tuple[Path, ...]) -> graphs.Draft:
    plan = request.plan

    def build(name: str, module: Module) -> Graph:
        return _build(plan, request.constants, request.limit, name, module, graphs.library(extensions))

    return graphs.Draft(plan.name, build, extensions)


def _key(request: Request, progress: Progress | None) -> str:
    """A digest of everything that decides the compiled graph."""
    plan = request.plan
    kernels = [f"{op.name} {op.kernel.key}" for op in package_text.ops_of([plan]).values()]
    parts: list[Any] = [_FORMAT, kernels, package_text.template_text(), request.embed]
    if request.embed:
        parts += [_content(request.constants[b.index]) for b in _of_kind(plan, "constant").values()]
    if plan.storable:
        symbols = [kernel.symbol for kernel in plan.kernels]
        parts.append([[b.kind, b.index, b.shape, b.dtype] for b in plan.buffers])
        parts.append([[symbols[s.kernel], s.buffers, s.sizes, s.extent, _grain(s)] for s in plan.launches])
        parts.append([plan.results, plan.result_shapes])
    else:  # only the graph says what the primitives do
        with graphs.building():
            graph = _build(plan, request.constants, request.limit, "key", Module(), graphs.Unchecked())
        parts.append(_PATHS.sub("", str(graph), count=1))
        parts.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in packages.of_primitives(plan, progress)])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _content(array: Any) -> str:
    return hashlib.sha256(jax.numpy.asarray(array).tobytes()).hexdigest()


def _grain(launch: Launch) -> int:
    """The least number of points that is worth a task; all of them if the launch is not worth several threads."""
    if launch.extent * launch.cost < SERIAL_NANOSECONDS:
        return max(1, launch.extent)
    return math.ceil(GRAIN_NANOSECONDS / launch.cost)


def _extensions(plans: Sequence[Plan], progress: Progress | None) -> tuple[Path, ...]:
    """All compiled packages that graphs of `plans` need."""
    found: dict[Path, None] = {}
    kernels = package_text.ops_of(plans)
    if kernels:
        files = package_text.render(kernels)
        name = f"juju_linked_{hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]}"
        imports = {name for op in kernels.values() for name in op.kernel.imports}
        found.update(dict.fromkeys(packages.generated(name, files, imports, progress)))
    for plan in plans:
        found.update(dict.fromkeys(packages.of_primitives(plan, progress)))
    return tuple(found)


def _build(
    plan: Plan, constants: Sequence[Any], limit: float, name: str, module: Module, library: KernelLibrary
) -> Graph:
    """Adds the graph of `plan` to `module`; constants of up to `limit` elements are part of it, others are inputs."""
    captured = _of_kind(plan, "constant")
    inputs = {**_of_kind(plan, "operand"), **{n: b for n, b in captured.items() if not _fits(b.shape, limit)}}
    types = [_type(b) for b in inputs.values()]
    scalars = [] if _fits((), limit) else _scalars(plan)
    types += [TensorType(DType[str(x.dtype)], [], device=DeviceRef.CPU()) for x in scalars]
    with Graph(name, input_types=types, kernel_library=library, module=module) as graph:
        given = [value.tensor for value in graph.inputs]
        values = dict(zip(inputs, given, strict=False))
        for n, b in captured.items():
            if n not in inputs:
                values[n] = ops.constant(_to_max(constants[b.index], b.dtype))
        builder = _Builder(plan, values, given[len(inputs) :])
        for step in plan.steps:
            builder.launch(step) if isinstance(step, Launch) else builder.call(step)
        shapes = plan.result_shapes or [plan.buffers[i].shape for i in plan.results]
        graph.output(*[builder.read(i, shape) for i, shape in zip(plan.results, shapes, strict=True)])
    return graph


class _Builder:
    """Turns steps into graph operations.

    `values` is what is in each buffer so far, `scalars` the inputs that stand for `_scalars`, if there are any.
    """

    def __init__(self, plan: Plan, values: dict[int, TensorValue], scalars: Sequence[TensorValue]) -> None:
        self.plan = plan
        self.values = values
        self.scalars = iter(scalars)
        self.ops = package_text.ops_of([plan])

    def read(self, index: int, shape: Sequence[int] | None = None) -> TensorValue:
        """What is in a buffer, in another shape if one is given."""
        if index not in self.values:
            buffer = self.plan.buffers[index]
            if 0 not in buffer.shape:
                raise InternalError(UNWRITTEN.format(name=self.plan.name, index=index))
            # There is nothing to write in it, so no step does.
            self.values[index] = ops.constant(Buffer(DType[buffer.dtype], buffer.shape, device=CPU()))
        value = self.values[index]
        if shape is None or [int(n) for n in value.shape] == list(shape):
            return value
        return ops.reshape(value, list(shape))

    def scalar(self, value: np.generic) -> TensorValue:
        given = next(self.scalars, None)
        return ops.constant(_to_max(value, str(value.dtype))) if given is None else given

    def launch(self, step: Launch) -> None:
        op = self.ops[self.plan.kernels[step.kernel].symbol]
        parameters = {"extent": step.extent, "grain": _grain(step), **dict(zip(op.sizes, step.sizes, strict=True))}
        outputs = [step.buffers[n] for n in op.writes]
        results = ops.custom(
            op.name,
            DeviceRef.CPU(),
            [self.read(step.buffers[n]) for n in op.reads],
            [_type(self.plan.buffers[i]) for i in outputs],
            parameters=parameters,
        )
        self.values.update(zip(outputs, (result.tensor for result in results), strict=True))

    def call(self, step: CustomCall) -> None:
        operands = [
            self.scalar(x) if isinstance(x, np.generic) else self.read(x, shape)
            for x, shape in zip(step.operands, step.operand_shapes, strict=True)
        ]
        want = [jax.ShapeDtypeStruct(b.shape, b.dtype) for b in (self.plan.buffers[i] for i in step.results)]
        results = step.primitive.lower(operands, step.params, want)
        self.values.update(zip(step.results, results, strict=True))


def _of_kind(plan: Plan, kind: str) -> dict[int, PlanBuffer]:
    """The operands or constants of a plan by their place in `buffers`, in the order of `index`."""
    found = [(n, b) for n, b in enumerate(plan.buffers) if b.kind == kind]
    return dict(sorted(found, key=lambda item: item[1].index))


def _scalars(plan: Plan) -> list[np.generic]:
    """The constants of rank 0 that custom calls read, in order."""
    calls = [step for step in plan.steps if isinstance(step, CustomCall)]
    return [x for call in calls for x in call.operands if isinstance(x, np.generic)]


def _fits(shape: Sequence[int], limit: float) -> bool:
    return math.prod(shape) <= limit


def _type(buffer: PlanBuffer) -> TensorType:
    return TensorType(DType[buffer.dtype], list(buffer.shape), device=DeviceRef.CPU())


def _to_max(x: Any, dtype: str) -> Buffer:
    """A jax array as it is, anything else as an array of `dtype`; no copy where MAX can do without."""
    if isinstance(x, jax.Array):
        return Buffer.from_dlpack(x)
    array = np.require(np.asarray(x), np.dtype(dtype), "C")
    if dtype == "bfloat16":  # NumPy's DLPack does not know it
        return Buffer.from_numpy(array.view(np.uint16)).view(DType.bfloat16, array.shape)
    return Buffer.from_numpy(array)
