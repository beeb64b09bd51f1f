"""The `juju` command: what it prints where, and how it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner, Result

import juju
from juju.build import BuildEvent, Store
from juju.cli import demo as demo_module
from juju.cli import doctor as doctor_module
from juju.cli import main
from juju.cli._console import BuildProgress, bytes_text, seconds_text
from juju.cli._group import CommandLineError
from juju.cli.cache import age_text
from juju.cli.codegen import STAGES, SUFFIXES
from juju.cli.opt import main as opt_main
from juju.errors import ToolchainError

ESC = "\x1b["

MODEL = """
import jax
import jax.numpy as jnp
import juju

def f(x, y):
    return jnp.sin((x + y) ** 2)

@juju.fuse
def fused(x, y):
    return jnp.sin((x + y) ** 2)

@juju.fuse(example_args=(jax.ShapeDtypeStruct((5,), jnp.float32), {"k": 2.0}))
def example(x, options):
    return x * options["k"]

def two_kernels(x, y):
    return jnp.tanh(x), jnp.tanh(y) * 3

def power(x, n):
    return x ** n

def moody(x, *, mode):
    return {"up": x + 1, "down": x - 1}[mode]

def unsupported(x):
    y = x + 1
    return jnp.fft.fft(y).real

def raises(x):
    raise LookupError("nothing here")

def prints(x):
    jax.debug.print("x = {}", x)
    return x

def identity(x):
    return x
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("models") / "cli_model.py"
    path.write_text(MODEL)
    return str(path)


def run(*args: str, code: int = 0, **options) -> Result:
    result = CliRunner().invoke(main, list(args), prog_name="juju", **options)
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def fails(*args: str, code: int = 1) -> str:
    """Runs a command that must fail; its message, which must be one paragraph without a traceback."""
    result = run(*args, code=code)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.startswith("error: ")
        assert "\n\n" not in result.stderr.rstrip()
    return result.stderr


def without_escapes(text: str) -> str:
    """The text as it is read: no colours, no links."""
    return re.sub(r"\x1b\[[\d;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)


def process(*args: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "juju.cli", *args], capture_output=True, text=True, **options)


# --- codegen ----------------------------------------------------------------------------------------------------------


def test_default_is_the_very_text_that_is_compiled(model):
    printed = run("codegen", f"{model}:f", "--args", "f32[1024], f32[]").stdout
    namespace: dict = {"__name__": "cli_model"}
    exec(compile(Path(model).read_text(), model, "exec"), namespace)
    struct = jax.ShapeDtypeStruct
    low = juju.fuse(namespace["f"]).lower(struct((1024,), jnp.float32), struct((), jnp.float32))
    assert printed.rstrip() == low.kernels[0].text.rstrip()


@pytest.mark.parametrize(
    ("stage", "mark"),
    [
        ("jaxpr", "{ lambda"),
        ("mlir", "juju.sin"),
        ("mojo", "@export"),
        ("graph", "mo.custom"),
        ("llvm", "define "),
        ("asm", ".globl"),
    ],
)
def test_stages(model, stage, mark):
    result = run("codegen", f"{model}:f", "--args", "f32[64], f32[64]", "--emit", stage)
    assert mark in result.stdout
    assert result.stdout.endswith("\n")
    assert ESC not in result.stdout
    assert "----" not in result.stdout.splitlines()[0], "one stage alone has no title"


def test_several_stages_are_headed_in_order(model):
    args = ("codegen", f"{model}:f", "--args", "f32[8], f32[8]")
    both = run(*args, "--emit", "mojo,jaxpr", "--emit", "mlir", "--emit", "mojo").stdout
    heads = [line for line in both.splitlines() if " ---- " in line]
    assert heads == ["# ---- mojo: f ----", "# ---- jaxpr: f ----", "// ---- mlir: f ----"]
    for stage in ("mojo", "jaxpr", "mlir"):
        assert run(*args, "--emit", stage).stdout.rstrip() in both


def test_output_folder_has_a_file_for_each_stage(model, tmp_path):
    folder = tmp_path / "new folder" / "deep"
    args = ("codegen", f"{model}:f", "--args", "f32[8], f32[8]")
    result = run(*args, "--emit", "all", "-o", str(folder))
    assert result.stdout.splitlines() == [str(folder / f"f{SUFFIXES[stage]}") for stage in STAGES]
    assert {path.name for path in folder.iterdir()} == {f"f{suffix}" for suffix in SUFFIXES.values()}
    for stage in STAGES[:3]:
        assert (folder / f"f{SUFFIXES[stage]}").read_text().rstrip() == run(*args, "--emit", stage).stdout.rstrip()


def test_several_kernels_are_several_files(model, tmp_path):
    args = ("codegen", f"{model}:two_kernels", "--args", "f32[8], f32[3, 5]")
    kernels = (
        juju.fuse(lambda x, y: (jnp.tanh(x), jnp.tanh(y) * 3)).lower(np.ones(8, "f"), np.ones((3, 5), "f")).kernels
    )
    run(*args, "--emit", "mojo,mlir", "-o", str(tmp_path))
    assert len(list(tmp_path.glob("*.mojo"))) == len(kernels)
    assert len(list(tmp_path.glob("*.mlir"))) == 1
    assert run(*args).stdout.count("@export") == len(kernels)


def test_decorated_function_and_example_args(model):
    assert "@export" in run("codegen", f"{model}:fused", "--args", "f32[8], f32[8]").stdout
    assert "f32[5]" in run("codegen", f"{model}:example", "--emit", "jaxpr").stdout
    assert "f32[7]" in run("codegen", f"{model}:example", "--emit", "jaxpr", "--args", 'f32[7], {"k": 2.0}').stdout


def test_static_arguments(model):
    text = run("codegen", f"{model}:power", "--args", "f32[8]", "--static", "n=3", "--emit", "jaxpr").stdout
    assert "integer_pow[y=3]" in text
    assert (
        "add" in run("codegen", f"{model}:moody", "--args", "f32[8]", "--static", "mode=up", "--emit", "jaxpr").stdout
    )


def test_function_without_kernel_says_so(model):
    for stage in ("mojo", "llvm"):
        assert "@export" not in run("codegen", f"{model}:identity", "--args", "f32[8]", "--emit", stage).stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unsupported", ("fft", "cli_model.py:")),
        ("raises", ("raises raised LookupError while it was traced: nothing here", "cli_model.py:")),
        ("prints", ("jax.debug.print",)),
        ("nothing", ("has no 'nothing'",)),
    ],
)
def test_errors_of_the_users_function(model, name, words):
    message = fails("codegen", f"{model}:{name}", "--args", "f32[8]")
    for word in words:
        assert word in " ".join(message.split())


def test_debug_shows_the_traceback(model):
    for args in (("--debug", "codegen"), ("codegen", "--debug")):
        result = run(*args, f"{model}:raises", "--args", "f32[8]", code=1)
        assert "Traceback" in result.stderr
        assert "LookupError: nothing here" in result.stderr
        assert "error: raises raised LookupError" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("codegen",), "Missing argument"),
        (("codegen", "f"), "is not a target"),
        (("codegen", "{model}:f"), "the shapes of f's arguments are not known"),
        (("codegen", "{model}:f", "--args", "f32[", "--emit", "mojo"), "does not read"),
        (("codegen", "{model}:f", "--args", "f32[8]", "--emit", "cuda"), "'cuda' is none of jaxpr, mlir"),
        (("nonsense",), "No such command"),
        (("cache", "ls", "--kind", "x"), "Invalid value"),
        (("demo", "--points", "0"), "Invalid value"),
    ],
)
def test_wrong_usage_is_code_2(model, args, words):
    assert words in fails(*(arg.format(model=model) for arg in args), code=2)


def test_wrong_number_of_arguments_is_the_users_error(model):
    assert "missing 1 required positional argument" in fails("codegen", f"{model}:f", "--args", "f32[8]")


# --- colour, pipes, signals -------------------------------------------------------------------------------------------


def test_colour_only_where_it_is_wanted(model, monkeypatch):
    args = ("codegen", f"{model}:f", "--args", "f32[8], f32[8]", "--emit", "mojo,mlir,jaxpr")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    plain = run(*args)
    assert ESC not in plain.stdout + plain.stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run(*args).stdout
    assert ESC in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESC + "3" not in run(*args).stdout


def test_long_lines_are_not_cut(model, monkeypatch):
    args = ("codegen", f"{model}:f", "--args", "f32[8], f32[8]")
    plain = run(*args).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    assert without_escapes(run(*args).stdout) == plain


def test_reader_that_goes_away_is_no_error(model):
    command = f"'{sys.executable}' -m juju.cli codegen '{model}:f' --args 'f32[8], f32[8]' --emit jaxpr,mlir,mojo"
    done = subprocess.run(["bash", "-c", f"{command} | head -c 10"], capture_output=True, text=True)
    assert len(done.stdout) == 10
    assert done.stderr == ""


def test_module_is_runnable_and_exit_codes_reach_the_shell(model):
    good = process("codegen", f"{model}:f", "--args", "f32[8], f32[8]", "--emit", "jaxpr")
    assert (good.returncode, good.stderr) == (0, "")
    bad = process("codegen", f"{model}:unsupported", "--args", "f32[8]")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert process("codegen").returncode == 2


def test_interrupt_is_130(monkeypatch):
    def interrupted() -> list:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor_module, "checks", interrupted)
    assert run("doctor", code=130).stderr.strip().endswith("interrupted")


def test_unexpected_exception_is_called_our_defect(monkeypatch):
    def broken() -> list:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(doctor_module, "checks", broken)
    message = " ".join(fails("doctor").split())
    assert "ZeroDivisionError: by zero (raised at test_cli.py:" in message
    assert "defect of juju" in message
    assert "--debug" in message


# --- help -------------------------------------------------------------------------------------------------------------


def all_commands(group: click.Group, path: tuple[str, ...] = ()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(all_commands(main)), ids=" ".join)
def test_every_command_has_help_with_examples(path):
    text = run(*path, "--help").stdout
    assert f"juju {' '.join(path)}" in text.split("Examples:")[1]
    assert "--debug" in text


def test_version_names_what_juju_stands_on():
    text = run("--version").stdout
    for name in ("juju", "jax", "max", "mojo", "xdsl", "Python"):
        assert name in text


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_goes_to_stderr(capsys):
    with BuildProgress() as progress:
        progress(BuildEvent("kernel", "f_1", "start"))
        progress(BuildEvent("kernel", "f_1", "done", 2.5))
        progress(BuildEvent("kernel", "g_1", "hit"))
        progress(BuildEvent("trampoline", "launch", "start"))
        progress(BuildEvent("trampoline", "launch", "failed", 1.0))
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[:2] == ["compiling f_1 ...", "compiling f_1: done after 2.5 s"]
    assert len(lines) == 4
    assert lines[3].endswith("failed after 1.0 s")


def test_quantities():
    assert [bytes_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KB",
        "5.0 MB",
        "3072.0 GB",
    ]
    assert [seconds_text(s) for s in (12.34, 0.5, 0.0123, 1.5e-5, 2e-9)] == [
        "12.3 s",
        "500 ms",
        "12.3 ms",
        "15 us",
        "0.002 us",
    ]
    assert [age_text(s) for s in (1, 120, 7200, 200000)] == ["now", "2 min", "2 h", "2 d"]


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_compiles_and_runs_a_kernel():
    text = run("doctor").stdout
    for name in ("Python", "jax", "toolchain", "cache directory", "compiler", "kernel"):
        assert f"ok    {name}" in text
    assert "FAIL" not in text
    assert "all 8 checks passed" in text


def test_doctor_without_toolchain(monkeypatch):
    def missing():
        raise ToolchainError("no mojo; install it")

    monkeypatch.setattr(doctor_module, "check_toolchain", missing)
    text = run("doctor", code=1).stdout
    assert "FAIL  toolchain       no mojo; install it" in text
    assert "1 of 6 checks failed" in text


def test_doctor_on_an_open_cache_directory(monkeypatch, tmp_path):
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    monkeypatch.setenv("JUJU_CACHE_DIR", str(root))
    text = run("doctor", code=1).stdout
    assert f"{root}," in text
    assert "others may write to it" in text
    assert f"do: chmod 700 '{root}'" in text


def test_doctor_finds_wrong_results(monkeypatch):
    monkeypatch.setattr(demo_module, "largest_difference", lambda *_: 1.0)
    check = doctor_module.check_kernel()
    assert (check.verdict, check.remedy) == ("failed", "results are wrong: please report this")


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("0.10.0", "ok"),
        ("0.12.9", "ok"),
        ("0.9.9", "failed"),
        ("0.13.0", "failed"),
        ("1.0", "failed"),
        ("not installed", "failed"),
    ],
)
def test_version_ranges(monkeypatch, version, verdict):
    monkeypatch.setattr(doctor_module, "package_version", lambda _: version)
    check = doctor_module.check_version("jax", ("0.10", "0.13"))
    assert check.verdict == verdict
    assert version in check.found
    assert ">=0.10,<0.13" in check.found
    assert (check.remedy == "") == (verdict == "ok")


def test_cache_directory_that_is_not_there_yet(tmp_path):
    check = doctor_module.check_folder(tmp_path / "not" / "yet")
    assert check.verdict == "ok"
    assert "made at the first use" in check.found


def test_cache_directory_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor_module.tempfile, "TemporaryFile", refuse)
    check = doctor_module.check_folder(tmp_path)
    assert check.verdict == "failed"
    assert "not writable: Permission denied" in check.found
    assert "JUJU_CACHE_DIR" in check.remedy


def test_nearly_full_disk_is_a_warning(tmp_path, monkeypatch):
    usage = doctor_module.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(doctor_module.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    check = doctor_module.check_folder(tmp_path)
    assert check.verdict == "warning"
    assert "1.0 MB free" in check.found
    assert "juju cache clear" in check.remedy


# --- cache ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(monkeypatch, tmp_path) -> Store:
    monkeypatch.setenv("JUJU_CACHE_DIR", str(tmp_path / "the cache"))
    store = Store(tmp_path / "the cache")
    store.write_plan("ab" * 32, "{}")
    store.add_file("p", "cd" * 32, "some_package.mojoc", b"x" * 2000)
    return store


def test_cache_ls(store):
    lines = [line.split("\t") for line in run("cache", "ls").stdout.splitlines()]
    assert {(line[0], line[2]) for line in lines} == {("plan", "ab" * 32), ("package", "cd" * 32)}
    assert [line[1] for line in lines if line[0] == "package"] == ["some_package.mojoc"]
    assert all(Path(line[4]).exists() for line in lines)
    listed = json.loads(run("cache", "ls", "--json", "--kind", "package").stdout)
    assert [(entry["kind"], entry["bytes"]) for entry in listed] == [("package", 2000)]


def test_cache_ls_on_a_terminal(store, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = without_escapes(run("cache", "ls").stdout)
    assert "some_package.mojoc" in text
    assert "2 entries, 2." in text


def test_cache_stats(store):
    text = run("cache", "stats").stdout
    assert str(store.root) in text
    assert "plans             1," in text
    assert re.search(r"^result pool +at most .*B kept for reuse", text, re.M)
    both = json.loads(run("cache", "stats", "--json").stdout)
    figures = both["store"]
    assert (figures["plans"], figures["packages"], figures["kernels"]) == (1, 1, 0)
    assert figures["bytes"] >= 2000
    assert both["pool"]["limit"] > 0


def test_cache_clear_asks_first(store):
    message = " ".join(fails("cache", "clear").split())
    assert "nothing was removed" in message
    assert "--yes" in message
    assert len(list(store.entries())) == 2


@pytest.mark.parametrize(("answer", "left"), [("n\n", 2), ("y\n", 0)])
def test_cache_clear_on_a_terminal(store, answer, left):
    import pty

    parent, child = pty.openpty()
    command = [sys.executable, "-m", "juju.cli", "cache", "clear"]
    env = {**os.environ, "JUJU_CACHE_DIR": str(store.root)}
    with subprocess.Popen(command, stdin=child, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as running:
        os.write(parent, answer.encode())
        running.communicate(timeout=60)
    os.close(parent)
    os.close(child)
    assert running.returncode == (130 if left else 0)
    assert len(list(store.entries())) == left


def test_cache_clear(store):
    assert "removed" in run("cache", "clear", "--yes").stdout
    assert list(store.entries()) == []
    assert "removed 0 B" in run("cache", "clear", "-y").stdout


# --- primitives -------------------------------------------------------------------------------------------------------


def test_primitives():
    rows = json.loads(run("primitives", "--json").stdout)
    names = [row["primitive"] for row in rows]
    assert names == sorted(names)
    assert {"add", "tanh", "select_n", "convert_element_type"} <= set(names)
    for row in rows:
        assert Path(row["file"]).is_file()
        assert 1 <= row["line"] <= len(Path(row["file"]).read_text().splitlines())
        assert row["dtypes"]


def test_primitives_of_one_name():
    (line,) = run("primitives", "tanh").stdout.splitlines()
    assert line.startswith("tanh\t")
    assert "float32" in line or "f" in line.split("\t")[1]
    assert "no rule for 'tanhh' (did you mean 'tanh'?)" in fails("primitives", "tanhh")


def test_primitives_on_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    text = without_escapes(run("primitives", "tanh").stdout)
    assert text.splitlines()[0].split() == ["primitive", "dtypes", "accuracy", "rule"]
    assert re.search(r"^tanh +.*floats .*juju/.*\.py:\d+$", text, re.M)
    assert "1 primitives" in text


# --- demo -------------------------------------------------------------------------------------------------------------


def test_demo():
    result = run("demo", "--points", "4099")
    for case in demo_module.make_cases(8):
        (line,) = (line for line in result.stdout.splitlines() if line.startswith(case.name) and "x " in line)
        kernels, difference = line[len(case.name) :].split()[:2]
        assert int(kernels) >= 1
        assert float(difference) < demo_module.TOLERANCE
        assert "cached" in line or " in " in line
    assert "@export" in result.stdout


def test_demo_reports_wrong_results(monkeypatch):
    monkeypatch.setattr(demo_module, "measure", lambda *_: demo_module.Outcome(1, 0.5, 1.0, 1.0))
    result = run("demo", "--points", "64", code=1)
    assert "results differ from jax.jit by more than" in " ".join(result.stderr.split())


def test_largest_difference():
    diff = demo_module.largest_difference
    assert diff({"a": jnp.ones(3)}, {"a": jnp.ones(3)}) == 0
    assert diff((jnp.zeros(3), jnp.array([1.0, 4.0])), (jnp.zeros(3), jnp.array([2.0, 4.0]))) == 0.25
    nan, inf = float("nan"), float("inf")
    assert diff(jnp.array([nan, inf, 2.0]), jnp.array([nan, inf, 2.5])) == 0.2
    for one, other in ((nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (inf, -inf)):
        assert diff(jnp.array([one]), jnp.array([other])) == inf
    assert diff(jnp.zeros(0), jnp.zeros(0)) == 0
    for other in (jnp.ones(4), jnp.ones(3, jnp.int32), (jnp.ones(3),), [jnp.ones(3), jnp.ones(3)]):
        with pytest.raises(CommandLineError, match="another structure, shape or dtype"):
            diff(jnp.ones(3), other)


# --- juju-opt ---------------------------------------------------------------------------------------------------------


def opt(capsys, *args: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as stop:
        opt_main(args)
    assert stop.value.code == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.out, captured.err


@pytest.fixture
def mlir(model, tmp_path) -> str:
    path = tmp_path / "f.mlir"
    path.write_text(run("codegen", f"{model}:f", "--args", "f32[8], f32[8]", "--emit", "mlir").stdout)
    return str(path)


def test_opt_reads_what_codegen_prints(capsys, mlir):
    assert opt(capsys, mlir) == (Path(mlir).read_text(), "")


def test_opt_runs_passes_and_prints_between(capsys, mlir):
    out, _ = opt(capsys, mlir, "-p", "cse,dce", "--print-between-passes")
    assert "IR after cse:" in out
    assert out.count("func.func @f") == 2


def test_opt_reads_stdin(mlir):
    command = [sys.executable, "-c", "from juju.cli.opt import main; main()", "-p", "cse"]
    done = subprocess.run(command, input=Path(mlir).read_text(), capture_output=True, text=True, check=True)
    assert "juju.sin" in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("{mlir}", "-p", "no-such-pass"), 2, ("no-such-pass", "the passes are", "cse")),
        (("{mlir}", "-p", "cse{"), 2, ("-p 'cse{'",)),
        (("{mlir}", "-p", "cse{x=1}"), 2, ("-p 'cse{x=1}'", "x")),
        (("{mlir}.gone.mlir",), 1, ("error: there is no file", "gone.mlir")),
        (("{model}",), 1, ("is not a .mlir file",)),
        (("--nonsense",), 2, ("unrecognized arguments",)),
    ],
)
def test_opt_errors(capsys, mlir, model, args, code, words):
    out, err = opt(capsys, *(arg.replace("{mlir}", mlir).replace("{model}", model) for arg in args), code=code)
    assert out == ""
    for word in words:
        assert word in err


INVALID = {
    "does not parse": ("func.func @f( {", "error:"),
    "unknown operation": ('"juju.no_such_op"() : () -> ()', "juju.no_such_op"),
    "wrong types": (
        'func.func @f(%x: f32, %y: i32) -> f32 {\n  %0 = "juju.add"(%x, %y) : (f32, i32) -> f32\n'
        "  func.return %0 : f32\n}",
        "is not valid",
    ),
    "use before definition": (
        "func.func @f(%x: f32) -> f32 {\n  %0 = juju.exp %1 : f32\n  %1 = juju.exp %x : f32\n  func.return %0 : f32\n}",
        "is not valid",
    ),
}


@pytest.mark.parametrize(("text", "words"), INVALID.values(), ids=INVALID)
def test_opt_refuses_invalid_text(capsys, tmp_path, text, words):
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    out, err = opt(capsys, str(path), code=1)
    assert out == ""
    assert err.startswith("error: ")
    assert "bad.mlir" in err
    assert words in err
