"""How a body reads its arrays: pointers at rows and lines, loads of vectors, and reads at computed indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from juju.dialect.body import IndexOp, ReadOp
from juju.dialect.ops import ConstOp
from juju.dialect.types import element_of, shape_of
from juju.mojo import spelling
from juju.mojo.access import SMALL_STEP, Place
from juju.mojo.text import LINE, POINT, ROW, UNIFORM, VECTORS, Line

if TYPE_CHECKING:
    from juju.mojo.body import BodyWriter


class Loads:
    """The pointers and loads of one nest. Operands and results are numbered together."""

    def __init__(self, writer: BodyWriter, ins: list[str], outs: list[str]) -> None:
        self.writer = writer
        self.access = writer.access
        nest = writer.nest
        self.pointers: dict[SSAValue, str] = dict(zip(nest.body.block.args, ins, strict=True))
        shapes = [
            () if isinstance(a.type, TensorType) else shape_of(v.type)
            for a, v in zip(nest.body.block.args, nest.ins, strict=True)
        ]
        shapes += [shape_of(r.type) for r in nest.outs]
        self.places = [self.access.place(m.data, shape) for m, shape in zip(nest.maps, shapes, strict=True)]
        self.last = len(nest.space) - 1
        self.inside = [d for d in nest.reduced if d != self.last]
        self.bases: dict[int, str] = {}
        self.rows: dict[int, str] = {}
        self.lines: dict[int, tuple[str, str]] = {}
        self.line_done: set[tuple[int, int]] = set()
        self.firsts: dict[SSAValue, str] = {}
        self.steps: dict[tuple[SSAValue, int], str] = {}

    # Pointers ---------------------------------------------------------------------------------------------------------

    def base(self, n: int, pointer: str) -> str:
        """The pointer at the element of the first step of all loops."""
        place = self.places[n]
        if place.start and n not in self.bases:
            name = spelling.variable(f"from_{pointer}", self.writer.taken)
            word = self.access.word(place.start, f"start_{pointer}")
            self.writer.text.prologue.append(Line(f"var {name} = {pointer}.unsafe_offset({word})"))
            self.bases[n] = name
        return self.bases.get(n, pointer)

    def row_pointer(self, n: int, pointer: str) -> str:
        """The pointer at the first element of a row."""
        if n not in self.rows:
            self.rows[n] = self.base(n, pointer)
            if offset := self._offset(self.places[n], self.access.outer, pointer):
                name = spelling.variable(f"row_{pointer}", self.writer.taken)
                self.writer.text.rows.append(Line(f"var {name} = {self.rows[n]}.unsafe_offset({offset})"))
                self.rows[n] = name
        return self.rows[n]

    def line_pointer(self, n: int, pointer: str) -> str:
        """The pointer at the first element of a line, which is a row where there is one reduction loop at most."""
        row = self.row_pointer(n, pointer)
        if n not in self.lines:
            offset = self._offset(self.places[n], self.inside, pointer)
            self.lines[n] = (spelling.variable(f"line_{pointer}", self.writer.taken) if offset else row, offset)
        name, offset = self.lines[n]
        if offset and (n, self.writer.phase) not in self.line_done:
            self.line_done.add((n, self.writer.phase))
            self.writer.sink(LINE).append(Line(f"var {name} = {row}.unsafe_offset({offset})"))
        return name

    def _offset(self, place: Place, loops: list[int], pointer: str) -> str:
        """The part of an offset that follows from `loops`, or from them and those around."""
        terms = [self.access.terms(place, loops, pointer)]
        for expr, stride, known in place.divided:
            used = expr.used_dims()
            here = self.last not in used and (
                used & set(loops) if loops is self.inside else not used & set(self.inside)
            )
            if here:
                text = self.access.scalar(expr, pointer)
                factor = known if known not in ("", "?") else self.access.word(stride, f"step_{pointer}")
                terms.append(text if stride == 1 else f"{text} * {factor}")
        return " + ".join(term for term in terms if term)

    # Elements ---------------------------------------------------------------------------------------------------------

    def element(self, n: int, arg: SSAValue) -> None:
        """An operand at its map."""
        writer, pointer, place = self.writer, self.pointers[arg], self.places[n]
        level = writer.levels[arg]
        writer.text.helpers.add("load")
        if level == UNIFORM:
            text = f"load[1]({self.base(n, pointer)}, 0, 1)"
        elif level == ROW:
            offset = self._offset(place, self.access.outer, pointer)
            text = f"load[1]({self.base(n, pointer)}.unsafe_offset({offset}), 0, 1)"
        elif level == LINE:
            text = f"load[1]({self.line_pointer(n, pointer)}, 0, 1)"
        else:
            text = self._vector(n, pointer, place)
        writer.emit(arg, writer.name(arg, "x"), writer.loaded(arg, text), None)

    def _vector(self, n: int, pointer: str, place: Place) -> str:
        helpers = self.writer.text.helpers
        if self.writer.tiling is not None and n in self.writer.tiling.turned:
            return f"load[w, tail]({self._turned(n, pointer, self.writer.tiling.loop)}, i, stop)"
        name = self.line_pointer(n, pointer)
        step = place.strides.get(self.last)
        divided = [d for d in place.divided if self.last in d[0].used_dims()]
        if divided:
            places = [self._divided(e, stride, pointer) for e, stride, _ in divided]
            if step:
                helpers.add("indices")
                places.append(self._scaled(f"indices[{self.access.index}, w](i)", step, pointer))
            helpers.add("gather")
            return f"gather[tail]({name}, {' + '.join(places)}, i, stop)"
        if step == 1:
            return f"load[w, tail]({name}, i, stop)"
        if step == -1:
            helpers.add("load_reversed")
            return f"load_reversed[w, tail]({name}, i, stop)"
        if step is None:
            helpers.add("splat")
            return f"splat[w](load[1]({name}, 0, 1))"
        if 1 < step <= SMALL_STEP:
            helpers.add("load_every")
            return f"load_every[{step}, w, tail]({name}, i, stop)"
        helpers.add("load_strided")
        return f"load_strided[w, tail]({name}, i, {self.access.factor(place, self.last, pointer)}, stop)"

    def _turned(self, n: int, pointer: str, loop: int) -> str:
        """A row of a tile, placed so that the innermost loop's index finds its columns."""
        writer, place = self.writer, self.places[n]
        kept = spelling.variable(f"tile_{pointer}", writer.taken)
        dtype = spelling.dtype(element_of(writer.nest.ins[n].type))
        writer.text.prologue.append(Line(f"var {kept} = tile[{dtype}]()"))
        step = self.access.factor(place, self.last, pointer)
        others = [d for d in self.access.outer if d != loop]
        terms = [self.access.terms(place, others, pointer) if others else "", "first", f"left * {step}"]
        start = f"{self.base(n, pointer)}.unsafe_offset({' + '.join(t for t in terms if t)})"
        writer.text.turns.append(Line(f"turn({kept}, {start}, {step}, last - first, right - left)"))
        writer.text.helpers |= {"tile", "turn"}
        name = spelling.variable(f"row_{pointer}", writer.taken)
        offset = f"({self.access.loop(loop)} - first) * TILE - left"
        writer.text.rows.append(Line(f"var {name} = {kept}.unsafe_offset({offset})"))
        return name

    def _divided(self, expr: AffineExpr, stride: int, pointer: str) -> str:
        """The part of a place that divides the index of the innermost loop, in a variable."""
        text = self._scaled(self.access.vector(expr, pointer, self.writer.number), stride, pointer)
        name = spelling.variable(f"part_{pointer}", self.writer.taken)
        self.writer.sink(POINT).append(Line(f"var {name} = {text}"))
        return name

    def _scaled(self, places: str, stride: int, pointer: str) -> str:
        if stride == 1:
            return places
        return f"{places} * {self.writer.number(self.access.word(stride, f'step_{pointer}'))}"

    # Computed reads ---------------------------------------------------------------------------------------------------

    def read(self, op: ReadOp) -> None:
        """An element at computed indices."""
        writer = self.writer
        level = writer.levels[op.result]
        pointer = self.pointers[op.array]
        slope = self.access.read_slope(op, writer.levels)
        if level not in VECTORS:
            text = self._read_one(op, pointer, level)
        elif slope == 0:
            text = self._read_same(op, pointer, level)
        elif slope is None:
            text = self._read_any(op, pointer, level)
        else:
            text = self._read_line(op, pointer, level, slope)
        writer.emit(op.result, writer.name(op.result, "x"), writer.loaded(op.result, text), None)

    def _strides(self, op: ReadOp, pointer: str) -> list[str]:
        """The strides of an array's axes, as Ints; the last one's is empty."""
        shape = shape_of(op.array.type)
        stride, found = 1, []
        for axis in range(len(shape) - 1, -1, -1):
            if axis == len(shape) - 1:
                found.append("")
            else:
                if (op.array, axis) not in self.steps:
                    self.steps[op.array, axis] = self.access.word(stride, f"step{axis}_{pointer}")
                found.append(self.steps[op.array, axis])
            stride *= shape[axis]
        return found[::-1]

    def _at(self, op: ReadOp, pointer: str) -> str:
        """The place of the first innermost step, as an Int."""
        terms = []
        for value, stride in zip(op.indices, self._strides(op, pointer), strict=True):
            first = self._first(value)
            if first != "0":
                first = first if first.isdigit() else f"Int({first[1:-1] if first[0] == '(' else first})"
                terms.append(f"{first} * {stride}" if stride else first)
        return " + ".join(terms) or "0"

    def _first(self, value: SSAValue) -> str:
        """A linear index at the first innermost step, as a scalar; 0 is spelled `0`."""
        writer = self.writer
        if isinstance(value.owner, ConstOp):
            return str(value.owner.value.value.data)
        if writer.levels[value] not in VECTORS:
            return writer.operand(value, UNIFORM)
        if isinstance(value.owner, IndexOp):
            return "0"
        op = value.owner
        name = op.ROW.name  # type: ignore[union-attr]
        parts = [self._first(v) for v in op.operands]  # type: ignore[union-attr]
        if name == "neg":
            return "0" if parts[0] == "0" else f"(-{parts[0]})"
        if name == "mul":
            return "0" if "0" in parts else f"({parts[0]} * {parts[1]})"
        if parts[1] == "0":
            return parts[0]
        if parts[0] == "0":
            return parts[1] if name == "add" else f"(-{parts[1]})"
        return f"({parts[0]} {'+' if name == 'add' else '-'} {parts[1]})"

    def _read_one(self, op: ReadOp, pointer: str, level: int) -> str:
        at = self._at(op, pointer)
        if op.mask is None:
            self.writer.text.helpers.add("load")
            return f"load[1]({pointer}, {at}, 1)"
        self.writer.text.helpers.add("load_where")
        return f"load_where({pointer}, {at}, {self.writer.operand(op.mask, level)}, 1)"

    def _read_same(self, op: ReadOp, pointer: str, level: int) -> str:
        """One element for all lanes, those where the mask is true."""
        at, mask = self._at(op, pointer), op.mask
        self.writer.text.helpers.add("load_one")
        assert mask is not None
        return f"load_one[tail]({pointer}, {at}, {self.writer.operand(mask, level)}, i, stop)"

    def _read_line(self, op: ReadOp, pointer: str, level: int, slope: int) -> str:
        at = self._at(op, pointer)
        place = pointer if at == "0" else f"{pointer}.unsafe_offset({at})"
        function = "load" if slope == 1 else "load_reversed"
        if op.mask is None:
            self.writer.text.helpers.add(function)
            return f"{function}[w, tail]({place}, i, stop)"
        function = "load_where" if slope == 1 else "reversed_where"
        self.writer.text.helpers.add(function)
        return f"{function}[tail]({place}, i, {self.writer.operand(op.mask, level)}, stop)"

    def _read_any(self, op: ReadOp, pointer: str, level: int) -> str:
        terms = []
        for value, stride in zip(op.indices, self._strides(op, pointer), strict=True):
            text = self.writer.operand(value, level)
            terms.append(f"{text} * {self.writer.number(stride)}" if stride else text)
        places = " + ".join(terms)
        if op.mask is None:
            self.writer.text.helpers.add("gather")
            return f"gather[tail]({pointer}, {places}, i, stop)"
        self.writer.text.helpers.add("gather_where")
        return f"gather_where[tail]({pointer}, {places}, {self.writer.operand(op.mask, level)}, i, stop)"
