# integer_mix, from examples/gallery.py:80. Written by juju; edit a copy.
# 2 arrays in, 4 arrays out, 1 nest.

from juju_kernel import Args, LANES, array, load, size, store, sweep
from juju_math import convert, int_div, int_rem, minimum, shift_left, shift_right_arithmetic, sign


@export
def integer_mix(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 6)
    var in_i = array[DType.int32](args, 0)
    var in_j = array[DType.int32](args, 1)
    var out_select_n = array[DType.int32](args, 2)
    var out_select_n_2 = array[DType.int32](args, 3)
    var out_xor = array[DType.int32](args, 4)
    var out_convert_element_type = array[DType.uint8](args, 5)

    @always_inline
    def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
        comptime I32 = SIMD[DType.int32, w]
        var i_2 = load[w, tail](in_i, i, stop)
        var j = load[w, tail](in_j, i, stop)
        # examples/gallery.py:80
        var v = int_div(i_2, j)
        var v_2 = sign(i_2)
        var v_3 = sign(j)
        var v_4 = v_2.ne(v_3)
        var v_5 = int_rem(i_2, j)
        var v_6 = v_5.ne(I32(0))
        var v_7 = v_4 & v_6
        var v_8 = v - I32(1)
        var v_9 = v_7.select(v_8, v)
        var v_10 = j.eq(I32(0))
        var v_11 = v_10.select(I32(1), j)
        var v_12 = int_rem(i_2, v_11)
        var v_13 = v_12.ne(I32(0))
        var v_14 = v_12.lt(I32(0))
        var v_15 = v_11.lt(I32(0))
        var v_16 = v_14 ^ v_15
        var v_17 = v_16 & v_13
        var v_18 = v_12 + v_11
        var v_19 = v_17.select(v_18, v_12)
        var v_20 = shift_left(i_2, I32(3))
        var v_21 = shift_right_arithmetic(j, I32(1))
        var v_22 = v_20 ^ v_21
        var v_23 = minimum(i_2, j)
        var v_24 = convert[DType.uint8](v_23)
        store[tail](out_select_n, i, v_9, stop)
        store[tail](out_select_n_2, i, v_19, stop)
        store[tail](out_xor, i, v_22, stop)
        store[tail](out_convert_element_type, i, v_24, stop)

    sweep[4 * LANES](body, lo, min(hi, n))
    return 0
