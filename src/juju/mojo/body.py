"""One nest as lines of Mojo: loads, expressions from the scalar-op table, passes over reduction loops, stores.

A nest whose innermost loop is parallel is computed in vectors along it; its reduction loops run inside, for all lanes
at once. A nest whose innermost loop is reduced is computed row by row, in vectors along the row.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from juju.dialect._xdsl import location_of
from juju.dialect.body import CumulateOp, ExtentOp, IndexOp, ReadOp, ReduceOp, WeaveOp
from juju.dialect.ops import ConstOp, NestOp, ScalarOp, YieldOp, param_values
from juju.dialect.types import DTYPES, element_of, is_half, item_size, kind_of
from juju.errors import InternalError
from juju.mojo import spelling, tiles
from juju.mojo.access import Access
from juju.mojo.loads import Loads
from juju.mojo.phases import levels_of, schedule
from juju.mojo.text import LANE, LINE, POINT, ROW, UNIFORM, VECTORS, Line, NestText, PhaseText, short_path
from juju.mojo.totals import COMBINERS, Totals

__all__ = ["BodyWriter", "Line", "NestText", "short_path"]

HELPERS = (
    frozenset(
        "Args LANES LINE fence aligned array load narrow padded round_to size splat store widen sweep "
        "store_pairs store_strided sweep_stream args sizes lo hi i n stop start at w tail stream large around "
        "body point end row first last block live GRAIN BLOCK STEPS indices load_where load_one load_reversed "
        "reversed_where load_every load_strided gather gather_where divide modulo sweep_back sweep_down drain "
        "left right unit tile tiles turn TILE Total Totals Extreme Extremes Running Runnings scratch release "
        "merged".split()
    )
    | {f"{letter}{k}" for letter in ("n", "d", "body_") for k in range(16)}
    | frozenset(COMBINERS.values())
)
"""Names of the frame around a body."""

GRAIN = 64
"""Points of a launch that stand for one row or one row of tiles; `juju_kernel` has the same."""

DOWN_WORK = 8
"""Bodies of fewer operations that walk down an array read more neighbours at each step, as memory wants it."""

ROW_COST = 4.0
"""What it costs to begin and to end a row, in ns."""

STREAM_WORK = 40
"""Bodies of more operations than this are bound by the cores, not by memory."""


class BodyWriter:
    """Writes one nest. With `names` empty, the text is canonical: it does not depend on the user's names."""

    def __init__(self, nest: NestOp, *, readable: bool, functions: frozenset[str]) -> None:
        self.nest = nest
        self.readable = readable
        self.taken = set(HELPERS) | set(functions) | set(spelling.ALIASES.values())
        self.rank = len(nest.space)
        self.reduced = nest.reduced
        self.levels = levels_of(nest)
        self.text = NestText(rank=self.rank, by_rows=bool(self.rank) and self.rank - 1 in self.reduced)
        self.names: dict[SSAValue, str] = {}
        self.used_aliases: dict[str, str] = {}
        self.inline: dict[SSAValue, ConstOp] = {}
        self.phase = 0
        self.redirected: list[Line] | None = None
        self.loaded_here: set[SSAValue] = set()
        self.done: set[tuple[object, ...]] = set()

    def write(self) -> NestText:
        block = self.nest.body.block
        arrays: dict[SSAValue, str] = {}
        for value, arg in zip(self.nest.ins, block.args, strict=True):
            if value not in arrays:
                arrays[value] = self._pointer(len(arrays), value, f"in_{len(arrays)}", arg)
        pointers = [arrays[value] for value in self.nest.ins]
        first_out = len(arrays)
        outs = [self._pointer(first_out + n, value, f"out_{n}", None) for n, value in enumerate(self.nest.outs)]
        self.outs = outs
        self.text.buffers = first_out + len(outs)
        self.access = Access(self.nest, self.text, self.taken)
        self.access.loop_hook = self._outer_loop
        self.loads = Loads(self, pointers, outs)
        self.plan = schedule(self.nest, self.levels, self._needs)
        self.totals = Totals(self)
        self.tiling = tiles.choose(self.nest, self.loads.places, self.levels)
        self._measure(outs)
        self._frame()
        if self.tiling is not None and self.text.units:
            self.text.cost *= math.prod(self.nest.space) / (self.text.units * GRAIN)
        phases = self.plan.count + 1 if self.reduced else 1
        self.text.phases = [self._new_phase(p) for p in range(phases)] if self.reduced else []
        for self.phase in range(phases):
            self._phase(outs)
        if not self.text.by_rows:
            self.text.aliases = self._alias_lines(self.used_aliases)
        if self.readable:
            self._count_passes()
        return self.text

    def _count_passes(self) -> None:
        """Says in the text which pass over the reduction loops is which, if there are several."""
        passes = [phase for phase in self.text.phases if phase.runs]
        for number, phase in enumerate(passes, 1):
            if len(passes) > 1:
                phase.before.append(Line(f"# Pass {number} of {len(passes)}."))

    # The frame --------------------------------------------------------------------------------------------------------

    def _frame(self) -> None:
        """Which loops stand around the body."""
        text, last = self.text, self.rank - 1
        parallel = [d for d in range(self.rank) if d not in self.reduced]
        if self.rank > 1:
            text.points = " * ".join([*(f"n{d}" for d in parallel), *(["GRAIN"] if text.by_rows else [])])
        elif text.by_rows:
            text.points = "GRAIN"
        text.inner = self._extent(last)
        text.has_rows = bool(self.access.outer)
        if text.by_rows:
            text.helpers.add("GRAIN")
            text.units = math.prod(self.nest.space[d] for d in parallel)
        if self.tiling is not None:
            self._tile_frame(self.tiling)
            return
        if not self.reduced and self.rank > 2:
            for d in parallel[:-1]:
                self._outer_loop(d)

    def _tile_frame(self, tiling: tiles.Tiling) -> None:
        """The loops around tiles: a unit of the launch is a row of tiles."""
        text, access = self.text, self.access
        text.units = tiling.units(self.nest.space)
        others = [d for d in access.outer if d != tiling.loop]
        text.points = " * ".join([f"tiles(n{tiling.loop})", *(f"n{d}" for d in others), "GRAIN"])
        text.tiled, text.tiled_extent = access.loop_name(tiling.loop), f"n{tiling.loop}"
        text.helpers |= {"GRAIN", "TILE", "tiles"}
        if others:
            text.unit = f"block % tiles(n{tiling.loop})"
            text.others.append(f"var unit = block // tiles(n{tiling.loop})")
        for d in others:
            inner = " * ".join(f"n{j}" for j in others[others.index(d) + 1 :])
            number = "unit" if not inner else f"unit // ({inner})" if "*" in inner else f"unit // {inner}"
            text.others.append(f"var d{d} = {number}" if d == others[0] else f"var d{d} = {number} % n{d}")
        if others:
            row = f"d{access.outer[0]}"
            for d in access.outer[1:]:
                row = f"({row}) * n{d} + d{d}" if "+" in row else f"{row} * n{d} + d{d}"
            text.rows.append(Line(f"var row = {row}"))
        self.done |= {("loop", d) for d in access.outer}

    def _extent(self, d: int) -> str:
        return f"n{d}" if self.rank > 1 or self.text.by_rows else "n"

    def _outer_loop(self, d: int) -> None:
        """The index of an outer loop, from the number of the row, where an array is not read by all of them."""
        if ("loop", d) in self.done or [d] == self.access.outer:
            return
        self.done.add(("loop", d))
        outer = self.access.outer
        inner = " * ".join(f"n{j}" for j in outer[outer.index(d) + 1 :])
        text = "row" if not inner else f"row // ({inner})" if "*" in inner else f"row // {inner}"
        self.text.rows.append(Line(f"var d{d} = {text}" if d == outer[0] else f"var d{d} = {text} % n{d}"))

    def _new_phase(self, number: int) -> PhaseText:
        phase = PhaseText(back=self.plan.back.get(number, False))
        last = self.rank - 1
        loops = [d for d in self.reduced if d != last]
        inner = last if self.text.by_rows else loops.pop()
        phase.loops = [f"for d{d} in {self._range(d, phase.back)}:" for d in loops]
        phase.inner = f"d{inner}"
        phase.extent = self._extent(inner)
        phase.name = "body" if self.plan.count == 1 else f"body_{number + 1}"
        return phase

    def _range(self, d: int, back: bool) -> str:
        extent = self._extent(d)
        return f"range({extent} - 1, -1, -1)" if back else f"range({extent})"

    def sink(self, level: int, phase: int | None = None) -> list[Line]:
        """Where lines of a level go in a phase."""
        if self.redirected is not None:
            return self.redirected
        number = self.phase if phase is None else phase
        if level < LANE and number == 0:
            return self.text.prologue if level == UNIFORM else self.text.rows
        if not self.reduced:
            return self.text.body
        target = self.text.phases[number]
        if level <= LANE:
            return target.before
        return target.lines if level == LINE and self.text.by_rows else target.body

    # Phases -----------------------------------------------------------------------------------------------------------

    def _phase(self, outs: list[str]) -> None:
        block, phase = self.nest.body.block, self.phase
        wanted = self.plan.wanted[phase] if phase < self.plan.count else set()
        if self.text.by_rows:
            self.used_aliases = {}
        loaded = [v for v, places in self.plan.kept.items() if phase in places]
        for n, arg in enumerate(block.args):
            if isinstance(arg.type, TensorType):
                continue
            if arg in wanted or (phase == 0 and arg in self.plan.once):
                self.loads.element(n, arg)
        self.loaded_here = set(loaded)
        for value in loaded:
            self.totals.load_kept(value)
        for op in block.ops:
            if isinstance(op, ConstOp):
                self.inline[op.result] = op
            elif isinstance(op, ReduceOp):
                if self.plan.runs[op] == phase:
                    self.totals.reduce(op)
            elif not isinstance(op, YieldOp):
                once = any(r in self.plan.once and self.plan.phase[r] == phase for r in op.results)
                if once or any(r in wanted and r not in loaded for r in op.results):
                    self._operation(op)
        for value in self.plan.kept:
            if self.plan.phase[value] == phase:
                self.totals.keep(value)
        self._stores(outs)
        if self.reduced:
            target = self.text.phases[phase]
            target.runs = bool(target.body)
            if self.text.by_rows:
                target.aliases = self._alias_lines(self.used_aliases)
                if target.runs:
                    self.text.helpers.add("sweep_back" if target.back else "sweep")

    def _operation(self, op: Operation) -> None:
        if isinstance(op, ScalarOp):
            self._scalar(op)
        elif isinstance(op, IndexOp):
            level = self.levels[op.result]
            if level in VECTORS:
                self.text.helpers.add("indices")
                text = f"indices[{self.access.index}, w](i)"
            else:
                text = f"{self.integer}({self.access.loop(op.loop)})"
            self.emit(op.result, self.name(op.result, "j"), text, None)
        elif isinstance(op, ExtentOp):
            word = self.access.word(op.number, "extent")
            self.emit(op.result, self.name(op.result, "m"), f"{self.integer}({word})", None)
        elif isinstance(op, ReadOp):
            self.loads.read(op)
        elif isinstance(op, CumulateOp):
            self.totals.cumulate(op)
        elif not isinstance(op, WeaveOp):  # that is written where the results are
            raise InternalError(f"{op.name} cannot stand in a nest")

    def region(self, block: Block) -> tuple[list[Line], list[Line], list[str]]:
        """The lines of a function's body, its short names of types, and its results."""
        aliases, self.used_aliases = self.used_aliases, {}
        self.redirected = lines = []
        for arg in block.args:
            self.levels[arg] = POINT
            self.name(arg, "x")
        for op in block.ops:
            self.levels.update((r, POINT) for r in op.results)
            if isinstance(op, ConstOp):
                self.inline[op.result] = op
            elif isinstance(op, ScalarOp):
                self._scalar(op)
            elif not isinstance(op, YieldOp):
                raise InternalError(f"{op.name} cannot stand in a combination")
        assert isinstance(block.last_op, YieldOp)
        results = [self.operand(v, POINT) for v in block.last_op.values]
        self.redirected = None
        aliases, self.used_aliases = self.used_aliases, aliases
        return lines, self._alias_lines(aliases), results

    @staticmethod
    def _alias_lines(aliases: dict[str, str]) -> list[Line]:
        return [Line(f"comptime {a} = SIMD[{d}, w]") for a, d in sorted(aliases.items())]

    def _needs(self, op: Operation) -> list[SSAValue]:
        """The values that the text of an operation reads."""
        if isinstance(op, ReadOp):
            found = [op.mask] if op.mask is not None else []
            if self.access.read_slope(op, self.levels) in (1, -1):
                return found + [leaf for v in op.indices for leaf in self.access.leaves(v, self.levels)]
            return [*found, *op.indices]
        return list(op.operands)

    # Pieces ---------------------------------------------------------------------------------------------------------

    def _pointer(self, n: int, value: SSAValue, canonical: str, arg: SSAValue | None) -> str:
        hint = arg.name_hint if arg is not None else value.name_hint
        prefix = "in" if arg is not None else "out"
        base = f"{prefix}_{hint}" if self.readable and hint else canonical
        name = spelling.variable(base, self.taken)
        self.text.pointers.append(Line(f"var {name} = array[{spelling.dtype(element_of(value.type))}](args, {n})"))
        self.text.helpers.add("array")
        return name

    def name(self, value: SSAValue, base: str) -> str:
        if value in self.names:
            return self.names[value]
        hint = value.name_hint if self.readable and value.owner is self.nest.body.block else None
        name = spelling.variable(hint or base, self.taken)
        self.names[value] = name
        return name

    def register(self, ty: Attribute) -> Attribute:
        """The type in a register: an index is an integer."""
        return IntegerType(64 if self.access.wide else 32) if isinstance(ty, IndexType) else ty

    @property
    def integer(self) -> str:
        return "Int64" if self.access.wide else "Int32"

    def number(self, text: str) -> str:
        """An Int in every lane."""
        alias = "I64" if self.access.wide else "I32"
        self.used_aliases[alias] = self.access.index
        return f"{alias}({text})"

    def emit(self, value: SSAValue, name: str, text: str, source: tuple[str, int] | None) -> None:
        self.sink(self.levels[value]).append(Line(f"var {name} = {text}", source))

    def operand(self, value: SSAValue, level: int) -> str:
        """How an expression at `level` reads a value: wider ones splat what is the same at every point."""
        vector = level in VECTORS
        if value in self.inline:
            const = self.inline[value]
            ty = self.register(value.type)
            if vector:
                self.used_aliases[spelling.value_alias(ty)] = spelling.value_dtype(ty)
            return spelling.constructor(const.value, ty, "w" if vector else "1")  # type: ignore[arg-type]
        name = self.names[value]
        if vector and self.levels[value] not in VECTORS:
            self.text.helpers.add("splat")
            return f"splat[w]({name})"
        return name

    def _scalar(self, op: ScalarOp) -> None:
        result = op.results[0]
        level = self.levels[result]
        operands = [self.operand(v, level) for v in op.operands]
        text = self._expression(op, operands, "w" if level in VECTORS else "1")
        if op.ROW.form == "shared":
            self._shared(op, text)
        else:
            self.emit(result, self.name(result, "v"), text, location_of(op))

    def _shared(self, op: ScalarOp, text: str) -> None:
        """Several results at once; each of a 16-bit float is rounded in a line of its own."""
        wanted = [r for r in op.results if r.uses and r not in self.loaded_here]
        names = {r: self.name(r, "v") for r in wanted}
        if not is_half(op.operands[0].type):
            self.emit(op.results[0], ", ".join(names.get(r, "_") for r in op.results), text, location_of(op))
            return
        wide = {r: spelling.variable(f"{names[r]}_wide", self.taken) for r in wanted}
        self.emit(op.results[0], ", ".join(wide.get(r, "_") for r in op.results), text, location_of(op))
        for r in wanted:
            self.emit(r, names[r], self.rounded(r.type, wide[r]), location_of(op))

    def _expression(self, op: ScalarOp, operands: list[str], width: str) -> str:
        row, result = op.ROW, self.register(op.results[0].type)
        if row.form == "select":
            return self._select(op, operands)
        if row.name == "bitcast":
            return self._bitcast(op, operands[0], width)
        source = op.operands[0].type
        if row.half_native and is_half(source):
            operands = [f"narrow[{half(source)}]({x})" for x in operands]
            self.text.helpers.add("narrow")
        functions = row.functions
        spelled = row.spelling(kind_of(source))
        self.text.functions.update(f for f in functions if f"{f}(" in spelled or f"{f}[" in spelled)
        text = spelled.format(*operands, to=f"DType.{DTYPES[result]}", **param_values(op))
        if row.form == "convert" or (row.half_native and is_half(result)):
            return self._widened(text) if is_half(result) else text
        return text if row.exact or row.form == "shared" else self.rounded(result, text)

    def rounded(self, ty: Attribute, text: str) -> str:
        """A result that was computed in float32, as JAX rounds it."""
        if not is_half(ty):
            return text
        self.text.helpers.add("round_to")
        return f"round_to[{half(ty)}]({text})"

    def _widened(self, text: str) -> str:
        self.text.helpers.add("widen")
        return f"widen({text})"

    def is_moved(self, value: SSAValue) -> bool:
        """Whether a value is read and written, and not looked at."""
        read = isinstance(value, BlockArgument) or isinstance(value.owner, ReadOp)
        return read and all(isinstance(use.operation, YieldOp) for use in value.uses)

    def loaded(self, value: SSAValue, text: str) -> str:
        """What is in memory as it is in a register."""
        ty = value.type
        if self.is_moved(value):
            return text
        if kind_of(ty) == "b":
            return f"{text}.ne(0)"
        return self._widened(text) if is_half(ty) else text

    def stored(self, value: SSAValue, text: str) -> str:
        """What is in a register as it is in memory."""
        ty = value.type
        if self.is_moved(value):
            return text
        if kind_of(ty) == "b":
            return f"{text}.cast[DType.uint8]()"
        if is_half(ty):
            self.text.helpers.add("narrow")
            return f"narrow[{half(ty)}]({text})"
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
            operand = f"narrow[{half(source)}]({operand})"
            self.text.helpers.add("narrow")
        text = f"bitcast[DType.{DTYPES[result]}, {width}]({operand})"
        return self._widened(text) if is_half(result) else text

    def _stores(self, outs: list[str]) -> None:
        """The results that are known after this phase's values."""
        first, reduced, phase = len(self.nest.ins), set(self.reduced), self.phase
        for n, (pointer, value, amap) in enumerate(zip(outs, self.nest.yielded(), self.nest.out_maps(), strict=True)):
            used = amap.used_dims()
            along = bool(used & reduced)
            known = self.plan.stores[n] if along or not reduced else self.plan.phase[value]
            if known != phase:
                continue
            self.text.helpers.add("store")
            if not used and ((self.levels[value] == UNIFORM and known == 0) or value in self.inline):
                text = self.stored(value, self.operand(value, UNIFORM))
                self.text.uniform_stores.append(Line(f"store({pointer}, 0, {text}, 1)"))
            elif isinstance(value.owner, WeaveOp):
                self._store_woven(first + n, pointer, value.owner)
            elif along or not reduced:
                text = self.stored(value, self.operand(value, POINT))
                how = "tail, stream" if self.text.streams else "tail"
                place = self.loads.line_pointer(first + n, pointer)
                self.sink(POINT).append(Line(f"store[{how}]({place}, i, {text}, stop)"))
            else:
                self._store_total(first + n, pointer, value, used)

    def _store_woven(self, n: int, pointer: str, weave: WeaveOp) -> None:
        """A result whose elements stand side by side at each point."""
        place = self.loads.line_pointer(n, pointer)
        parts = [self.stored(v, self.operand(v, POINT)) for v in weave.elements]
        steps = len(parts)
        lines = self.sink(POINT)
        if steps == 2:
            self.text.helpers.add("store_pairs")
            lines.append(Line(f"store_pairs[tail]({place}, i, {parts[0]}, {parts[1]}, stop)"))
            return
        self.text.helpers.add("store_strided")
        for k, text in enumerate(parts):
            start = f"{place}.unsafe_offset({k})" if k else place
            lines.append(Line(f"store_strided[tail]({start}, i, {steps}, {text}, stop)"))

    def _store_total(self, n: int, pointer: str, value: SSAValue, used: set[int]) -> None:
        """A result that is written once for all steps of the reduction loops."""
        place = self.loads.row_pointer(n, pointer)
        lines = self.sink(LANE)
        if not self.text.by_rows:
            text = self.stored(value, self.operand(value, LANE))
            if used:
                lines.append(Line(f"store[tail]({place}, i, {text}, stop)"))
                return
            test = "row == 0 and i == 0" if self.access.outer else "i == 0"
            self.text.helpers.add("store")
            lines += [Line(f"if {test}:"), Line(f"    store({pointer}, 0, {text}.slice[1](), 1)")]
            return
        text = self.stored(value, self.operand(value, ROW))
        if used or not self.access.outer:
            lines.append(Line(f"store({place}, 0, {text}, 1)"))
        else:
            lines += [Line("if row == 0:"), Line(f"    store({pointer}, 0, {text}, 1)")]

    def _measure(self, outs: list[str]) -> None:
        """Cost of a point in ns on one core, its bytes, and the width that keeps registers filled, not spilled."""
        text, space = self.text, self.nest.space
        ops = [
            op
            for op in self.nest.body.block.ops
            if not isinstance(op, (ConstOp, WeaveOp, YieldOp)) and self._repeats(op)
        ]
        widest = max(
            (
                item_size(v.type)
                for op in ops
                for v in (*op.operands, *op.results)
                if not isinstance(v.type, TensorType)
            ),
            default=4,
        )
        work = sum(_work(op) for op in ops)
        moved = [v for v, m in zip((*self.nest.ins, *self.nest.outs), self.nest.maps, strict=True) if m.data.results]
        moves = sum(item_size(element_of(v.type)) for v in moved)
        text.flops = work
        text.cost = max(work * widest * 0.006, moves * 0.03) if space else 1.0
        if self.reduced:
            steps = math.prod(space[d] for d in self.reduced)
            text.cost = (text.cost * steps + ROW_COST) / GRAIN if text.by_rows else text.cost * steps
        elif (self.rank == 1 or self.tiling is not None) and work <= STREAM_WORK:
            written = zip(outs, self.nest.yielded(), self.nest.out_maps(), strict=True)
            text.streams = [p for p, v, m in written if m.used_dims() and not isinstance(v.owner, WeaveOp)]
        registers = self._registers(work, ops)
        registers = max(1, registers // 2) if widest == 8 else registers
        text.down = registers > 4
        text.width = f"{registers} * LANES" if registers > 1 else "LANES"

    def _registers(self, work: float, ops: list[Operation]) -> int:
        """float32 registers of one vector."""
        text = self.text
        if self.reduced and any(isinstance(op, ReduceOp) and op.kind.data == "general" for op in ops):
            return 1 if text.by_rows else 4
        if work > 60:
            return 4 if work <= 320 else 2
        if not self.reduced or text.by_rows or any(isinstance(op, CumulateOp) for op in ops):
            return 4
        return 16 if work <= DOWN_WORK else 8

    def _repeats(self, op: Operation) -> bool:
        if isinstance(op, (ReduceOp, CumulateOp)):
            return True
        return self.levels[op.results[0]] == POINT


def _work(op: Operation) -> float:
    if isinstance(op, ScalarOp):
        return op.ROW.cost
    return {ReduceOp: 2.0, CumulateOp: 10.0, ReadOp: 4.0}.get(type(op), 0.0)


def half(ty: object) -> str:
    return f"DType.{DTYPES[ty]}"  # type: ignore[index]
