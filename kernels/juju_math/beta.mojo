"""Incomplete beta function: regularized_incomplete_beta. f32 works in f64 lanes."""

from .bits import infinity, is_nan, magnitude, quiet_nan
from .exponential import exp
from .gamma import lgamma
from .logarithm import log, log1p

comptime D = DType.float64


@always_inline
def regularized_incomplete_beta[
    dt: DType, w: SIMDLength
](a: SIMD[dt, w], b: SIMD[dt, w], x: SIMD[dt, w]) -> SIMD[dt, w]:
    """`lax.betainc`, the regularized incomplete beta function I(x; a, b), by a continued fraction.

    The fraction converges fast below the mean; beyond, I(x; a, b) = 1 - I(1-x; b, a).
    """
    comptime assert dt == DType.float32 or dt == DType.float64, "regularized_incomplete_beta: f32 or f64"
    comptime V = SIMD[D, w]
    comptime inf = infinity[D, w]()
    var p = a.cast[D]()
    var q = b.cast[D]()
    var t = x.cast[D]()
    var a_zero = p.eq(0) | q.eq(inf)
    var b_zero = q.eq(0) | p.eq(inf)
    var is_zero = (b_zero & ~t.eq(1)) | (a_zero & t.eq(0))
    var is_one = (a_zero & ~t.eq(0)) | (b_zero & t.eq(1))
    var wrong = p.lt(0) | q.lt(0) | t.lt(0) | t.gt(1) | (a_zero & b_zero) | is_nan(p) | is_nan(q) | is_nan(t)
    var below = t.lt((p + 1) / (p + q + 2))
    var lanes = ~(is_zero | is_one | wrong)
    var r = _below_mean[dt](below.select(p, q), below.select(q, p), below.select(t, 1 - t), lanes)
    r = below.select(r, 1 - r)
    r = is_zero.select(V(0), r)
    r = is_one.select(V(1), r)
    return wrong.select(quiet_nan[D, w](), r).cast[dt]()


@always_inline
def _below_mean[
    dt: DType, w: SIMDLength
](a: SIMD[D, w], b: SIMD[D, w], x: SIMD[D, w], lanes: SIMD[DType.bool, w]) -> SIMD[D, w]:
    """Lentz's method, with JAX's limits for the number of steps; `dt` is the type that the result has to be right in.
    """
    comptime V = SIMD[D, w]
    comptime steps = 200 if dt == DType.float32 else 600
    comptime tolerance = 1.0 / (1 << 28) if dt == DType.float32 else 1.0 / (1 << 53)
    comptime small = 1e-30
    var active = lanes
    var c = V(1 / small)  # after the first step, whose numerator is 1
    var d = V(1)
    var h = V(1)
    var n = 1
    while n < steps and active.reduce_or():
        n += 1
        var m = Float64((n - 1) // 2)
        var am = a + 2 * m
        var numerator: V
        if n % 2 == 1:
            numerator = m * (b - m) * x / ((am - 1) * am)
        elif n == 2:
            numerator = -(a + b) * x / (a + 1)
        else:
            numerator = -(a + m) * (a + b + m) * x / (am * (am + 1))
        c = 1 + numerator / c
        d = numerator.fma(d, V(1))
        c = magnitude(c).lt(small).select(V(small), c)
        d = 1 / magnitude(d).lt(small).select(V(small), d)
        var delta = c * d
        h = active.select(h * delta, h)
        active &= magnitude(delta - 1).ge(tolerance)
    # a gamma(a) is gamma(a + 1), also for a next to 0
    var logarithm_of_beta = lgamma(a + 1) + (lgamma(b) - lgamma(a + b))
    return h * exp(a.fma(log(x), b.fma(log1p(-x), -logarithm_of_beta)))
