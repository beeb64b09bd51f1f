"""Flat programs: calls are inlined, dead equations go, and the digest sees content only."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from juju._program import Scalar, flatten
from juju._trace import trace


def program(f, *args, **options):
    return trace(f, args, {}, name="f", **options).program


def names(p):
    return [eqn.primitive for eqn in p.equations]


@jax.custom_jvp
def _jvp_rule(x):
    return jnp.sin(x)


_jvp_rule.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), tangents[0]))


@jax.custom_vjp
def _vjp_rule(x):
    return jnp.cos(x)


_vjp_rule.defvjp(lambda x: (jnp.cos(x), x), lambda x, g: (g,))


@jax.custom_batching.custom_vmap
def _vmap_rule(x):
    return jnp.sin(x)


_vmap_rule.def_vmap(lambda size, batched, x: (jnp.sin(x), batched[0]))


@pytest.mark.parametrize(
    "f",
    [
        jax.jit(lambda x: jnp.sin(x)),
        jax.jit(jax.jit(lambda x: jnp.sin(x))),
        _jvp_rule,
        jax.checkpoint(lambda x: jnp.sin(x)),
        _vmap_rule,
    ],
    ids=["jit", "nested jit", "custom_jvp", "checkpoint", "custom_vmap"],
)
def test_calls_are_inlined(f) -> None:
    assert names(program(f, 1.0)) == ["sin"]


def test_custom_vjp_is_inlined() -> None:
    assert names(program(_vjp_rule, 1.0)) == ["cos"]


def test_dead_equations_and_constants_go() -> None:
    big = np.arange(1000.0, dtype=np.float32)

    def f(x):
        jnp.asarray(big) * 2
        jnp.exp(x)
        return x + 1

    p = program(f, 1.0)
    assert names(p) == ["add"]
    assert p.constants == []


def test_captured_arrays_are_operands_not_text() -> None:
    big = np.arange(1000.0, dtype=np.float32)
    p = program(lambda x: x + big, jnp.ones(1000))
    assert len(p.constants) == 1
    np.testing.assert_array_equal(np.asarray(p.constants[0][1]), big)


def test_one_captured_array_used_twice_is_one_constant() -> None:
    big = jnp.arange(1000.0)
    assert len(program(lambda x: (x + big) * jax.jit(lambda y: y - big)(x), jnp.ones(1000)).constants) == 1


def test_results_may_be_operands_constants_and_repeated() -> None:
    p = program(lambda x: (x, x, 3.0, x + 1), 1.0)
    assert p.results[0] is p.operands[0]
    assert p.results[1] is p.operands[0]
    assert isinstance(p.results[2], Scalar)


class TestDigest:
    def test_ignores_names_and_lines(self) -> None:
        a = program(lambda x, y: jnp.sin(x) * y, 1.0, 2.0)
        b = program(lambda left, right: jnp.sin(left) * right, 1.0, 2.0)
        assert a.digest() == b.digest() is not None

    def test_ignores_values_of_captured_arrays_but_not_their_types(self) -> None:
        def with_array(x):
            return program(lambda y: x + y, jnp.ones(5)).digest()

        assert with_array(jnp.ones(5)) == with_array(jnp.zeros(5))
        assert with_array(jnp.ones(5)) != with_array(jnp.ones(5, jnp.int32))

    @pytest.mark.parametrize(
        ("f", "g"),
        [
            (lambda x: x * 2.0, lambda x: x * 3.0),
            (lambda x: x + 0.0, lambda x: x + -0.0),
            (lambda x: x + jnp.nan, lambda x: x + jnp.inf),
            (lambda x: x**2, lambda x: x**3),
            (lambda x: x - 1.0, lambda x: 1.0 - x),
            (lambda x: (x, x + 1), lambda x: (x + 1, x)),
            (lambda x: jnp.round(x), lambda x: jax.lax.round(x)),
            (lambda x: x.astype(jnp.int32), lambda x: x.astype(jnp.int16)),
        ],
    )
    def test_sees_constants_parameters_and_order(self, f, g) -> None:
        x = jnp.ones(3)
        assert program(f, x).digest() != program(g, x).digest()

    def test_sees_shapes_and_dtypes(self) -> None:
        def f(x):
            return x + x

        digests = {program(f, x).digest() for x in (jnp.ones(3), jnp.ones(4), jnp.ones((3, 1)), jnp.ones(3, jnp.int32))}
        assert len(digests) == 4

    def test_gradients_have_one(self) -> None:
        assert program(jax.grad(lambda x: jax.nn.gelu(x) * 2), 1.0).digest() is not None


def test_both_forms_of_jaxpr_constants() -> None:
    """With simplified constants JAX keeps whole arrays as literals."""
    try:
        jax.config.update("jax_use_simplified_jaxpr_constants", True)
        p = program(lambda x: x + jnp.arange(4.0), jnp.ones(4))
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", False)
    assert names(p)[-1] == "add"


def test_high_level_primitives_are_expanded() -> None:
    """JAX 0.12 traces frexp and others to one opaque equation."""
    closed = jax.make_jaxpr(lambda x: jnp.frexp(x)[0])(1.5)
    assert "call_hi_primitive" not in names(flatten(closed, "f"))


def test_source_lines_are_the_users() -> None:
    def f(x):
        y = jnp.exp(x)  # this line
        return y

    (eqn,) = program(f, 1.0).equations
    assert eqn.source is not None
    assert eqn.source.file == __file__
    assert "this line" in Path(__file__).read_text().splitlines()[eqn.source.line - 1]
