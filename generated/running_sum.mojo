# running_sum, from examples/gallery.py:116. Written by juju; edit a copy.
# 1 array in, 1 array out, 1 nest.

from juju_kernel import Args, GRAIN, LANES, Running, Sum, array, load, size, store, sweep


@export
def running_sum(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 2)
    var n1 = size(args, 3)
    var n = n0 * GRAIN
    var in_x = array[DType.float32](args, 0)
    var out_cumsum = array[DType.float32](args, 1)
    for row in range(lo // GRAIN, min(hi, n) // GRAIN):
        var row_in_x = in_x.unsafe_offset(row * n1)
        var row_out_cumsum = out_cumsum.unsafe_offset(row * n1)
        var running = Running[Sum, DType.float32]()

        @always_inline
        def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var, mut running}:
            var x = load[w, tail](row_in_x, i, stop)
            # examples/gallery.py:116
            var v = running.next[tail](x, i, stop)
            store[tail](row_out_cumsum, i, v, stop)

        sweep[4 * LANES](body, 0, n1)
    return 0
