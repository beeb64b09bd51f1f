"""Escape times of the Mandelbrot set: one SIMD vector of pixels at a time, left as soon as all of them are decided."""

import extensibility
from extensibility import InputTensor, OutputTensor
from max.algorithm import sync_parallelize
from max.gpu.host import DeviceContext
from max.runtime.asyncrt import parallelism_level
from std.math import ceildiv, iota
from std.sys import simd_width_of

comptime CHUNK = 2048
"""Pixels of one task: the work per pixel varies a lot, so there are many more tasks than threads."""

comptime BLOCK = 8
"""Iterations between two looks at whether the vector is decided."""


@always_inline
def escape_times[
    dt: DType, it: DType, w: SIMDLength
](cr: SIMD[dt, w], ci: SIMD[dt, w], limit: Int) -> SIMD[it, w]:
    """How many of z = 0, c, c^2 + c, ... (`limit` values) come before the first with |z| > 2.

    An escaped z only grows (up to infinity and NaN, which also fail `<= 4`), so lanes are never frozen.
    An orbit that returns to a value it had before is periodic and never escapes; `anchor` is that earlier value,
    moved forward each time the number of blocks doubles (Brent's method). Results are those of the plain loop.
    """
    var zr = SIMD[dt, w](0)
    var zi = SIMD[dt, w](0)
    var count = SIMD[it, w](0)
    var periodic = SIMD[DType.bool, w](fill=False)
    var anchor_r = zr
    var anchor_i = zi

    @always_inline
    def step() {mut zr, mut zi, mut count, imm cr, imm ci}:
        var zr2 = zr * zr
        var zi2 = zi * zi
        count += (zr2 + zi2).le(4).cast[it]()
        zi = (zr + zr).fma(zi, ci)
        zr = zr2 - zi2 + cr

    var done = 0
    var blocks = 0
    var next_anchor = 1
    while done + BLOCK <= limit:
        comptime for _ in range(BLOCK):
            step()
        done += BLOCK
        blocks += 1
        var live = count.eq(Scalar[it](done))
        periodic |= live & zr.eq(anchor_r) & zi.eq(anchor_i)
        if not (live & ~periodic).reduce_or():
            return periodic.select(SIMD[it, w](Scalar[it](limit)), count)
        if blocks == next_anchor:
            next_anchor *= 2
            anchor_r = zr
            anchor_i = zi
    for _ in range(limit - done):
        step()
    return periodic.select(SIMD[it, w](Scalar[it](limit)), count)


@extensibility.register("mandelbrot")
struct Mandelbrot:
    """`result[row, col]` is for c = (min_x + col * scale_x) + i (min_y + row * scale_y).

    All operands are of rank 0: four floats of one type, and the limit, an integer. The result is of an integer type.
    """

    @staticmethod
    def execute[
        target: StaticString
    ](
        result: OutputTensor[rank=2, ...],
        min_x: InputTensor,
        min_y: InputTensor[dtype=min_x.dtype, ...],
        scale_x: InputTensor[dtype=min_x.dtype, ...],
        scale_y: InputTensor[dtype=min_x.dtype, ...],
        max_iterations: InputTensor,
        ctx: DeviceContext,
    ) raises:
        comptime dt = min_x.dtype
        comptime it = result.dtype
        comptime assert (
            dt.is_floating_point()
        ), "mandelbrot: min_x must be a floating point tensor"
        comptime assert (
            it.is_integral()
        ), "mandelbrot: the result must be an integer tensor"
        comptime V = 4 * simd_width_of[dt]()
        var limit = Int(max_iterations.unsafe_ptr()[])
        if limit < 0:
            raise Error(
                "mandelbrot: max_iterations must not be negative, but is ",
                limit,
            )
        var x0 = min_x.unsafe_ptr()[]
        var y0 = min_y.unsafe_ptr()[]
        var dx = scale_x.unsafe_ptr()[]
        var dy = scale_y.unsafe_ptr()[]
        var width = result.dim_size[1]()
        var size = result.size()
        var p = result.unsafe_ptr()

        def task(
            t: Int,
        ) {
            var x0,
            var y0,
            var dx,
            var dy,
            var width,
            var size,
            var p,
            var limit,
        }:
            var i = t * CHUNK
            var end = min(i + CHUNK, size)
            while i < end:
                var index = iota[DType.int64, V](Int64(i))
                var row = index // Int64(width)
                var col = index - row * Int64(width)
                var cr = col.cast[dt]().fma(SIMD[dt, V](dx), SIMD[dt, V](x0))
                var ci = row.cast[dt]().fma(SIMD[dt, V](dy), SIMD[dt, V](y0))
                var times = escape_times[dt, it, V](cr, ci, limit)
                if i + V <= end:
                    p.unsafe_store(i, times)
                else:
                    for lane in range(end - i):
                        p[unsafe_offset=i + lane] = times[lane]
                i += V

        if size > 0:
            sync_parallelize(task, ceildiv(size, CHUNK))
