"""From a traced function to a plan: rules, passes, text, buffers and launches."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from juju._machine import stream_bytes
from juju._resources import PACKAGE, resource_dir
from juju._trace import Traced
from juju.plan import ABI_VERSION, Buffer, CustomCall, Kernel, Launch, Plan

if TYPE_CHECKING:
    from juju.rules._registry import Custom


@cache
def compiler_digest() -> str:
    """A hash of everything that turns a program into text, so that stored plans of another juju are not used."""
    sources = [PACKAGE / name for name in ("_lower.py", "_program.py", "plan.py")]
    for folder in ("dialect", "rules", "passes", "mojo"):
        sources += sorted((PACKAGE / folder).glob("*.py"))
    sources += sorted(resource_dir("templates").glob("*.j2"))
    sources += sorted(resource_dir("kernels").glob("juju_*/**/*.mojo"))
    digest = hashlib.sha256(f"abi {ABI_VERSION}".encode())
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def plan_digest(traced: Traced) -> str | None:
    """The name of a function's plan in the store, or None if it must not be stored."""
    return traced.program.digest(f"{compiler_digest()} {traced.name}")


@dataclass
class Lowering:
    """A module on its way, with the text after each pass where that was asked for."""

    module: Any
    customs: tuple[Custom, ...]
    stages: dict[str, str] = field(default_factory=dict)


def lower(traced: Traced, *, keep_stages: bool = False) -> Lowering:
    """Rules and passes. Raises `UnsupportedPrimitive`."""
    from juju.dialect import print_text
    from juju.passes import run_pipeline
    from juju.rules import lower_program

    lowered = lower_program(traced.program)
    result = Lowering(lowered.module, lowered.customs)
    if keep_stages:
        result.stages["import"] = print_text(lowered.module)
    run_pipeline(
        lowered.module,
        after=(lambda name, module: result.stages.update({name: print_text(module)})) if keep_stages else None,
    )
    return result


def make_plan(traced: Traced, lowering: Lowering) -> Plan:
    """Buffers, kernels and launches of a module that has been through the passes."""
    return _PlanBuilder(traced, lowering).build()


class _PlanBuilder:
    def __init__(self, traced: Traced, lowering: Lowering) -> None:
        from xdsl.dialects.func import FuncOp

        self.traced = traced
        self.lowering = lowering
        function = next(op for op in lowering.module.ops if isinstance(op, FuncOp))
        self.name = function.sym_name.data
        self.block = function.body.block
        self.buffers: list[Buffer] = []
        self.of_value: dict[Any, int] = {}
        self.kernels: list[Kernel] = []
        self.steps: list[Launch | CustomCall] = []

    def build(self) -> Plan:
        from juju.dialect.library import LibraryOp
        from juju.dialect.ops import CustomOp, KernelOp
        from juju.passes.flatten import root_of

        operands = len(self.traced.program.operands)
        for n, arg in enumerate(self.block.args):
            kind, index = ("operand", n) if n < operands else ("constant", n - operands)
            self._buffer(arg, kind, index)
        last = self.block.last_op
        assert last is not None
        returned = list(last.operands)
        made = list(dict.fromkeys(root_of(v) for v in returned if root_of(v) not in self.of_value))
        for n, value in enumerate(made):
            self._buffer(value, "result", n)
        for op in self.block.ops:
            if isinstance(op, KernelOp):
                self._launch(op)
            elif isinstance(op, CustomOp):
                self._custom(op)
            elif isinstance(op, LibraryOp):
                self._library(op)
        results = tuple(self._view(v) for v in returned)
        return Plan(
            self.traced.name,
            tuple(self.kernels),
            tuple(self.buffers),
            tuple(self.steps),
            results,
            result_shapes=tuple(self._shape(v) for v in returned),
        )

    def _buffer(self, value: Any, kind: Any, index: int) -> int:
        from juju.dialect.types import DTYPES, element_of, shape_of

        self.of_value[value] = len(self.buffers)
        self.buffers.append(Buffer(kind, index, shape_of(value.type), DTYPES[element_of(value.type)]))
        return self.of_value[value]

    def _view(self, value: Any) -> int:
        """The buffer of a returned value; a reshaped operand or result is another view of the same memory."""
        from juju.passes.flatten import root_of

        return self.of_value[root_of(value)]

    def _lookup(self, value: Any) -> int:
        from juju.passes.flatten import root_of

        root = root_of(value)
        if root not in self.of_value:
            scratch = sum(b.kind == "scratch" for b in self.buffers)
            self._buffer(root, "scratch", scratch)
        return self.of_value[root]

    def _custom(self, op: Any) -> None:
        primitive, params, scalars = self.lowering.customs[op.index.value.data]
        tensors = iter(op.ins)
        ins = [next(tensors) if scalar is None else scalar for scalar in scalars]
        self.steps.append(
            CustomCall(
                primitive,
                params,
                operands=tuple(x if isinstance(x, np.generic) else self._lookup(x) for x in ins),
                results=tuple(self._lookup(v) for v in op.outs),
                operand_shapes=tuple(() if isinstance(x, np.generic) else self._shape(x) for x in ins),
            )
        )

    def _launch(self, op: Any) -> None:
        from juju.mojo.render import render_kernel

        outer = dict(zip(op.body.block.args, op.ins, strict=True))
        outer.update(zip([r for nest in op.nests() for r in nest.outs], op.outs, strict=True))
        nests = op.nests()
        if not any(math.prod(self._shape(r)) for nest in nests for r in nest.outs):
            return
        rendered = render_kernel(op, title=_title(self.traced, op))
        buffers: list[int] = []
        writes: list[int] = []
        for nest in nests:
            buffers += [self._lookup(outer[v]) for v in dict.fromkeys(nest.ins)]  # an array may be read in two ways
            writes += range(len(buffers), len(buffers) + len(nest.outs))
            buffers += [self._lookup(outer[r]) for r in nest.outs]
        sizes = [n for nest, words in zip(nests, rendered.words, strict=True) for n in (*(nest.space or (1,)), *words)]
        totals = [
            math.prod(n for d, n in enumerate(nest.space) if d not in nest.reduced) if points is None else points
            for nest, points in zip(nests, rendered.points, strict=True)
        ]
        extent = max(1, totals[0] if len(totals) == 1 else sum(-(-n // 64) * 64 for n in totals))
        loops = [math.prod(nest.space) if nest.space else 0 for nest in nests]
        moved = self._moved(nests, outer)
        if rendered.streams:
            sizes.append(int(moved >= stream_bytes()))
        self.steps.append(
            Launch(
                kernel=self._kernel(op.sym_name.data, rendered),
                buffers=tuple(buffers),
                sizes=tuple(sizes),
                extent=extent,
                cost=rendered.cost,
                bytes=moved,
                flops=int(sum(n * f for n, f in zip(loops, rendered.flops, strict=True))),
                name=op.sym_name.data,
                writes=tuple(writes),
                notes=_notes(nests),
            )
        )

    def _library(self, op: Any) -> None:
        from juju.dialect.types import element_of, item_size
        from juju.mojo.body import GRAIN
        from juju.mojo.library import render_call

        name = f"{self.name}_{op.function}"
        values = [*op.ins, *op.outs]
        buffers = tuple(self._lookup(v) for v in values)
        units = op.units.value.data
        self.steps.append(
            Launch(
                kernel=self._kernel(name, render_call(op, title=_call_title(self.traced, op))),
                buffers=buffers,
                sizes=tuple(op.sizes.get_values()),
                extent=units * GRAIN,
                cost=op.cost.value.data / GRAIN,
                bytes=sum(math.prod(self._shape(v)) * item_size(element_of(v.type)) for v in values),
                name=name,
                writes=tuple(range(len(op.ins), len(values))),
            )
        )

    def _moved(self, nests: list[Any], outer: dict[Any, Any]) -> int:
        """Bytes between memory and nests that read each array once, and no more of it than they have points."""
        from juju.dialect.body import ReadOp
        from juju.passes.flatten import root_of

        reach: dict[int, int] = {}
        for nest in nests:
            args = dict(zip(nest.body.block.args, nest.ins, strict=True))
            values = [args[op.array] for op in nest.body.block.ops if isinstance(op, ReadOp)]
            values += [v for v, amap in zip(nest.ins, nest.in_maps(), strict=True) if amap.results]
            counts = [(v, math.prod(nest.space)) for v in values] + [(r, math.prod(self._shape(r))) for r in nest.outs]
            for value, count in counts:
                buffer = self.of_value[root_of(outer[value])]
                reach[buffer] = reach.get(buffer, 0) + count
        arrays = [(self.buffers[n], count) for n, count in reach.items() if self.buffers[n].shape]
        return sum(min(count, math.prod(b.shape)) * np.dtype(b.dtype).itemsize for b, count in arrays)

    def _shape(self, value: Any) -> tuple[int, ...]:
        from juju.dialect.types import shape_of

        return shape_of(value.type)

    def _kernel(self, name: str, rendered: Any) -> int:
        from juju.build import kernel_key
        from juju.mojo.render import SYMBOL

        key = kernel_key(rendered.canonical, rendered.imports)
        for n, kernel in enumerate(self.kernels):
            if kernel.key == key:
                return n
        symbol = f"{name or 'kernel'}_{key[:16]}"
        text = rendered.text.replace(SYMBOL, symbol)
        self.kernels.append(Kernel(name, symbol, key, text, rendered.imports, rendered.lines))
        return len(self.kernels) - 1


def _notes(nests: list[Any]) -> tuple[str, ...]:
    """What the fusion has noted about the nests of a launch, each once."""
    found = {
        f"{kind}: {note.data}"
        for nest in nests
        for kind in ("waits", "again")
        for note in getattr(nest.attributes.get(kind), "data", ())
    }
    return tuple(sorted(found, reverse=True))


def _title(traced: Traced, op: Any) -> list[str]:
    """The comment on top of a kernel's text."""
    from juju.mojo.render import kernel_place

    nests = op.nests()
    reads = len({v for nest in nests for v in nest.ins})
    writes = sum(len(nest.outs) for nest in nests)
    return [
        _origin(traced, kernel_place(op)),
        f"{_count(reads, 'array')} in, {_count(writes, 'array')} out, {_count(len(nests), 'nest')}.",
    ]


def _call_title(traced: Traced, op: Any) -> list[str]:
    """The comment on top of a call of a hand-written kernel."""
    from juju.dialect._xdsl import location_of

    return [
        _origin(traced, location_of(op)),
        f"A call of kernels/{op.package}: {_count(len(op.ins), 'array')} in, {_count(len(op.outs), 'array')} out.",
    ]


def _origin(traced: Traced, place: tuple[str, int] | None) -> str:
    from juju.mojo.text import short_path

    where = f", from {short_path(place[0])}:{place[1]}" if place else ""
    return f"{traced.name}{where}. Written by juju; edit a copy."


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
