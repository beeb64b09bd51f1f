"""The `max` engine: runs plans of compiled kernels on CPU, with jax arrays in and out and no copy at either border.

A plan becomes a program of the trampoline. Little work runs on the calling thread, more of it with the help of a crew
of threads, and very much in a MAX graph, on MAX's threads. Results lie in recycled memory of the result pool.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.backend import backends

from juju._jaxcompat import Device, finisher, holder, pointer
from juju._machine import cores, stream_bytes
from juju.build import Built, Progress
from juju.engines.pool import Block, default_pool
from juju.engines.trampoline import (
    HEADER_BYTES,
    Call,
    Dispatch,
    Program,
    check_fork,
    process,
    start_builds,
    trampoline,
)
from juju.errors import DeletedArrayError, DeviceError, KernelStatusError
from juju.plan import Plan

CREW_NANOSECONDS = 100_000
"""A launch that takes one core less than this runs on the calling thread: another one needs 5 to 50 us to begin."""

GRAPH_NANOSECONDS = 4_000_000
"""A launch that takes one core longer than this runs in the MAX graph; its threads need 10 to 900 us to begin."""

GRAIN_NANOSECONDS = 25_000
"""The least work of one task of a launch that is split."""

CHUNK = 64
"""Launches are split at multiples of this many points."""

COPY_LINE = 64
COPY_NANOSECONDS = 4.0
"""Bytes of one point of a copy, and the time it takes."""

_CALL: Any = operator.call
_COMMITTED = operator.attrgetter("committed")

STATUS = "kernel {kernel} of {function} returned status {status}"
DELETED = "Array has been deleted with shape={aval}."
INCOMPATIBLE = "Received incompatible devices for jitted computation. Got {first} and {second}"
ON_DEVICE = "argument {name} of {function} with shape {aval} and with device ids [{id}] on platform {platform}"
NOT_CPU = (
    "juju runs on CPU, and argument {name} of {function} is on {device}. Move it there with "
    "jax.device_put(x, jax.devices('cpu')[0]), or call the function through jax.jit."
)
SHARDED = (
    "argument {name} of {function} is spread over {count} devices; juju runs on one. Call the function inside "
    "jax.shard_map, or through jax.jit."
)
# These three are JAX's own words.
USED_AFTER_DONATION = (
    "INVALID_ARGUMENT: Attempt to use a buffer that was previously donated in the same call to Execute() (flattened "
    "argument {index}, replica 0, partition 0, first use: {first}). Toy example for this bug: `f(donate(a), a)`."
)
DONATED_AFTER_USE = (
    "INVALID_ARGUMENT: Attempt to donate a buffer which is also used by the same call to Execute() (flattened argument "
    "{index}, replica 0, partition 0, first use: {first}). Toy example for this bug: `f(a, donate(a))`."
)
DONATED_TWICE = (
    "INVALID_ARGUMENT: Attempt to donate the same buffer twice in Execute() (flattened argument {index}, replica 0, "
    "partition 0, first use: {first}). Toy example for this bug: `f(donate(a), donate(a))`."
)


def prepare(progress: Progress | None = None, plans: Sequence[Plan] = ()) -> None:
    """Starts to compile what this machine lacks to run `plans`, while their kernels are compiled; returns at once."""
    start_builds(progress, graph=any(longest(plan) >= GRAPH_NANOSECONDS for plan in plans))


def load(
    plan: Plan,
    built: Sequence[Built],
    constants: Sequence[Any],
    out_avals: Sequence[Any],
    *,
    donated: Sequence[int] = (),
    names: Sequence[str] = (),
    progress: Progress | None = None,
) -> Executable:
    """Makes a plan callable.

        run = load(plan, build_kernels(plan.kernels), constants, out_avals)
        results = run(leaves)

    `built` are the compiled `plan.kernels`, `donated` the operands whose memory the caller gives up, `names` the
    operands' names for messages. Raises `ForkError`, and `ToolchainError` and `StoreError` where something must be
    compiled and cannot be.
    """
    return Executable(plan, built, constants, out_avals, donated, names, progress)


class Executable:
    """A plan ready to run, from any number of threads at a time.

    Takes operands in order (jax arrays, numpy arrays, Python scalars) and returns jax arrays with the device,
    commitment and weak type `jax.jit` would give them. Raises `DeletedArrayError`, `DeviceError`, `KernelStatusError`,
    `ForkError`, and `jax.errors.JaxRuntimeError` for an array that is donated and used.
    """

    def __init__(
        self,
        plan: Plan,
        built: Sequence[Built],
        constants: Sequence[Any],
        out_avals: Sequence[Any],
        donated: Sequence[int],
        names: Sequence[str],
        progress: Progress | None,
    ) -> None:
        self._plan = plan
        self._trampoline = trampoline(progress)
        self._pool = default_pool()
        self._avals = tuple(out_avals)
        self._donated = tuple(donated)
        self._names = tuple(names)
        self._dtypes = [np.dtype(buffer.dtype) for buffer in plan.buffers if buffer.kind == "operand"]
        self._holders = [holder(dtype) for dtype in self._dtypes]
        # The constants as numpy sees them: their memory stays even if somebody deletes the arrays.
        self._constants = [np.require(np.asarray(constant), requirements="C") for constant in constants]
        self._device = only_device()
        self._makers: dict[tuple[Device, bool], list[Callable[[Block], jax.Array]]] = {}

        places, scratch = self._places()
        self._layouts = [self._pool.layout(aval.shape, aval.dtype) for aval in self._avals]
        self._layouts += [self._pool.layout((max(1, nbytes),), np.uint8) for nbytes in scratch]
        self._variable = len(self._dtypes) + len(self._layouts)
        self._calls, self._call_names = self._program_calls(places, [unit.address() for unit in built])
        self._programs: list[Program] = []
        self._dispatch = dispatch_of(plan)
        if self._dispatch == "graph":
            self._trampoline.open_graph(progress)
        self.run = self._runner()
        """The same as calling the executable, without a Python frame in between."""

    def __call__(self, leaves: Sequence[Any]) -> list[jax.Array]:
        return self.run(leaves)

    def _runner(self) -> Callable[[Sequence[Any]], list[jax.Array]]:
        """The way of a call, with everything that stays the same in local names: most calls take microseconds."""
        take, layouts = self._pool.take, self._layouts
        launch = self._trampoline.serial if self._dispatch == "serial" else self._trampoline.crewed
        in_graph = self._run_in_graph if self._dispatch == "graph" else None
        holders = self._holders
        hold = holders[0] if len(set(holders)) == 1 else None
        programs, donated, device = self._programs, self._donated, self._device
        results, has_scratch = len(self._avals), len(layouts) > len(self._avals)
        makers = [self._makers_for(device, committed) for committed in (False, True)] if device else []

        def run(leaves: Sequence[Any]) -> list[jax.Array]:
            if process.forked:
                check_fork()
            try:
                # From here on the memory of the operands stays, whatever other threads do to the arrays.
                holds = list(map(hold, leaves)) if hold is not None else list(map(_CALL, holders, leaves))
                addresses = list(map(pointer, leaves))
                make = makers[True in map(_COMMITTED, leaves)] if device is not None else self._place(leaves)
            except Exception:
                holds, addresses, make = self._admit(leaves)
            if donated:
                self._check_donation(leaves, addresses)
            blocks = list(map(take, layouts))
            for block in blocks:
                addresses.append(block.address)
            try:
                program = programs.pop()
            except IndexError:
                program = self._new_program()
            program.pack(program.memory, HEADER_BYTES, *addresses)
            try:
                failed = launch(program.address) if in_graph is None else in_graph(program)
                if failed:
                    self._raise_status(program)
            except BaseException:
                for block in blocks:
                    self._pool.drop(block)
                raise
            programs.append(program)
            del holds
            arrays = list(map(_CALL, make, blocks))
            if has_scratch:
                for block in blocks[results:]:
                    self._pool.drop(block)
            for index in donated:
                if isinstance(leaves[index], jax.Array):
                    leaves[index].delete()
            return arrays

        return run

    def _run_in_graph(self, program: Program) -> int:
        if not self._trampoline.ready():  # MAX is still being loaded
            return self._trampoline.crewed(program.address)
        self._trampoline.parallel(program.inputs)
        return program.memory[1]

    def _new_program(self) -> Program:
        return Program(self._calls, self._variable, [constant.ctypes.data for constant in self._constants])

    def _place(self, leaves: Sequence[Any]) -> list[Callable[[Block], jax.Array]]:
        device, committed = self._device, any(isinstance(x, jax.Array) and x.committed for x in leaves)
        if device is None:
            device, committed = check_devices(leaves, self._names, self._plan.name)
        return self._makers_for(device, committed)

    def _makers_for(self, device: Device, committed: bool) -> list[Callable[[Block], jax.Array]]:
        """For every result, what makes of its block the array that `jax.jit` would return."""
        found = self._makers.get((device, committed))
        if found is None:
            found = [self._pool.giver(device, finisher(_plain(aval), device, committed)) for aval in self._avals]
            self._makers[device, committed] = found
        return found

    def _places(self) -> tuple[list[int], list[int]]:
        """For every buffer its place among the addresses, and the sizes of the scratch buffers.

        The order is: operands, results as the caller sees them, scratch, constants.
        """
        buffers, operands = self._plan.buffers, len(self._dtypes)
        places = [-1] * len(buffers)
        for position, index in enumerate(self._plan.results):
            if buffers[index].kind == "result" and places[index] < 0:
                places[index] = operands + position
        scratch: list[int] = []
        for index, buffer in enumerate(buffers):
            if buffer.kind == "operand":
                places[index] = buffer.index
            elif places[index] < 0 and buffer.kind != "constant":
                places[index] = operands + len(self._avals) + len(scratch)
                scratch.append(math.prod(buffer.shape) * np.dtype(buffer.dtype).itemsize)
        for index, buffer in enumerate(buffers):
            if buffer.kind == "constant":
                places[index] = operands + len(self._avals) + len(scratch) + buffer.index
        return places, scratch

    def _program_calls(self, places: list[int], addresses: Sequence[int]) -> tuple[list[Call], list[str]]:
        """The launches, and copies for results that are operands, constants or other results: JAX never aliases."""
        calls, names = [], []
        for step in self._plan.launches:
            grain = points(step.cost)
            arrays = tuple(places[index] for index in step.buffers)
            calls.append(Call(addresses[step.kernel], step.extent, grain, arrays, step.sizes))
            names.append(step.name or self._plan.kernels[step.kernel].name)
        for position, index in enumerate(self._plan.results):
            own, nbytes = len(self._dtypes) + position, self._layouts[position].nbytes
            if places[index] != own and nbytes:
                lines = -(-nbytes // COPY_LINE)
                stream = int(2 * nbytes >= stream_bytes())
                arrays = (places[index], own)
                calls.append(Call(self._trampoline.copy, lines, points(COPY_NANOSECONDS), arrays, (nbytes, stream)))
                names.append("copy")
        return calls, names

    def _admit(self, leaves: Sequence[Any]) -> tuple[list[Any], list[int], list[Callable[[Block], jax.Array]]]:
        """Operands that are not all jax arrays, or not all usable: numpy arrays are read where they are."""
        for leaf in leaves:
            if isinstance(leaf, jax.Array) and leaf.is_deleted():
                raise DeletedArrayError(DELETED.format(aval=leaf.aval.str_short()))
        make = self._place(leaves)
        holds, addresses = [], []
        for leaf, dtype, hold in zip(leaves, self._dtypes, self._holders, strict=True):
            if isinstance(leaf, jax.Array):
                holds.append(hold(leaf))
                addresses.append(leaf.unsafe_buffer_pointer())
            else:
                array = np.require(np.asarray(leaf, None if hasattr(leaf, "dtype") else dtype), dtype, "C")
                holds.append(array)
                addresses.append(array.ctypes.data)
        return holds, addresses, make

    def _check_donation(self, leaves: Sequence[Any], addresses: Sequence[int]) -> None:
        """Raises as JAX does if a donated array is donated or used a second time in the same call."""
        first: dict[int, int] = {}
        for index, (leaf, address) in enumerate(zip(leaves, addresses, strict=True)):
            if not isinstance(leaf, jax.Array):
                continue
            key = address if leaf.size else id(leaf)
            earlier = first.setdefault(key, index)
            if earlier == index:
                continue
            again, before = index in self._donated, earlier in self._donated
            if again or before:
                text = DONATED_TWICE if again and before else DONATED_AFTER_USE if again else USED_AFTER_DONATION
                raise jax.errors.JaxRuntimeError(text.format(index=index, first=earlier))

    def _raise_status(self, program: Program) -> NoReturn:
        status, launch = program.memory[1], program.memory[2]
        raise KernelStatusError(STATUS.format(kernel=self._call_names[launch], function=self._plan.name, status=status))


def check_devices(leaves: Sequence[Any], names: Sequence[str] = (), function: str = "f") -> tuple[Device, bool]:
    """The device results belong on, and whether they are committed to it, by JAX's rules.

    Results follow the committed arguments; if there are none they go to the default device, uncommitted. Raises
    `DeviceError` if two arguments are committed to different devices, or one is not on one CPU device.
    """
    found: list[tuple[int, Any, Device]] = []
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, jax.Array):
            continue
        devices = leaf.devices()
        name = names[index] if index < len(names) else f"args[{index}]"
        if len(devices) > 1:
            raise DeviceError(SHARDED.format(name=name, function=function, count=len(devices)))
        (device,) = devices
        if device.platform != "cpu":
            raise DeviceError(NOT_CPU.format(name=name, function=function, device=device))
        if leaf.committed:
            where = ON_DEVICE.format(
                name=name,
                function=function,
                aval=leaf.aval.str_short(),
                id=device.id,
                platform=device.platform.upper(),
            )
            found.append((index, where, device))
    for _, where, device in found:
        if device != found[0][2]:
            raise DeviceError(INCOMPATIBLE.format(first=found[0][1], second=where))
    return (found[0][2], True) if found else (_default_device(), False)


def only_device() -> Device | None:
    """The CPU device, if this process has no other device; arguments then need no check."""
    devices = jax.local_devices()
    alone = len(backends()) == 1 and len(devices) == 1 and devices[0].platform == "cpu"
    return devices[0] if alone else None


def longest(plan: Plan) -> float:
    """The nanoseconds that the longest launch of the plan, or a copy it implies, takes on one core."""
    times = [step.extent * step.cost for step in plan.launches]
    seen: set[int] = set()
    for index in plan.results:
        buffer = plan.buffers[index]
        if buffer.kind != "result" or index in seen:
            nbytes = math.prod(buffer.shape) * np.dtype(buffer.dtype).itemsize
            times.append(nbytes / COPY_LINE * COPY_NANOSECONDS)
        seen.add(index)
    return max(times, default=0.0)


def dispatch_of(plan: Plan) -> Dispatch:
    """How a plan is run: as `JUJU_DISPATCH` says, or by what its longest launch takes."""
    chosen = trampoline().dispatch
    if chosen != "auto":
        return chosen
    nanoseconds = longest(plan)
    if cores() < 2 or nanoseconds < CREW_NANOSECONDS:
        return "serial"
    return "crew" if nanoseconds < GRAPH_NANOSECONDS else "graph"


def points(cost: float) -> int:
    """The least number of points of `cost` nanoseconds that is worth a task."""
    return max(1, math.ceil(GRAIN_NANOSECONDS / max(cost, 1e-3) / CHUNK)) * CHUNK


def _plain(aval: Any) -> Any:
    return ShapedArray(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _default_device() -> Device:
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if chosen is not None and not isinstance(chosen, str) and chosen.platform == "cpu":
        return chosen
    return jax.local_devices(backend="cpu")[0]
