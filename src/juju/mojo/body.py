"""One nest as lines of Mojo: loads, expressions from the scalar-op table, stores."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from juju.dialect._xdsl import location_of
from juju.dialect.ops import ConstOp, NestOp, ScalarOp, YieldOp, param_values
from juju.dialect.types import DTYPES, element_of, is_half, item_size, kind_of
from juju.errors import InternalError
from juju.mojo import spelling

HELPERS = frozenset(
    "Args LANES LINE fence aligned array load narrow padded round_to size splat store widen sweep sweep_stream "
    "args sizes lo hi i n stop start at w tail stream large around body point end row first last".split()
) | {f"{letter}{k}" for letter in "nd" for k in range(16)}
"""Names of the frame around a body."""


UNIFORM, ROW, POINT = range(3)
"""How often a value is computed."""

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
    rows: list[Line] = field(default_factory=list)
    """What a nest of rank 2 and more does once for each row: places of rows, and values that do not change in one."""
    uniform_stores: list[Line] = field(default_factory=list)
    aliases: list[Line] = field(default_factory=list)
    body: list[Line] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    buffers: int = 0
    rank: int = 0
    width: str = "LANES"
    streams: list[str] = field(default_factory=list)
    """The results' pointers, if memory bounds the nest: large ones are then stored around the cache."""
    cost: float = 0.0
    flops: float = 0.0
    bytes: int = 0
    title: str = ""

    def canonical(self) -> str:
        parts = (self.pointers, self.prologue, self.uniform_stores, self.rows, self.aliases, self.body)
        return "\n".join(line.text for part in parts for line in (*part, Line("--"))) + self.width


class BodyWriter:
    """Writes one nest. With `names` empty, the text is canonical: it does not depend on the user's names."""

    def __init__(self, nest: NestOp, *, readable: bool, functions: frozenset[str]) -> None:
        self.nest = nest
        self.readable = readable
        self.taken = set(HELPERS) | set(functions) | set(spelling.ALIASES.values())
        self.rank = len(nest.space)
        self.levels = _levels(nest)
        self.text = NestText(rank=self.rank)
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
        if self.rank > 1:
            self._outer_loops()
        for pointer, arg, amap in zip(pointers, block.args, self.nest.in_maps(), strict=True):
            self._load(pointer, arg, amap)
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

    def _outer_loops(self) -> None:
        """The indices of the outer loops, from the number of the row, where an array is not read by all of them."""
        for k in range(self.rank - 1 if self.rank > 2 else 0):
            inner = " * ".join(f"n{j}" for j in range(k + 1, self.rank - 1))
            text = "row" if not inner else f"row // ({inner})" if "*" in inner else f"row // {inner}"
            self.text.rows.append(Line(f"var d{k} = {text}" if k == 0 else f"var d{k} = {text} % n{k}"))

    def _row_offset(self, amap: AffineMap) -> str:
        """Where a row of an array begins, in elements, by the loops it is read by."""
        used = [expr.position for expr in amap.results if isinstance(expr, AffineDimExpr)]
        if used[: self.rank - 1] == list(range(self.rank - 1)):
            return f"row * n{self.rank - 1}" if len(used) == self.rank else "row"
        terms = []
        for place, d in enumerate(used):
            if d < self.rank - 1:
                terms.append(" * ".join([f"d{d}", *(f"n{k}" for k in used[place + 1 :])]))
        return " + ".join(terms)

    def _row_pointer(self, pointer: str, amap: AffineMap) -> str:
        offset = self._row_offset(amap)
        if self.rank < 2 or not offset:
            return pointer
        name = spelling.variable(f"row_{pointer}", self.taken)
        self.text.rows.append(Line(f"var {name} = {pointer}.unsafe_offset({offset})"))
        return name

    def _load(self, pointer: str, arg: SSAValue, amap: AffineMap) -> None:
        level = self.levels[arg]
        if level == UNIFORM:
            text = f"load[1]({pointer}, 0, 1)"
        elif level == ROW:
            text = f"load[1]({pointer}.unsafe_offset({self._row_offset(amap)}), 0, 1)"
        else:
            text = f"load[w, tail]({self._row_pointer(pointer, amap)}, i, stop)"
        if kind_of(arg.type) == "b":
            text += ".ne(0)"
        elif is_half(arg.type):
            text = f"widen({text})"
            self.text.helpers.add("widen")
        self.text.helpers.add("load")
        self._emit(arg, self._name(arg, "x"), text, None)

    def _emit(self, value: SSAValue, name: str, text: str, source: tuple[str, int] | None) -> None:
        lines = (self.text.prologue, self.text.rows, self.text.body)[self.levels[value]]
        lines.append(Line(f"var {name} = {text}", source))

    def _operand(self, value: SSAValue, level: int) -> str:
        """How an expression at `level` reads a value: wider ones splat what is the same at every point."""
        if value in self.inline:
            const = self.inline[value]
            if level == POINT:
                self._alias(value)
            return spelling.constructor(const.value, value.type, "w" if level == POINT else "1")  # type: ignore[arg-type]
        name = self.names[value]
        if level == POINT and self.levels[value] != POINT:
            self.text.helpers.add("splat")
            return f"splat[w]({name})"
        return name

    def _alias(self, value: SSAValue) -> None:
        self.used_aliases[spelling.value_alias(value.type)] = spelling.value_dtype(value.type)

    def _scalar(self, op: ScalarOp) -> None:
        result = op.results[0]
        level = self.levels[result]
        operands = [self._operand(v, level) for v in op.operands]
        text = self._expression(op, operands, "w" if level == POINT else "1")
        if op.ROW.form == "shared":
            self._shared(op, text)
        else:
            self._emit(result, self._name(result, "v"), text, location_of(op))

    def _shared(self, op: ScalarOp, text: str) -> None:
        """Several results at once; each of a 16-bit float is rounded in a line of its own."""
        wanted = [r for r in op.results if r.uses]
        names = {r: self._name(r, "v") for r in wanted}
        if not is_half(op.operands[0].type):
            self._emit(op.results[0], ", ".join(names.get(r, "_") for r in op.results), text, location_of(op))
            return
        wide = {r: spelling.variable(f"{names[r]}_wide", self.taken) for r in wanted}
        self._emit(op.results[0], ", ".join(wide.get(r, "_") for r in op.results), text, location_of(op))
        self.text.helpers.add("round_to")
        for r in wanted:
            self._emit(r, names[r], f"round_to[{_half(r.type)}]({wide[r]})", location_of(op))

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
            return self._widened(text) if is_half(result) else text
        if is_half(result) and not row.exact and row.form != "shared":
            self.text.helpers.add("round_to")
            return f"round_to[{_half(result)}]({text})"
        return text

    def _widened(self, text: str) -> str:
        self.text.helpers.add("widen")
        return f"widen({text})"

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
        return self._widened(text) if is_half(result) else text

    def _stores(self, outs: list[str]) -> None:
        for pointer, result, value, amap in zip(
            outs, self.nest.outs, self.nest.yielded(), self.nest.out_maps(), strict=True
        ):
            level = POINT if amap.used_dims() else UNIFORM
            text = self._operand(value, level)
            element = element_of(result.type)
            if kind_of(element) == "b":
                text = f"{text}.cast[DType.uint8]()"
            elif is_half(element):
                text = f"narrow[{_half(element)}]({text})"
                self.text.helpers.add("narrow")
            self.text.helpers.add("store")
            if level == UNIFORM:
                self.text.uniform_stores.append(Line(f"store({pointer}, 0, {text}, 1)"))
            else:
                how = "tail, stream" if self.text.streams else "tail"
                self.text.body.append(Line(f"store[{how}]({self._row_pointer(pointer, amap)}, i, {text}, stop)"))

    def _measure(self, outs: list[str]) -> None:
        """Cost of a point in ns on one core, its bytes, and the width that keeps registers filled, not spilled."""
        ops = [
            op for op in self.nest.body.block.ops if isinstance(op, ScalarOp) and self.levels[op.results[0]] == POINT
        ]
        widest = max((item_size(v.type) for op in ops for v in (*op.operands, *op.results)), default=4)
        work = sum(op.ROW.cost for op in ops)
        moved = [v for v, m in zip((*self.nest.ins, *self.nest.outs), self.nest.maps, strict=True) if m.data.results]
        self.text.bytes = sum(item_size(element_of(v.type)) for v in moved)
        self.text.flops = work
        self.text.cost = max(work * widest * 0.006, self.text.bytes * 0.03) if self.nest.space else 1.0
        if self.rank == 1 and work <= STREAM_WORK:
            written = zip(outs, self.nest.out_maps(), strict=True)
            self.text.streams = [pointer for pointer, amap in written if amap.used_dims()]
        registers = 4 if work <= 320 else 2
        registers = max(1, registers // 2) if widest == 8 else registers
        self.text.width = f"{registers} * LANES" if registers > 1 else "LANES"


def _levels(nest: NestOp) -> dict[SSAValue, int]:
    """How often each value of a body is computed: once, once for each row, or at every point."""
    rank = len(nest.space)
    levels: dict[SSAValue, int] = {}
    for arg, amap in zip(nest.body.block.args, nest.in_maps(), strict=True):
        used = amap.used_dims()
        levels[arg] = UNIFORM if not used else POINT if rank - 1 in used else ROW
    for op in nest.body.block.ops:
        if isinstance(op, (ScalarOp, ConstOp)):
            level = max((levels[v] for v in op.operands), default=UNIFORM)
            levels.update((r, level) for r in op.results)
    return levels


def _half(ty: object) -> str:
    return f"DType.{DTYPES[ty]}"  # type: ignore[index]


def short_path(file: str) -> str:
    """A path for a comment: relative to the working directory if that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return relative if len(relative) < len(file) and not relative.startswith("..") else os.path.basename(file)
