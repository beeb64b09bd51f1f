# rotary, from examples/gallery.py:112. Written by juju; edit a copy.
# 3 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, array, indices, load, load_where, size, splat, store, sweep
from juju_math import negate


@export
def rotary(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 4)
    var n1 = size(args, 5)
    var n2 = size(args, 6)
    var n3 = size(args, 7)
    var n = n0 * n1 * n2 * n3
    var extent = size(args, 8)
    var step2_in_x = size(args, 9)
    var step1_in_x = size(args, 10)
    var step0_in_x = size(args, 11)
    var in_x = array[DType.float32](args, 0)
    var in_cos = array[DType.float32](args, 1)
    var in_sin = array[DType.float32](args, 2)
    var out_add = array[DType.float32](args, 3)
    var m = Int32(extent)
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
        var row_out_add = out_add.unsafe_offset(row * n3)

        @always_inline
        def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
            var x = load[w, tail](row_in_x, i, stop)
            var cos_2 = load[w, tail](row_in_cos, i, stop)
            var sin_2 = load[w, tail](row_in_sin, i, stop)
            # examples/gallery.py:112
            var v = x * cos_2
            var j_4 = indices[DType.int32, w](i)
            var v_2 = j_4.ge(splat[w](m))
            var x_2 = load_where[tail](
                in_x.unsafe_offset(Int(j) * step0_in_x + Int(j_2) * step1_in_x + Int(j_3) * step2_in_x + Int(-m)),
                i,
                v_2,
                stop,
            )
            var v_3 = j_4.lt(splat[w](m))
            var x_3 = load_where[tail](
                in_x.unsafe_offset(Int(j) * step0_in_x + Int(j_2) * step1_in_x + Int(j_3) * step2_in_x + Int(m)),
                i,
                v_3,
                stop,
            )
            var v_4 = negate(x_3)
            var v_5 = v_3.select(v_4, x_2)
            var v_6 = v_5 * sin_2
            var v_7 = v + v_6
            store[tail](row_out_add, i, v_7, stop)

        sweep[4 * LANES](body, first, last)
        point += last - first
    return 0
