# softmax, from examples/gallery.py:92. Written by juju; edit a copy.
# 1 array in, 1 array out, 1 nest.

from juju_kernel import Args, BLOCK, GRAIN, LANES, Maximum, Sum, Total, array, load, size, splat, store, sweep
from juju_math import exp


@export
def softmax(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 2)
    var n1 = size(args, 3)
    var n = n0 * GRAIN
    var in_x = array[DType.float32](args, 0)
    var out_div = array[DType.float32](args, 1)
    for row in range(lo // GRAIN, min(hi, n) // GRAIN):
        var row_in_x = in_x.unsafe_offset(row * n1)
        var row_out_div = out_div.unsafe_offset(row * n1)
        var total = Total[Maximum, DType.float32, 4 * LANES]()
        # Pass 1 of 3.

        @always_inline
        def body_1[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total}:
            var x = load[w, tail](row_in_x, i, stop)
            total.take[tail](x, i, stop)

        sweep[4 * LANES](body_1, 0, n1)
        # examples/gallery.py:92
        var v = total.value()
        var total_2 = Total[Sum, DType.float32, 4 * LANES]()
        # Pass 2 of 3.

        @always_inline
        def body_2[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total_2}:
            var x = load[w, tail](row_in_x, i, stop)
            # examples/gallery.py:92
            var v_2 = x - splat[w](v)
            var v_3 = exp(v_2)
            total_2.take[tail](v_3, i, stop)
            # v_3 is kept: later passes read it rather than compute it again.
            store[tail](row_out_div, i, v_3, stop)

        for block in range(0, n1, BLOCK):
            sweep[4 * LANES](body_2, block, min(block + BLOCK, n1))
            total_2.close()
        # examples/gallery.py:92
        var v_4 = total_2.value()
        # Pass 3 of 3.

        @always_inline
        def body_3[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
            var v_3 = load[w, tail](row_out_div, i, stop)
            # examples/gallery.py:92
            var v_5 = v_3 / splat[w](v_4)
            store[tail](row_out_div, i, v_5, stop)

        sweep[4 * LANES](body_3, 0, n1)
    return 0
