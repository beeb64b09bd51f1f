"""`juju.Primitive`: an author's Mojo kernels in JAX code, fused code around them, and errors in their rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray
from max.dtype import DType
from max.graph import DeviceRef, TensorType, ops
from support import assert_same

import juju
from juju.plan import CustomCall, Launch

pytestmark = pytest.mark.slow

CPU = DeviceRef.CPU()
AUTHOR = Path(__file__).parent / "kernels" / "author.mojo"
TWIN = Path(__file__).parent / "kernels" / "twin"


def add_rule(x, *, amount):
    return ops.custom("author_add", CPU, [x], [x.type], parameters={"amount": amount})[0]


def same_type(x, *_, **__):
    return ShapedArray(x.shape, x.dtype)


add = juju.Primitive("add", add_rule, same_type, multiple_results=False, kernels=[AUTHOR])


def split_rule(x):
    row = TensorType(DType.float32, [x.shape[1]], device=CPU)
    return ops.custom("author_split", CPU, [x], [row, row])


split = juju.Primitive("split", split_rule, lambda x: [ShapedArray(x.shape[1:], x.dtype)] * 2, kernels=str(AUTHOR))

positive = juju.Primitive(
    "positive", lambda x: ops.custom("author_positive", CPU, [x], [x.type]), same_type, False, kernels=AUTHOR
)

# Operations of MAX itself are kernels, too.
cube = juju.Primitive("cube", lambda x: ops.mul(x, ops.mul(x, x)), same_type)


# Named as one of JAX's own.
neg = juju.Primitive("neg", lambda x: ops.mul(x, x), same_type)

plus = juju.Primitive("plus", lambda x, y: ops.add(x, y), same_type, multiple_results=False)


@jax.custom_jvp
def smooth_cube(x):
    return cube(x)


@smooth_cube.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 3 * x * x * t


def inside(x, y):
    """Fused code before, between and after, on a matrix that the kernels see flat."""
    z = add(x * 2 + y, amount=3)
    total, first = split(z - y)
    return total * first, add(z, amount=-3) + 1, x


def by_hand(x, y):
    z = x * 2 + y + 3
    rest = z - y
    return rest.sum(0) * rest[0], z - 3 + 1, x


X = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
PROGRAMS = {
    "inside": (inside, by_hand, (X, 0.5)),
    "integers": (lambda x: add(add(x, amount=1), amount=2), lambda x: x + 3, (np.arange(7, dtype=np.int16),)),
    "halves": (lambda x: add(x * 2, amount=1), lambda x: x * 2 + 1, (jnp.arange(9, dtype=jnp.bfloat16),)),
    "rank 0": (lambda x: add(x, amount=5) * 2, lambda x: (x + 5) * 2, (jnp.float32(1.5),)),
    "cube": (lambda x: cube(x) + 1, lambda x: x * x * x + 1, (X,)),
    "named as another": (lambda x: neg(x), lambda x: x * x, (X,)),
    "literals": (lambda x: plus(x, 2.5) * 2, lambda x: (x + 2.5) * 2, (X,)),
    "literal of 16 bits": (lambda x: plus(x, jnp.bfloat16(1.5)), lambda x: x + 1.5, (jnp.ones(3, jnp.bfloat16),)),
    "gradient": (
        jax.grad(lambda x: smooth_cube(x) * 2),
        jax.grad(lambda x: x**3 * 2),
        (jnp.float32(1.5),),
    ),
    "alone": (lambda x: positive(x), lambda x: x, (jnp.arange(1.0, 5.0),)),
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    lowered = [juju.fuse(f).lower(*args) for f, _, args in PROGRAMS.values()]
    return dict(zip(PROGRAMS, juju.compile_all(lowered), strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_against_the_same_in_jax(compiled, name) -> None:
    _, reference, args = PROGRAMS[name]
    got, want = compiled[name](*args), jax.jit(reference)(*args)
    jax.tree.map(lambda g, w: np.testing.assert_array_equal(np.asarray(g), np.asarray(w)), got, want)
    assert [g.dtype for g in jax.tree.leaves(got)] == [w.dtype for w in jax.tree.leaves(want)]


def test_steps_of_the_plan(compiled) -> None:
    steps = [type(step) for step in compiled["inside"].plan.steps]
    # Before, between and after the kernels; two of these do not depend on each other, so their order is open.
    assert (steps.count(CustomCall), steps.count(Launch)) == (3, 3)
    assert steps[:2] == [Launch, CustomCall]
    assert steps[-2:] == [CustomCall, Launch]
    assert [type(step) for step in compiled["alone"].plan.steps] == [CustomCall]
    assert not compiled["inside"].plan.storable


def test_graph_text() -> None:
    text = str(juju.make_max_graph(inside)(X, 0.5))
    assert text.count('mo.custom [symbol = "author_add", parameters = {amount = 3 : index}]') == 1
    assert text.count('symbol = "author_split"') == 1
    assert "_kernel_library_paths" not in text
    assert str(AUTHOR.parent) not in text


def test_literals_are_constants_of_the_graph(compiled) -> None:
    assert [type(step) for step in compiled["literals"].plan.steps] == [CustomCall, Launch]
    text = str(juju.make_max_graph(PROGRAMS["literals"][0])(X))
    assert text.count("mo.constant") == text.count("2.500000e+00") == 1


def test_the_name_of_a_jax_primitive_is_not_mistaken_for_it(compiled) -> None:
    np.testing.assert_array_equal(np.asarray(juju.fuse(lambda x: -x)(X)), -np.asarray(X))
    np.testing.assert_array_equal(np.asarray(juju.fuse(lambda x: neg(x))(X)), np.asarray(X) ** 2)


def test_through_juju_jit(compiled) -> None:
    total, rest, x = juju.jit(inside)(X, 0.5)
    np.testing.assert_array_equal(rest.to_numpy(), np.asarray(X * 2 + 0.5 + 1))
    x.to_numpy()[:] = 7
    np.testing.assert_array_equal(np.asarray(X), np.arange(12).reshape(3, 4))
    assert total.to_numpy().shape == (4,)


def test_the_next_process_compiles_nothing(compiled) -> None:
    again: list[Any] = juju.compile_all([juju.fuse(f).lower(*args) for f, _, args in PROGRAMS.values()])
    assert [c.cache_hit for c in again] == [True] * len(PROGRAMS)


def test_eager_call_compiles_by_itself(compiled) -> None:
    got = positive(jnp.arange(1.0, 5.0))
    assert isinstance(got, jax.Array)
    np.testing.assert_array_equal(np.asarray(got), np.arange(1.0, 5.0))


def test_results_are_a_list_if_there_are_several() -> None:
    traced = jax.make_jaxpr(lambda x: split(x))(X)
    assert [a.shape for a in traced.out_avals] == [(4,), (4,)]
    assert jax.eval_shape(lambda x: add(x, amount=1), X).shape == (3, 4)


def test_a_kernel_that_raises(compiled) -> None:
    with pytest.raises(ValueError, match="author_positive: the first element is -1"):
        compiled["alone"](jnp.array([-1.0, 2, 3, 4]))
    np.testing.assert_array_equal(np.asarray(compiled["alone"](jnp.arange(1.0, 5.0))), np.arange(1.0, 5.0))


# What is said when something is wrong -------------------------------------------------------------------------------


def primitive(rule=add_rule, abstract_eval=same_type, **options) -> juju.Primitive:
    return juju.Primitive("odd", rule, abstract_eval, **{"kernels": AUTHOR, **options})


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (lambda f: jax.jit(f)(X), "add is a juju.Primitive: it runs on MAX, and jax.jit compiles for XLA"),
        (lambda f: jax.grad(lambda x: f(x).sum())(X), "add is a juju.Primitive and has no derivative of its own"),
        (lambda f: jax.vmap(f)(X), "add is a juju.Primitive and cannot be mapped by jax.vmap"),
    ],
)
def test_outside_of_juju(transform, text) -> None:
    with pytest.raises(juju.UnsupportedPrimitive, match=text):
        transform(lambda x: add(x, amount=1))


def failing_rule(x, **_):
    raise KeyError("height")


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (
            primitive(failing_rule),
            r"the max_lowering_rule of odd raised KeyError: 'height'. "
            r"Its operands are \['float32\[3,4\]'\], its parameters {'amount': 1}.",
        ),
        (
            primitive(lambda x, amount: ops.custom("nope", CPU, [x], [x.type])[0]),
            "the max_lowering_rule of odd raised .*nope",
        ),
        (
            primitive(lambda x, amount: [x, x]),
            "the max_lowering_rule of odd returned 2 values, but its abstract_eval promises 1.",
        ),
        (
            primitive(lambda x, amount: ops.cast(x, DType.int32)),
            r"result 0 of the max_lowering_rule of odd is int32\[3,4\], but its abstract_eval promises float32\[3,4\].",
        ),
        (
            primitive(lambda x, amount: None),
            "the max_lowering_rule of odd returned None, which is not a graph value or a list of them.",
        ),
    ],
)
def test_rules_that_are_wrong(odd, text) -> None:
    with pytest.raises(juju.PrimitiveError, match=text) as raised:
        juju.make_max_graph(lambda x: odd(x, amount=1))(X)
    assert "raised" not in text or raised.value.__cause__ is not None


def test_abstract_eval_that_is_wrong() -> None:
    with pytest.raises(juju.PrimitiveError, match="the abstract_eval of odd returned 5, which is not"):
        jax.eval_shape(lambda x: primitive(abstract_eval=lambda x, amount: 5)(x, amount=1), X)
    two = primitive(abstract_eval=lambda x, amount: [x, x], multiple_results=False)
    with pytest.raises(juju.PrimitiveError, match="returned a list of 2, but multiple_results=False"):
        jax.eval_shape(lambda x: two(x, amount=1), X)


def test_a_parameter_that_cannot_be_hashed() -> None:
    with pytest.raises(juju.ArgumentError, match=r"parameter amount of add is \[1\], which cannot be hashed"):
        add(X, amount=[1])


def test_a_kernel_file_that_is_not_there(tmp_path) -> None:
    lost = primitive(kernels=tmp_path / "it's not here.mojo")
    with pytest.raises(juju.ArgumentError, match=r"odd: there is no kernel package .*it's not here\.mojo"):
        juju.make_max_graph(lambda x: lost(x, amount=1))(X)


def test_a_kernel_file_that_mojo_refuses(tmp_path) -> None:
    file = tmp_path / "broken.mojo"
    file.write_text("def f() -> Int:\n    return nowhere\n")
    broken = primitive(kernels=file)
    with pytest.raises(juju.KernelCompileError, match="nowhere") as raised:
        juju.make_max_graph(lambda x: broken(x, amount=1))(X)
    assert str(file) in str(raised.value)
    assert ":2:" in str(raised.value)


def test_two_packages_with_the_same_op(capfd) -> None:
    twice = primitive(kernels=[AUTHOR, TWIN])
    with pytest.raises(juju.KernelCompileError, match=r"MAX cannot use the kernel packages .*author.*twin.* together"):
        juju.make_max_graph(lambda x: twice(x, amount=1))(X)
    assert "kernel 'author_add' is registered multiple times" in capfd.readouterr().err


def test_a_graph_that_max_refuses(capfd) -> None:
    def halved(x):
        row = TensorType(DType.float32, [x.shape[1]], device=CPU)
        return ops.custom("author_split", CPU, [ops.cast(x, DType.float16)], [row, row])

    wrong = primitive(halved, lambda x: [ShapedArray(x.shape[1:], x.dtype)] * 2)

    def wrong_dtype(x):
        return wrong(x)

    lowered = juju.fuse(wrong_dtype).lower(X)
    with pytest.raises(juju.KernelCompileError, match="MAX could not compile the graph of wrong_dtype: ") as raised:
        lowered.compile()
    assert "author" in str(raised.value)
    assert "float16" in capfd.readouterr().err


def test_types_of_parameters_are_kept_apart() -> None:
    seen = []

    def rule(x, *, flag):
        seen.append(flag)
        return x

    echo = juju.Primitive("echo", rule, same_type)
    for flag in (1, True, 1.0):
        juju.make_max_graph(lambda x, flag=flag: echo(x, flag=flag))(X)
    assert [type(flag) for flag in seen] == [int, bool, float]


def test_same_result_as_jax_has_weak_types_and_devices() -> None:
    assert_same(juju.fuse(lambda x: cube(x) + 1)(X), jax.jit(lambda x: x * x * x + 1)(X))
