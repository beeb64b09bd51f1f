# black_scholes_greeks, from examples/gallery.py:46. Written by juju; edit a copy.
# 5 arrays in, 2 arrays out, 1 nest.

from juju_kernel import Args, LANES, array, load, size, splat, store, sweep
from juju_math import absolute, error_functions, exp, log, negate, sqrt


@export
def black_scholes_greeks(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 7)
    var in_spot = array[DType.float32](args, 0)
    var in_strike = array[DType.float32](args, 1)
    var in_vol = array[DType.float32](args, 2)
    var in_rate = array[DType.float32](args, 3)
    var in_t = array[DType.float32](args, 4)
    var out_add_any = array[DType.float32](args, 5)
    var out_add_any_2 = array[DType.float32](args, 6)
    var vol = load[1](in_vol, 0, 1)
    var rate = load[1](in_rate, 0, 1)
    # examples/gallery.py:46
    var v_3 = vol * vol
    var v_4 = v_3 * Float32(0.5)
    var v_5 = rate + v_4
    # examples/gallery.py:48
    var v_25 = negate(rate)

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
        var v_9 = F32(0.5) / v_8
        var v_10 = splat[w](vol) * v_8
        var v_11 = v_7 / v_10
        var v_12 = v_10 * v_10
        var v_13 = F32(1.0) / v_12
        # examples/gallery.py:47
        var v_14 = v_11 - v_10
        # examples/gallery.py:48
        var v_15 = v_11 * F32(0.70710677)
        var v_16 = absolute(v_15)
        var v_17 = v_15.ge(F32(0.0))
        var v_18 = v_16.lt(F32(0.70710677))
        var _, v_19, v_20 = error_functions(v_15)
        var v_21 = v_15.gt(F32(0.0))
        var v_22 = F32(2.0) - v_19
        var v_23 = v_21.select(v_22, v_19)
        var v_24 = F32(0.5) * v_23
        var v_26 = splat[w](v_25) * t
        var v_27 = exp(v_26)
        var v_28 = strike * v_27
        var v_29 = v_14 * F32(0.70710677)
        var v_30 = absolute(v_29)
        var v_31 = v_29.ge(F32(0.0))
        var v_32 = v_30.lt(F32(0.70710677))
        var _, v_33, v_34 = error_functions(v_29)
        var v_35 = v_29.gt(F32(0.0))
        var v_36 = F32(2.0) - v_33
        var v_37 = v_35.select(v_36, v_33)
        var v_38 = F32(0.5) * v_37
        var v_39 = negate(v_38)
        var v_40 = v_28 * F32(-0.5)
        var v_41 = v_32.select(F32(0.0), v_40)
        var v_42 = v_32.select(v_40, F32(0.0))
        var v_43 = v_35.select(F32(0.0), v_41)
        var v_44 = v_35.select(v_41, F32(0.0))
        var v_45 = F32(-1.1283792) * v_43
        var v_46 = v_45 * v_34
        var v_47 = v_44 * F32(1.1283792)
        var v_48 = v_47 * v_34
        var v_49 = v_46 + v_48
        var v_50 = F32(1.1283792) * v_42
        var v_51 = v_50 * v_34
        var v_52 = v_31.select(F32(0.0), v_49)
        var v_53 = v_31.select(v_49, F32(0.0))
        var v_54 = v_51 + v_53
        var v_55 = v_54 - v_52
        var v_56 = v_55 * F32(0.70710677)
        var v_57 = strike * v_39
        var v_58 = v_57 * v_27
        var v_59 = splat[w](v_25) * v_58
        var v_60 = F32(0.5) * spot
        var v_61 = v_18.select(F32(0.0), v_60)
        var v_62 = v_18.select(v_60, F32(0.0))
        var v_63 = v_21.select(F32(0.0), v_61)
        var v_64 = v_21.select(v_61, F32(0.0))
        var v_65 = F32(-1.1283792) * v_63
        var v_66 = v_65 * v_20
        var v_67 = v_64 * F32(1.1283792)
        var v_68 = v_67 * v_20
        var v_69 = v_66 + v_68
        var v_70 = F32(1.1283792) * v_62
        var v_71 = v_70 * v_20
        var v_72 = v_17.select(F32(0.0), v_69)
        var v_73 = v_17.select(v_69, F32(0.0))
        var v_74 = v_71 + v_73
        var v_75 = v_74 - v_72
        var v_76 = v_75 * F32(0.70710677)
        # examples/gallery.py:47
        var v_77 = negate(v_56)
        var v_78 = v_76 + v_56
        var v_79 = splat[w](vol) * v_77
        var v_80 = v_79 * v_9
        var v_81 = v_59 + v_80
        # examples/gallery.py:46
        var v_82 = v_78 * v_13
        var v_83 = v_82 * v_7
        var v_84 = negate(v_83)
        var v_85 = v_78 / v_10
        var v_86 = splat[w](vol) * v_84
        var v_87 = v_86 * v_9
        var v_88 = v_81 + v_87
        var v_89 = splat[w](v_5) * v_85
        var v_90 = v_88 + v_89
        var v_91 = v_85 / v
        var v_92 = v_91 / strike
        var v_93 = v_24 + v_92
        store[tail](out_add_any, i, v_90, stop)
        store[tail](out_add_any_2, i, v_93, stop)

    sweep[4 * LANES](body, lo, min(hi, n))
    return 0
