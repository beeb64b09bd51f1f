"""Faults that compilers of this kind are reported for, each as a small program; numbers are those of our case list.

What a case is about is in its comment. Reductions, indexing and loops join when juju compiles them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from support import Batch, Case

NAN, INF = np.float32(np.nan), np.float32(np.inf)


def f32(*values):
    return np.array(values, np.float32)


def i32(*values):
    return np.array(values, np.int32)


def bf16(*values):
    return np.array(values).astype(jnp.bfloat16)


def _nonfinite_constants(x):
    return (
        jnp.where(x > 0, x, jnp.nan),
        jnp.where(x > 0, x, -jnp.inf),
        x + jnp.inf,
        jnp.copysign(x, -0.0),
        jnp.where(x > 9, x, -0.0),
        jnp.finfo(jnp.float32).max * x,
    )


def _true_is_one(x):
    mask = jnp.ones(x.shape, bool)
    return mask.astype(jnp.int32) * 3, mask + mask, mask.astype(jnp.float32) - 2, mask & (x > 1)


def _promotion(h, b, i, u):
    return h * 2.0, b + 1, i * 2.0, i + 1, u - 1, 1 / i, i * True, h + np.float32(1), u + i, b * np.float32(0.1)


def _integer_division(a, b):
    return lax.div(a, b), lax.rem(a, b), a // b, a % b, jnp.divmod(a, b), a / b


def _degenerate(x, y):
    return x, x, jnp.float32(0.9), jnp.float32(0.9), x * 0 + 2, (), {"k": None}, x.reshape(-1)


ZERO_DIVISORS = (i32(7, -7, 0, -(2**31), 5), i32(0, 0, 0, -1, 2))
SHIFTS = {
    np.int8: ([1, 1, 1, -1, -8], [7, 8, 9, -1, 100]),
    np.int16: ([1, 1, 1, -1, -8], [15, 16, 17, -1, 100]),
    np.int32: ([1, 1, 1, -1, -8], [31, 32, 33, -1, 100]),
    np.int64: ([1, 1, 1, -1, -8], [63, 64, 65, -1, 100]),
    np.uint8: ([1, 1, 1, 255, 8], [7, 8, 9, 255, 100]),
    np.uint32: ([1, 1, 1, 2**32 - 1, 8], [31, 32, 33, 2**32 - 1, 100]),
}
HUGE_FLOATS = f32(1.9, -1.9, 3e9, -3e9, NAN, INF, -INF, 255.9, -0.5)

CASES = [
    # A compare-and-select maximum drops NaN, and takes either zero.
    Case(
        "01 maximum and minimum",
        lambda a, b: (jnp.maximum(a, b), jnp.minimum(a, b)),
        (f32(NAN, 1, -0.0, 0, INF), f32(1, NAN, 0, -0.0, NAN)),
    ),
    # Which bound wins when they cross, and where NaN goes.
    Case(
        "03 clip and clamp",
        lambda x: (
            jnp.clip(x, -1.0, 1.0),
            lax.clamp(np.float32(2), x, np.float32(1)),
            lax.clamp(jnp.float32(jnp.nan), x, np.float32(1)),
            lax.clamp(np.float32(0), x, jnp.float32(jnp.nan)),
        ),
        (f32(NAN, INF, -INF, 0, 5),),
    ),
    # Operands of a comparison must not be converted to its bool result first.
    Case(
        "04 comparisons",
        lambda x, y: (x < y, x == y, jnp.isnan(x), jnp.isinf(x), jnp.where(x < y, x * 2, y * 3)),
        (f32(0.2, 0.7, NAN, INF), f32(0.7, 0.2, 1, INF)),
    ),
    Case(
        "05 sign and abs",
        lambda x, i, u: (jnp.sign(x), jnp.sign(i), jnp.sign(u), jnp.abs(i), -x, jnp.abs(x)),
        (f32(NAN, -0.0, 0, -3), i32(-(2**31), 5), np.array([0, 7], np.uint32)),
    ),
    # floor(a / b) is off by one: 1.0 // 0.1 is 9.
    Case(
        "06 float floor division",
        lambda a, b: (a // b, a % b, lax.rem(a, b), jnp.fmod(a, b)),
        (f32(1, 0.5, 6, -4, 4, 5, -1, 1, 1e30), f32(0.1, 0.1, 0.2, 2, -2, INF, 1, 0, 3e-5)),
    ),
    # exp(x) - 1 has no correct digit near zero.
    Case(
        "08 near zero",
        lambda x: (jnp.expm1(x), jnp.log1p(x), jnp.tanh(x), jax.nn.softplus(x)),
        (f32(1e-7, -1e-7, 1e-20, 1e-4, -0.0, 88, -88, 0.9),),
        ulp=8,
    ),
    Case(
        "09 powers",
        lambda x, y, i, j: (x**y, i**j, x**3, x**-2, x**0, i**3),
        (
            f32(0, 0, -8, NAN, -2, -0.0, 2),
            f32(0, -1, 3, 0, 0.5, 3, 0.5),
            i32(2, 0, -3, 10, 0, 7, 1),
            i32(3, 64, 3, 10, 0, 1, 9),
        ),
        ulp=2,
    ),
    Case("10 constants that are not finite", _nonfinite_constants, (f32(1, -1),)),
    # An integer division by zero, or INT_MIN / -1, ends the process in many backends.
    Case("12 integer division by zero", _integer_division, ZERO_DIVISORS),
    *(
        Case(
            f"14 shifts by the width {np.dtype(dtype)}",
            lambda x, s: (lax.shift_left(x, s), lax.shift_right_logical(x, s), lax.shift_right_arithmetic(x, s)),
            (np.array(x, dtype), np.array(s, dtype)),
            x64=True,
        )
        for dtype, (x, s) in SHIFTS.items()
    ),
    Case(
        "15 integer wrap-around",
        lambda a, u, i: (a + a, a * a, a**3, u - 1, i + i, jnp.abs(i), -i),
        (i32(2**31 - 1, -(2**31), 10007), np.array([0, 3, 1], np.uint32), np.array([100, -128, 1], np.int8)),
    ),
    Case("17 which division", _integer_division, (i32(7, -7, 7, -7, 6), i32(2, 2, -2, -2, -3))),
    Case("18 True is 1", _true_is_one, (i32(1, 2, 2, 3),)),
    Case(
        "19 float to integer",
        lambda x: tuple(x.astype(d) for d in (jnp.int32, jnp.uint8, jnp.uint32, jnp.int8, jnp.uint16)),
        (HUGE_FLOATS,),
    ),
    Case(
        "21 to bool",
        lambda x, i: (x.astype(bool), jnp.logical_not(x), jnp.where(x, 1, 2), i.astype(bool)),
        (f32(0, -0.0, 0.5, NAN, -1e-3), i32(0, 256, -1, 1, 2)),
    ),
    Case(
        "22 promotion of scalars",
        _promotion,
        (np.ones(2, np.float16), bf16(1, 1), np.ones(2, np.int32), np.ones(2, np.uint8)),
    ),
    Case(
        "24 64-bit mode",
        lambda x: (x * 0.1, x + 2**40, x.astype(jnp.float32) * 0.1, x.astype(jnp.int64) + 2**40),
        (np.array([1.0, 3, 2]),),
        ulp=1,
        x64=True,
    ),
    # XLA rounds to bfloat16 between the operations, and so do we.
    Case(
        "25 bfloat16 multiply-add",
        lambda x, y, z: (x * y + z, z - ((x + z) - x)),
        (bf16(1.0078125, 3), bf16(1.0078125, 1 / 3), bf16(-1.015625, 0.0078)),
    ),
    Case(
        "28 bitcast",
        lambda x, s: (lax.bitcast_convert_type(x, jnp.uint32), lax.bitcast_convert_type(s, jnp.int32)),
        (f32(-0.0, 1), np.float32(1.5)),
    ),
    Case(
        "29 arithmetic on bool",
        lambda m: (m + m, m * m, m | ~m, jnp.maximum(m, ~m), jnp.minimum(m, ~m), m ^ m, m < ~m, m.astype(int) + m),
        (np.array([True, False, True, True]),),
    ),
    Case("31 empty", lambda z: (z + 1, jnp.exp(z), z > 0), (np.zeros((0, 3), np.float32),), kernels=0),
    Case(
        "34 rank 0",
        lambda s: (jnp.transpose(s), s.reshape(1, 1), jnp.broadcast_to(s, (2, 2)), jnp.squeeze(s[None]) + 1),
        (np.float32(2.5),),
    ),
    Case("87 degenerate signatures", _degenerate, (np.arange(4, dtype=np.float32).reshape(2, 2), f32(1, 1, 1))),
    Case(
        "81 layouts",
        lambda *v: [x * 2 for x in v],
        (
            (_a := np.arange(12, dtype=np.float32).reshape(3, 4)).T,
            _a[::2, 1::2],
            _a[::-1],
            np.broadcast_to(_a[:1], (3, 4)),
            np.asfortranarray(_a),
            _a[:, 1:3],
        ),
    ),
    # A contracted multiply-add is allowed, and jax.jit does it as well.
    Case("94 contraction", lambda x, y, z: x * y - z, (f32(1.1, 3), f32(1.1, 1 / 3), f32(1.21, 1)), scale=1e-6),
]

BATCH = Batch(CASES)


@BATCH.parametrize()
def test_case(name) -> None:
    BATCH.check(name)


def test_86_many_shapes_and_functions_made_in_a_loop() -> None:
    import gc
    import weakref

    import juju

    f = juju.fuse(lambda x: x + 1)
    for n in range(1, 60):
        f(np.ones(n, np.float32))
    assert f._cache_size() == 59
    g = juju.fuse(lambda x: x + 1)
    g(1.0)
    ref = weakref.ref(g)
    del g
    gc.collect()
    assert ref() is None


def test_84_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    import juju

    f = juju.fuse(lambda x: jnp.abs(x) * 3 - 1)

    def call(n):
        return float(f(np.full(n, -0.25, np.float32))[n - 1])

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(call, [7, 8, 9, 1000] * 16)) == {-0.25}
