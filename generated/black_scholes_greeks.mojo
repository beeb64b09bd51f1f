# black_scholes_greeks, from examples/gallery.py:44. Written by juju; edit a copy.
# 5 arrays in, 2 arrays out, 1 nest.

from juju_kernel import Args, LANES, array, load, size, splat, store, sweep
from juju_math import absolute, erf, erfc, exp, integer_pow, log, negate, sqrt


@export
def black_scholes_greeks(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var n = size(args, 7)
    var in_spot = array[DType.float32](args, 0)
    var in_strike = array[DType.float32](args, 1)
    var in_rate = array[DType.float32](args, 2)
    var in_vol = array[DType.float32](args, 3)
    var in_t = array[DType.float32](args, 4)
    var out_add_any = array[DType.float32](args, 5)
    var out_add_any_2 = array[DType.float32](args, 6)
    var rate = load[1](in_rate, 0, 1)
    var vol = load[1](in_vol, 0, 1)
    # examples/gallery.py:44
    var v_3 = integer_pow[2](vol)
    var v_4 = v_3 / Float32(2.0)
    var v_5 = rate + v_4
    # examples/gallery.py:46
    var v_34 = negate(rate)
    var v_58 = negate(Float32(1.0))

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
        var v_9 = F32(0.5) / v_8
        var v_10 = splat[w](vol) * v_8
        var v_11 = v_7 / v_10
        var v_12 = integer_pow[-2](v_10)
        # examples/gallery.py:45
        var v_13 = v_11 - v_10
        # examples/gallery.py:46
        var v_14 = v_11 - F32(0.0)
        var v_15 = v_14 / F32(1.0)
        var v_16 = v_15 * F32(0.70710677)
        var v_17 = absolute(v_16)
        var v_18 = v_16.ge(F32(0.0))
        var v_19 = v_17.lt(F32(0.70710677))
        var v_20 = erf(v_16)
        var v_21 = v_16 * v_16
        var v_22 = negate(v_21)
        var v_23 = exp(v_22)
        var v_24 = F32(1.0) + v_20
        var v_25 = v_16.gt(F32(0.0))
        var v_26 = erfc(v_17)
        var v_27 = v_17 * v_17
        var v_28 = negate(v_27)
        var v_29 = exp(v_28)
        var v_30 = F32(2.0) - v_26
        var v_31 = v_25.select(v_30, v_26)
        var v_32 = v_19.select(v_24, v_31)
        var v_33 = F32(0.5) * v_32
        var v_35 = splat[w](v_34) * t
        var v_36 = exp(v_35)
        var v_37 = strike * v_36
        var v_38 = v_13 - F32(0.0)
        var v_39 = v_38 / F32(1.0)
        var v_40 = v_39 * F32(0.70710677)
        var v_41 = absolute(v_40)
        var v_42 = v_40.ge(F32(0.0))
        var v_43 = v_41.lt(F32(0.70710677))
        var v_44 = erf(v_40)
        var v_45 = v_40 * v_40
        var v_46 = negate(v_45)
        var v_47 = exp(v_46)
        var v_48 = F32(1.0) + v_44
        var v_49 = v_40.gt(F32(0.0))
        var v_50 = erfc(v_41)
        var v_51 = v_41 * v_41
        var v_52 = negate(v_51)
        var v_53 = exp(v_52)
        var v_54 = F32(2.0) - v_50
        var v_55 = v_49.select(v_54, v_50)
        var v_56 = v_43.select(v_48, v_55)
        var v_57 = F32(0.5) * v_56
        var v_59 = v_37 * splat[w](v_58)
        var v_60 = splat[w](v_58) * v_57
        var v_61 = F32(0.5) * v_59
        var v_62 = v_43.select(F32(0.0), v_61)
        var v_63 = v_43.select(v_61, F32(0.0))
        var v_64 = v_49.select(F32(0.0), v_62)
        var v_65 = v_49.select(v_62, F32(0.0))
        var v_66 = F32(-1.1283792) * v_64
        var v_67 = v_66 * v_53
        var v_68 = negate(v_65)
        var v_69 = F32(-1.1283792) * v_68
        var v_70 = v_69 * v_53
        var v_71 = v_67 + v_70
        var v_72 = F32(1.1283792) * v_63
        var v_73 = v_72 * v_47
        var v_74 = v_42.select(F32(0.0), v_71)
        var v_75 = v_42.select(v_71, F32(0.0))
        var v_76 = v_73 + v_75
        var v_77 = negate(v_74)
        var v_78 = v_76 + v_77
        var v_79 = v_78 * F32(0.70710677)
        var v_80 = v_79 / F32(1.0)
        var v_81 = strike * v_60
        var v_82 = v_81 * v_36
        var v_83 = splat[w](v_34) * v_82
        var v_84 = spot * F32(1.0)
        var v_85 = F32(1.0) * v_33
        var v_86 = F32(0.5) * v_84
        var v_87 = v_19.select(F32(0.0), v_86)
        var v_88 = v_19.select(v_86, F32(0.0))
        var v_89 = v_25.select(F32(0.0), v_87)
        var v_90 = v_25.select(v_87, F32(0.0))
        var v_91 = F32(-1.1283792) * v_89
        var v_92 = v_91 * v_29
        var v_93 = negate(v_90)
        var v_94 = F32(-1.1283792) * v_93
        var v_95 = v_94 * v_29
        var v_96 = v_92 + v_95
        var v_97 = F32(1.1283792) * v_88
        var v_98 = v_97 * v_23
        var v_99 = v_18.select(F32(0.0), v_96)
        var v_100 = v_18.select(v_96, F32(0.0))
        var v_101 = v_98 + v_100
        var v_102 = negate(v_99)
        var v_103 = v_101 + v_102
        var v_104 = v_103 * F32(0.70710677)
        var v_105 = v_104 / F32(1.0)
        # examples/gallery.py:45
        var v_106 = negate(v_80)
        var v_107 = v_105 + v_80
        var v_108 = splat[w](vol) * v_106
        var v_109 = v_108 * v_9
        var v_110 = v_83 + v_109
        # examples/gallery.py:44
        var v_111 = v_107 * v_12
        var v_112 = v_111 * v_7
        var v_113 = negate(v_112)
        var v_114 = v_107 / v_10
        var v_115 = splat[w](vol) * v_113
        var v_116 = v_115 * v_9
        var v_117 = v_110 + v_116
        var v_118 = splat[w](v_5) * v_114
        var v_119 = v_117 + v_118
        var v_120 = v_114 / v
        var v_121 = v_120 / strike
        var v_122 = v_85 + v_121
        store[tail](out_add_any, i, v_119, stop)
        store[tail](out_add_any_2, i, v_122, stop)

    sweep[LANES](body, lo, min(hi, n))
    return 0
