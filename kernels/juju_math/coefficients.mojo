"""Polynomials and constants. Written by tools/coefficients.py; do not edit.

Each function evaluates the polynomial whose powers of x its comment names, divided by the lowest of them. The comments
state the function, the interval, and the largest relative error there of the polynomial with its rounded coefficients,
by exact arithmetic.
"""

from .polynomial import horner

# log(2), the sum of 2
comptime LN2_HIGH[dt: DType] = Scalar[dt](0.693147182) if dt == DType.float32 else Scalar[dt](0.69314718055994529)
comptime LN2_LOW[dt: DType] = Scalar[dt](-1.90465421e-09) if dt == DType.float32 else Scalar[dt](2.3190468138462996e-17)

# 1/log(2), the sum of 2
comptime LOG2E_HIGH[dt: DType] = Scalar[dt](1.44269502) if dt == DType.float32 else Scalar[dt](1.4426950408889634)
comptime LOG2E_LOW[dt: DType] = Scalar[dt](1.92596303e-08) if dt == DType.float32 else Scalar[dt](
    2.0355273740931033e-17
)

# pi, the sum of 2
comptime PI_HIGH[dt: DType] = Scalar[dt](3.14159274) if dt == DType.float32 else Scalar[dt](3.1415926535897931)
comptime PI_LOW[dt: DType] = Scalar[dt](-8.74227766e-08) if dt == DType.float32 else Scalar[dt](1.2246467991473532e-16)

# pi/2, the sum of 3
comptime HALF_PI_HIGH[dt: DType] = Scalar[dt](1.57079637) if dt == DType.float32 else Scalar[dt](1.5707963267948966)
comptime HALF_PI_MIDDLE[dt: DType] = Scalar[dt](-4.37113883e-08) if dt == DType.float32 else Scalar[dt](
    6.123233995736766e-17
)
comptime HALF_PI_LOW[dt: DType] = Scalar[dt](-1.71512451e-15) if dt == DType.float32 else Scalar[dt](
    -1.4973849048591698e-33
)

# 2/pi
comptime TWO_OVER_PI[dt: DType] = Scalar[dt](0.636619747) if dt == DType.float32 else Scalar[dt](0.63661977236758138)

# 2/3, the sum of 2
comptime TWO_THIRDS_HIGH[dt: DType] = Scalar[dt](0.666666687) if dt == DType.float32 else Scalar[dt](
    0.66666666666666663
)
comptime TWO_THIRDS_LOW[dt: DType] = Scalar[dt](-1.98682155e-08) if dt == DType.float32 else Scalar[dt](
    3.7007434154171883e-17
)

# the zero of digamma, the sum of 2
comptime DIGAMMA_ZERO_HIGH[dt: DType] = Scalar[dt](1.46163213) if dt == DType.float32 else Scalar[dt](
    1.4616321449683622
)
comptime DIGAMMA_ZERO_LOW[dt: DType] = Scalar[dt](1.24381501e-08) if dt == DType.float32 else Scalar[dt](
    9.5499954299656974e-17
)

# (log(2*pi) - 1)/2
comptime LGAMMA_SHIFT[dt: DType] = Scalar[dt](0.418938547) if dt == DType.float32 else Scalar[dt](0.41893853320467273)

# log(2), the sum of 2; the first is short, so its product with an exponent is exact
comptime LN2_SHORT_HIGH[dt: DType] = Scalar[dt](0.693115234) if dt == DType.float32 else Scalar[dt](0.6931471805601177)
comptime LN2_SHORT_LOW[dt: DType] = Scalar[dt](3.19461833e-05) if dt == DType.float32 else Scalar[dt](
    -1.7239444525614835e-13
)

# bernoulli(2*j)/(2*j)!, j = 1, ..., 12
comptime EULER_MACLAURIN = (
    0.083333333333333329,
    -0.0013888888888888889,
    3.3068783068783071e-05,
    -8.2671957671957675e-07,
    2.08767569878681e-08,
    -5.2841901386874932e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.5860620562778452e-15,
    -2.1748686985580619e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
)

# 2/pi, 53 bits each; number k is scaled by 2**(53*k)
comptime TWO_OVER_PI_CHUNKS = (
    0.63661977236758127,
    0.64550047623401463,
    0.82603475021672912,
    0.61770296865066388,
    0.22946046207480975,
    0.28461387860774945,
    0.0061385469766306322,
    0.56603914111555842,
    0.16270821739654884,
    0.64781812220208057,
    0.75236234021669501,
    0.78483752945031771,
    0.28821217844585889,
    0.31430434835783572,
    0.50546288392412597,
    0.35474129975356194,
    0.495348441190541,
    0.90930061503239745,
    0.71027558555914383,
    0.9716433593102769,
    0.64515964098946899,
    0.38377539675336436,
    0.79714579108523853,
    0.52535826080532533,
)


# f32: exp(x) - 1 - x, relative to exp(x)
#      on [-log(2)/2, log(2)], x**2, ..., x**7: error 2**-29.2
# f64: exp(x) - 1 - x, relative to exp(x)
#      on [-log(2)/2, log(2)], x**2, ..., x**12: error 2**-56.5
@always_inline
def exp_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.49999994,
            0.16666697,
            0.0416681841,
            0.00832693558,
            0.00138334394,
            0.000232803504,
        ](x)
    else:
        return horner[
            0.500000000000001,
            0.16666666666665808,
            0.041666666666585486,
            0.0083333333338057643,
            0.0013888888905168673,
            0.00019841268894649908,
            2.4801579479372468e-05,
            2.7558120006828969e-06,
            2.7552291319039183e-07,
            2.4829780065918987e-08,
            2.4636496720854756e-09,
        ](x)


# f32: 2**x - 1, relative to 2**x
#      on [-0.5, 1], x**1, ..., x**7: error 2**-29.1
# f64: 2**x - 1, relative to 2**x
#      on [-0.5, 1], x**1, ..., x**12: error 2**-56.7
@always_inline
def exp2_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.693147182,
            0.240226492,
            0.0555041991,
            0.00961839501,
            0.00133238046,
            0.000153556175,
            1.77909642e-05,
        ](x)
    else:
        return horner[
            0.6931471805599454,
            0.24022650695910139,
            0.055504108664816296,
            0.0096181291076069576,
            0.0013333558147413781,
            0.00015403530412091458,
            1.5252732982500571e-05,
            1.3215482977788776e-06,
            1.0178396148089071e-07,
            7.0534979098790382e-09,
            4.40598203000819e-10,
            3.0329778089485822e-11,
        ](x)


# f32: 2**x - 1, relative to 2**x
#      on [-0.5, 0.5], x**1, ..., x**6: error 2**-28.3
# f64: 2**x - 1, relative to 2**x
#      on [-0.5, 0.5], x**1, ..., x**11: error 2**-57.8
@always_inline
def exp2_nearest_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.693147182,
            0.240226477,
            0.0555035993,
            0.00961850584,
            0.00133908063,
            0.000153264715,
        ](x)
    else:
        return horner[
            0.69314718055994529,
            0.24022650695910108,
            0.055504108664821722,
            0.009618129107601606,
            0.0013333558146546439,
            0.00015403530449034229,
            1.5252733633828955e-05,
            1.3215438836867193e-06,
            1.0178160105187614e-07,
            7.0732328921832703e-09,
            4.43885455895209e-10,
        ](x)


# f32: exp(x) - 1 - x
#      on [-log(2)/2, log(2)/2], x**2, ..., x**7: error 2**-31.1
# f64: exp(x) - 1 - x
#      on [-log(2)/2, log(2)/2], x**2, ..., x**12: error 2**-61.6
@always_inline
def expm1_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.5,
            0.166666657,
            0.0416664928,
            0.00833354797,
            0.00139323086,
            0.000197601912,
        ](x)
    else:
        return horner[
            0.5,
            0.16666666666666677,
            0.041666666666666692,
            0.0083333333333217713,
            0.0013888888888886452,
            0.00019841269885353111,
            2.4801587295796313e-05,
            2.7557245204516271e-06,
            2.7557314932264863e-07,
            2.5108649146451322e-08,
            2.0898255575671072e-09,
        ](x)


# f32: sinh(x) - x
#      on [0, log(2)/2+0.0001], x**3, ..., x**7 by 2: error 2**-34.3
# f64: sinh(x) - x
#      on [0, log(2)/2+0.0001], x**3, ..., x**11 by 2: error 2**-61.7
@always_inline
def sinh_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.166666672,
            0.00833317544,
            0.000199740898,
        ](x)
    else:
        return horner[
            0.16666666666666677,
            0.008333333333321374,
            0.00019841269886873889,
            2.7557243369732645e-06,
            2.5109356611457981e-08,
        ](x)


# f32: cosh(x) - 1 - x**2/2
#      on [0, log(2)/2+0.0001], x**4, ..., x**6 by 2: error 2**-33.3
# f64: cosh(x) - 1 - x**2/2
#      on [0, log(2)/2+0.0001], x**4, ..., x**12 by 2: error 2**-70.0
@always_inline
def cosh_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.0416664593,
            0.00139354542,
        ](x)
    else:
        return horner[
            0.041666666666666685,
            0.0013888888888873264,
            2.4801587349281636e-05,
            2.7557251718630638e-07,
            2.0921810572760412e-09,
        ](x)


# f32: log(1+x) - x + x**2/2
#      on [sqrt(0.5)-1, sqrt(2)-1], x**3, ..., x**10: error 2**-27.4
@always_inline
def log_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    return horner[
        0.333333313,
        -0.250008196,
        0.200012416,
        -0.166234076,
        0.142015696,
        -0.131596163,
        0.127623558,
        -0.0763664022,
    ](x)


# f64: 2*atanh(x) - 2*x
#      on [0, (sqrt(2)-1)/(sqrt(2)+1)], x**3, ..., x**15 by 2: error 2**-59.5
@always_inline
def atanh_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    return horner[
        0.6666666666666734,
        0.39999999999417024,
        0.2857142874190356,
        0.22222198620067599,
        0.18183562002742659,
        0.15314107613230082,
        0.14795399044052829,
    ](x)


# f64: 2*atanh(x) - 2*x - 2/3*x**3, relative to 2*atanh(x)
#      on [0, (sqrt(2)-1)/(sqrt(2)+1)], x**5, ..., x**17 by 2: error 2**-66.3
@always_inline
def atanh_pow_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    return horner[
        0.4000000000000225,
        0.28571428570102081,
        0.22222222519506682,
        0.18181784401086459,
        0.15386755868853555,
        0.13256849631185172,
        0.13196051267291814,
    ](x)


# f64: log2(1+x), for f32 powers
#      on [sqrt(0.5)-1, sqrt(2)-1], x**1, ..., x**14: error 2**-38.5
@always_inline
def log2_halfway_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    return horner[
        1.4426950408865729,
        -0.7213475203275358,
        0.4808983488032218,
        -0.36067379313664311,
        0.28853879569616347,
        -0.24044643357006892,
        0.20610712403022072,
        -0.18043675231329567,
        0.16021665464179302,
        -0.1424986050081149,
        0.13027568279766277,
        -0.1346295166876966,
        0.13251194710067471,
        -0.069738762952032282,
    ](x)


# f32: sin(x) - x
#      on [0, pi/4+0.004], x**3, ..., x**7 by 2: error 2**-27.8
# f64: sin(x) - x
#      on [0, pi/4+0.004], x**3, ..., x**13 by 2: error 2**-57.8
@always_inline
def sin_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            -0.166666538,
            0.00833210628,
            -0.000195078799,
        ](x)
    else:
        return horner[
            -0.1666666666666663,
            0.0083333333333217418,
            -0.00019841269829234005,
            2.7557313484763149e-06,
            -2.505072475660353e-08,
            1.5894819708381572e-10,
        ](x)


# f32: cos(x) - 1 + x**2/2
#      on [0, pi/4+0.004], x**4, ..., x**8 by 2: error 2**-32.9
# f64: cos(x) - 1 + x**2/2
#      on [0, pi/4+0.004], x**4, ..., x**14 by 2: error 2**-63.8
@always_inline
def cos_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.0416666456,
            -0.00138873048,
            2.44314215e-05,
        ](x)
    else:
        return horner[
            0.041666666666666588,
            -0.0013888888888872186,
            2.4801587288295579e-05,
            -2.7557314015274083e-07,
            2.0875678123652146e-09,
            -1.1357339894465169e-11,
        ](x)


# f32: tan(x) - x
#      on [0, pi/4+0.004], x**3, ..., x**15 by 2: error 2**-29.3
# f64: tan(x) - x
#      on [0, pi/4+0.004], x**3, ..., x**29 by 2: error 2**-56.0
@always_inline
def tan_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.333333522,
            0.133325756,
            0.0540701859,
            0.021227669,
            0.010980648,
            -9.81690682e-05,
            0.00447073532,
        ](x)
    else:
        return horner[
            0.33333333333332682,
            0.13333333333427791,
            0.053968253920385748,
            0.021869489759210211,
            0.0088632170543853066,
            0.0035923080553416373,
            0.0014546430374391692,
            0.00059554692507511251,
            0.00022096151603822969,
            0.00013944139986925931,
            -3.0489397252081862e-05,
            9.321781004185011e-05,
            -4.6906447145576284e-05,
            2.1350770886725691e-05,
        ](x)


# f32: atan(x) - x
#      on [0, 1], x**3, ..., x**19 by 2: error 2**-28.5
# f64: atan(x) - x
#      on [0, 1], x**3, ..., x**41 by 2: error 2**-57.6
@always_inline
def atan_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            -0.333332986,
            0.199985296,
            -0.142640173,
            0.109509058,
            -0.0839946121,
            0.0578859337,
            -0.0311038829,
            0.0108738998,
            -0.00178437179,
        ](x)
    else:
        return horner[
            -0.33333333333333071,
            0.19999999999951754,
            -0.14285714282588435,
            0.11111111007353898,
            -0.090909070080237783,
            0.076922798916312013,
            -0.066664044460102212,
            0.058805299456144794,
            -0.052535274078407676,
            0.047223505504706428,
            -0.042192495016723265,
            0.036643284895665103,
            -0.029905952425485438,
            0.021987337908332908,
            -0.013902829304476375,
            0.0071980665157498416,
            -0.0028857037717083369,
            0.0008315931569641223,
            -0.00015221847455621743,
            1.3230741428950696e-05,
        ](x)


# f32: asin(x) - x
#      on [0, 0.5], x**3, ..., x**11 by 2: error 2**-27.6
# f64: asin(x) - x
#      on [0, 0.5], x**3, ..., x**25 by 2: error 2**-55.9
@always_inline
def asin_poly[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    comptime if dt == DType.float32:
        return horner[
            0.166667521,
            0.0749530941,
            0.0454691499,
            0.0241847821,
            0.0421582945,
        ](x)
    else:
        return horner[
            0.16666666666665408,
            0.075000000003371481,
            0.044642856828196874,
            0.030381959143308573,
            0.022371757877890208,
            0.017359707643166813,
            0.013885204561962452,
            0.012169429107753446,
            0.0065269773901971747,
            0.019531140307416078,
            -0.016228973797513799,
            0.031915639240027764,
        ](x)
