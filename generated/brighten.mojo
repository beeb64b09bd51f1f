# brighten, from examples/gallery.py:84. Written by juju; edit a copy.
# 2 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, aligned, array, load, size, splat, store, sweep_stream
from juju_math import convert, maximum, minimum


@export
def brighten(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 3)
    var in_image = array[DType.uint8](args, 0)
    var in_gain = array[DType.float32](args, 1)
    var out_convert_element_type = array[DType.uint8](args, 2)
    var gain = load[1](in_gain, 0, 1)

    @always_inline
    def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var image = load[w, tail](in_image, i, stop)
        # examples/gallery.py:84
        var v = convert[DType.float32](image)
        var v_2 = v * splat[w](gain)
        var v_3 = maximum(F32(0.0), v_2)
        var v_4 = minimum(F32(255.0), v_3)
        var v_5 = convert[DType.uint8](v_4)
        store[tail, stream](out_convert_element_type, i, v_5, stop)

    var around = size(args, 4) != 0 and aligned(out_convert_element_type)
    sweep_stream[4 * LANES](body, lo, min(hi, n), around)
    return 0
