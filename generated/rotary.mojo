# rotary, from examples/gallery.py:112. Written by juju; edit a copy.
# 3 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, array, gather_where, indices, load, load_where, size, splat, store, sweep
from juju_math import int_div, int_rem, negate


@export
def rotary(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 5)
    var n1 = size(args, 6)
    var n2 = size(args, 7)
    var n3 = size(args, 8)
    var n = n0 * n1 * n2 * n3
    var extent = size(args, 9)
    var step2_in_x_2 = size(args, 10)
    var step1_in_x_2 = size(args, 11)
    var step0_in_x_2 = size(args, 12)
    var extent_2 = size(args, 13)
    var extent_3 = size(args, 14)
    var extent_4 = size(args, 15)
    var extent_5 = size(args, 16)
    var in_x = array[DType.float32](args, 0)
    var in_cos = array[DType.float32](args, 1)
    var in_x_2 = array[DType.float32](args, 2)
    var in_sin = array[DType.float32](args, 3)
    var out_add = array[DType.float32](args, 4)
    var m = Int32(extent)
    var m_2 = Int32(extent_2)
    var m_3 = Int32(extent_3)
    var m_4 = Int32(extent_4)
    var m_5 = Int32(extent_5)
    var point = lo
    var end = min(hi, n)
    while point < end:
        var row = point // n3
        var first = point - row * n3
        var last = min(n3, first + end - point)
        var d0 = row // (n1 * n2)
        var d1 = row // n2 % n1
        var d2 = row % n2
        var row_in_x = in_x.unsafe_offset(row * n3)
        var row_in_cos = in_cos.unsafe_offset(d1 * n3)
        var row_in_sin = in_sin.unsafe_offset(d1 * n3)
        var j = Int32(d0)
        var j_2 = Int32(d1)
        var j_3 = Int32(d2)
        var v_4 = j * m_2
        var v_5 = j_2 * m_3
        var v_6 = v_4 + v_5
        var v_7 = j_3 * m
        var v_8 = v_6 + v_7
        var row_out_add = out_add.unsafe_offset(row * n3)

        @always_inline
        def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
            comptime I32 = SIMD[DType.int32, w]
            var x = load[w, tail](row_in_x, i, stop)
            var cos_2 = load[w, tail](row_in_cos, i, stop)
            var sin_2 = load[w, tail](row_in_sin, i, stop)
            # examples/gallery.py:112
            var v = x * cos_2
            var j_4 = indices[DType.int32, w](i)
            var v_2 = j_4.ge(splat[w](m))
            var x_2 = load_where[tail](
                in_x_2.unsafe_offset(
                    Int(j) * step0_in_x_2 + Int(j_2) * step1_in_x_2 + Int(j_3) * step2_in_x_2 + Int(-m)
                ),
                i,
                v_2,
                stop,
            )
            var v_3 = j_4.lt(splat[w](m))
            var v_9 = splat[w](v_8) + j_4
            var v_10 = int_div(v_9, splat[w](m))
            var v_11 = int_div(v_10, splat[w](m_4))
            var v_12 = int_div(v_11, splat[w](m_5))
            var v_13 = int_rem(v_11, splat[w](m_5))
            var v_14 = int_rem(v_10, splat[w](m_4))
            var v_15 = int_rem(j_4, splat[w](m))
            var v_16 = v_15 + splat[w](m)
            var x_3 = gather_where[tail](
                in_x_2,
                v_12 * I32(step0_in_x_2) + v_13 * I32(step1_in_x_2) + v_14 * I32(step2_in_x_2) + v_16,
                v_3,
                i,
                stop,
            )
            var v_17 = negate(x_3)
            var v_18 = v_3.select(v_17, x_2)
            var v_19 = v_18 * sin_2
            var v_20 = v + v_19
            store[tail](row_out_add, i, v_20, stop)

        sweep[4 * LANES](body, first, last)
        point += last - first
    return 0
