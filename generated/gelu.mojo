# gelu, from examples/gallery.py:38. Written by juju; edit a copy.
# 1 array in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, aligned, array, load, size, store, sweep_stream
from juju_math import integer_pow, tanh


@export
def gelu(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 2)
    var in_x = array[DType.float32](args, 0)
    var out_mul = array[DType.float32](args, 1)

    @always_inline
    def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var x = load[w, tail](in_x, i, stop)
        # examples/gallery.py:38
        var v = integer_pow[3](x)
        var v_2 = F32(0.044715) * v
        var v_3 = x + v_2
        var v_4 = F32(0.7978846) * v_3
        var v_5 = tanh(v_4)
        var v_6 = F32(1.0) + v_5
        var v_7 = F32(0.5) * v_6
        var v_8 = x * v_7
        store[tail, stream](out_mul, i, v_8, stop)

    var around = size(args, 3) != 0 and aligned(out_mul)
    sweep_stream[4 * LANES](body, lo, min(hi, n), around)
    return 0
