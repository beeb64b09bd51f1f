"""Reductions by any operation: a function that combines totals and elements, for one lane or many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Attribute

from juju.dialect._xdsl import location_of
from juju.dialect.body import ReduceOp
from juju.mojo import spelling
from juju.mojo.text import LANE, POINT, ROW, Line

if TYPE_CHECKING:
    from juju.mojo.totals import Totals


class General:
    """Writes one general reduction in the pass that computes it.

    Lane totals start with the lanes' first elements, as the operation has no value that changes nothing; the first
    totals enter once, when lanes are combined in order. Where each lane is a row of its own they start it.
    """

    def __init__(self, totals: Totals, op: ReduceOp) -> None:
        self.totals = totals
        self.writer = totals.writer
        self.op = op
        self.types = [self.dtype(v.type) for v in op.elements]
        self.names = [spelling.variable("total", self.writer.taken) for _ in op.elements]
        self.function = self._function()

    def dtype(self, ty: Attribute) -> str:
        return spelling.value_dtype(self.writer.register(ty))

    def write(self) -> None:
        if self.totals.by_rows:
            self._row()
        else:
            self._lanes()

    def _function(self) -> str:
        """Defines the operation before the rows."""
        writer, block = self.writer, self.op.combine.block  # type: ignore[union-attr]
        name = spelling.variable("joined", writer.taken)
        lines, aliases, results = writer.region(block)
        args = ", ".join(f"{writer.names[arg]}: SIMD[{self.dtype(arg.type)}, w]" for arg in block.args)
        vectors = [f"SIMD[{dtype}, w]" for dtype in self.types]
        one = len(vectors) == 1
        result = vectors[0] if one else f"Tuple[{', '.join(vectors)}]"
        lines += [Line(f"return {results[0]}" if one else f"return ({', '.join(results)})")]
        if writer.text.definitions:
            writer.text.definitions.append(Line(""))
        writer.text.definitions += [
            Line("@always_inline"),
            Line(f"def {name}[w: SIMDLength]({args}) {{}} -> {result}:"),
            *(Line(f"    {line.text}", line.source) for line in (*aliases, *lines)),
        ]
        return name

    def _parts(self, call: str) -> tuple[list[Line], list[str]]:
        """A call, and its results."""
        if len(self.names) == 1:
            return [], [call]
        name = spelling.variable("both", self.writer.taken)
        return [Line(f"var {name} = {call}")], [f"{name}[{n}]" for n in range(len(self.names))]

    def _lanes(self) -> None:
        writer, op = self.writer, self.op
        for name, first in zip(self.names, op.firsts, strict=True):
            writer.sink(LANE).append(Line(f"var {name} = {writer.operand(first, LANE)}"))
        elements = [writer.operand(v, POINT) for v in op.elements]
        lines, results = self._parts(f"{self.function}({', '.join([*self.names, *elements])})")
        writer.sink(POINT).extend(lines)
        writer.sink(POINT).extend(Line(f"{name} = {r}") for name, r in zip(self.names, results, strict=True))
        for value, name in zip(op.results, self.names, strict=True):
            writer.sink(LANE, writer.phase + 1).append(Line(f"var {writer.name(value, 'v')} = {name}", location_of(op)))

    def _row(self) -> None:
        writer, op = self.writer, self.op
        started = spelling.variable("started", writer.taken)
        phase = writer.text.phases[writer.phase]
        phase.changed += [*self.names, started]
        writer.text.helpers |= {"merged", "LANES"}
        before, body = writer.sink(LANE), writer.sink(POINT)
        before += [Line(f"var {n} = {self._zero(t)}") for n, t in zip(self.names, self.types, strict=True)]
        before.append(Line(f"var {started} = False"))
        elements = [writer.operand(v, POINT) for v in op.elements]
        lanes = [f"rebind[SIMD[{t}, w]]({n})" for n, t in zip(self.names, self.types, strict=True)]
        lines, results = self._parts(f"{self.function}({', '.join([*lanes, *elements])})")
        body += lines
        for name, element, result in zip(self.names, elements, results, strict=True):
            body.append(Line(f"{name} = merged[tail]({started}, {name}, {element}, {result}, i, stop)"))
        body.append(Line(f"{started} = True"))
        after = writer.sink(LANE, writer.phase + 1)
        values = [writer.name(value, "v") for value in op.results]
        for value, first in zip(values, op.firsts, strict=True):
            after.append(Line(f"var {value} = {writer.operand(first, ROW)}"))
        lane = spelling.variable("lane", writer.taken)
        lines, results = self._parts(f"{self.function}({', '.join([*values, *(f'{n}[{lane}]' for n in self.names)])})")
        after.append(Line(f"for {lane} in range(min({phase.extent}, LANES) if {started} else 0):", location_of(op)))
        after += [Line(f"    {line.text}") for line in lines]
        after += [Line(f"    {value} = {result}") for value, result in zip(values, results, strict=True)]

    def _zero(self, dtype: str) -> str:
        return f"SIMD[{dtype}, LANES]({'fill=False' if dtype == 'DType.bool' else '0'})"
