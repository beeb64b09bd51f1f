"""`juju explain`: kernels, lines, arrays, reasons and limits of functions whose fusion is known."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner, Result
from jax import lax
from jax.core import ShapedArray

import juju
from juju.build import Store
from juju.cli import main
from juju.debug import limits as limits_module
from juju.debug.explain import Explanation
from juju.debug.limits import Limits, known_limits, machine_limits, measure_limits

FIXED = Limits(((1 << 10, 1e-6), (1 << 20, 1e-3)), 1e9)
"""About a byte in a nanosecond, and one multiply-add."""

ROWS, COLUMNS, LONG = 512, 100, 1 << 22


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * gain + bias


def layer_norm_gradient(x, gain, bias, upstream):
    return jax.vjp(layer_norm, x, gain, bias)[1](upstream)


def share(x):
    return x / x.sum()


def energy(x):
    wave = jnp.sin(x)
    return jnp.sum(wave * wave)


def waves(x):
    y = jnp.sin(x) * jnp.cos(x * x)
    return {"turned": y[::-1] + y[1:2] + y, "same": x}


def apart(x, y):
    return jnp.tanh(x), jnp.exp(y) * 3


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def explained(f, *args: jax.ShapeDtypeStruct) -> Explanation:
    return juju.fuse(f).lower(*args).explain(FIXED)


def line_of(text: str) -> int:
    """The number of the line of this file that holds a text first."""
    return Path(__file__).read_text().split("\n").index(f"    {text}") + 1


# --- what is found ----------------------------------------------------------------------------------------------------


def test_softmax_is_one_kernel_of_two_lines() -> None:
    found = explained(softmax, f32(ROWS, COLUMNS))
    (kernel,) = found.kernels
    first = line_of("e = jnp.exp(x - x.max(-1, keepdims=True))")
    assert [(line.file, line.line) for line in kernel.lines] == [(__file__, first), (__file__, first + 1)]
    assert kernel.lines[0].text == "e = jnp.exp(x - x.max(-1, keepdims=True))"
    assert {"reduce_max", "sub", "exp"} <= set(kernel.lines[0].operations)
    assert {"reduce_sum", "div"} <= set(kernel.lines[1].operations)
    assert "div" not in kernel.lines[0].operations
    assert [(a.name, a.type, a.bytes) for a in kernel.reads] == [("x", "f32[512,100]", 204800)]
    assert [(a.name, a.type, a.bytes) for a in kernel.writes] == [("result", "f32[512,100]", 204800)]
    assert kernel.notes == ()
    assert found.scratch == ()
    assert [(loops.extents, loops.reduced) for loops in kernel.loops] == [((ROWS, COLUMNS), (1,))]
    assert kernel.bytes == 2 * 204800


def test_totals_of_rows_wait_between_the_kernels_of_a_gradient() -> None:
    found = explained(layer_norm_gradient, f32(ROWS, COLUMNS), f32(COLUMNS), f32(COLUMNS), f32(ROWS, COLUMNS))
    first, second = found.kernels
    assert not [note for note in first.notes if note.kind == "waits"]
    (waits,) = [note for note in second.notes if note.kind == "waits"]
    assert "complete only after a whole pass" in waits.reason
    assert {name for name, _, _ in waits.values} == {"reduce_sum"}
    start = line_of("centred = x - x.mean(-1, keepdims=True)")
    assert {line for _, _, line in waits.values} <= {start, start + 1, start + 2}
    assert {note.reason for note in second.notes if note.kind == "again"} == {
        "cheaper than writing and reading it",
        "once for each row",
    }
    between = [array for array in second.reads if array.step == 1]
    assert {array.name for array in between} == {array.name for array in found.scratch}
    assert {array.name for array in between} <= {array.name for array in first.writes}
    assert {array.shape for array in found.scratch} == {(ROWS,)}
    results = {array.name for kernel in found.kernels for array in kernel.writes if array.kind == "result"}
    assert results == {"result[0]", "result[1]", "result[2]"}


def test_a_long_total_is_made_in_parts() -> None:
    parts, total, quotient = explained(share, f32(LONG)).kernels
    assert parts.notes == ()
    (why,) = total.notes
    assert why.kind == "waits"
    assert "in 256 parts" in why.reason
    assert [array.step for array in total.reads] == [1]
    (why,) = quotient.notes
    assert why.kind == "waits"
    assert why.values[0][0] == "reduce_sum"
    assert {array.name: array.step for array in quotient.reads}["x"] is None
    assert quotient.bytes == 2 * 4 * LONG


def test_parts_of_a_total_know_the_lines_they_compute() -> None:
    parts, total = explained(energy, f32(LONG)).kernels
    first = line_of("wave = jnp.sin(x)")
    assert [line.line for line in parts.lines] == [first, first + 1]
    assert [line.line for line in total.lines] == [first + 1]


def test_a_dear_value_that_is_read_elsewhere_waits() -> None:
    found = explained(waves, f32(ROWS, COLUMNS))
    first, second = found.kernels
    (why,) = second.notes
    assert why.kind == "waits"
    assert re.search(r"computing it again would cost \d+ operations", why.reason)
    assert why.values == (("mul", __file__, line_of("y = jnp.sin(x) * jnp.cos(x * x)")),)
    assert [array.name for array in first.writes] == [array.name for array in found.scratch]
    assert [array.name for array in second.writes] == ["result['turned']"]
    assert found.passed == (("result['same']", "x"),)


def test_independent_nests_share_a_launch() -> None:
    (kernel,) = explained(apart, f32(64), f32(8, 3)).kernels
    assert sorted(loops.extents for loops in kernel.loops) == [(24,), (64,)]
    assert {array.name: array.shape for array in kernel.writes} == {"result[0]": (64,), "result[1]": (8, 3)}


def test_limit_is_the_longer_of_two() -> None:
    (kernel,) = explained(lambda x: x * 2, f32(1 << 18)).kernels
    assert kernel.limit is not None
    assert kernel.limit.bound == "memory"
    assert kernel.limit.moving == pytest.approx(2e-3, rel=0.01)
    (kernel,) = explained(lambda x: jnp.sin(jnp.exp(jnp.tanh(x))), f32(1 << 18)).kernels
    assert kernel.limit is not None
    assert kernel.limit.bound == "operations"
    assert kernel.limit.computing == kernel.operations / 1e9 == kernel.limit.seconds


def test_custom_operation_is_a_step() -> None:
    def same_type(x):
        return ShapedArray(x.shape, x.dtype)

    turn = juju.Primitive("turn_around", lambda x: x, same_type, multiple_results=False)
    found = explained(lambda x: turn(x + 1) * 2, f32(8, 8))
    before, custom, after = found.steps
    assert [step.kind for step in found.steps] == ["kernel", "custom operation", "kernel"]
    assert custom.name == "turn_around"
    assert len(custom.lines) == 1
    assert [array.step for array in custom.reads] == [1]
    assert [array.step for array in after.reads] == [2]
    (why,) = after.notes
    assert why.reason == "a hand-written kernel makes it"
    assert why.values[0][0] == "turn_around"
    assert before.writes[0].kind == custom.writes[0].kind == "scratch"


def test_hand_written_kernel_says_what_it_calls() -> None:
    def ranks(x):
        return jnp.sort(x * 2) + 1

    before, sort, after = explained(ranks, f32(1000)).kernels
    assert sort.calls.startswith("juju_sort.")
    assert before.calls == ""
    assert sort.lines[0].text == "return jnp.sort(x * 2) + 1"
    assert [array.step for array in (*sort.reads, *after.reads)] == [1, 2]
    assert sort.writes[0].name == "scratch 1, sort"
    assert [note.values[0][0] for note in after.notes] == ["sort"]
    assert sort.limit is not None
    assert sort.limit.seconds == sort.limit.moving


def test_bytes_count_what_is_touched() -> None:
    """Every array once, a row's values once for each row, and of a table no more than is looked up."""

    def lookup(table, places):
        return table[places]

    cost = explained(lookup, f32(10_000, 8), jax.ShapeDtypeStruct((4,), jnp.int32)).kernels[0]
    assert cost.bytes == (4 * 8 + 4 + 4 * 8) * 4
    assert explained(lambda x: x.sum(-1), f32(64, 50)).kernels[0].bytes == (64 * 50 + 64) * 4
    assert explained(lambda x: x + x[::-1], f32(64)).kernels[0].bytes == 2 * 64 * 4


# --- the text ---------------------------------------------------------------------------------------------------------


def test_text_says_each_reason_and_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    text = str(explained(layer_norm_gradient, f32(ROWS, COLUMNS), f32(COLUMNS), f32(COLUMNS), f32(ROWS, COLUMNS)))
    assert re.match(r"layer_norm_gradient: 2 kernels, \d\.0 KB of scratch memory between them, limit \d", text)
    first, second = text.split("kernel 2 of 2: ")
    assert first.count("centred = x - x.mean") == second.count("centred = x - x.mean") == 1
    assert second.count("complete only after a whole pass") == 1
    assert f"reduce_sum of test_explain.py:{line_of('centred = x - x.mean(-1, keepdims=True)')}" in second
    assert str(Path(__file__).parent) not in text, "paths are short"
    assert "from kernel 1" in second
    assert "bound by" in second


def test_text_of_a_function_without_kernel() -> None:
    assert str(explained(lambda x: x, f32(3))) == (
        "<lambda>: no kernel: the results are arguments, captured constants, or empty\n\n  as it is  result is x\n"
    )


# --- the limits of a machine ------------------------------------------------------------------------------------------


def test_limits_between_and_beyond_what_was_measured() -> None:
    limits = Limits(((100, 1.0), (10_000, 25.0)), 4.0)
    assert limits.moving(50) == 0.5
    assert limits.moving(20_000) == 50.0
    assert limits.moving(1000) == pytest.approx(5.0)
    assert limits.computing(2) == 0.5


def test_limits_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUJU_CACHE_DIR", str(tmp_path))
    assert known_limits() is None
    measured = machine_limits()
    assert measured.multiply_adds > 1e8
    assert all(0 < seconds < 1 for _, seconds in measured.copies)
    assert known_limits() == measured == machine_limits()
    monkeypatch.setattr(limits_module, "_product", lambda: 1.0)
    assert measure_limits().multiply_adds == limits_module.MATRIX**3
    assert known_limits() != measured
    store = Store(tmp_path)
    assert list(store.entries()) == [], "they are no work of the compiler"
    assert store.clear() > 0
    assert known_limits() is None


# --- the command ------------------------------------------------------------------------------------------------------

MODEL = """
import jax.numpy as jnp
import juju

def f(x):
    return jnp.tanh(x) * 2

@juju.fuse(fallback="jax")
def lenient(x):
    return jnp.fft.fft(x).real

def strict(x):
    return jnp.fft.fft(x).real
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "explained_model.py"
    path.write_text(MODEL)
    return str(path)


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *args], prog_name="juju")
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def test_command_prints_the_text_plainly(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("juju.cli.explain.known_limits", lambda: FIXED)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    plain = run(f"{model}:f", "--args", "f32[4096]").stdout
    assert plain.startswith("f: 1 kernel\n\nkernel: f\n")
    assert "return jnp.tanh(x) * 2" in plain
    assert "tanh mul" in plain
    assert "\x1b[" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    coloured = run(f"{model}:f", "--args", "f32[4096]").stdout
    assert "\x1b[1" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_command_as_json(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("juju.cli.explain.known_limits", lambda: FIXED)
    printed = json.loads(run(f"{model}:f", "--args", "f32[4096]", "--json").stdout)
    (step,) = printed["steps"]
    assert step["lines"] == [
        {"file": model, "line": 6, "text": "return jnp.tanh(x) * 2", "operations": ["tanh", "mul"]}
    ]
    assert step["bytes"] == 2 * 4 * 4096
    assert step["limit"]["bound"] in ("memory", "operations")


def test_command_measures_when_it_must(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured() -> Limits:
        counted.append(1)
        return FIXED

    counted: list[int] = []
    monkeypatch.setattr("juju.cli.explain.measure_limits", measured)
    monkeypatch.setattr("juju.cli.explain.known_limits", lambda: FIXED)
    run(f"{model}:f", "--args", "f32[8]")
    assert not counted
    assert "measuring this machine" in run(f"{model}:f", "--args", "f32[8]", "--measure").stderr
    monkeypatch.setattr("juju.cli.explain.known_limits", lambda: None)
    run(f"{model}:f", "--args", "f32[8]")
    assert len(counted) == 2


def test_command_says_what_is_left_to_jax(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("juju.cli.explain.known_limits", lambda: FIXED)
    text = run(f"{model}:lenient", "--args", "f32[8]").stdout
    assert text.startswith("lenient: no kernel; the whole function is left to jax.jit, as fallback='jax' allows\n")
    assert "fft at " in text
    assert "explained_model.py:10" in text
    printed = json.loads(run(f"{model}:lenient", "--args", "f32[8]", "--json").stdout)
    assert printed["steps"] == []
    assert "fft" in {o["primitive"] for o in printed["left_to_jax"]}
    refused = run(f"{model}:strict", "--args", "f32[8]", code=1)
    assert refused.stdout == ""
    assert "fft" in refused.stderr
