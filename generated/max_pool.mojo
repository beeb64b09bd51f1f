# max_pool, from examples/gallery.py:124. Written by juju; edit a copy.
# 1 array in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, Maximum, Totals, array, gather_where, indices, size, splat, store, sweep_down


@export
def max_pool(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n0 = size(args, 2)
    var n1 = size(args, 3)
    var n2 = size(args, 4)
    var n3 = size(args, 5)
    var n4 = size(args, 6)
    var n5 = size(args, 7)
    var n = n2 * n3 * n4 * n5
    var extent = size(args, 8)
    var step2_in_x = size(args, 9)
    var step1_in_x = size(args, 10)
    var step0_in_x = size(args, 11)
    var in_x = array[DType.float32](args, 0)
    var out_reduce_window_max = array[DType.float32](args, 1)
    var m = Int32(extent)
    var point = lo
    var end = min(hi, n)
    while point < end:
        var row = point // n5
        var first = point - row * n5
        var last = min(n5, first + end - point)
        var d2 = row // (n3 * n4)
        var j = Int32(d2)
        var d3 = row // n4 % n3
        var j_2 = Int32(d3)
        var d4 = row % n4
        var j_3 = Int32(d4)
        # examples/gallery.py:124
        var v = j_3 * Int32(2)
        var row_out_reduce_window_max = out_reduce_window_max.unsafe_offset(row * n5)

        @always_inline
        def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
            comptime F32 = SIMD[DType.float32, w]
            comptime I32 = SIMD[DType.int32, w]
            var j_5 = indices[DType.int32, w](i)
            # examples/gallery.py:124
            var v_4 = j_5 * I32(2)
            var total = Totals[Maximum, DType.float32, w]()
            for d0 in range(n0):
                for d1 in range(n1):
                    var j_4 = Int32(d0)
                    # examples/gallery.py:124
                    var v_2 = v + j_4
                    var v_3 = v_2.lt(m)
                    var j_6 = Int32(d1)
                    var v_5 = v_4 + splat[w](j_6)
                    var v_6 = v_5.lt(splat[w](m))
                    var v_7 = splat[w](v_3) & v_6
                    var x = gather_where[tail](
                        in_x,
                        splat[w](j) * I32(step0_in_x)
                        + splat[w](j_2) * I32(step1_in_x)
                        + splat[w](v_2) * I32(step2_in_x)
                        + v_5,
                        v_7,
                        i,
                        stop,
                    )
                    var v_8 = v_7.select(x, F32(from_bits=UInt32(0xFF800000)))
                    total.take(v_8)
            # examples/gallery.py:124
            var v_9 = total.value()
            store[tail](row_out_reduce_window_max, i, v_9, stop)

        sweep_down[8 * LANES](body, first, last)
        point += last - first
    return 0
