"""Roots: sqrt, rsqrt, cbrt."""

from std.memory import bitcast
from std.sys.intrinsics import llvm_intrinsic

from .bits import infinity, magnitude, sign_bits, with_sign


@always_inline
def sqrt[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.sqrt`, correctly rounded."""
    return llvm_intrinsic["llvm.sqrt", SIMD[dt, w], has_side_effect=False](x)


@always_inline
def rsqrt[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.rsqrt`. At most 1.5 ulp; -inf at -0."""
    return 1 / sqrt(x)


@always_inline
def cbrt[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.cbrt`: x times the square of x**(-1/3), which comes from its exponent and steps of third order. At most 0.6 ulp.
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "cbrt: f32 or f64"
    comptime one = SIMD[dt, w](1)
    comptime steps = 2 if dt == DType.float32 else 3
    comptime low = Scalar[dt](1e-20) if dt == DType.float32 else Scalar[dt](1e-200)
    var small = magnitude(x).lt(low)  # there the residual below would be subnormal
    var a = small.select(magnitude(x) * Scalar[dt](1 << 60), magnitude(x))
    var r = _inverse_guess(a)
    comptime for _ in range(steps):
        var e = (-(a * r)).fma(r * r, one)
        r = (r * e).fma(e.fma(SIMD[dt, w](2.0 / 9.0), SIMD[dt, w](1.0 / 3.0)), r)
    var y = a * r * r
    # one Newton step with the residual a - y**3, exact to twice the precision
    var y2 = y * y
    var y2_low = y.fma(y, -y2)
    var rest = (-y).fma(y2_low, (-y).fma(y2, a))
    y = (rest * (1.0 / 3.0)).fma(r * r, y)
    y = small.select(y * Scalar[dt](1.0 / (1 << 20)), y)
    var special = a.eq(0) | ~a.lt(infinity[dt, w]())
    return special.select(x, with_sign(y, sign_bits(x)))


@always_inline
def _inverse_guess[dt: DType, w: SIMDLength](a: SIMD[dt, w]) -> SIMD[dt, w]:
    """x**(-1/3) to 4 %, from the upper 32 bits of the pattern."""
    comptime U = DType.uint32
    var top: SIMD[U, w]
    comptime if dt == DType.float32:
        top = bitcast[U, w](a)
    else:
        top = (bitcast[DType.uint64, w](a) >> 32).cast[U]()
    comptime start = Float32(0x54A21D2A) if dt == DType.float32 else Float32(0x553EF0FF)
    var f = bitcast[DType.int32, w](top).cast[DType.float32]()
    var g = f.fma(SIMD[DType.float32, w](-1.0 / 3.0), SIMD[DType.float32, w](start)).cast[DType.int32]()
    comptime if dt == DType.float32:
        return bitcast[dt, w](g)
    else:
        return bitcast[dt, w](bitcast[U, w](g).cast[DType.uint64]() << 32)
