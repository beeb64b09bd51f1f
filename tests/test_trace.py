"""Tracing: argument names, types as text, and complaints that name the argument."""

from __future__ import annotations

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest

from juju._trace import parse_args, trace
from juju.errors import ArgumentError, LeakedTracerError, SideEffectError


def test_names_follow_the_signature() -> None:
    def f(params, x, *rest, scale):
        return params["w"] * x + sum(rest) * scale

    traced = trace(f, ({"w": 1.0}, 2.0, 3.0), {"scale": 4.0}, name="f")
    assert traced.arg_names == ("params['w']", "x", "args[2]", "scale")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f32[1024], f32[]", [((1024,), "float32"), ((), "float32")]),
        ("bool[2,3]", [((2, 3), "bool")]),
        ("  i8[ 0 , 3 ] ,u64[] ", [((0, 3), "int8"), ((), "uint64")]),
        ("bf16[1,], float16[2]", [((1,), "bfloat16"), ((2,), "float16")]),
        ("", []),
    ],
)
def test_parse_args(text, want) -> None:
    assert [(s.shape, str(s.dtype)) for s in parse_args(text)] == want


@pytest.mark.parametrize(
    "text", ["f32", "f32[a]", "f33[2]", "f32[2] f32[3]", "f32[2],,f32[3]", "f32[-1]", "complex64[2]"]
)
def test_parse_args_says_what_it_cannot_read(text) -> None:
    with pytest.raises(ValueError, match=r"cannot read|is not a dtype"):
        parse_args(text)


class TestComplaints:
    def test_complex(self) -> None:
        with pytest.raises(ArgumentError, match=r"argument p\['z'\] of f has dtype complex64.*real and the imaginary"):
            trace(lambda p: p["z"], ({"z": 1j},), {}, name="f")

    def test_not_an_array(self) -> None:
        with pytest.raises(ArgumentError, match=r"of f is 'relu', of type str.*static_argnums or static_argnames"):
            trace(lambda x, mode: x, (1.0, "relu"), {}, name="f")

    def test_key(self) -> None:
        with pytest.raises(ArgumentError, match=r"argument k of f has dtype key<fry>"):
            trace(lambda k: k, (jax.random.key(0),), {}, name="f")

    def test_float8(self) -> None:
        with pytest.raises(ArgumentError, match=r"argument x of f has dtype float8_e4m3fn.*It takes bool, int8"):
            trace(lambda x: x, (jnp.ones(3, jnp.float8_e4m3fn),), {}, name="f")

    @pytest.mark.parametrize(
        ("f", "what"),
        [
            (lambda x: jax.debug.print("{}", x), "jax.debug.print"),
            (lambda x: jax.experimental.io_callback(print, None, x), "io_callback"),
            (lambda x: jax.experimental.io_callback(print, None, x, ordered=True), "io_callback"),
        ],
    )
    def test_side_effects(self, f, what) -> None:
        def g(x):
            f(x)
            return x

        with pytest.raises(SideEffectError, match=rf"g has a side effect \({what}.*cannot run Python"):
            trace(g, (1.0,), {}, name="g")

    def test_leaked_tracer(self) -> None:
        kept = []
        jax.jit(lambda x: kept.append(x))(1.0)
        with pytest.raises(LeakedTracerError, match="f reads a tracer that belongs to a transformation"):
            trace(lambda x: x + kept[0], (1.0,), {}, name="f")

    def test_unhashable_static_argument_is_jaxs_own_error(self) -> None:
        def f(x, c):
            return x * c[0]

        with pytest.raises(ValueError, match="Non-hashable static arguments are not supported") as ours:
            trace(f, (2.0, [3]), {}, name="f", static_argnums=1)
        with pytest.raises(ValueError, match="Non-hashable") as jaxs:
            jax.jit(f, static_argnums=1)(2.0, [3])
        assert str(ours.value) == str(jaxs.value)


def test_structs_numpy_and_python_scalars_are_typed_as_in_jit() -> None:
    def f(*xs):
        return xs

    args = (1, 2.0, True, np.float64(3), np.int64([1]), jax.ShapeDtypeStruct((2,), jnp.bfloat16), np.float32(1))
    traced = trace(f, args, {}, name="f")
    want = jax.jit(f).trace(*args).jaxpr.in_avals
    assert [(a.shape, a.dtype, a.weak_type) for a in traced.in_avals] == [(a.shape, a.dtype, a.weak_type) for a in want]
