"""`explain`: what became one kernel, from which lines, why its borders are where they are, and what bounds its time.

>>> import jax, juju
>>> low = juju.fuse(jax.nn.softmax, name="softmax").lower(jax.ShapeDtypeStruct((512, 64), "float32"))
>>> print(low.explain().text().splitlines()[0])
softmax: 1 kernel
"""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jax.core import ShapedArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from juju._lower import Lowering, lower, make_plan
from juju.debug.limits import Limits
from juju.dialect._xdsl import location_of
from juju.dialect.library import LibraryOp
from juju.dialect.ops import CustomOp, KernelOp
from juju.dialect.types import shape_of
from juju.plan import CustomCall, Launch, Plan

if TYPE_CHECKING:
    from juju._trace import Traced

NOTE = re.compile(r"(waits|again): (\w[\w ]*?)(?: of (.+?):(\d+))?: (.+)", re.DOTALL)


@dataclass(frozen=True)
class SourceText:
    """A line of the user's, and the JAX operations that come from it, each named once."""

    file: str
    line: int
    text: str
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Array:
    """An array a step reads or writes. `step` is the number of the step that made one which is read, if one did."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    step: int | None = None

    @property
    def type(self) -> str:
        """As JAX writes it: `f32[1024,3]`."""
        return ShapedArray(self.shape, np.dtype(self.dtype)).str_short(short_dtypes=True)


@dataclass(frozen=True)
class Loops:
    """The loops of one nest, outermost first, and which of them are reduced."""

    extents: tuple[int, ...]
    reduced: tuple[int, ...]

    def __str__(self) -> str:
        return " x ".join(f"{n} (reduced)" if d in self.reduced else str(n) for d, n in enumerate(self.extents)) or "1"


@dataclass(frozen=True)
class Note:
    """Why values wait in memory, or are computed again: the same reason for `values` of lines of the user's."""

    kind: Literal["waits", "again"]
    reason: str
    values: tuple[tuple[str, str, int], ...]
    """Operation, file and line; the file is empty where the line is not known."""


@dataclass(frozen=True)
class Limit:
    """The least time a kernel could take on this machine, in seconds, and what asks for it."""

    seconds: float
    bound: Literal["memory", "operations"]
    moving: float
    computing: float


@dataclass(frozen=True)
class Step:
    """A kernel that is launched, or a custom operation that is called."""

    number: int
    kind: Literal["kernel", "custom operation"]
    name: str
    lines: tuple[SourceText, ...]
    loops: tuple[Loops, ...]
    reads: tuple[Array, ...]
    writes: tuple[Array, ...]
    notes: tuple[Note, ...]
    operations: int = 0
    bytes: int = 0
    limit: Limit | None = None
    calls: str = ""
    """The function of a package in `kernels/` that a kernel calls, if it was not generated."""


@dataclass(frozen=True)
class Explanation:
    """What a function became. `text()` is for people, `as_dict()` for programs."""

    name: str
    steps: tuple[Step, ...]
    scratch: tuple[Array, ...]
    passed: tuple[tuple[str, str], ...]
    """Results that need no kernel, and the argument or constant each of them is."""

    @property
    def kernels(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind == "kernel")

    def as_dict(self) -> dict[str, Any]:
        """Everything as numbers, strings, lists and dictionaries."""
        return asdict(self)

    def text(self) -> str:
        """A paragraph for each kernel."""
        from juju.debug.explain_text import paragraphs

        return "".join(span for span, _ in paragraphs(self))

    def __str__(self) -> str:
        return self.text()


def explain(traced: Traced, limits: Limits) -> Explanation:
    """What a traced function becomes on a machine with these limits.

    Raises `UnsupportedPrimitive`.
    """
    lowering = lower(traced)
    return _Reader(traced, lowering, make_plan(traced, lowering), limits).explanation()


class _Reader:
    def __init__(self, traced: Traced, lowering: Lowering, plan: Plan, limits: Limits) -> None:
        self.traced, self.plan, self.limits = traced, plan, limits
        self.ops: list[Any] = _ops(lowering.module)
        self.names: dict[int, str] = {}
        self.shapes = {n: buffer.shape for n, buffer in enumerate(plan.buffers)}
        self.maker: dict[int, int] = {}
        self.operations: dict[tuple[str, int], list[str]] = {}
        for eqn in traced.program.equations:
            if (source := eqn.source) is not None:
                names = self.operations.setdefault((source.file, source.line), [])
                if eqn.primitive not in names:
                    names.append(eqn.primitive)

    def explanation(self) -> Explanation:
        self._name_buffers()
        steps = []
        for number, (step, op) in enumerate(zip(self.plan.steps, self.ops, strict=True), 1):
            if isinstance(step, Launch):
                steps.append(self._kernel(number, step, op))
            else:
                steps.append(self._custom(number, step, op))
        scratch = [n for n, buffer in enumerate(self.plan.buffers) if buffer.kind == "scratch"]
        return Explanation(
            self.traced.name, tuple(steps), tuple(self._array(n) for n in scratch), tuple(self._passed())
        )

    # Names ------------------------------------------------------------------------------------------------------------

    def _result_names(self) -> list[str]:
        tree = jax.tree_util.tree_unflatten(self.traced.out_tree, range(self.traced.out_tree.num_leaves))
        return [f"result{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_leaves_with_path(tree)]

    def _name_buffers(self) -> None:
        for n, buffer in enumerate(self.plan.buffers):
            if buffer.kind == "operand":
                self.names[n] = self.traced.arg_names[buffer.index]
            else:
                self.names[n] = f"{buffer.kind} {buffer.index}"
        for name, n, shape in zip(self._result_names(), self.plan.results, self.plan.result_shapes, strict=True):
            if self.plan.buffers[n].kind == "result" and self.names[n].startswith("result "):
                self.names[n], self.shapes[n] = name, shape
        for step, op in zip(self.plan.steps, self.ops, strict=True):
            written = [step.buffers[n] for n in step.writes] if isinstance(step, Launch) else step.results
            for n, made in zip(written, op.outs, strict=True):
                if self.plan.buffers[n].kind == "scratch" and made.name_hint:
                    self.names[n] = f"{self.names[n]}, {made.name_hint}"

    def _passed(self) -> Iterator[tuple[str, str]]:
        for name, n in zip(self._result_names(), self.plan.results, strict=True):
            if self.plan.buffers[n].kind in ("operand", "constant"):
                yield name, self.names[n]

    def _array(self, n: int, *, read: bool = False) -> Array:
        buffer = self.plan.buffers[n]
        nbytes = math.prod(buffer.shape) * np.dtype(buffer.dtype).itemsize
        step = self.maker.get(n) if read else None
        return Array(self.names[n], buffer.kind, self.shapes[n], buffer.dtype, nbytes, step)

    # Steps ------------------------------------------------------------------------------------------------------------

    def _arrays(
        self, number: int, reads: Iterable[int], writes: Iterable[int]
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """What a step reads and writes, each once."""
        written = list(dict.fromkeys(writes))
        found = (
            tuple(self._array(n, read=True) for n in dict.fromkeys(reads)),
            tuple(self._array(n) for n in written),
        )
        self.maker.update((n, number) for n in written)
        return found

    def _kernel(self, number: int, step: Launch, op: KernelOp | LibraryOp) -> Step:
        written = set(step.writes)
        reads, writes = self._arrays(
            number,
            (n for position, n in enumerate(step.buffers) if position not in written),
            (step.buffers[position] for position in step.writes),
        )
        nests = op.nests() if isinstance(op, KernelOp) else []
        return Step(
            number,
            "kernel",
            step.name,
            self._lines(op),
            tuple(Loops(tuple(nest.space), tuple(nest.reduced)) for nest in nests),
            reads,
            writes,
            _merged(step.notes),
            step.flops,
            step.bytes,
            self._limit(step),
            op.callee.data if isinstance(op, LibraryOp) else "",
        )

    def _custom(self, number: int, step: CustomCall, op: CustomOp) -> Step:
        name = str(getattr(step.primitive, "name", step.primitive))
        reads, writes = self._arrays(number, (n for n in step.operands if isinstance(n, int)), step.results)
        return Step(number, "custom operation", name, self._lines(op), (), reads, writes, ())

    def _lines(self, op: Operation) -> tuple[SourceText, ...]:
        places = {place for inner in op.walk() if (place := location_of(inner)) is not None}
        return tuple(self._line(*place) for place in sorted(places))

    def _line(self, file: str, line: int) -> SourceText:
        text = linecache.getline(file, line).strip()
        return SourceText(file, line, text, tuple(self.operations.get((file, line), ())))

    def _limit(self, step: Launch) -> Limit:
        moving, computing = self.limits.moving(step.bytes), self.limits.computing(step.flops)
        return Limit(max(moving, computing), "memory" if moving >= computing else "operations", moving, computing)


def _ops(module: ModuleOp) -> list[KernelOp | LibraryOp | CustomOp]:
    """What the steps of a plan were made from, in order: all but kernels of arrays without elements."""
    ops = [op for op in module.walk() if isinstance(op, (KernelOp, LibraryOp, CustomOp))]
    return [op for op in ops if not isinstance(op, KernelOp) or any(math.prod(shape_of(v.type)) for v in op.outs)]


def _merged(notes: Iterable[str]) -> tuple[Note, ...]:
    """Notes of a launch, those of one reason together."""
    found: dict[tuple[Any, str], list[tuple[str, str, int]]] = {}
    for text in notes:
        match = NOTE.fullmatch(text)
        assert match is not None, f"a note that does not read: {text}"
        kind, name, file, line, reason = match.groups()
        found.setdefault((kind, reason), []).append((name, file or "", int(line or 0)))
    return tuple(
        Note(kind, reason, tuple(sorted(set(values), key=lambda v: (v[1], v[2], v[0]))))
        for (kind, reason), values in sorted(found.items(), key=lambda item: item[0][0] != "waits")
    )
