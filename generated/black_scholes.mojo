# black_scholes, from examples/gallery.py:44. Written by juju; edit a copy.
# 5 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, LANES, array, load, size, splat, store, sweep
from juju_math import absolute, erf, erfc, exp, integer_pow, log, negate, sqrt


@export
def black_scholes(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 6)
    var in_spot = array[DType.float32](args, 0)
    var in_strike = array[DType.float32](args, 1)
    var in_rate = array[DType.float32](args, 2)
    var in_vol = array[DType.float32](args, 3)
    var in_t = array[DType.float32](args, 4)
    var out_sub = array[DType.float32](args, 5)
    var rate = load[1](in_rate, 0, 1)
    var vol = load[1](in_vol, 0, 1)
    # examples/gallery.py:44
    var v_3 = integer_pow[2](vol)
    var v_4 = v_3 / Float32(2.0)
    var v_5 = rate + v_4
    # examples/gallery.py:46
    var v_26 = negate(rate)

    @always_inline
    def body[w: SIMDLength, tail: Bool](i: Int, stop: Int) {var}:
        comptime F32 = SIMD[DType.float32, w]
        var spot = load[w, tail](in_spot, i, stop)
        var strike = load[w, tail](in_strike, i, stop)
        var t = load[w, tail](in_t, i, stop)
        # examples/gallery.py:44
        var v = spot / strike
        var v_2 = log(v)
        var v_6 = splat[w](v_5) * t
        var v_7 = v_2 + v_6
        var v_8 = sqrt(t)
        var v_9 = splat[w](vol) * v_8
        var v_10 = v_7 / v_9
        # examples/gallery.py:45
        var v_11 = v_10 - v_9
        # examples/gallery.py:46
        var v_12 = v_10 - F32(0.0)
        var v_13 = v_12 / F32(1.0)
        var v_14 = v_13 * F32(0.70710677)
        var v_15 = absolute(v_14)
        var v_16 = v_15.lt(F32(0.70710677))
        var v_17 = erf(v_14)
        var v_18 = F32(1.0) + v_17
        var v_19 = v_14.gt(F32(0.0))
        var v_20 = erfc(v_15)
        var v_21 = F32(2.0) - v_20
        var v_22 = v_19.select(v_21, v_20)
        var v_23 = v_16.select(v_18, v_22)
        var v_24 = F32(0.5) * v_23
        var v_25 = spot * v_24
        var v_27 = splat[w](v_26) * t
        var v_28 = exp(v_27)
        var v_29 = strike * v_28
        var v_30 = v_11 - F32(0.0)
        var v_31 = v_30 / F32(1.0)
        var v_32 = v_31 * F32(0.70710677)
        var v_33 = absolute(v_32)
        var v_34 = v_33.lt(F32(0.70710677))
        var v_35 = erf(v_32)
        var v_36 = F32(1.0) + v_35
        var v_37 = v_32.gt(F32(0.0))
        var v_38 = erfc(v_33)
        var v_39 = F32(2.0) - v_38
        var v_40 = v_37.select(v_39, v_38)
        var v_41 = v_34.select(v_36, v_40)
        var v_42 = F32(0.5) * v_41
        var v_43 = v_29 * v_42
        var v_44 = v_25 - v_43
        store[tail](out_sub, i, v_44, stop)

    sweep[2 * LANES](body, lo, min(hi, n))
    return 0
