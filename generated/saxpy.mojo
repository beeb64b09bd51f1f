# saxpy, from examples/gallery.py:34. Written by juju; edit a copy.
# 3 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, aligned, array, load, size, splat, store, sweep_stream


@export
def saxpy(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 4)
    var in_a = array[DType.float32](args, 0)
    var in_x = array[DType.float32](args, 1)
    var in_y = array[DType.float32](args, 2)
    var out_add = array[DType.float32](args, 3)
    var a = load[1](in_a, 0, 1)

    @always_inline
    def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
        var x = load[w, tail](in_x, i, stop)
        var y = load[w, tail](in_y, i, stop)
        # examples/gallery.py:34
        var v = splat[w](a) * x
        var v_2 = v + y
        store[tail, stream](out_add, i, v_2, stop)

    var around = size(args, 5) != 0 and aligned(out_add)
    sweep_stream[4 * LANES](body, lo, min(hi, n), around)
    return 0
