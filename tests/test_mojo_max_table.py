"""What MAX's stock operations and Mojo's library get wrong, and juju gets right: in the vector body and in every tail.

Each line was measured: the stock operations lose NaN, saturate otherwise, or end the process. Expected values are those
of `jax.jit`; what the lines say is asserted, too, so that a change of JAX is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support import assert_same

import juju

NAN, INF = np.nan, np.inf
LARGEST = 3.3263e38
LENGTHS = range(1, 82)
"""Every tail alone, and after a whole block of 64 lanes."""


@dataclass(frozen=True)
class Line:
    """A function, the operands at which others fail (a column each), and what is right there."""

    name: str
    f: Callable[..., jax.Array]
    dtypes: tuple[str, ...]
    columns: tuple[tuple[float, ...], ...]
    right: tuple[float, ...]
    ulp: int = 0

    def arrays(self, length: int, first: int = 0) -> list[np.ndarray]:
        """The columns over and over, beginning with row `first`."""
        columns = zip(self.columns, self.dtypes, strict=True)
        return [np.resize(np.roll(np.array(c, dt), -first), length) for c, dt in columns]


F, I = "float32", "int32"  # noqa: E741
LINES = (
    Line("maximum", jnp.maximum, (F, F), ((NAN, 1, NAN, -0.0, 0), (1, NAN, NAN, 0, -0.0)), (NAN, NAN, NAN, 0, 0)),
    Line("minimum", jnp.minimum, (F, F), ((NAN, 1, NAN, -0.0, 0), (1, NAN, NAN, 0, -0.0)), (NAN, NAN, NAN, -0.0, -0.0)),
    Line("exp", jnp.exp, (F,), ((NAN, 88.7, INF, -INF),), (NAN, LARGEST, INF, 0), 4),
    Line("exp2", jnp.exp2, (F,), ((NAN, INF, 127.9, -INF, -1000),), (NAN, INF, 3.1746e38, 0, 0), 100),
    Line("tanh", jnp.tanh, (F,), ((NAN, INF, -INF),), (NAN, 1, -1)),
    Line("relu", jax.nn.relu, (F,), ((NAN, -1, -0.0, 2),), (NAN, 0, 0, 2)),
    Line(
        "float to int32",
        lambda x: x.astype(jnp.int32),
        (F,),
        ((3e9, NAN, INF, -INF, -3e9, -1.5),),
        (2147483647, 0, 2147483647, -2147483648, -2147483648, -1),
    ),
    Line("float to uint8", lambda x: x.astype(jnp.uint8), (F,), ((-1, 300, NAN, 254.9, INF),), (0, 255, 0, 254, 255)),
    Line("float to bool", lambda x: x.astype(bool), (F,), ((NAN, 0, -0.0, 0.25, INF),), (1, 0, 0, 1, 1)),
    Line("floor_divide", lambda x, y: x // y, (I, I), ((7, -7, 0, -7, 7), (0, 0, 0, 2, -2)), (-2, -2, -1, -4, -4)),
    Line("div", lax.div, (I, I), ((7, -7, 7, -(2**31), 5), (2, 2, -2, -1, 0)), (3, -3, -3, -(2**31), -1)),
    Line("rem", lax.rem, (I, I), ((-5, 5, -5, 5, -(2**31)), (3, -3, -3, 0, -1)), (-2, 2, -2, 5, 0)),
    Line("float rem", lax.rem, (F, F), ((5, -5, -5.5, 5, INF), (INF, INF, 3, 0, 3)), (5, -5, -2.5, NAN, NAN)),
    Line("float floor_divide", lambda x, y: x // y, (F, F), ((1, -1, 7, 1), (0.1, 0.1, 2, INF)), (9, -10, 3, 0)),
    Line("shift_left", lax.shift_left, (I, I), ((1, 1, 1, -1), (32, 33, 31, -1)), (0, 0, -(2**31), 0)),
    Line(
        "shift_right_logical", lax.shift_right_logical, (I, I), ((8, 8, -8, 8), (33, 32, 1, 2)), (0, 0, 2147483644, 2)
    ),
    Line("shift_right_arithmetic", lax.shift_right_arithmetic, (I, I), ((8, -8, -8), (33, 33, 1)), (0, -1, -4)),
    Line("log", jnp.log, (F,), ((0, -0.0, -1, INF, NAN, 1),), (-INF, -INF, NAN, INF, NAN, 0)),
)
NAMES = [line.name for line in LINES]


@pytest.fixture(scope="module")
def compiled() -> dict[str, juju.Fused]:
    functions = {line.name: juju.fuse(line.f, name=line.name.replace(" ", "_")) for line in LINES}
    juju.compile_all([functions[line.name].lower(*line.arrays(8)) for line in LINES])
    return functions


@pytest.mark.parametrize("line", LINES, ids=NAMES)
def test_jax_is_as_the_line_says(line: Line) -> None:
    want = np.asarray(jax.jit(line.f)(*line.arrays(len(line.right))), np.float64)
    right = np.array(line.right, np.float64)
    assert np.allclose(want, right, rtol=2e-4, equal_nan=True)
    assert (np.signbit(want) == np.signbit(right))[~np.isnan(right)].all()


@pytest.mark.parametrize("line", LINES, ids=NAMES)
def test_body_and_every_tail(line: Line, compiled) -> None:
    fused = compiled[line.name]
    longest = max(LENGTHS)
    for first in range(len(line.right)):
        want = np.asarray(jax.jit(line.f)(*line.arrays(longest, first)))
        for length in LENGTHS if first == 0 else (1, 2, 15, 17, 63, 65, longest):
            got = fused(*map(jnp.asarray, line.arrays(length, first)))
            assert_same(got, jnp.asarray(want[:length]), ulp=line.ulp)


def test_subnormal_numbers_are_zero(compiled) -> None:
    """`jax.jit` takes the logarithm of an array of them as that of zero (but not if it has three elements)."""
    tiny = jnp.full(81, 1e-45, jnp.float32)
    want = jax.jit(jnp.log)(tiny)
    assert (want == -INF).all()
    assert_same(compiled["log"](tiny), want)
