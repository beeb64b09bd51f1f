"""What bad input gets: a specific exception whose text says what, where, and what to do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import juju


class TestUnsupportedPrimitive:
    def test_names_every_offender_with_the_users_line(self) -> None:
        def f(x):
            y = jnp.linalg.svd(x)[1]
            return jnp.linalg.eigh(x)[0] + y, x @ x

        with pytest.raises(juju.UnsupportedPrimitive) as caught:
            juju.fuse(f)(jnp.ones((3, 3)))
        text = str(caught.value)
        assert text.startswith("juju cannot compile f:\n")
        assert {o.primitive for o in caught.value.offenders} >= {"svd", "eigh", "dot_general"}
        first = f.__code__.co_firstlineno
        for primitive, line in (("svd", first + 1), ("eigh", first + 2), ("dot_general", first + 2)):
            (offender,) = [o for o in caught.value.offenders if o.primitive == primitive][:1]
            assert offender.where == f"{__file__}:{line}"
            assert f"{primitive} " in text
        assert "fallback='jax'" in text
        assert "juju primitives" in text

    def test_what_a_known_primitive_cannot_do(self) -> None:
        def f(x):
            return jax.lax.reduce(x, 0.0, lambda a, b: a + jnp.linalg.norm(b * jnp.ones(3)), (0,))

        with pytest.raises(juju.UnsupportedPrimitive, match="in its computation: it works on arrays, not on scalars"):
            juju.fuse(f)(jnp.ones((3, 2)))

    def test_complex_inside(self) -> None:
        with pytest.raises(juju.UnsupportedPrimitive, match="complex64, which juju does not compile"):
            juju.fuse(lambda x: jnp.real(x * 1j))(1.0)

    def test_is_also_a_not_implemented_error(self) -> None:
        with pytest.raises(NotImplementedError):
            juju.fuse(jnp.linalg.svd)(jnp.ones((3, 3)))


class TestArguments:
    @pytest.mark.parametrize(
        ("x", "text"),
        [
            (1j, r"argument x of f has dtype complex64: juju does not compile complex numbers yet"),
            ("s", r"of f is 's', of type str, which is not an array"),
            (object(), r"of type object, which is not an array"),
            (np.array(["a"]), r"of type ndarray of dtype .*, which is not an array"),
            (np.array([1, None]), r"of type ndarray of dtype .*, which is not an array"),
        ],
    )
    def test_what_is_not_an_array(self, x, text) -> None:
        def f(x):
            return x

        with pytest.raises(juju.ArgumentError, match=text):
            juju.fuse(f)(x)
        with pytest.raises(TypeError):
            juju.fuse(f)(x)

    def test_signature_errors_are_pythons(self) -> None:
        f = juju.fuse(lambda x: x)
        with pytest.raises(TypeError, match="positional argument"):
            f(1.0, 2.0)
        with pytest.raises(TypeError, match="unexpected keyword"):
            f(y=1.0)

    def test_the_functions_own_errors_pass_through(self) -> None:
        def f(x):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            juju.fuse(f)(1.0)
        with pytest.raises(jax.errors.TracerBoolConversionError):
            juju.fuse(lambda x: x if x > 0 else -x)(1.0)

    def test_deleted_array(self) -> None:
        f = juju.fuse(lambda x: x + 1)
        x = jnp.arange(3.0)
        f(x)
        x.delete()
        with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[3\]"):
            f(x)


class TestSideEffects:
    def test_debug_print(self) -> None:
        def f(x):
            jax.debug.print("{}", x)
            return x

        with pytest.raises(
            juju.SideEffectError, match=r"f has a side effect \(jax.debug.print or jax.debug.callback\)"
        ):
            juju.fuse(f)(1.0)

    def test_pure_callback_is_an_unsupported_primitive(self) -> None:
        def f(x):
            return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), jnp.float32), x)

        with pytest.raises(juju.UnsupportedPrimitive, match="pure_callback"):
            juju.fuse(f)(1.0)


def test_leaked_tracer() -> None:
    kept = []
    jax.jit(lambda x: kept.append(x))(1.0)
    with pytest.raises(
        juju.LeakedTracerError, match="f reads a tracer that belongs to a transformation which has ended"
    ):
        juju.fuse(lambda x: x + kept[0], name="f")(1.0)


def test_every_error_is_documented_and_in_one_tree() -> None:
    from juju import errors

    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    for c in classes:
        assert c.__doc__
        if issubclass(c, Exception) and not issubclass(c, Warning):
            assert issubclass(c, errors.JujuError)


def run_python(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **env},
    )


def test_fork_after_use_is_an_error_and_not_a_hang() -> None:
    program = """
        import os, sys, juju, jax.numpy as jnp
        f = juju.fuse(lambda x: x + 1)
        f(jnp.ones(3))
        pid = os.fork()
        if pid == 0:
            try:
                f(jnp.ones(3))
            except juju.ForkError as error:
                print(error, flush=True)
                os._exit(7)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        print(os.waitstatus_to_exitcode(status))
    """
    done = run_python(program)
    assert done.returncode == 0, done.stderr
    assert "this process was forked after juju had started" in done.stdout
    assert done.stdout.strip().endswith("7")


def test_missing_toolchain(tmp_path) -> None:
    program = """
        import sys, juju, juju.build.toolchain as toolchain
        import importlib.metadata as metadata
        real = metadata.version
        def version(name):
            if name.startswith("mojo"):
                return "9.9.9"
            return real(name)
        metadata.version = version
        try:
            juju.fuse(lambda x: x * 2)(1.0)
        except juju.ToolchainError as error:
            print(error)
    """
    done = run_python(program, JUJU_CACHE_DIR=str(tmp_path / "cache"))
    assert "9.9.9" in done.stdout, done.stdout + done.stderr
