# rbf_sums, from examples/gallery.py:106. Written by juju; edit a copy.
# 3 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, STEPS, Sum, Totals, array, load, load_every, size, splat, store, sweep_down
from juju_math import exp, negate


@export
def rbf_sums(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 4)
    var n1 = size(args, 5)
    var n = n1
    var step0_in_y = size(args, 6)
    var start_in_x = size(args, 7)
    var start_in_y = size(args, 8)
    var start_in_x_2 = size(args, 9)
    var start_in_y_2 = size(args, 10)
    var in_x = array[DType.float32](args, 0)
    var in_y = array[DType.float32](args, 1)
    var in_weights = array[DType.float32](args, 2)
    var out_reduce_sum = array[DType.float32](args, 3)
    var from_in_x = in_x.unsafe_offset(start_in_x)
    var from_in_y = in_y.unsafe_offset(start_in_y)
    var from_in_x_2 = in_x.unsafe_offset(start_in_x_2)
    var from_in_y_2 = in_y.unsafe_offset(start_in_y_2)

    @always_inline
    def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var x = load_every[3, w, tail](in_x, i, stop)
        var x_2 = load_every[3, w, tail](from_in_x, i, stop)
        var x_3 = load_every[3, w, tail](from_in_x_2, i, stop)
        var total = Totals[Sum, DType.float32, w]()
        for block in range(0, n0, STEPS):
            for d0 in range(block, min(block + STEPS, n0)):
                var line_in_y = in_y.unsafe_offset(d0 * step0_in_y)
                var y = load[1](line_in_y, 0, 1)
                var line_in_y_2 = from_in_y.unsafe_offset(d0 * step0_in_y)
                var y_2 = load[1](line_in_y_2, 0, 1)
                var line_in_y_3 = from_in_y_2.unsafe_offset(d0 * step0_in_y)
                var y_3 = load[1](line_in_y_3, 0, 1)
                var line_in_weights = in_weights.unsafe_offset(d0)
                var weights = load[1](line_in_weights, 0, 1)
                # examples/gallery.py:106
                var v = x - splat[w](y)
                var v_2 = v * v
                var v_3 = x_2 - splat[w](y_2)
                var v_4 = v_3 * v_3
                var v_5 = x_3 - splat[w](y_3)
                var v_6 = v_5 * v_5
                var v_7 = v_2 + v_4
                var v_8 = v_7 + v_6
                var v_9 = v_8 + F32(0.0)
                # examples/gallery.py:107
                var v_10 = negate(v_9)
                var v_11 = exp(v_10)
                var v_12 = v_11 * splat[w](weights)
                total.take(v_12)
            total.close()
        # examples/gallery.py:107
        var v_13 = total.value()
        store[tail](out_reduce_sum, i, v_13, stop)

    sweep_down[8 * LANES](body, lo, min(hi, n))
    return 0
