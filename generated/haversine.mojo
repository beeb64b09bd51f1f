# haversine, from examples/gallery.py:71. Written by juju; edit a copy.
# 4 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, array, load, size, splat, store, sweep
from juju_math import atan2, cos, sin, sqrt


@export
def haversine(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 5)
    var in_lat2 = array[DType.float32](args, 0)
    var in_lat1 = array[DType.float32](args, 1)
    var in_lon2 = array[DType.float32](args, 2)
    var in_lon1 = array[DType.float32](args, 3)
    var out_mul = array[DType.float32](args, 4)
    var lat2 = load[1](in_lat2, 0, 1)
    var lon2 = load[1](in_lon2, 0, 1)
    # examples/gallery.py:71
    var v_6 = cos(lat2)

    @always_inline
    def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var lat1 = load[w, tail](in_lat1, i, stop)
        var lon1 = load[w, tail](in_lon1, i, stop)
        # examples/gallery.py:71
        var v = splat[w](lat2) - lat1
        var v_2 = v * F32(0.5)
        var v_3 = sin(v_2)
        var v_4 = v_3 * v_3
        var v_5 = cos(lat1)
        var v_7 = v_5 * splat[w](v_6)
        var v_8 = splat[w](lon2) - lon1
        var v_9 = v_8 * F32(0.5)
        var v_10 = sin(v_9)
        var v_11 = v_10 * v_10
        var v_12 = v_7 * v_11
        var v_13 = v_4 + v_12
        # examples/gallery.py:72
        var v_14 = sqrt(v_13)
        var v_15 = F32(1.0) - v_13
        var v_16 = sqrt(v_15)
        var v_17 = atan2(v_14, v_16)
        var v_18 = F32(12742.0) * v_17
        store[tail](out_mul, i, v_18, stop)

    sweep[4 * LANES](body, lo, min(hi, n))
    return 0
