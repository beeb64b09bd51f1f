"""Exponentially scaled modified Bessel functions: bessel_i0e, bessel_i1e."""

from .bits import magnitude, sign_bits, with_sign
from .exponential import exp
from .root import rsqrt
from .special_coefficients import (
    bessel_i0_large_poly,
    bessel_i0_small_poly,
    bessel_i1_large_poly,
    bessel_i1_small_poly,
)


@always_inline
def _scaled[order: Int, dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> SIMD[dt, w]:
    """Scales by exp(-a): up to 8 a series in a**2, beyond one in 1 / a over sqrt(a)."""
    var s = rsqrt(a)
    var inverse = s * s
    var t = inverse.fma(SIMD[dt, w](16), SIMD[dt, w](-1))
    var z = a * a
    var far: SIMD[dt, w]
    var p: SIMD[dt, w]
    comptime if order == 0:
        far = s * bessel_i0_large_poly(t)
        p = bessel_i0_small_poly(z * 0.25)
    else:
        far = s * bessel_i1_large_poly(t)
        p = a * bessel_i1_small_poly(z * 0.25)
    # The rounding error of z: the logarithm of the function has the slope 1 - 1 / (2 a), nearly
    var shift = a.fma(a, -z) * inverse * 0.5
    shift = a.gt(1).select((inverse * -0.5).fma(shift, shift), SIMD[dt, w](0))
    return a.gt(8).select(far, p.fma(shift, p) * exp(-a))


@always_inline
def bessel_i0e[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.bessel_i0e`, exp(-|x|) I0(x). At most 3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "bessel_i0e: f32 or f64"
    return _scaled[0](magnitude(x))


@always_inline
def bessel_i1e[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.bessel_i1e`, exp(-|x|) I1(x). At most 3 ulp."""
    comptime assert dt == DType.float32 or dt == DType.float64, "bessel_i1e: f32 or f64"
    return with_sign(_scaled[1](magnitude(x)), sign_bits(x))
