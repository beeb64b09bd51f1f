"""Kernels and `juju_math` compile for GPUs, with no GPU at hand: NVIDIA's sm_90 and AMD's gfx942.

A GPU kernel is a generated kernel called with one point a thread, or one operation of the table on one element. Code
that calls what is not there, as a function of the C library, is refused; where NVIDIA's assembler is installed, it
assembles all of it. Nothing is run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from support import DTYPES, FLOATS, INTEGERS

import juju
from juju.build.packages import include_folders
from juju.build.process import run_mojo
from juju.build.store import default_store
from juju.dialect.table import TABLE
from juju.plan import Kernel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from gallery import GALLERY  # noqa: E402

SUFFIXES = {"sm_90": "ptx", "gfx942": "amdgcn"}
"""The targets, and what the compiler calls their text."""

IMPORTS = """from juju_kernel import Args, array
from juju_math import *
from max.gpu import global_idx
from max.gpu.host import DeviceContext
from std.math import ceil, floor
"""

CALL = """
def gpu_{name}(args: Args, first: Int64):
    var point = Int(first) + Int(global_idx.x)
    _ = {name}(args, point, point + 1)
"""

ELEMENT = """
def gpu_{name}(args: Args, first: Int64):
    var i = Int(first) + Int(global_idx.x)
{loads}
    var r = {expression}
    array[r.dtype](args, {count}).unsafe_store(i, r)
"""

MAIN = """
def main() raises:
    var ctx = DeviceContext()
    var words = ctx.enqueue_create_buffer[DType.int64](64)
"""

LAUNCH = "    ctx.enqueue_function[gpu_{name}](words, Int64(0), grid_dim=1, block_dim=32)\n"


def gpu_code(folder: Path, target: str, kernels: Mapping[str, str], files: Mapping[str, str]) -> list[Path]:
    """Compiles the kernels (name to text of `gpu_<name>`), one file of the target's assembly each."""
    for file, text in files.items():
        (folder / f"{file}.mojo").write_text(text)
    main = MAIN + "".join(LAUNCH.format(name=name) for name in kernels)
    (folder / "gpu.mojo").write_text("\n".join([IMPORTS, *kernels.values(), main]))
    includes = include_folders(("juju_kernel", "juju_math"), store=default_store())
    words = ["build", "--target-accelerator", target, "--emit", "asm", "gpu.mojo", "-o", "gpu.s"]
    outcome = run_mojo([*words, *(word for path in includes for word in ("-I", str(path)))], folder)
    assert outcome.ok, outcome.output[-4000:]
    written = sorted(folder.glob(f"*.{SUFFIXES[target]}"))
    assert len(written) == len(kernels)
    return written


def foreign_calls(text: str) -> list[str]:
    """Functions that some GPU assembly calls and does not hold."""
    foreign = re.findall(r"\.extern\s+\.func\s+(?:\([^)]*\)\s*)?([\w$]+)", text)
    called = set(re.findall(r"([\w$.]+)@(?:gotpcrel32|rel32|abs32)@", text))
    return foreign + [name for name in sorted(called) if not re.search(rf"^{re.escape(name)}:", text, re.MULTILINE)]


def check(folder: Path, target: str, kernels: Mapping[str, str], files: Mapping[str, str] | None = None) -> None:
    for path in gpu_code(folder, target, kernels, files or {}):
        text = path.read_text()
        assert (".visible .entry" if target == "sm_90" else ".amdhsa_kernel") in text
        assert not foreign_calls(text), path.name
        if target == "sm_90" and (assembler := shutil.which("ptxas")):
            words = [assembler, "-arch=sm_90a", path.name, "-o", "/dev/null"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{path.name}: {done.stdout}{done.stderr}"


# Operations ----------------------------------------------------------------------------------------------------------

COUNTS = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2, "classify": 1}
KINDS = {"f": FLOATS, "i": ("int8", "int32", "int64"), "u": ("uint16", "uint32", "uint64"), "b": ("bool",)}
PARAMETERS = {"y": 7, "exponent_bits": 5, "mantissa_bits": 10}
FAMILIES = ("float32", "float64", "others")


def element(name: str, dtype: str, count: int, expression: str) -> str:
    """The GPU kernel of an expression in `x0, x1, ...` of one dtype."""
    own, suffix = ("uint8", ".ne(0)") if dtype == "bool" else (dtype, "")
    loads = [f"    var x{k} = array[DType.{own}](args, {k})[unsafe_offset=i]{suffix}" for k in range(count)]
    return ELEMENT.format(name=name, loads="\n".join(loads), expression=expression, count=count)


def operations(family: str) -> Iterator[tuple[str, str]]:
    """Name and text of the GPU kernels of a dtype, or of all `others`. Conversions are in the programs below."""
    for row in TABLE:
        if not row.functions or row.form not in COUNTS:
            continue
        count = COUNTS[row.form]
        for dtype in (dtype for kind in row.kinds for dtype in KINDS[kind]):
            if dtype in ("bfloat16", "float16") and not row.half_native:
                continue  # computed in float32
            if family == (dtype if dtype in FAMILIES else "others"):
                operands = [f"x{k}" for k in range(count)]
                kind = next(k for k, dtypes in KINDS.items() if dtype in dtypes)
                name = f"{row.name}_{dtype}"
                yield name, element(name, dtype, count, row.spelling(kind).format(*operands, **PARAMETERS))
    if family != "others":
        yield f"square_{family}", element(f"square_{family}", family, 1, "square(x0)")
        yield f"sincos_{family}", element(f"sincos_{family}", family, 1, "sincos(x0)[0] + sincos(x0)[1]")
        yield f"errors_{family}", element(f"errors_{family}", family, 1, "error_functions(x0)[1]")


@pytest.mark.parametrize(
    ("target", "family"),
    [
        ("sm_90", "float32"),
        *(pytest.param("sm_90", family, marks=pytest.mark.slow) for family in FAMILIES[1:]),
        *(pytest.param("gfx942", family, marks=pytest.mark.slow) for family in FAMILIES),
    ],
)
def test_operations(tmp_path: Path, target: str, family: str) -> None:
    check(tmp_path, target, dict(operations(family)))


def test_every_function_of_juju_math_is_compiled() -> None:
    init = (ROOT / "kernels" / "juju_math" / "__init__.mojo").read_text()
    exported = set(re.findall(r"\w+", " ".join(re.findall(r"import ([^()\n]+|\([^)]*\))", init))))
    called = {f for family in FAMILIES for _, text in operations(family) for f in re.findall(r"(\w+)[\[(]", text)}
    assert exported - called == {"convert"}


# Programs ------------------------------------------------------------------------------------------------------------


def choose(x, y, s):
    return jnp.where(x > s, x, y), x == y, jnp.maximum(x, y)


def casts(x):
    return tuple(x.astype(dtype) for dtype in DTYPES)


def blend(x, y):
    return jnp.tanh(x) * jnp.exp(-y) + jnp.sin(x), jnp.logaddexp(x, y), x**y


def divide(i, j):
    return i // j, i % j, i << (j & 7), jax.lax.clz(i) + jax.lax.population_count(j)


def scale_rows(table, row, column):
    return (table - row) / (1 + column * column), jnp.hypot(table, row)


def several_shapes(a, b, c):
    return a * 2 + 1, jnp.cos(b), c > 0


def array(dtype: str, shape: tuple[int, ...] = (1000,)) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def programs() -> Iterator[Kernel]:
    for dtype in DTYPES:
        yield _kernel(choose, array(dtype), array(dtype), array(dtype, (1,)))
        yield _kernel(casts, array(dtype))
    for dtype in FLOATS:
        yield _kernel(blend, array(dtype), array(dtype))
        yield _kernel(scale_rows, array(dtype, (8, 50)), array(dtype, (50,)), array(dtype, (8, 1)))
    for dtype in INTEGERS:
        yield _kernel(divide, array(dtype), array(dtype))
    yield _kernel(blend, array("bfloat16", shape=()), array("bfloat16", shape=()))
    yield _kernel(several_shapes, array("float32", (9,)), array("float32", (2, 3)), array("int8", (5,)))


def _kernel(f, *args) -> Kernel:
    with jax.enable_x64(True):
        (kernel,) = juju.fuse(f).lower(*args).kernels
    return kernel


def gallery() -> Iterator[Kernel]:
    for exhibit in GALLERY.values():
        yield from juju.fuse(exhibit.f).lower(*exhibit.args).kernels


@pytest.mark.parametrize(
    ("target", "source"),
    [
        pytest.param("sm_90", gallery, marks=pytest.mark.slow),
        pytest.param("gfx942", gallery, marks=pytest.mark.slow),
        pytest.param("sm_90", programs, marks=pytest.mark.slow),
        pytest.param("gfx942", programs, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_generated_kernels(tmp_path: Path, target: str, source) -> None:
    kernels = {kernel.symbol: kernel.text for kernel in source()}
    calls = {symbol: f"from {symbol} import {symbol}\n\n{CALL.format(name=symbol)}" for symbol in kernels}
    check(tmp_path, target, calls, kernels)


# The check itself ----------------------------------------------------------------------------------------------------

LIBRARY_CALL = """
from std.ffi import external_call


def gpu_library_call(args: Args, first: Int64):
    var x = array[DType.float64](args, 0)
    x[unsafe_offset=0] = external_call["sin", Float64](x[unsafe_offset=0])
"""


def test_a_call_of_the_c_library_is_found(tmp_path: Path) -> None:
    (path,) = gpu_code(tmp_path, "sm_90", {"library_call": LIBRARY_CALL}, {})
    assert foreign_calls(path.read_text()) == ["sin"]
