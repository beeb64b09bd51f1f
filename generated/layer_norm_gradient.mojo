# layer_norm_gradient, from examples/gallery.py:96. Written by juju; edit a copy.
# 3 arrays in, 3 arrays out, 1 nest.

from juju_kernel import Args, BLOCK, GRAIN, LANES, Sum, Total, array, load, size, splat, store, sweep
from juju_math import negate, rsqrt


@export
def layer_norm_gradient_0(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 6)
    var n1 = size(args, 7)
    var n = n0 * GRAIN
    var in_x = array[DType.float32](args, 0)
    var in_upstream = array[DType.float32](args, 1)
    var in_gain = array[DType.float32](args, 2)
    var out_reduce_sum = array[DType.float32](args, 3)
    var out_reduce_sum_2 = array[DType.float32](args, 4)
    var out_add_any = array[DType.float32](args, 5)
    for row in range(lo // GRAIN, min(hi, n) // GRAIN):
        var row_in_x = in_x.unsafe_offset(row * n1)
        var row_in_upstream = in_upstream.unsafe_offset(row * n1)
        var row_out_reduce_sum = out_reduce_sum.unsafe_offset(row)
        var row_out_add_any = out_add_any.unsafe_offset(row * n1)
        var row_out_reduce_sum_2 = out_reduce_sum_2.unsafe_offset(row)
        var total = Total[Sum, DType.float32, 4 * LANES]()
        # Pass 1 of 4.

        @always_inline
        def body_1[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total}:
            var x = load[w, tail](row_in_x, i, stop)
            total.take[tail](x, i, stop)

        for block in range(0, n1, BLOCK):
            sweep[4 * LANES](body_1, block, min(block + BLOCK, n1))
            total.close()
        # examples/gallery.py:96
        var v = total.value()
        var v_2 = v * Float32(0.0078125)
        var total_2 = Total[Sum, DType.float32, 4 * LANES]()
        var total_3 = Total[Sum, DType.float32, 4 * LANES]()
        store(row_out_reduce_sum, 0, v, 1)
        # Pass 2 of 4.

        @always_inline
        def body_2[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total_2, mut total_3}:
            var x = load[w, tail](row_in_x, i, stop)
            var upstream = load[w, tail](row_in_upstream, i, stop)
            var gain = load[w, tail](in_gain, i, stop)
            # examples/gallery.py:96
            var v_3 = x - splat[w](v_2)
            # examples/gallery.py:97
            var v_4 = v_3 * v_3
            total_2.take[tail](v_4, i, stop)
            # examples/gallery.py:98
            var v_6 = upstream * gain
            var v_7 = v_3 * v_6
            total_3.take[tail](v_7, i, stop)

        for block in range(0, n1, BLOCK):
            sweep[4 * LANES](body_2, block, min(block + BLOCK, n1))
            total_2.close()
            total_3.close()
        # examples/gallery.py:97
        var v_5 = total_2.value()
        # examples/gallery.py:98
        var v_8 = total_3.value()
        # examples/gallery.py:97
        var v_10 = v_5 * Float32(0.0078125)
        # examples/gallery.py:98
        var v_11 = v_10 + Float32(1e-05)
        var v_12 = rsqrt(v_11)
        var v_13 = v_12 / v_11
        var v_14 = Float32(-0.5) * v_13
        var v_16 = v_8 * v_14
        # examples/gallery.py:97
        var v_17 = v_16 * Float32(0.0078125)
        var total_4 = Total[Sum, DType.float32, 4 * LANES]()
        store(row_out_reduce_sum_2, 0, v_5, 1)
        # Pass 3 of 4.

        @always_inline
        def body_3[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total_4}:
            comptime F32 = SIMD[DType.float32, w]
            var x = load[w, tail](row_in_x, i, stop)
            var upstream = load[w, tail](row_in_upstream, i, stop)
            var gain = load[w, tail](in_gain, i, stop)
            # examples/gallery.py:96
            var v_3 = x - splat[w](v_2)
            # examples/gallery.py:97
            var v_9 = F32(2.0) * v_3
            # examples/gallery.py:98
            var v_6 = upstream * gain
            var v_15 = v_6 * splat[w](v_12)
            # examples/gallery.py:97
            var v_18 = splat[w](v_17) * v_9
            var v_19 = v_15 + v_18
            # examples/gallery.py:96
            var v_20 = negate(v_19)
            total_4.take[tail](v_20, i, stop)
            # v_19 is kept: later passes read it rather than compute it again.
            store[tail](row_out_add_any, i, v_19, stop)

        for block in range(0, n1, BLOCK):
            sweep[4 * LANES](body_3, block, min(block + BLOCK, n1))
            total_4.close()
        # examples/gallery.py:96
        var v_21 = total_4.value()
        var v_22 = v_21 * Float32(0.0078125)
        # Pass 4 of 4.

        @always_inline
        def body_4[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
            var v_19 = load[w, tail](row_out_add_any, i, stop)
            # examples/gallery.py:96
            var v_23 = v_19 + splat[w](v_22)
            store[tail](row_out_add_any, i, v_23, stop)

        sweep[4 * LANES](body_4, 0, n1)
    return 0


# layer_norm_gradient, from examples/gallery.py:98. Written by juju; edit a copy.
# 4 arrays in, 2 arrays out, 1 nest.

from juju_kernel import Args, LANES, STEPS, Sum, Totals, array, load, size, splat, store, sweep_down
from juju_math import rsqrt


@export
def layer_norm_gradient_1(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 6)
    var n1 = size(args, 7)
    var n = n1
    var in_upstream = array[DType.float32](args, 0)
    var in_x = array[DType.float32](args, 1)
    var in_reduce_sum = array[DType.float32](args, 2)
    var in_reduce_sum_2 = array[DType.float32](args, 3)
    var out_reduce_sum = array[DType.float32](args, 4)
    var out_reduce_sum_2 = array[DType.float32](args, 5)

    @always_inline
    def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
        var total = Totals[Sum, DType.float32, w]()
        var total_2 = Totals[Sum, DType.float32, w]()
        for block in range(0, n0, STEPS):
            for d0 in range(block, min(block + STEPS, n0)):
                var line_in_upstream = in_upstream.unsafe_offset(d0 * n1)
                var upstream = load[w, tail](line_in_upstream, i, stop)
                var line_in_x = in_x.unsafe_offset(d0 * n1)
                var x = load[w, tail](line_in_x, i, stop)
                var line_in_reduce_sum = in_reduce_sum.unsafe_offset(d0)
                var reduce_sum = load[1](line_in_reduce_sum, 0, 1)
                var line_in_reduce_sum_2 = in_reduce_sum_2.unsafe_offset(d0)
                var reduce_sum_2 = load[1](line_in_reduce_sum_2, 0, 1)
                total.take(upstream)
                # examples/gallery.py:96
                var v_2 = reduce_sum * Float32(0.0078125)
                var v_3 = x - splat[w](v_2)
                # examples/gallery.py:97
                var v_4 = reduce_sum_2 * Float32(0.0078125)
                # examples/gallery.py:98
                var v_5 = v_4 + Float32(1e-05)
                var v_6 = rsqrt(v_5)
                var v_7 = v_3 * splat[w](v_6)
                var v_8 = v_7 * upstream
                total_2.take(v_8)
            total.close()
            total_2.close()
        # examples/gallery.py:98
        var v = total.value()
        var v_9 = total_2.value()
        store[tail](out_reduce_sum, i, v, stop)
        store[tail](out_reduce_sum_2, i, v_9, stop)

    sweep_down[16 * LANES](body, lo, min(hi, n))
    return 0
