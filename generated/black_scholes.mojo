# black_scholes, from examples/gallery.py:46. Written by juju; edit a copy.
# 5 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, array, load, size, splat, store, sweep
from juju_math import erfc, exp, log, negate, sqrt


@export
def black_scholes(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 6)
    var in_spot = array[DType.float32](args, 0)
    var in_strike = array[DType.float32](args, 1)
    var in_vol = array[DType.float32](args, 2)
    var in_rate = array[DType.float32](args, 3)
    var in_t = array[DType.float32](args, 4)
    var out_sub = array[DType.float32](args, 5)
    var vol = load[1](in_vol, 0, 1)
    var rate = load[1](in_rate, 0, 1)
    # examples/gallery.py:46
    var v_3 = vol * vol
    var v_4 = v_3 * Float32(0.5)
    var v_5 = rate + v_4
    # examples/gallery.py:48
    var v_17 = negate(rate)

    @always_inline
    def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var spot = load[w, tail](in_spot, i, stop)
        var strike = load[w, tail](in_strike, i, stop)
        var t = load[w, tail](in_t, i, stop)
        # examples/gallery.py:46
        var v = spot / strike
        var v_2 = log(v)
        var v_6 = splat[w](v_5) * t
        var v_7 = v_2 + v_6
        var v_8 = sqrt(t)
        var v_9 = splat[w](vol) * v_8
        var v_10 = v_7 / v_9
        # examples/gallery.py:47
        var v_11 = v_10 - v_9
        # examples/gallery.py:48
        var v_12 = v_10 * F32(0.70710677)
        var v_13 = negate(v_12)
        var v_14 = erfc(v_13)
        var v_15 = F32(0.5) * v_14
        var v_16 = spot * v_15
        var v_18 = splat[w](v_17) * t
        var v_19 = exp(v_18)
        var v_20 = strike * v_19
        var v_21 = v_11 * F32(0.70710677)
        var v_22 = negate(v_21)
        var v_23 = erfc(v_22)
        var v_24 = F32(0.5) * v_23
        var v_25 = v_20 * v_24
        var v_26 = v_16 - v_25
        store[tail](out_sub, i, v_26, stop)

    sweep[4 * LANES](body, lo, min(hi, n))
    return 0
