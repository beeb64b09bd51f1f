"""Tiles: square pieces of an array that is read across its rows, turned so that it is read along them."""

from std.sys import size_of
from std.memory import stack_allocation

from .memory import LINE, live, load
from .sweep import LANES

comptime TILE = 64
"""Rows and columns of a tile."""


@always_inline
def tiles(n: Int) -> Int:
    """How many tiles cover `n` rows or columns."""
    return (n + TILE - 1) // TILE


@always_inline
def tile[dt: DType]() -> Pointer[Scalar[dt], MutAnyOrigin]:
    """Memory of a tile, on the stack of the caller."""
    return stack_allocation[TILE * TILE, dt, alignment=LINE]().as_unsafe_any_origin()


@always_inline
def turn[
    dt: DType, //
](target: Pointer[Scalar[dt], MutAnyOrigin], source: Pointer[Scalar[dt], MutAnyOrigin], step: Int, rows: Int, columns: Int):
    """Fills a tile: its row `r` and column `c` is element `r + c * step` of `source`, for `r < rows`, `c < columns`."""
    comptime if dt == DType.bfloat16 or dt == DType.float16:  # as floats they are moved one by one
        turn(target.unsafe_bitcast[UInt16](), source.unsafe_bitcast[UInt16](), step, rows, columns)
        return
    comptime lanes = min(LANES, LINE // size_of[dt]())
    for column in range(0, columns, lanes):
        for row in range(0, rows, lanes):
            var from_ = source.unsafe_offset(row + column * step)
            var to = target.unsafe_offset(row * TILE + column)
            if row + lanes <= rows and column + lanes <= columns:
                turn_block[lanes, False](to, from_, step, lanes, lanes)
            else:
                turn_block[lanes, True](to, from_, step, rows - row, columns - column)


@always_inline
def turn_block[
    dt: DType, //, lanes: Int, edge: Bool
](target: Pointer[Scalar[dt], MutAnyOrigin], source: Pointer[Scalar[dt], MutAnyOrigin], step: Int, rows: Int, columns: Int):
    """A square of `lanes` rows and columns, turned in registers by interleaving lines of both halves again and again."""
    var lines = Array[SIMD[dt, lanes], lanes](fill=SIMD[dt, lanes](0))
    comptime for k in range(lanes):
        comptime if edge:
            if k < columns:
                lines[k] = load[lanes, True](source.unsafe_offset(k * step), 0, rows)
        else:
            lines[k] = source.unsafe_load[width=lanes](k * step)
    comptime for stage in range(7):
        comptime if (1 << stage) < lanes:
            var next = lines.copy()
            comptime for k in range(lanes // 2):
                var both = lines[k].interleave(lines[k + lanes // 2])
                next[2 * k] = both.slice[lanes]()
                next[2 * k + 1] = both.slice[lanes, offset=lanes]()
            lines = next^
    comptime for k in range(lanes):
        target.unsafe_store(k * TILE, lines[k])
