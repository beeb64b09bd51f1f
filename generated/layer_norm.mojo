# layer_norm, from examples/gallery.py:96. Written by juju; edit a copy.
# 3 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, BLOCK, GRAIN, LANES, Sum, Total, array, load, size, splat, store, sweep
from juju_math import rsqrt


@export
def layer_norm(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 4)
    var n1 = size(args, 5)
    var n = n0 * GRAIN
    var in_x = array[DType.float32](args, 0)
    var in_gain = array[DType.float32](args, 1)
    var in_bias = array[DType.float32](args, 2)
    var out_add = array[DType.float32](args, 3)
    for row in range(lo // GRAIN, min(hi, n) // GRAIN):
        var row_in_x = in_x.unsafe_offset(row * n1)
        var row_out_add = out_add.unsafe_offset(row * n1)
        var total = Total[Sum, DType.float32, 4 * LANES]()
        # Pass 1 of 3.

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
        # Pass 2 of 3.

        @always_inline
        def body_2[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total_2}:
            var x = load[w, tail](row_in_x, i, stop)
            # examples/gallery.py:96
            var v_3 = x - splat[w](v_2)
            # examples/gallery.py:97
            var v_4 = v_3 * v_3
            total_2.take[tail](v_4, i, stop)

        for block in range(0, n1, BLOCK):
            sweep[4 * LANES](body_2, block, min(block + BLOCK, n1))
            total_2.close()
        # examples/gallery.py:97
        var v_5 = total_2.value()
        var v_6 = v_5 * Float32(0.0078125)
        # examples/gallery.py:98
        var v_7 = v_6 + Float32(1e-05)
        var v_8 = rsqrt(v_7)
        # Pass 3 of 3.

        @always_inline
        def body_3[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
            var x = load[w, tail](row_in_x, i, stop)
            var gain = load[w, tail](in_gain, i, stop)
            var bias = load[w, tail](in_bias, i, stop)
            # examples/gallery.py:96
            var v_3 = x - splat[w](v_2)
            # examples/gallery.py:98
            var v_9 = v_3 * splat[w](v_8)
            var v_10 = v_9 * gain
            var v_11 = v_10 + bias
            store[tail](row_out_add, i, v_11, stop)

        sweep[4 * LANES](body_3, 0, n1)
    return 0
