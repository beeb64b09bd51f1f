"""The decorator: pytrees, options, caching, and behaviour under JAX's transformations."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import warnings
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_same

import juju

Point = namedtuple("Point", "x y")


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["kind"])
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any
    kind: str = "affine"


def check(f, *args, ulp: float = 0, scale: float = 0, **kwargs):
    fused = juju.fuse(f)
    got = fused(*args, **kwargs)
    assert_same(got, jax.jit(f)(*args, **kwargs), ulp=ulp, scale=scale)
    return fused


class TestArguments:
    def test_pytrees_in_and_out(self) -> None:
        def f(p, q, *, r):
            layer = Layer(p["a"] * 2, p["b"][0] + q.x, "out")
            return {"layer": layer, "none": None, "tuple": (q.y - r, [], {}), "point": Point(p["a"], q)}

        x = jnp.arange(6.0)
        check(f, {"a": x, "b": [x + 1, None]}, Point(x, x * 3), r=2.0)

    def test_keyword_arguments_and_defaults(self) -> None:
        def f(x, y=2.0, *, z=3.0):
            return x * y + z

        check(f, 1.0)
        check(f, 1.0, y=5.0)
        check(f, x=1.0, z=jnp.arange(3.0))

    @pytest.mark.parametrize(
        "x",
        [
            np.arange(12.0, dtype=np.float32).reshape(3, 4).T,
            np.arange(12.0, dtype=np.float32).reshape(3, 4)[::2, 1::2],
            np.arange(12.0, dtype=np.float32).reshape(3, 4)[::-1, ::-1],
            np.broadcast_to(np.float32(2), (3, 4)),
            np.asfortranarray(np.arange(12.0, dtype=np.float32).reshape(3, 4)),
            np.arange(12, dtype=np.int64),
            np.arange(5.0),
            np.float16(3),
            np.array(7, order="C"),
            np.zeros((0, 3), np.float32),
            True,
            7,
            2.5,
        ],
        ids=lambda x: f"{type(x).__name__}{getattr(x, 'strides', '')}{getattr(x, 'dtype', '')}",
    )
    def test_host_values(self, x) -> None:
        check(lambda x: x + x, x)

    @pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8", ">f8"])
    def test_other_byte_order(self, dtype) -> None:
        x = np.arange(12).reshape(3, 4).astype(dtype)
        native = x.astype(x.dtype.newbyteorder("="))
        fused = juju.fuse(lambda x, y: x * 2 + y)
        assert_same(fused(x, 1), jax.jit(fused.__wrapped__)(native, 1))
        assert_same(fused(y=1, x=x), jax.jit(fused.__wrapped__)(native, 1))

    def test_read_only_numpy(self) -> None:
        x = np.arange(4.0, dtype=np.float32)
        x.flags.writeable = False
        check(lambda x: x * 2, x)

    def test_inputs_are_not_changed(self) -> None:
        x = np.arange(100.0, dtype=np.float32)
        y = jnp.asarray(x)
        juju.fuse(lambda x, y: (x * 2 + y, y - 1))(x, y)
        np.testing.assert_array_equal(x, np.arange(100.0))
        np.testing.assert_array_equal(np.asarray(y), np.arange(100.0))

    def test_a_hundred_inputs_and_outputs(self) -> None:
        def f(*xs):
            return tuple(x * (n + 1) + xs[0] for n, x in enumerate(xs))

        check(f, *[jnp.full(37, float(n)) for n in range(100)], ulp=1)

    def test_weak_types_and_x64(self) -> None:
        def f(x, y):
            return x * 0.1, x + y, y, jnp.asarray(x, jnp.float32) * 0.1

        for enabled in (False, True):
            with jax.enable_x64(enabled):
                for args in ((1, 2), (1.5, 2), (np.arange(3.0), 2.5), (True, 1), (jnp.int8(3), 4)):
                    check(f, *args, ulp=1)

    def test_results_are_jax_arrays_on_the_inputs_device(self) -> None:
        y = juju.fuse(lambda x: x + 1)(jnp.ones(3))
        assert isinstance(y, jax.Array)
        assert y.devices() == jnp.ones(3).devices()
        assert y.committed == jax.jit(lambda x: x + 1)(jnp.ones(3)).committed
        committed = jax.device_put(jnp.ones(3), jax.devices()[0])
        assert juju.fuse(lambda x: x + 1)(committed).committed


class TestDegenerate:
    def test_unused_constant_repeated_and_passed_through(self) -> None:
        def f(x, y):
            return x, x, jnp.float32(0.9), jnp.float32(0.9), x * 0 + 2, (), {"k": None}, x.reshape(-1)

        check(f, np.arange(4, dtype=np.float32).reshape(2, 2), np.ones(3, np.float32))

    def test_one_value_under_two_shapes(self) -> None:
        check(lambda x: (x + 1, (x + 1).reshape(-1), (x + 1)[None]), jnp.ones((2, 3)))

    def test_no_arguments(self) -> None:
        check(lambda: (jnp.ones(5), 3, jnp.zeros((2, 0))))

    def test_no_results(self) -> None:
        check(lambda x: (), jnp.ones(3))
        check(lambda x: {"a": None}, jnp.ones(3))

    def test_only_scalars(self) -> None:
        check(lambda a, b: (a + b, a * b, a), 2.0, 3)

    @pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (1, 1, 1), (2, 3, 4, 5, 1, 1, 2, 1)])
    def test_every_rank_and_empty(self, shape) -> None:
        check(lambda x, s: (x * 2 + s, s + 1, x), jnp.ones(shape), 3.0)

    def test_an_empty_array_does_not_swallow_scalar_results(self) -> None:
        check(lambda x, s: (x + s, s * 2), jnp.ones((0,)), 3.0)

    def test_different_shapes_in_one_function(self) -> None:
        check(lambda p, s: jax.tree.map(lambda x: x * s, p), [jnp.ones(n) for n in (0, 1, 5, 64, 65, 1000)], 2.0)


class TestConstants:
    def test_captured_arrays(self) -> None:
        big = np.arange(2_000_000, dtype=np.float32)
        fused = check(lambda x: x + big * 2, jnp.ones(2_000_000))
        assert len(fused.lower(jnp.ones(2_000_000)).as_text("mojo")) < 3000

    def test_equal_types_other_values_share_a_kernel(self) -> None:
        from juju.build import compiler_runs

        def make(c):
            return juju.fuse(lambda x: x * 5 + c)

        first = make(jnp.arange(50.0))(1.0)
        before = compiler_runs()
        second = make(jnp.arange(50.0) * 2)(1.0)
        assert compiler_runs() == before
        np.testing.assert_array_equal(np.asarray(first), 5 + np.arange(50.0))
        np.testing.assert_array_equal(np.asarray(second), 5 + 2 * np.arange(50.0))

    def test_same_names_different_code(self) -> None:
        fs = [juju.fuse(lambda x, k=k: x * k) for k in (1.0, 2.0, 3.0)]

        def make(c):
            def helper(x):
                return x + c

            return juju.fuse(helper)

        gs = [make(10.0), make(20.0), make(np.float32(30))]
        assert [float(g(1.0)) for g in fs + gs] == [1, 2, 3, 11, 21, 31]
        assert [float(g(1.0)) for g in reversed(gs)] == [31, 21, 11]


class TestNames:
    @pytest.mark.parametrize(
        "name",
        ["var", "fn", "struct", "main", "__init__", "<lambda>", "naïve", "名前", "a" * 300, "1st", '"; rm -rf', "args"],
    )
    def test_any_function_name(self, name) -> None:
        def f(var, args, exp, lo, F32, load):
            return var + args * exp - lo / F32 + jnp.exp(load)

        xs = [jnp.full(5, float(n + 1)) for n in range(6)]
        got = juju.fuse(f, name=name)(*xs)
        assert_same(got, jax.jit(f)(*xs), ulp=4)

    def test_odd_argument_paths(self) -> None:
        check(lambda d: d["in"] + d["a b"] + d['"'], {k: jnp.ones(3) for k in ("in", "a b", '"')})


class TestOptions:
    def test_static_arguments(self) -> None:
        def f(x, mode, *, k=1):
            return x * (2 if mode == "double" else 3) + k

        fused = juju.fuse(f, static_argnums=1, static_argnames="k")
        jitted = jax.jit(f, static_argnums=1, static_argnames="k")
        for args, kwargs in (((1.0, "double"), {}), ((1.0, "triple"), {"k": 5}), ((jnp.ones(3), "double"), {"k": 2})):
            assert_same(fused(*args, **kwargs), jitted(*args, **kwargs), ulp=1)
        assert fused._cache_size() == 3

    def test_static_values_are_told_apart_by_type(self) -> None:
        fused = juju.fuse(lambda x, k: x * k, static_argnums=1)
        dtypes = [fused(jnp.ones(2, jnp.int32), k).dtype.name for k in (1, 1.0, True)]
        assert dtypes == [
            jax.jit(lambda x, k: x * k, static_argnums=1)(jnp.ones(2, jnp.int32), k).dtype.name for k in (1, 1.0, True)
        ]

    @pytest.mark.parametrize("c", [[3], {"a": 1}, np.array([3])], ids=["list", "dict", "array"])
    def test_unhashable_static(self, c) -> None:
        fused = juju.fuse(lambda x, c: x * c[0], static_argnums=1)
        assert float(fused(2.0, (3,))) == 6
        with pytest.raises(ValueError, match="Non-hashable static arguments are not supported"):
            fused(2.0, c)

    def test_donation(self) -> None:
        fused = juju.fuse(lambda x, y: (x + 1, y * 2), donate_argnums=0)
        x, y = jnp.arange(3.0), jnp.ones(2)
        a, b = fused(x, y)
        np.testing.assert_array_equal(np.asarray(a), [1, 2, 3])
        assert x.is_deleted()
        assert not y.is_deleted()
        with pytest.raises(RuntimeError, match="deleted"):
            x + 1
        with pytest.raises(RuntimeError, match="deleted"):
            fused(x, y)
        np.testing.assert_array_equal(np.asarray(b), [2, 2])

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"engine": "cuda"}, "there is no engine 'cuda'; choose one of max, linked"),
            ({"compile": "later"}, "compile='later' is not one of"),
            ({"fallback": "numpy"}, "fallback='numpy' is not one of"),
        ],
    )
    def test_unknown_options(self, options, text) -> None:
        with pytest.raises(ValueError, match=text):
            juju.fuse(lambda x: x, **options)

    def test_not_a_function(self) -> None:
        with pytest.raises(TypeError, match=r"juju\.fuse takes a function, not int"):
            juju.fuse(3)  # type: ignore[call-overload]

    def test_with_and_without_parentheses(self) -> None:
        @juju.fuse(name="other")
        def f(x):
            """The docstring."""
            return x + 1

        assert f.__doc__ == "The docstring."
        assert f.__name__ == "f"
        assert "def other_" in f.lower(1.0).as_text("mojo")

    def test_methods(self) -> None:
        class Scale:
            @functools.partial(juju.fuse, static_argnums=0)
            def __call__(self, x):
                return x * 2

        assert float(Scale()(3.0)) == 6


class TestCache:
    def test_one_entry_for_each_signature(self) -> None:
        traces = 0

        @juju.fuse
        def f(x):
            nonlocal traces
            traces += 1
            return x * 2

        for _ in range(3):
            for x in (jnp.ones(3), jnp.ones((3, 1)), jnp.ones(3, jnp.int32), 1.0, 1, jnp.float32(1)):
                f(x)
        assert traces == f._cache_size() == 6
        f.clear_cache()
        assert f._cache_size() == 0

    def test_feeding_results_back_does_not_retrace_for_ever(self) -> None:
        traces = 0

        @juju.fuse
        def f(x, y):
            nonlocal traces
            traces += 1
            return x + y

        x = 0
        for i in range(10):
            x = f(x, i)
        assert (int(x), x.dtype.name, x.weak_type, traces) == (45, "int32", True, 1)

    def test_config_is_part_of_the_key(self) -> None:
        f = juju.fuse(lambda x: x * 2)
        assert f(1.0).dtype == jnp.float32
        with jax.enable_x64(True):
            assert f(1.0).dtype == jnp.float64

    def test_a_dropped_function_frees_its_programs(self) -> None:
        def make():
            big = jnp.ones(100_000)
            f = juju.fuse(lambda x: x + big)
            f(1.0)
            return f, weakref.ref(f)

        f, ref = make()
        del f
        gc.collect()
        assert ref() is None


class TestTransformations:
    def test_inside_jit_grad_and_vmap(self) -> None:
        @juju.fuse
        def f(x, y):
            return jnp.sin((x + y) ** 2)

        g = f.__wrapped__
        x = jnp.linspace(-1, 1, 7)
        assert_same(jax.jit(f)(x, 2.0), jax.jit(g)(x, 2.0))
        assert_same(jax.grad(f)(5.0, 10.0), jax.grad(g)(5.0, 10.0))
        assert_same(jax.vmap(f, in_axes=(0, None))(x, 2.0), jax.vmap(g, in_axes=(0, None))(x, 2.0))
        assert_same(jax.jit(jax.vmap(jax.grad(f)))(x, x), jax.jit(jax.vmap(jax.grad(g)))(x, x))

    def test_of_jit_grad_and_vmap(self) -> None:
        def g(x, y):
            return jnp.sin((x + y) ** 2)

        x = jnp.linspace(-1, 1, 7)
        check(jax.vmap(jax.grad(g)), x, x, ulp=4, scale=1e-6)
        check(jax.grad(g), 5.0, 10.0, ulp=4)
        check(jax.jit(g), x, 2.0, ulp=4, scale=1e-6)

    def test_closing_over_a_tracer(self) -> None:
        def outer(x):
            return juju.fuse(lambda y: x * y)(2.0)

        assert float(jax.grad(outer)(3.0)) == 2
        assert float(jax.jit(outer)(3.0)) == 6

    def test_fused_inside_fused(self) -> None:
        inner = juju.fuse(lambda x: x * 2)
        outer = juju.fuse(lambda x: inner(x) + inner(x + 1))
        assert float(outer(1.0)) == 6
        assert len(outer.lower(1.0).kernels) == 1

    def test_disable_jit(self) -> None:
        with jax.disable_jit():
            assert float(juju.fuse(lambda x: x + 1)(1.0)) == 2


class TestStages:
    def test_lowered(self) -> None:
        low = juju.fuse(lambda x: x * 2 + 1).lower(jax.ShapeDtypeStruct((8,), jnp.float32))
        assert "mul" in low.as_text("jaxpr")
        assert "juju.kernel" in low.as_text("mlir")
        assert "@export" in low.as_text("mojo")
        with pytest.raises(
            ValueError, match="there is no stage 'c'; choose one of jaxpr, mlir, mojo, graph, llvm, asm"
        ):
            low.as_text("c")

    def test_compiled(self) -> None:
        low = juju.fuse(lambda x, y: x * 2 + y).lower(jnp.ones(8), 1.0)
        exe = low.compile()
        np.testing.assert_array_equal(np.asarray(exe(jnp.ones(8), 3.0)), np.full(8, 5.0))
        cost = exe.cost_analysis()
        assert cost["kernels"] == 1
        assert cost["bytes"] == 8 * 4 * 2
        assert cost["flops"] == 16
        assert "define" in exe.as_text("llvm")
        assert "ret" in exe.as_text("asm")

    def test_compiled_checks_types(self) -> None:
        exe = juju.fuse(lambda x: x * 2).lower(jnp.ones(8)).compile()
        with pytest.raises(
            juju.ArgumentError, match=r"compiled for float32\[8\] as argument x, and is called with float32\[9\]"
        ):
            exe(jnp.ones(9))
        with pytest.raises(juju.ArgumentError, match="was compiled for arguments"):
            exe(jnp.ones(8), 2.0)

    def test_nothing_to_do(self) -> None:
        low = juju.fuse(lambda x: x).lower(jnp.ones(8))
        assert low.kernels == ()
        assert "needs no kernel" in low.as_text("mojo")

    def test_compile_all(self) -> None:
        def bad(x):
            return jnp.linalg.svd(x)[1]

        x = jnp.ones((3, 3))
        good = juju.fuse(lambda x: x + 41).lower(x)
        results = juju.compile_all([good, juju.fuse(bad).lower(x), good], return_exceptions=True)
        assert float(results[0](x)[0, 0]) == 42
        assert isinstance(results[1], juju.UnsupportedPrimitive)
        with pytest.raises(juju.UnsupportedPrimitive):
            juju.compile_all([good, juju.fuse(bad).lower(x)])
        assert juju.compile_all([]) == []


class TestBackground:
    def test_answers_at_once_and_swaps(self) -> None:
        import time

        salt = time.time_ns() % 100_003 + 0.5  # a kernel no store has seen

        fused = juju.fuse(lambda x: x * salt, compile="background")
        want = np.float32(salt) * np.arange(5.0, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(fused(jnp.arange(5.0))), want)
        self._wait()
        np.testing.assert_array_equal(np.asarray(fused(jnp.arange(5.0))), want)
        (entry,) = fused._entries.values()
        assert entry.__name__ == "call_flat"
        np.testing.assert_array_equal(np.asarray(fused(jnp.arange(5.0))), want)

    def test_what_cannot_be_compiled_is_raised_and_not_left_to_jax(self) -> None:
        fused = juju.fuse(lambda x: jnp.linalg.svd(x)[1], compile="background")
        with contextlib.suppress(juju.UnsupportedPrimitive):  # raised here if it was known in time
            fused(jnp.ones((2, 2)))
        self._wait()
        for _ in range(2):
            with pytest.raises(juju.UnsupportedPrimitive, match="svd"):
                fused(jnp.ones((2, 2)))

    def _wait(self) -> None:
        import threading

        for thread in threading.enumerate():
            if thread.name.startswith("juju-compile-"):
                thread.join(120)


class TestFallback:
    def test_is_asked_for_and_says_so(self) -> None:
        def f(x):
            return jnp.linalg.svd(x)[1]

        x = jnp.ones((3, 3))
        with pytest.raises(juju.UnsupportedPrimitive):
            juju.fuse(f)(x)
        fused = juju.fuse(f, fallback="jax")
        with pytest.warns(
            UserWarning, match=r"f runs through jax.jit, as fallback='jax' allows: svd at .*test_fuse.py"
        ):
            got = fused(x)
        assert_same(got, jax.jit(f)(x))
        assert_same(fused(x), jax.jit(f)(x))


class TestDonationThatCannotBeUsed:
    @pytest.mark.parametrize(
        ("f", "x", "y"),
        [
            (lambda x, y: y * x, jnp.ones(4), jnp.ones((3, 4))),
            (lambda x, y: y * x, jnp.float32(2), jnp.ones(6)),
            (lambda x, y: (x + y).astype(jnp.int8), jnp.arange(3, dtype=jnp.int32), jnp.ones(3)),
            (lambda x, y: x.reshape(-1) * y, jnp.ones((2, 3)), jnp.ones(6)),
            (lambda x, y: y * x.astype(jnp.float32), jnp.arange(3, dtype=jnp.int32), jnp.ones(3)),
            (lambda x, y: y * 2, jnp.ones(4), jnp.ones(4)),
        ],
        ids=["stretched", "scalar", "narrower", "other shape", "other dtype", "unused"],
    )
    def test_is_kept_and_warned_about_as_in_jax(self, f, x, y) -> None:
        seen = []
        for compiled in (juju.fuse(f, donate_argnums=0), jax.jit(f, donate_argnums=0)):
            given = jnp.array(x)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                compiled(given, y)
            texts = [str(w.message).split("\n")[0] for w in caught if "donated" in str(w.message)]
            seen.append((texts, given.is_deleted()))
        assert seen[0] == seen[1]


def _long_chain(x: jax.Array) -> jax.Array:
    for _ in range(400):
        x = jnp.sin(x) * 0.5 + 0.1
    return x


@pytest.mark.parametrize(
    ("name", "f", "kernels"),
    [
        ("read at other points", lambda x: jnp.flip(_long_chain(x)) * 2, 2),
        ("once for each row", lambda x: x * _long_chain(x[:, :1]), 2),
        ("one number", lambda x: x * _long_chain(x[0, 0]), 1),
    ],
)
def test_long_chains_do_not_exhaust_the_stack(name: str, f: Callable[..., Any], kernels: int) -> None:
    """A chain of more than a few dozen values is not computed again as a whole, and passes do not recurse along it."""
    assert len(juju.fuse(f).lower(jax.ShapeDtypeStruct((6, 40), jnp.float32)).plan.launches) == kernels
