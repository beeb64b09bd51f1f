"""Hurwitz zeta function and the derivatives of digamma: zeta, polygamma."""


from .bits import infinity, is_nan, magnitude, quiet_nan, sign_bits, with_sign
from .coefficients import EULER_MACLAURIN
from .exponential import exp2
from .gamma import digamma
from .logarithm import log2
from .power import positive_power
from .semantic import floor

comptime DIRECT = 9
"""Terms that are summed one by one before the rest is taken from the Euler-Maclaurin formula."""


@always_inline
def zeta[dt: DType, w: SIMDLength](x: SIMD[dt, w], q: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.zeta`, the sum of (q + k)**-x over k >= 0, with JAX's results outside x > 1 and q > 0.

    As in JAX, negative q below about -9 is summed with too few terms to mean anything. At most 4 ulp for q > 0.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "zeta: f32 or f64"
    comptime D = DType.float64
    comptime terms = 6 if dt == DType.float32 else 12
    var integer = floor(x).eq(x) & magnitude(x).lt(infinity[dt, w]())
    var even = integer & floor(x * 0.5).eq(x * 0.5)
    var odd = integer & ~even
    var s = x.cast[D]()
    var b = q.cast[D]()
    var sum = SIMD[D, w](0)
    for k in range(DIRECT):
        sum += _power[dt](b + Float64(k), s, odd)
    var a = b + DIRECT
    var power = _power[dt](a, s, odd)
    # power (a / (x - 1) + 1/2 + B2/2! x/a + B4/4! x (x+1) (x+2) / a**3 + ...)
    var inverse = 1 / a
    var h = SIMD[D, w](EULER_MACLAURIN[terms - 1])
    comptime for j in range(terms - 1):
        comptime n = terms - 1 - j
        var two = ((s + Float64(2 * n - 1)) * inverse) * ((s + Float64(2 * n)) * inverse)
        h = h.fma(two, SIMD[D, w](EULER_MACLAURIN[n - 1]))
    var rest = a / (s - 1) + (s * inverse).fma(h, SIMD[D, w](0.5))
    var r = power.eq(0).select(sum, power.fma(rest, sum)).cast[dt]()
    r = (x.ge(1) & magnitude(x).lt(infinity[dt, w]()) & q.lt(infinity[dt, w]())).select(r, quiet_nan[dt, w]())
    var pole = q.le(0) & floor(q).eq(q)
    r = (q.le(0) & ~integer).select(quiet_nan[dt, w](), r)
    r = pole.select(even.select(infinity[dt, w](), quiet_nan[dt, w]()), r)
    r = is_nan(q).select(q, r)
    return x.eq(1).select(infinity[dt, w](), r)


@always_inline
def _power[
    dt: DType, w: SIMDLength
](a: SIMD[DType.float64, w], x: SIMD[DType.float64, w], odd: SIMD[DType.bool, w]) -> SIMD[DType.float64, w]:
    """`a**-x`, right in the type `dt`; for negative `a` only integers `x` matter."""
    var base = magnitude(a)
    var p: SIMD[DType.float64, w]
    comptime if dt == DType.float32:
        p = exp2(log2(base) * -x)
    else:
        p = positive_power(base, -x)
    return odd.select(with_sign(p, sign_bits(a)), p)


@always_inline
def polygamma[dt: DType, w: SIMDLength](m: SIMD[dt, w], x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.polygamma`, the m-th derivative of digamma: (-1)**(m+1) m! zeta(m+1, x). NaN unless m is a natural number.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "polygamma: f32 or f64"
    comptime V = SIMD[dt, w]
    comptime most = Scalar[dt](36) if dt == DType.float32 else Scalar[dt](172)  # there the factorial is infinite
    var n = m.gt(most).select(V(most), m)
    var factorial = V(1)
    var k = Scalar[dt](2)
    while n.ge(k).reduce_or():
        factorial = n.ge(k).select(factorial * k, factorial)
        k += 1
    var even = floor(m * 0.5).eq(m * 0.5)
    var y = factorial * zeta(m + 1, x)
    y = even.select(-y, y)
    y = m.eq(0).select(digamma(x), y)
    var natural = m.ge(0) & floor(m).eq(m) & m.lt(infinity[dt, w]())
    return natural.select(y, quiet_nan[dt, w]())
