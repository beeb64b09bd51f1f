# best_class, from examples/gallery.py:120. Written by juju; edit a copy.
# 1 array in, 1 array out, 1 nest.

from juju_kernel import Args, Extreme, GRAIN, LANES, array, indices, load, size, store, sweep


@export
def best_class(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 2)
    var n1 = size(args, 3)
    var n = n0 * GRAIN
    var in_logits = array[DType.float32](args, 0)
    var out_argmax = array[DType.int32](args, 1)
    for row in range(lo // GRAIN, min(hi, n) // GRAIN):
        var row_in_logits = in_logits.unsafe_offset(row * n1)
        var row_out_argmax = out_argmax.unsafe_offset(row)
        var total = Extreme[True, DType.float32, DType.int32, 4 * LANES]()

        @always_inline
        def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut total}:
            var logits = load[w, tail](row_in_logits, i, stop)
            total.take[tail](logits, indices[DType.int32, w](i), i, stop)

        sweep[4 * LANES](body, 0, n1)
        # examples/gallery.py:120
        var v = total.value()
        store(row_out_argmax, 0, v, 1)
    return 0
