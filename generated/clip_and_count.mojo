# clip_and_count, from examples/gallery.py:76. Written by juju; edit a copy.
# 2 arrays in, 3 arrays out, 1 nest.

from juju_kernel import Args, LANES, aligned, array, load, size, splat, store, sweep_stream
from juju_math import absolute, maximum, minimum, negate


@export
def clip_and_count(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 5)
    var in_limit = array[DType.float32](args, 0)
    var in_x = array[DType.float32](args, 1)
    var out_min = array[DType.float32](args, 2)
    var out_ne = array[DType.uint8](args, 3)
    var out_select_n = array[DType.int32](args, 4)
    var limit = load[1](in_limit, 0, 1)
    # examples/gallery.py:76
    var v = negate(limit)

    @always_inline
    def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
        comptime I32 = SIMD[DType.int32, w]
        var x = load[w, tail](in_x, i, stop)
        # examples/gallery.py:76
        var v_2 = maximum(splat[w](v), x)
        var v_3 = minimum(splat[w](limit), v_2)
        var v_4 = ~x.eq(x)
        var v_5 = absolute(x)
        var v_6 = v_5.gt(splat[w](limit))
        var v_7 = v_6.select(I32(1), I32(0))
        store[tail, stream](out_min, i, v_3, stop)
        store[tail, stream](out_ne, i, v_4.cast[DType.uint8](), stop)
        store[tail, stream](out_select_n, i, v_7, stop)

    var around = size(args, 6) != 0 and aligned(out_min) and aligned(out_ne) and aligned(out_select_n)
    sweep_stream[4 * LANES](body, lo, min(hi, n), around)
    return 0
