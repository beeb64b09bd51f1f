"""Exponentially scaled modified Bessel functions: bessel_i0e, bessel_i1e."""

from .bits import magnitude, sign_bits, with_sign
from .exponential import exp
from .polynomial import horner, pick
from .root import rsqrt
from .special_coefficients import (
    BESSEL_I0_LARGE_F32,
    BESSEL_I0_LARGE_F64,
    BESSEL_I0_SMALL_F32,
    BESSEL_I0_SMALL_F64,
    BESSEL_I1_LARGE_F32,
    BESSEL_I1_LARGE_F64,
    BESSEL_I1_SMALL_F32,
    BESSEL_I1_SMALL_F64,
)


@always_inline
def _scaled[
    dt: DType, w: SIMDLength, small: List[Float64], large: List[Float64], odd: Bool
](a: SIMD[dt, w]) -> SIMD[dt, w]:
    """exp(-a) times the Bessel function: up to 8 by a series in a**2, beyond by one in 1 / a over sqrt(a)."""
    var s = rsqrt(a)
    var inverse = s * s
    var far = s * horner[large](inverse.fma(SIMD[dt, w](16), SIMD[dt, w](-1)))
    var z = a * a
    var p = horner[small](z * 0.25)
    # The rounding error of z: the logarithm of the function has the slope 1 - 1 / (2 a), nearly
    var shift = a.fma(a, -z) * inverse * 0.5
    shift = a.gt(1).select((inverse * -0.5).fma(shift, shift), SIMD[dt, w](0))
    var near = p.fma(shift, p) * exp(-a)
    comptime if odd:
        near *= a
    return a.gt(8).select(far, near)


@always_inline
def bessel_i0e[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.bessel_i0e`, exp(-|x|) I0(x). At most 3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "bessel_i0e: f32 or f64"
    comptime SMALL = pick[dt, BESSEL_I0_SMALL_F32, BESSEL_I0_SMALL_F64]
    return _scaled[small=SMALL, large=pick[dt, BESSEL_I0_LARGE_F32, BESSEL_I0_LARGE_F64], odd=False](magnitude(x))


@always_inline
def bessel_i1e[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.bessel_i1e`, exp(-|x|) I1(x). At most 3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "bessel_i1e: f32 or f64"
    comptime SMALL = pick[dt, BESSEL_I1_SMALL_F32, BESSEL_I1_SMALL_F64]
    var y = _scaled[small=SMALL, large=pick[dt, BESSEL_I1_LARGE_F32, BESSEL_I1_LARGE_F64], odd=True](magnitude(x))
    return with_sign(y, sign_bits(x))
