# silu_bfloat16, from examples/gallery.py:42. Written by juju; edit a copy.
# 1 array in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, aligned, array, load, narrow, round_to, size, store, sweep_stream, widen
from juju_math import logistic


@export
def silu_bfloat16(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 2)
    var in_x = array[DType.bfloat16](args, 0)
    var out_mul = array[DType.bfloat16](args, 1)

    @always_inline
    def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
        var x = widen(load[w, tail](in_x, i, stop))
        # examples/gallery.py:42
        var v = round_to[DType.bfloat16](logistic(x))
        var v_2 = round_to[DType.bfloat16](x * v)
        store[tail, stream](out_mul, i, narrow[DType.bfloat16](v_2), stop)

    var around = size(args, 3) != 0 and aligned(out_mul)
    sweep_stream[4 * LANES](body, lo, min(hi, n), around)
    return 0
