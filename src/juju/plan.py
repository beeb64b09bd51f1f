"""The plan: what the compiler hands to an engine, as plain data.

A plan says which kernels there are, which buffers they read and write, and in which order they are launched.
It holds no Python objects of the user's program (except the parameters of opaque `CustomCall`s), so a plan without
custom calls can be written to the store and read back by another process.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

ABI_VERSION = 1
"""Version of the kernel entry point `Int symbol(Int64* args, Int lo, Int hi)`; part of every store key."""

BufferKind = Literal["operand", "constant", "result", "scratch"]


@dataclass(frozen=True)
class SourceLine:
    """One line of generated text and the user's line it came from."""

    generated: int
    file: str
    line: int


@dataclass(frozen=True)
class Kernel:
    """One compiled unit: Mojo text with a single exported entry point named `symbol`.

    `key` is the content hash of everything that decides the machine code (canonical text without names and comments,
    helper packages, versions, flags, `ABI_VERSION`); `symbol` contains its first 16 digits, so symbols never clash.
    """

    name: str
    symbol: str
    key: str
    text: str
    imports: tuple[str, ...] = ()
    lines: tuple[SourceLine, ...] = ()


@dataclass(frozen=True)
class Buffer:
    """A contiguous row-major array: an operand (`index` = flat argument), a captured constant, a result or scratch."""

    kind: BufferKind
    index: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Launch:
    """Runs `kernels[kernel]` over the points `0 .. extent`, in chunks that may run in parallel.

    The argument words are the addresses of `buffers`, then `sizes`. `cost` is the estimated time of one point in
    nanoseconds on one core, and decides the chunk size. `writes` are the positions in `buffers` of those the kernel
    writes; it reads the others. `notes` say, in the user's terms, what it waits for in memory and what it computes
    again, and why; each begins with `waits: ` or `again: `.
    """

    kernel: int
    buffers: tuple[int, ...]
    sizes: tuple[int, ...]
    extent: int
    cost: float
    bytes: int = 0
    flops: int = 0
    name: str = ""
    writes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CustomCall:
    """An opaque step: a `juju.Primitive` with its parameters. Reads `operands`, writes `results`.

    An operand is a buffer or a constant of rank 0. A buffer may be seen in another shape, see `operand_shapes`.
    """

    primitive: Any
    params: dict[str, Any]
    operands: tuple[int | np.generic, ...]
    results: tuple[int, ...]
    operand_shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Plan:
    """Everything an engine needs to run a function on flat operands.

    `results` are indices into `buffers`: a result buffer, an operand passed through, or a captured constant; an index
    may stand there twice. `result_shapes` are the shapes the caller sees, where a buffer
    holds them flat; without them the buffers' own.
    """

    name: str
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Launch | CustomCall, ...]
    results: tuple[int, ...]
    result_shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def storable(self) -> bool:
        """True if the plan holds no custom call, so that it can be kept on disk."""
        return all(isinstance(step, Launch) for step in self.steps)

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(step for step in self.steps if isinstance(step, Launch))

    def to_json(self) -> str:
        """The plan as JSON text. Raises `ValueError` if it holds custom calls."""
        if not self.storable:
            raise ValueError("a plan with custom calls cannot be stored")
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Reads what `to_json` wrote. Raises `ValueError`, `KeyError` or `TypeError` on anything else."""
        raw = json.loads(text)
        return cls(
            name=raw["name"],
            kernels=tuple(
                Kernel(
                    **{
                        **k,
                        "imports": tuple(k["imports"]),
                        "lines": tuple(SourceLine(**line) for line in k["lines"]),
                    }
                )
                for k in raw["kernels"]
            ),
            buffers=tuple(Buffer(**{**b, "shape": tuple(b["shape"])}) for b in raw["buffers"]),
            steps=tuple(
                Launch(**{**s, **{name: tuple(s[name]) for name in ("buffers", "sizes", "writes", "notes")}})
                for s in raw["steps"]
            ),
            results=tuple(raw["results"]),
            result_shapes=tuple(tuple(shape) for shape in raw["result_shapes"]),
        )
