"""TARGET and the arguments of `juju codegen`: files, modules, names, shapes, annotations."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import jax
import jax.numpy as jnp
import pytest

from juju.cli._arguments import DEFAULT_SIZE, find_call, parse_arguments, parse_size, parse_static
from juju.cli._group import CommandLineError
from juju.cli._target import Target, load_target, user_error


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch):
    """What a test imports is forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if not name.startswith(("jax", "numpy", "juju.", "jaxtyping", "wadler")):
            del sys.modules[name]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- targets ----------------------------------------------------------------------------------------------------------


def test_function_of_a_file(tmp_path):
    path = write(tmp_path, "model.py", "def f(x):\n    return x + 1\n")
    target = load_target(f"{path}:f")
    assert (target.name, target.function(2), target.fused) == ("f", 3, False)


def test_path_with_spaces_quotes_and_colons(tmp_path):
    path = write(tmp_path, 'it\'s a: "dir" $(x)/my model.py', "def f(x):\n    return x + 1\n")
    assert load_target(f"{path}:f").function(1) == 2


def test_dotted_name(tmp_path):
    path = write(tmp_path, "model.py", "class Model:\n    @staticmethod\n    def apply(x):\n        return -x\n")
    target = load_target(f"{path}:Model.apply")
    assert target.function(1) == -1
    assert target.file_stem == "Model_apply"


def test_file_imports_its_neighbours(tmp_path):
    write(tmp_path, "helper_of_model.py", "K = 3\n")
    path = write(tmp_path, "model.py", "from helper_of_model import K\ndef f(x):\n    return x * K\n")
    assert load_target(f"{path}:f").function(2) == 6


def test_file_in_a_package_may_import_relatively(tmp_path):
    write(tmp_path, "pkg_a/__init__.py", "")
    write(tmp_path, "pkg_a/inner/__init__.py", "")
    write(tmp_path, "pkg_a/const.py", "K = 4\n")
    path = write(tmp_path, "pkg_a/inner/model.py", "from ..const import K\ndef f(x):\n    return x * K\n")
    target = load_target(f"{path}:f")
    assert target.function(2) == 8
    assert target.function.__module__ == "pkg_a.inner.model"


@pytest.mark.parametrize("stem", ["random", "queue", "jax", "two words", "class"])
def test_file_named_like_a_module_shadows_nothing(tmp_path, stem):
    import queue
    import random

    path = write(
        tmp_path, f"{stem}.py", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1\ndef f(): ...\n"
    )
    load_target(f"{path}:f")
    assert sys.modules["jax"] is jax
    assert sys.modules["random"] is random
    assert sys.modules["queue"] is queue


def test_module_in_the_current_directory(tmp_path, monkeypatch):
    write(tmp_path, "pkg_b/__init__.py", "")
    write(tmp_path, "pkg_b/model.py", "def f(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    assert load_target("pkg_b.model:f").function(7) == 7


def test_installed_module():
    assert load_target("jax.numpy:tanh").function is jnp.tanh


@pytest.mark.parametrize("spec", ["", "f", "model.py", ":f", "model.py:", "model.py:1f", "model.py:f()", "a b"])
def test_what_is_no_target_is_wrong_usage(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError, match=r"path/to/file\.py:function"):
        load_target(spec)


def test_missing_file(tmp_path):
    with pytest.raises(CommandLineError, match=r"there is no file .*nowhere\.py"):
        load_target(f"{tmp_path}/nowhere.py:f")


def test_missing_module_says_where_it_looked():
    with pytest.raises(CommandLineError, match=r"no module 'no_such_module_at_all'.*with its path"):
        load_target("no_such_module_at_all:f")


def test_missing_name_suggests_one(tmp_path):
    path = write(tmp_path, "model.py", "def forward(x): ...\n")
    with pytest.raises(CommandLineError, match=r"model\.py has no 'foward'; did you mean 'forward'\?"):
        load_target(f"{path}:foward")


def test_not_a_function(tmp_path):
    path = write(tmp_path, "model.py", "size = 3\n")
    with pytest.raises(CommandLineError, match=r"'size' in .*model\.py is an int, not a function"):
        load_target(f"{path}:size")


def test_syntax_error_names_file_and_line(tmp_path):
    path = write(tmp_path, "model.py", "x = 1\ndef f(:\n")
    with pytest.raises(CommandLineError, match=r"model\.py cannot be imported: SyntaxError: .* \(line 2\)"):
        load_target(f"{path}:f")


def test_failing_import_names_the_users_line(tmp_path):
    path = write(tmp_path, "model.py", "import json\n\njson.loads('{')\n")
    with pytest.raises(CommandLineError, match=r"cannot be imported: JSONDecodeError: .*\(.*model\.py:3\)"):
        load_target(f"{path}:f")


def test_missing_dependency_of_a_file_is_not_called_a_missing_target(tmp_path):
    path = write(tmp_path, "model.py", "import no_such_module_at_all\n")
    with pytest.raises(CommandLineError, match=r"model\.py cannot be imported: ModuleNotFoundError.*model\.py:1"):
        load_target(f"{path}:f")


def test_error_of_the_users_function_names_its_line(tmp_path):
    path = write(tmp_path, "model.py", "import jax.numpy as jnp\ndef f(x):\n    y = x\n    return jnp.dot(y, y, z=1)\n")
    target = load_target(f"{path}:f")
    with pytest.raises(TypeError) as caught:
        target.function(jnp.ones(3))
    assert "f raised TypeError while it was traced" in str(user_error(target, caught.value))
    assert f"({path}:4)" in str(user_error(target, caught.value))


# --- --args -----------------------------------------------------------------------------------------------------------


def struct(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        ("", (), {}),
        ("f32[]", (struct("float32"),), {}),
        ("f32[ ],i8[3]", (struct("float32"), struct("int8", 3)), {}),
        ("f32[1024], bf16[2, 3,], bool[0]", (struct("float32", 1024), struct("bfloat16", 2, 3), struct("bool", 0)), {}),
        ("2.0, -3, True, None", (2.0, -3, True, None), {}),
        ('{"w": f32[3, 4], "b": [f32[4], ()]}', ({"w": struct("float32", 3, 4), "b": [struct("float32", 4), ()]},), {}),
        (
            "(f32[2], u32[2]), x=f16[8], n=2",
            ((struct("float32", 2), struct("uint32", 2)),),
            {"x": struct("float16", 8), "n": 2},
        ),
    ],
)
def test_args(text, args, kwargs):
    assert parse_arguments(text) == (args, kwargs)


@pytest.mark.parametrize(
    "text",
    [
        "f32[",
        "f32",
        "f32[1] f32[1]",
        "q32[3]",
        "f32[-1]",
        "f32[n]",
        "f32[1.5]",
        "'text'",
        "__import__('os')",
        "**x",
        "f32[1])(",
        "*f32[2]",
    ],
)
def test_args_that_do_not_read(text):
    with pytest.raises(click.UsageError, match=r"--args .*write one shape for each argument, as in"):
        parse_arguments(text)


def test_static():
    assert parse_static("n=3") == ("n", 3)
    assert parse_static("mode = fast mode") == ("mode", "fast mode")
    assert parse_static("axes=(0, 1)") == ("axes", (0, 1))
    assert parse_static("s='3'") == ("s", "3")
    assert parse_static("empty=") == ("empty", "")
    with pytest.raises(click.UsageError, match="write NAME=VALUE"):
        parse_static("3=n")


def test_size():
    assert parse_size("n=4096") == ("n", 4096)
    for text in ("n", "n=", "n=-1", "=3", "n=x"):
        with pytest.raises(click.UsageError, match="write NAME=SIZE"):
            parse_size(text)


# --- annotations and example_args -------------------------------------------------------------------------------------


MODEL = """
from __future__ import annotations
import dataclasses
from typing import NamedTuple
from jaxtyping import Array, Bool, Float, Float16, Int, Num, Shaped, UInt8

class State(NamedTuple):
    mean: Float[Array, "n"]
    count: Int[Array, ""]

@dataclasses.dataclass
class Config:
    scale: float

def dims(x: Float[Array, "n 3"], y: Float[Array, "#n m"], z: Float[Array, "*batch n+1 _"]): ...
def dtypes(a: Float16[Array, "2"], b: Int[Array, "2"], c: UInt8[Array, "2"], d: Bool[Array, "2"],
           e: Num[Array, "2"], f: Shaped[Array, "2"]): ...
def scalars(x: float, n: int, b: bool, *, key: Float[Array, "4"], more: Float[Array, "4"] | None = None): ...
def nested(s: State, pair: tuple[Float[Array, "n"], None], o: Float[Array, "n"] | None, c: Config): ...
def defaulted(x: Float[Array, "2"], scale=2.0, *rest, **words): ...
def missing(x: Float[Array, "2"], y): ...
def shapeless(x: "Array"): ...
def undefined(x: Nowhere): ...
def fixed(x: Float[Array, "rows=4 cols=5"]): ...
def with_static(mode, x: Float[Array, "2"]): ...
"""


@pytest.fixture
def model(tmp_path):
    path = write(tmp_path, "annotated_model.py", MODEL)
    return lambda name: load_target(f"{path}:{name}")


def call(target: Target, *, statics=(), sizes=()):
    return find_call(target, None, statics, sizes)


def test_named_axes_get_a_size_that_is_stated(model):
    found = call(model("dims"))
    n = DEFAULT_SIZE
    assert found.args == (struct("float32", n, 3), struct("float32", n, n), struct("float32", n + 1, n))
    assert len(found.notes) == 1
    assert f"n={n}, m={n}" in found.notes[0]
    assert "--dim" in found.notes[0]


def test_dim_chooses_a_size(model):
    found = call(model("dims"), sizes=["n=5", "m=7"])
    assert found.args[:2] == (struct("float32", 5, 3), struct("float32", 5, 7))
    assert found.args[2].shape == (6, DEFAULT_SIZE)


def test_dim_that_no_axis_has(model):
    with pytest.raises(click.UsageError, match=r"--dim q: no axis of that name in the annotations of dims"):
        call(model("dims"), sizes=["q=5"])


def test_dtypes(model):
    found = call(model("dtypes"))
    assert [str(a.dtype) for a in found.args] == ["float16", "int32", "uint8", "bool", "float32", "float32"]
    assert found.notes == ()


def test_scalars_and_keywords(model):
    found = call(model("scalars"))
    assert found.args == (1.0, 1, True)
    assert [type(a) for a in found.args] == [float, int, bool]
    assert found.kwargs == {"key": struct("float32", 4), "more": struct("float32", 4)}


def test_trees(model):
    state, pair, optional, config = call(model("nested")).args
    assert type(state).__name__ == "State"
    assert (state.count, config.scale) == (struct("int32"), 1.0)
    assert pair == (struct("float32", DEFAULT_SIZE), None)
    assert optional == struct("float32", DEFAULT_SIZE)


def test_defaults_are_left_alone(model):
    found = call(model("defaulted"))
    assert (found.args, found.kwargs) == ((struct("float32", 2),), {})


def test_axis_with_name_and_size(model):
    assert call(model("fixed")).args == (struct("float32", 4, 5),)


def test_static_argument_is_left_out_and_the_rest_goes_by_name(model):
    found = call(model("with_static"), statics=["mode=fast"])
    assert (found.args, found.kwargs, found.static) == ((), {"x": struct("float32", 2)}, {"mode": "fast"})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "'y' has no annotation"),
        ("shapeless", "'x' is annotated 'Array', which says no shape"),
        ("undefined", "Nowhere"),
    ],
)
def test_no_shapes_says_the_three_ways(model, name, reason):
    with pytest.raises(click.UsageError) as caught:
        call(model(name))
    for part in (reason, "--args", "example_args=", "jaxtyping"):
        assert part in str(caught.value)


def test_args_win_over_annotations(model):
    assert find_call(model("dims"), "f32[2], f32[2], f32[2]", (), ()).args == (struct("float32", 2),) * 3


def test_builtin_without_signature():
    with pytest.raises(click.UsageError, match="shapes of max's arguments are not known"):
        call(Target("max", max, "builtins"))
