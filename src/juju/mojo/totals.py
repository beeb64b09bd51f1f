"""Reductions, running totals, and what is kept from one pass to the next, as Mojo text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from juju.dialect._xdsl import location_of
from juju.dialect.body import ARGUMENTS, CumulateOp, ReduceOp
from juju.dialect.types import DTYPES, element_of, kind_of
from juju.mojo import spelling
from juju.mojo.general import General
from juju.mojo.text import LANE, LINE, POINT, Line

if TYPE_CHECKING:
    from juju.mojo.body import BodyWriter

COMBINERS = {
    "add": "Sum",
    "mul": "Product",
    "max": "Maximum",
    "min": "Minimum",
    "and": "And",
    "or": "Or",
    "xor": "Xor",
    "logaddexp": "LogAddExp",
}
"""The struct of `juju_kernel` for each kind of reduction."""

BOOLEAN = {"add": "Or", "mul": "And", "max": "Or", "min": "And"}
"""On bool, JAX's sum is or and its product is and."""


class Totals:
    """Writes the totals of one nest."""

    def __init__(self, writer: BodyWriter) -> None:
        self.writer = writer
        self.by_rows = writer.text.by_rows
        self.places: dict[SSAValue, int] = {}
        self.scratch: dict[SSAValue, str] = {}
        self.lines: dict[tuple[str, int], str] = {}

    def reduce(self, op: ReduceOp) -> None:
        """A reduction in the pass that computes it."""
        kind = op.kind.data
        if kind == "general":
            General(self, op).write()
            return
        element = self._element(op.elements[0])
        total = self._variable("total")
        phase = self._phase()
        if kind in ARGUMENTS:
            result = self._extreme(op, total, element)
        else:
            name = self._declare("Total", self._combiner(kind, op.elements[0].type), op.elements[0].type, total)
            take = f"take[tail]({element}, i, stop)" if self.by_rows else f"take({element})"
            self.writer.sink(POINT).append(Line(f"{total}.{take}"))
            if name == "Sum" and kind_of(op.elements[0].type) == "f":
                phase.closing.append(f"{total}.close()")
            result = f"{total}.value()"
            if kind in ("add", "mul"):
                result = self.writer.rounded(op.elements[0].type, result)
        phase.changed.append(total)
        value = op.results[0]
        self.writer.sink(LANE, self.writer.phase + 1).append(
            Line(f"var {self.writer.name(value, 'v')} = {result}", location_of(op))
        )

    def _extreme(self, op: ReduceOp, total: str, element: str) -> str:
        writer, ty, result = self.writer, op.elements[0].type, op.results[0].type
        if kind_of(ty) == "b":
            element = f"{element}.cast[DType.uint8]()"
        dtype = "DType.uint8" if kind_of(ty) == "b" else spelling.value_dtype(writer.register(ty))
        name = "Extreme" if self.by_rows else "Extremes"
        width = writer.text.width if self.by_rows else "w"
        largest = op.kind.data == "argmax"
        writer.text.helpers.add(name)
        writer.sink(LANE).append(Line(f"var {total} = {name}[{largest}, {dtype}, {writer.access.index}, {width}]()"))
        space = writer.nest.space
        loop = next((d for d in writer.reduced if space[d] != 1), writer.reduced[-1])
        if not self.by_rows:
            writer.sink(POINT).append(Line(f"{total}.take({element}, {writer.integer}({writer.access.loop(loop)}))"))
        else:
            if loop == len(space) - 1:
                writer.text.helpers.add("indices")
                places = f"indices[{writer.access.index}, w](i)"
            else:
                places = writer.number(writer.access.loop(loop))
            writer.sink(POINT).append(Line(f"{total}.take[tail]({element}, {places}, i, stop)"))
        wanted = f"DType.{DTYPES[writer.register(result)]}"
        return f"{total}.value()" if wanted == writer.access.index else f"{total}.value().cast[{wanted}]()"

    def cumulate(self, op: CumulateOp) -> None:
        """A running total, in the pass that computes it."""
        element = self._element(op.x)
        running = self._variable("running")
        kind = op.kind.data
        self._declare("Running", self._combiner(kind, op.x.type), op.x.type, running)
        self._phase().changed.append(running)
        back = "_back" if op.reverse is not None else ""
        text = f"{running}.next{back}[tail]({element}, i, stop)" if self.by_rows else f"{running}.next({element})"
        if kind not in ("max", "min"):
            text = self.writer.rounded(op.x.type, text)
        self.writer.emit(op.result, self.writer.name(op.result, "v"), text, location_of(op))

    def _phase(self):
        return self.writer.text.phases[self.writer.phase]

    def _variable(self, base: str) -> str:
        return spelling.variable(base, self.writer.taken)

    def _element(self, value: SSAValue) -> str:
        return self.writer.operand(value, POINT)

    def _combiner(self, kind: str, ty: Attribute) -> str:
        return BOOLEAN.get(kind, COMBINERS[kind]) if kind_of(ty) == "b" else COMBINERS[kind]

    def _declare(self, struct: str, combiner: str, ty: Attribute, name: str) -> str:
        """A total before its pass: one for a row, or one for each lane."""
        writer = self.writer
        struct = struct if self.by_rows else f"{struct}s"
        dtype = spelling.value_dtype(writer.register(ty))
        width = "" if struct == "Running" else f", {writer.text.width if self.by_rows else 'w'}"
        writer.text.helpers |= {struct, combiner}
        writer.sink(LANE).append(Line(f"var {name} = {struct}[{combiner}, {dtype}{width}]()"))
        return combiner

    # What is kept -----------------------------------------------------------------------------------------------------

    def keep(self, value: SSAValue) -> None:
        """Stores a value for later passes."""
        writer = self.writer
        text = writer.stored(value, writer.operand(value, POINT))
        writer.text.helpers.add("store")
        place = self._kept_place(value)
        if writer.readable:
            why = "later passes read it rather than compute it again"
            writer.sink(POINT).append(Line(f"# {writer.names[value]} is kept: {why}."))
        if value in self.scratch and not self.by_rows:
            writer.sink(POINT).append(Line(f"store({place}, 0, {text}, 0)"))
        else:
            writer.sink(POINT).append(Line(f"store[tail]({place}, i, {text}, stop)"))

    def load_kept(self, value: SSAValue) -> None:
        """Loads a value of an earlier pass."""
        writer = self.writer
        writer.text.helpers.add("load")
        place = self._kept_place(value)
        load = (
            f"load[w]({place}, 0, 0)"
            if value in self.scratch and not self.by_rows
            else f"load[w, tail]({place}, i, stop)"
        )
        writer.sink(POINT).append(Line(f"var {writer.names[value]} = {writer.loaded(value, load)}"))

    def _kept_place(self, value: SSAValue) -> str:
        if value not in self.places and value not in self.scratch:
            place = self._result_for(value)
            if place is not None:
                self.places[value] = place
            else:
                self.scratch[value] = self._new_scratch(value)
        if value in self.places:
            n = self.places[value]
            return self.writer.loads.line_pointer(n, self.writer.outs[n - len(self.writer.nest.ins)])
        return self._scratch_line(self.scratch[value])

    def _result_for(self, value: SSAValue) -> int | None:
        """A result that is written over the kept value in the same place, when that is no longer needed."""
        writer, nest = self.writer, self.writer.nest
        last_use = max(writer.plan.kept[value])
        for n, (result, amap, place) in enumerate(zip(nest.outs, nest.out_maps(), writer.plan.stores, strict=True)):
            whole = [e.position for e in amap.results if isinstance(e, AffineDimExpr)] == list(range(len(nest.space)))
            number = len(nest.ins) + n
            if (
                whole
                and place >= last_use
                and element_of(result.type) == value.type
                and number not in self.places.values()
            ):
                return number
        return None

    def _new_scratch(self, value: SSAValue) -> str:
        writer = self.writer
        name = self._variable("kept")
        loops = " * ".join(f"n{d}" for d in writer.reduced)
        count = loops if self.by_rows else f"{loops} * Int({writer.text.width})"
        writer.text.helpers |= {"scratch", "release"}
        ty = value.type if not isinstance(value.type, IntegerType) or value.type.width.data > 1 else None
        dtype = "DType.uint8" if ty is None else spelling.dtype(writer.register(value.type))
        writer.text.prologue.append(Line(f"var {name} = scratch[{dtype}]({count})"))
        writer.text.release.append(Line(f"release({name})"))
        return name

    def _scratch_line(self, name: str) -> str:
        writer = self.writer
        loops = [d for d in writer.reduced if d != len(writer.nest.space) - 1]
        if not loops:
            return name
        key = (name, writer.phase)
        if key not in self.lines:
            known = next((line for (kept, _), line in self.lines.items() if kept == name), None)
            self.lines[key] = known or self._variable(f"line_{name}")
            offset = f"d{loops[0]}"
            for d in loops[1:]:
                offset = f"{offset} * n{d} + d{d}" if "+" not in offset else f"({offset}) * n{d} + d{d}"
            width = f"n{writer.reduced[-1]}" if self.by_rows else "Int(w)"
            offset = f"({offset}) * {width}" if "+" in offset else f"{offset} * {width}"
            writer.sink(LINE).append(Line(f"var {self.lines[key]} = {name}.unsafe_offset({offset})"))
        return self.lines[key]
