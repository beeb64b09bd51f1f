"""The examples of the original README, and the programs in `examples/` that stand for them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import grad
from jax.core import ShapedArray
from max.driver import Buffer
from max.dtype import DType
from max.graph import DeviceRef, TensorType, ops

import juju
from juju import Primitive, jit, make_max_graph

EXAMPLES = Path(__file__).parents[1] / "examples"
CPU = DeviceRef.CPU()


def jax_code(x, y):
    v = x + y
    v = v * v
    return jnp.sin(v)


# Mandelbrot --------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 15, 15
MIN_X, MAX_X, MIN_Y, MAX_Y = -1.5, 0.7, -1.12, 1.12
SCALE_X, SCALE_Y = (MAX_X - MIN_X) / WIDTH, (MAX_Y - MIN_Y) / HEIGHT

PRINTED = """
   2   2   3   3   3   3   3   3   4   6   4   3   3   2   2
   3   3   3   3   3   3   4   4   5   8  10   4   4   3   2
   3   3   3   3   3   4   4   5   7 100  23   5   5   4   3
   3   3   3   4   4   5  18   9  12 100  18  12   7   6   3
   3   3   4   5   5   6  10 100 100 100 100 100 100   7   4
   4   6   8   8   7   8 100 100 100 100 100 100 100  17   4
   5   7  14 100 100  13 100 100 100 100 100 100 100  51   4
   7  24 100 100 100 100 100 100 100 100 100 100 100   7   4
   7  24 100 100 100 100 100 100 100 100 100 100 100   7   4
   5   7  14 100 100  13 100 100 100 100 100 100 100  51   4
   4   6   8   8   7   8 100 100 100 100 100 100 100  17   4
   3   3   4   5   5   6  10 100 100 100 100 100 100   7   4
   3   3   3   4   4   5  18   9  12 100  18  12   7   6   3
   3   3   3   3   3   4   4   5   7 100  23   5   5   4   3
   3   3   3   3   3   3   4   4   5   8  10   4   4   3   2
"""
"""What the original README prints."""


def escape_times(x, y, limit: int) -> np.ndarray:
    """How many of 0, c, c^2 + c, ... come before the first beyond |z| = 2, at most `limit`, for c = x + iy."""
    c = np.asarray(x, np.float64)[None, :] + 1j * np.asarray(y, np.float64)[:, None]
    z, inside, count = np.zeros_like(c), np.ones(c.shape, bool), np.zeros(c.shape, np.int32)
    for _ in range(limit):
        inside &= np.real(z) ** 2 + np.imag(z) ** 2 <= 4
        count += inside
        z = np.where(inside, z * z + c, z)
    return count


def mandelbrot_max_lowering_rule(**params):
    """The README's form: everything is a parameter, and stands in the graph as a constant."""
    floats = [ops.constant(params[name], DType.float32, CPU) for name in ("min_x", "min_y", "scale_x", "scale_y")]
    return ops.custom(
        name="mandelbrot",
        device=CPU,
        values=[*floats, ops.constant(params["max_iterations"], DType.int32, CPU)],
        out_types=[TensorType(DType.int32, [params["height"], params["width"]], device=CPU)],
    )[0].tensor


def mandelbrot_abstract_eval(**params):
    return ShapedArray((params["height"], params["width"]), jnp.int32)


mandelbrot = Primitive("mandelbrot", mandelbrot_max_lowering_rule, mandelbrot_abstract_eval, multiple_results=False)


def compute_mandelbrot():
    return mandelbrot(
        min_x=MIN_X,
        min_y=MIN_Y,
        scale_x=SCALE_X,
        scale_y=SCALE_Y,
        width=WIDTH,
        height=HEIGHT,
        max_iterations=100,
    )


def scaled_rule(min_x, min_y, scale_x, scale_y, max_iterations, *, width, height):
    out = TensorType(DType.int32, [height, width], device=CPU)
    return ops.custom("mandelbrot", CPU, [min_x, min_y, scale_x, scale_y, max_iterations], [out])


scaled = Primitive("mandelbrot", scaled_rule, lambda *_, width, height: [ShapedArray((height, width), jnp.int32)])


def picture(x, y, dx, dy, limit, *, width: int, height: int):
    """The kernel between fused code: operands are computed before it, and the result is used after it."""
    return scaled(x + dx, y + dy, dx, dy, limit, width=width, height=height)[0] * 2 + 1


SIZES = {"one vector": (64, 1), "a tail": (37, 41), "a column": (1, 130), "many chunks": (200, 111), "empty": (0, 5)}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    lowered = {"readme": juju.fuse(compute_mandelbrot).lower()}
    for name, (width, height) in SIZES.items():
        fused = juju.fuse(picture, static_argnames=("width", "height"), name=f"picture_{width}_{height}")
        lowered[name] = fused.lower(-1.5, -1.12, 0.01, 0.015, 20, width=width, height=height)
    with jax.enable_x64(True):
        f64 = (np.float64(-0.75), np.float64(0.1), np.float64(1e-9), np.float64(1e-9), np.int64(300))
        lowered["float64"] = juju.fuse(picture, static_argnames=("width", "height"), name="deep").lower(
            *f64, width=20, height=10
        )
    return dict(zip(lowered, juju.compile_all(list(lowered.values())), strict=True))


@pytest.mark.slow
def test_mandelbrot_of_the_readme(models) -> None:
    got = models["readme"]()
    assert got.dtype == jnp.int32
    x, y = MIN_X + np.arange(WIDTH) * SCALE_X, MIN_Y + np.arange(HEIGHT) * SCALE_Y
    np.testing.assert_array_equal(np.asarray(got), escape_times(x, y, 100))
    printed = np.array([line.split() for line in PRINTED.strip().splitlines()], np.int32)
    np.testing.assert_array_equal(np.asarray(got), printed)


@pytest.mark.slow
def test_mandelbrot_through_jit(models) -> None:
    buffer = jit(compute_mandelbrot)()
    assert isinstance(buffer, Buffer)
    np.testing.assert_array_equal(buffer.to_numpy(), np.asarray(models["readme"]()))


def test_mandelbrot_graph() -> None:
    text = str(make_max_graph(compute_mandelbrot)())
    assert text.startswith("mo.graph @compute_mandelbrot() -> !mo.tensor<[15, 15], si32>")
    assert text.count("mo.constant") == 5
    assert text.count("mo.custom") == text.count('[symbol = "mandelbrot"]') == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_mandelbrot_sizes(models, name) -> None:
    width, height = SIZES[name]
    # With so few iterations float32 and float64 count the same.
    x0, y0, dx, dy = (float(np.float32(v)) for v in (-1.5, -1.12, 0.01, 0.015))
    got = np.asarray(models[name](x0, y0, dx, dy, 20))
    want = escape_times(x0 + dx + np.arange(width) * dx, y0 + dy + np.arange(height) * dy, 20) * 2 + 1
    assert got.shape == (height, width)
    np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_mandelbrot_in_float64_with_another_limit(models) -> None:
    with jax.enable_x64(True):
        args = (np.float64(-0.75), np.float64(0.1), np.float64(1e-9), np.float64(1e-9))
        for limit in (0, 1, 7, 8, 9, 300):
            got = np.asarray(models["float64"](*args, np.int64(limit)))
            x = -0.75 + 1e-9 * (1 + np.arange(20))
            y = 0.1 + 1e-9 * (1 + np.arange(10))
            np.testing.assert_array_equal(got, escape_times(x, y, limit) * 2 + 1)


@pytest.mark.slow
def test_mandelbrot_refuses_a_negative_limit(models) -> None:
    with pytest.raises(ValueError, match="mandelbrot: max_iterations must not be negative, but is -1"):
        models["a tail"](-1.5, -1.12, 0.01, 0.015, -1)


# jit ---------------------------------------------------------------------------------------------------------------


def test_jit_returns_a_buffer() -> None:
    result = jit(jax_code)(5, 10)
    assert isinstance(result, Buffer)
    assert result.to_numpy() == pytest.approx(-0.93009484, abs=1e-7)
    assert result.to_numpy().dtype == np.float32


def test_jit_coerces_to_jnp() -> None:
    result = jit(jax_code, coerces_to_jnp=True)(5, 10)
    assert isinstance(result, jax.Array)
    assert float(result) == pytest.approx(-0.93009484, abs=1e-7)


def test_jit_as_decorator_with_options_around_grad() -> None:
    @jit(coerces_to_jnp=True)
    @grad
    def derivative(x, y):
        return jax_code(x, y)

    assert float(derivative(5.0, 10.0)) == pytest.approx(11.019581, rel=1e-6)
    assert jit(grad(jax_code))(5.0, 10.0).to_numpy() == pytest.approx(11.019581, rel=1e-6)


def test_jit_of_vmap() -> None:
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    np.testing.assert_array_equal(jit(jax.vmap(lambda x: x**2))(x).to_numpy(), x * x)


def test_jit_takes_and_gives_pytrees() -> None:
    @jit
    def step(state, rate):
        return {name: (value - rate, value) for name, value in state.items()}

    w = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    result = step({"w": jnp.asarray(w), "b": 2.0}, rate=0.5)
    assert sorted(result) == ["b", "w"]
    np.testing.assert_array_equal(result["w"][0].to_numpy(), w - np.float32(0.5))
    np.testing.assert_array_equal(result["w"][1].to_numpy(), w)
    assert result["b"][0].to_numpy() == 1.5


def test_jit_keeps_apart_types_and_static_arguments() -> None:
    traces = []

    def f(x, n):
        traces.append((x.shape, x.dtype, n))
        return x * n

    power = jit(f, static_argnames="n")
    for _ in range(2):
        assert power(3, n=2).to_numpy().dtype == np.int32
        assert power(3.0, n=2).to_numpy().dtype == np.float32
        np.testing.assert_array_equal(power(np.ones(3, np.float16), n=3).to_numpy(), [3, 3, 3])
    assert len(traces) == 3


def test_writing_to_a_result_changes_nothing_else() -> None:
    captured = jnp.arange(5.0)
    x = jnp.arange(5.0) + 10

    @jit
    def f(x):
        return x, captured, x, x + 1

    for _ in range(2):
        results = f(x)
        values = [[10, 11, 12, 13, 14], [0, 1, 2, 3, 4], [10, 11, 12, 13, 14], [11, 12, 13, 14, 15]]
        for result, value in zip(results, values, strict=True):
            np.testing.assert_array_equal(result.to_numpy(), value)
            result.to_numpy()[:] = -1
    np.testing.assert_array_equal(np.asarray(x), [10, 11, 12, 13, 14])


def test_options_that_make_no_sense_for_buffers() -> None:
    options: dict[str, Any] = {"fallback": "jax"}
    with pytest.raises(TypeError, match="fallback"):
        jit(jax_code, **options)
    with pytest.raises(ValueError, match="there is no engine 'gpu'"):
        jit(jax_code, engine="gpu")


def test_jit_inside_other_transformations_is_inlined() -> None:
    f = jit(jax_code)
    np.testing.assert_allclose(jax.jit(f)(5.0, 10.0), jax.jit(jax_code)(5.0, 10.0))
    np.testing.assert_allclose(grad(f)(5.0, 10.0), 11.019581, rtol=1e-6)


def test_graph_of_the_readme() -> None:
    graph = make_max_graph(jax_code)(5, 10)
    text = str(graph)
    assert text.startswith("mo.graph @jax_code(%arg0: !mo.tensor<[], si32>, %arg1: !mo.tensor<[], si32>)")
    assert "-> !mo.tensor<[], f32>" in text.splitlines()[0]
    assert text.count("mo.custom") == 1
    assert text.rstrip().endswith("}")
    assert repr(graph) == text
    assert graph.graph.name == "jax_code"


def test_graph_is_not_compiled(monkeypatch) -> None:
    from juju.engines import graphs

    monkeypatch.setattr(graphs, "_compile_module", lambda *_: pytest.fail("the graph was compiled"))
    assert "mo.custom" in str(make_max_graph(lambda x: x * 5 + 1)(jax.ShapeDtypeStruct((3, 4), jnp.bfloat16)))


# Programs ----------------------------------------------------------------------------------------------------------


def run(name: str, capsys) -> str:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_basic_program(capsys) -> None:
    out = run("basic.py", capsys)
    assert "mo.graph @jax_code" in out
    lines = out.splitlines()
    assert sum(line.startswith("-0.93009") for line in lines) == 1
    want = np.sin((np.arange(4.0) + 10) ** 2)
    np.testing.assert_allclose(np.array(lines[-1].strip("[]").split(), float), want, rtol=1e-5)


def test_jit_program(capsys) -> None:
    out = run("jit.py", capsys)
    assert out.count(" ms\n") == 4
    assert out.splitlines()[-1] == "[0.5 0.5 0.5] 0.0"


def test_transformations_program(capsys) -> None:
    lines = run("transformations.py", capsys).splitlines()
    assert float(lines[0]) == pytest.approx(11.019581, rel=1e-6)
    assert lines[1:] == ["[1. 4. 9.]", "[2. 4. 6.]"]


@pytest.mark.slow
def test_custom_primitives_program(capsys) -> None:
    out = run("custom_primitives.py", capsys)
    assert '[symbol = "mandelbrot"]' in out
    table = out[out.index("[[") :].replace("[", " ").replace("]", " ")
    got = np.array([line.split() for line in table.strip().splitlines()], np.int32)
    x, y = MIN_X + np.arange(WIDTH) * SCALE_X, MIN_Y + np.arange(HEIGHT) * SCALE_Y
    np.testing.assert_array_equal(got, escape_times(x, y, 100))
