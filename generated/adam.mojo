# adam, from examples/gallery.py:60. Written by juju; edit a copy.
# 9 arrays in, 6 arrays out, 2 nests.

from juju_kernel import Args, LANES, aligned, array, load, padded, size, splat, store, sweep_stream
from juju_math import pow, sqrt


@export
def adam(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    @always_inline
    def nest_0(args: Args, sizes: Args, at: Int, lo: Int, hi: Int, large: Bool) {} -> Int:
        var n = size(sizes, 0)
        var in_m_b = array[DType.float32](args, 0)
        var in_grads_b = array[DType.float32](args, 1)
        var in_v_b = array[DType.float32](args, 2)
        var in_step = array[DType.float32](args, 3)
        var in_params_b = array[DType.float32](args, 4)
        var out_add = array[DType.float32](args, 5)
        var out_add_2 = array[DType.float32](args, 6)
        var out_sub = array[DType.float32](args, 7)
        var step = load[1](in_step, 0, 1)
        # examples/gallery.py:62
        var v_8 = pow(Float32(0.9), step)
        var v_9 = Float32(1.0) - v_8
        var v_12 = pow(Float32(0.999), step)
        var v_13 = Float32(1.0) - v_12

        @always_inline
        def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
            comptime F32 = SIMD[DType.float32, w]
            var m_b = load[w, tail](in_m_b, i, stop)
            var grads_b = load[w, tail](in_grads_b, i, stop)
            var v_b = load[w, tail](in_v_b, i, stop)
            var params_b = load[w, tail](in_params_b, i, stop)
            # examples/gallery.py:60
            var v = F32(0.9) * m_b
            var v_2 = F32(0.1) * grads_b
            var v_3 = v + v_2
            # examples/gallery.py:61
            var v_4 = F32(0.999) * v_b
            var v_5 = F32(0.001) * grads_b
            var v_6 = v_5 * grads_b
            var v_7 = v_4 + v_6
            # examples/gallery.py:65
            var v_10 = v_3 / splat[w](v_9)
            var v_11 = F32(0.001) * v_10
            var v_14 = v_7 / splat[w](v_13)
            var v_15 = sqrt(v_14)
            var v_16 = v_15 + F32(1e-08)
            var v_17 = v_11 / v_16
            var v_18 = params_b - v_17
            store[tail, stream](out_add, i, v_3, stop)
            store[tail, stream](out_add_2, i, v_7, stop)
            store[tail, stream](out_sub, i, v_18, stop)

        var around = large and aligned(out_add) and aligned(out_add_2) and aligned(out_sub)
        sweep_stream[4 * LANES](body, max(lo - at, 0), min(hi - at, n), around)
        return at + padded(n)

    var at = 0
    var large = size(args, 18) != 0
    at = nest_0(args.unsafe_offset(0), args.unsafe_offset(16), at, lo, hi, large)
    _ = nest_0(args.unsafe_offset(8), args.unsafe_offset(17), at, lo, hi, large)
    return 0
