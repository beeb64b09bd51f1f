"""One nest as lines of Mojo: loads, expressions from the scalar-op table, stores."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from juju.dialect._xdsl import location_of
from juju.dialect.ops import ConstOp, NestOp, ScalarOp, YieldOp, param_values
from juju.dialect.types import DTYPES, element_of, is_half, item_size, kind_of
from juju.errors import InternalError
from juju.mojo import spelling
from juju.plan import SourceLine

HELPERS = frozenset(
    "Args LANES LINE aligned array load narrow padded round_to size splat store sweep sweep_stream "
    "args lo hi i n stop start at w tail stream large around body".split()
)
"""Names of the frame around a body."""


STREAM_WORK = 40
"""Bodies of more operations than this are bound by the cores, not by memory."""


@dataclass(frozen=True)
class Line:
    """One line of Mojo with the user's line it came from."""

    text: str
    source: tuple[str, int] | None = None


@dataclass
class NestText:
    """A nest ready for the template. `canonical` tells nests with the same code apart from others."""

    pointers: list[Line] = field(default_factory=list)
    prologue: list[Line] = field(default_factory=list)
    uniform_stores: list[Line] = field(default_factory=list)
    aliases: list[Line] = field(default_factory=list)
    body: list[Line] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    buffers: int = 0
    has_loop: bool = False
    width: str = "LANES"
    streams: list[str] = field(default_factory=list)
    """The results' pointers, if memory bounds the nest: large ones are then stored around the cache."""
    cost: float = 0.0
    flops: float = 0.0
    bytes: int = 0
    title: str = ""

    def canonical(self) -> str:
        parts = (self.pointers, self.prologue, self.uniform_stores, self.aliases, self.body)
        return "\n".join(line.text for part in parts for line in (*part, Line("--"))) + self.width


class BodyWriter:
    """Writes one nest. With `names` empty, the text is canonical: it does not depend on the user's names."""

    def __init__(self, nest: NestOp, *, readable: bool, functions: frozenset[str]) -> None:
        self.nest = nest
        self.readable = readable
        self.taken = set(HELPERS) | set(functions) | set(spelling.ALIASES.values())
        self.uniform = nest.uniform_values()
        self.text = NestText(has_loop=bool(nest.space))
        self.names: dict[SSAValue, str] = {}
        self.used_aliases: dict[str, str] = {}
        self.inline: dict[SSAValue, ConstOp] = {}

    def write(self) -> NestText:
        block = self.nest.body.block
        pointers = [
            self._pointer(n, value, f"in_{n}", arg)
            for n, (value, arg) in enumerate(zip(self.nest.ins, block.args, strict=True))
        ]
        first_out = len(pointers)
        outs = [self._pointer(first_out + n, value, f"out_{n}", None) for n, value in enumerate(self.nest.outs)]
        self.text.buffers = first_out + len(outs)
        self._measure(outs)
        for pointer, arg in zip(pointers, block.args, strict=True):
            self._load(pointer, arg)
        for op in block.ops:
            if isinstance(op, ConstOp):
                self.inline[op.result] = op
            elif isinstance(op, ScalarOp):
                self._scalar(op)
            elif not isinstance(op, YieldOp):
                raise InternalError(f"{op.name} cannot stand in a nest")
        self._stores(outs)
        self.text.aliases = [Line(f"comptime {a} = SIMD[{d}, w]") for a, d in sorted(self.used_aliases.items())]
        return self.text

    # Pieces ---------------------------------------------------------------------------------------------------------

    def _at_top(self, value: SSAValue) -> bool:
        """True if a value is computed once, before the loop."""
        return not self.nest.space or value in self.uniform

    def _pointer(self, n: int, value: SSAValue, canonical: str, arg: SSAValue | None) -> str:
        hint = arg.name_hint if arg is not None else value.name_hint
        prefix = "in" if arg is not None else "out"
        base = f"{prefix}_{hint}" if self.readable and hint else canonical
        name = spelling.variable(base, self.taken)
        self.text.pointers.append(Line(f"var {name} = array[{spelling.dtype(element_of(value.type))}](args, {n})"))
        self.text.helpers.add("array")
        return name

    def _name(self, value: SSAValue, base: str) -> str:
        hint = value.name_hint if self.readable and value.owner is self.nest.body.block else None
        name = spelling.variable(hint or base, self.taken)
        self.names[value] = name
        return name

    def _load(self, pointer: str, arg: SSAValue) -> None:
        top = self._at_top(arg)
        text = f"load[1]({pointer}, 0, 1)" if top else f"load[w, tail]({pointer}, i, stop)"
        if kind_of(arg.type) == "b":
            text += ".ne(0)"
        elif is_half(arg.type):
            text += ".cast[DType.float32]()"
        self.text.helpers.add("load")
        self._emit(arg, self._name(arg, "x"), text, None)

    def _emit(self, value: SSAValue, name: str, text: str, source: tuple[str, int] | None) -> None:
        lines = self.text.prologue if self._at_top(value) else self.text.body
        lines.append(Line(f"var {name} = {text}", source))

    def _operand(self, value: SSAValue, top: bool) -> str:
        if value in self.inline:
            const = self.inline[value]
            if not top:
                self._alias(value)
            return spelling.constructor(const.value, value.type, "1" if top else "w")  # type: ignore[arg-type]
        name = self.names[value]
        if not top and self._at_top(value):
            self.text.helpers.add("splat")
            return f"splat[w]({name})"
        return name

    def _alias(self, value: SSAValue) -> None:
        self.used_aliases[spelling.value_alias(value.type)] = spelling.value_dtype(value.type)

    def _scalar(self, op: ScalarOp) -> None:
        result = op.results[0]
        top = self._at_top(result)
        operands = [self._operand(v, top) for v in op.operands]
        text = self._expression(op, operands, "1" if top else "w")
        self._emit(result, self._name(result, "v"), text, location_of(op))

    def _expression(self, op: ScalarOp, operands: list[str], width: str) -> str:
        row, result = op.ROW, op.results[0].type
        if row.form == "select":
            return self._select(op, operands)
        if row.name == "bitcast":
            return self._bitcast(op, operands[0], width)
        source = op.operands[0].type
        if row.half_native and is_half(source):
            operands = [f"narrow[{_half(source)}]({x})" for x in operands]
            self.text.helpers.add("narrow")
        functions = row.functions
        spelled = row.spelling(kind_of(source))
        self.text.functions.update(f for f in functions if f"{f}(" in spelled or f"{f}[" in spelled)
        text = spelled.format(*operands, to=f"DType.{DTYPES[result]}", **param_values(op))
        if row.form == "convert" or (row.half_native and is_half(result)):
            return f"{text}.cast[DType.float32]()" if is_half(result) else text
        if is_half(result) and not row.exact:
            self.text.helpers.add("round_to")
            return f"round_to[{_half(result)}]({text})"
        return text

    def _select(self, op: ScalarOp, operands: list[str]) -> str:
        which, cases = operands[0], operands[1:]
        if kind_of(op.operands[0].type) == "b":
            return f"{which}.select({cases[1]}, {cases[0]})"
        text = cases[-1]
        for n in range(len(cases) - 2, -1, -1):
            text = f"{which}.le({n}).select({cases[n]}, {text})"
        return text

    def _bitcast(self, op: ScalarOp, operand: str, width: str) -> str:
        source, result = op.operands[0].type, op.results[0].type
        self.text.functions.add("bitcast")
        if is_half(source):
            operand = f"narrow[{_half(source)}]({operand})"
            self.text.helpers.add("narrow")
        text = f"bitcast[DType.{DTYPES[result]}, {width}]({operand})"
        return f"{text}.cast[DType.float32]()" if is_half(result) else text

    def _stores(self, outs: list[str]) -> None:
        for pointer, result, value, amap in zip(
            outs, self.nest.outs, self.nest.yielded(), self.nest.out_maps(), strict=True
        ):
            top = not amap.used_dims()
            text = self._operand(value, top)
            element = element_of(result.type)
            if kind_of(element) == "b":
                text = f"{text}.cast[DType.uint8]()"
            elif is_half(element):
                text = f"narrow[{_half(element)}]({text})"
                self.text.helpers.add("narrow")
            self.text.helpers.add("store")
            if top:
                self.text.uniform_stores.append(Line(f"store({pointer}, 0, {text}, 1)"))
            else:
                how = "tail, stream" if self.text.streams else "tail"
                self.text.body.append(Line(f"store[{how}]({pointer}, i, {text}, stop)"))

    def _measure(self, outs: list[str]) -> None:
        """Cost of a point in ns on one core, its bytes, and the width that keeps registers filled, not spilled."""
        ops = [op for op in self.nest.body.block.ops if isinstance(op, ScalarOp) and not self._at_top(op.results[0])]
        widest = max((item_size(v.type) for op in ops for v in (*op.operands, *op.results)), default=4)
        work = sum(op.ROW.cost for op in ops)
        moved = [v for v, m in zip((*self.nest.ins, *self.nest.outs), self.nest.maps, strict=True) if m.data.results]
        self.text.bytes = sum(item_size(element_of(v.type)) for v in moved)
        self.text.flops = work
        self.text.cost = max(work * widest * 0.006, self.text.bytes * 0.08) if self.nest.space else 1.0
        if self.nest.space and work <= STREAM_WORK:
            written = zip(outs, self.nest.out_maps(), strict=True)
            self.text.streams = [pointer for pointer, amap in written if amap.used_dims()]
        registers = 4 if work <= 60 else 2 if work <= 240 else 1
        registers = max(1, registers // 2) if widest == 8 else registers
        self.text.width = f"{registers} * LANES" if registers > 1 else "LANES"


def _half(ty: object) -> str:
    return f"DType.{DTYPES[ty]}"  # type: ignore[index]


def short_path(file: str) -> str:
    """A path for a comment: relative to the working directory if that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return relative if len(relative) < len(file) and not relative.startswith("..") else os.path.basename(file)


def operations(nest: NestOp) -> list[Operation]:
    return [op for op in nest.body.block.ops if isinstance(op, ScalarOp)]


__all__ = ["BodyWriter", "Line", "NestText", "SourceLine", "operations", "short_path"]
