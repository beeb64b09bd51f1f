# edge_constants, from examples/gallery.py:88. Written by juju; edit a copy.
# 1 array in, 4 arrays out, 1 nest.

from juju_kernel import Args, LANES, aligned, array, load, size, store, sweep_stream


@export
def edge_constants(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 5)
    var in_x = array[DType.float32](args, 0)
    var out_select_n = array[DType.float32](args, 1)
    var out_add = array[DType.float32](args, 2)
    var out_select_n_2 = array[DType.float32](args, 3)
    var out_mul = array[DType.float32](args, 4)

    @always_inline
    def body[w: SIMDLength, tail: Bool, stream: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var x = load[w, tail](in_x, i, stop)
        # examples/gallery.py:88
        var v = x.gt(F32(0.0))
        var v_2 = v.select(x, F32(from_bits=UInt32(0x7FC00000)))
        var v_3 = x + F32(from_bits=UInt32(0x7F800000))
        var v_4 = x.gt(F32(9.0))
        var v_5 = v_4.select(x, F32(from_bits=UInt32(0x80000000)))
        var v_6 = F32(from_bits=UInt32(0x7F7FFFFF)) * x
        store[tail, stream](out_select_n, i, v_2, stop)
        store[tail, stream](out_add, i, v_3, stop)
        store[tail, stream](out_select_n_2, i, v_5, stop)
        store[tail, stream](out_mul, i, v_6, stop)

    var around = (
        size(args, 6) != 0
        and aligned(out_select_n)
        and aligned(out_add)
        and aligned(out_select_n_2)
        and aligned(out_mul)
    )
    sweep_stream[4 * LANES](body, lo, min(hi, n), around)
    return 0
