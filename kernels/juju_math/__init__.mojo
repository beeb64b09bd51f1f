"""SIMD functions with the results of `jax.lax` on CPU, for generated kernels.

Every function is generic over the vector width. Floating-point functions take f32 and f64; narrower floats are widened
by the caller. Kernels are expected to run with subnormal numbers flushed to zero, as `jax.jit` does on CPU.
"""

from .arcus import acos, asin, atan, atan2
from .bessel import bessel_i0e, bessel_i1e
from .beta import regularized_incomplete_beta
from .bits import total_order_key
from .convert import convert
from .error import erf, erf_inv, erfc, error_functions
from .exponential import exp, exp2, expm1, logistic
from .gamma import digamma, lgamma
from .hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from .incomplete import igamma, igamma_grad_a, igammac
from .integer import (
    clz,
    int_div,
    int_pow,
    int_rem,
    integer_pow,
    mulhi,
    population_count,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from .logarithm import log, log1p, log2
from .power import pow
from .root import cbrt, rsqrt, sqrt
from .semantic import (
    absolute,
    ceil,
    clamp,
    float_rem,
    floor,
    is_finite,
    maximum,
    minimum,
    negate,
    nextafter,
    reduce_precision,
    round_half_away,
    round_half_even,
    sign,
    square,
)
from .trigonometric import cos, sin, sincos, tan
from .zeta import polygamma, zeta
