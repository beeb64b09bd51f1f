"""Building kernels: with the real compiler where it matters, with a stand-in for what happens around it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import build_worker
import numpy as np
import pytest
from build_support import EXPRESSION_LINE, StandIn, call, is_running, left_over, make_kernel, worker_environment

import juju.build.compiler
import juju.build.packages
import juju.build.process
from juju.build import (
    BuildEvent,
    Built,
    Store,
    build_kernels,
    compiler_runs,
    emit,
    helper_package,
    kernel_key,
    package_digest,
    toolchain,
)
from juju.errors import InternalError, KernelCompileError, StoreWarning, ToolchainError
from juju.plan import SourceLine

toolchain_module = sys.modules["juju.build.toolchain"]  # its name in the package is the function

X = np.array([1.0, 4.0, 9.0, 16.0, 25.0], np.float32)

ALLOCATED = """comptime scale = 5
def allocated(v: Float32) -> Float32:
    var list = List[Float32]()
    list.append(sqrt(v))
    return list[len(list) - 1]
"""
TWICE = make_kernel("twice", "scale(v)", extra_head="def scale(v: Float32) -> Float32: return v * 2")
THRICE = make_kernel("thrice", "scale(v)", extra_head="def scale(v: Float32) -> Float32: return v * 3")
ROOT = make_kernel("root", "allocated(v)", extra_head=ALLOCATED)
HELPED = make_kernel("helped", "plus_two(v)", extra_head="from outer import plus_two", imports=("outer",))


@pytest.fixture(scope="module")
def kernels_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A `kernels/` folder with the package `outer`, which imports `inner`."""
    folder = tmp_path_factory.mktemp("kernels")
    for name, text in {
        "inner": "def plus_one(v: Float32) -> Float32:\n    return v + 1\n",
        "outer": "from inner import plus_one\n\n"
        "def plus_two(v: Float32) -> Float32:\n    return plus_one(plus_one(v))\n",
        "broken": "def f() -> Int:\n    return nothing\n",
    }.items():
        (folder / name).mkdir()
        (folder / name / "__init__.mojo").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(juju.build.packages, "resource_dir", lambda _: folder)
        yield folder


@dataclasses.dataclass
class Batch:
    store: Store
    built: list[Built]
    events: list[BuildEvent]
    runs: int


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory, kernels_folder: Path) -> Batch:
    """Four kernels built together, in a store with an awkward path."""
    store = Store(tmp_path_factory.mktemp("a 'b' \"c\"") / "$(touch x) -o; ü&")
    events: list[BuildEvent] = []
    before = compiler_runs()
    built = build_kernels([TWICE, THRICE, ROOT, TWICE, HELPED], store=store, progress=events.append)
    return Batch(store, built, events, compiler_runs() - before)


def test_many_kernels_are_one_run_and_are_right(batch: Batch):
    expected = [X * 2, X * 3, np.sqrt(X), X * 2, X + 2]
    for built, values in zip(batch.built, expected, strict=True):
        np.testing.assert_array_equal(call(built, X), values)
    assert batch.runs == 3, "two packages and one run for all kernels"
    assert len({built.path for built in batch.built}) == 1


def test_progress_tells_every_step(batch: Batch):
    steps = [(event.stage, event.name, event.state) for event in batch.events]
    kernels = ["twice", "thrice", "root", "helped"]
    packages = [("package", name, state) for name in ("inner", "outer") for state in ("start", "done")]
    assert [step for step in steps if step[0] == "package" and step[2] != "hit"] == packages
    assert [step for step in steps if step[2] == "start" and step[0] == "kernel"] == [
        ("kernel", name, "start") for name in kernels
    ]
    assert sorted(step for step in steps if step[2] == "done" and step[0] == "kernel") == [
        ("kernel", name, "done") for name in sorted(kernels)
    ]
    assert all(event.seconds > 0.1 for event in batch.events if event.state == "done")


def test_the_second_time_nothing_is_compiled(batch: Batch):
    events: list[BuildEvent] = []
    before = compiler_runs()
    again = build_kernels([TWICE, HELPED], store=Store(batch.store.root), progress=events.append)
    assert again == [batch.built[0], batch.built[4]]
    assert compiler_runs() == before
    assert [(event.name, event.state) for event in events] == [("twice", "hit"), ("helped", "hit")]


def test_equal_code_under_another_name_is_the_same_kernel(batch: Batch):
    renamed = dataclasses.replace(TWICE, name="other", symbol="juju_other_" + TWICE.key[:16])
    (built,) = build_kernels([renamed], store=batch.store)
    assert built == batch.built[0]
    assert built.symbol == TWICE.symbol


def test_the_store_keeps_the_text_and_nothing_temporary(batch: Batch):
    for kernel, built in zip([TWICE, THRICE, ROOT], batch.built, strict=False):
        assert (built.path.parent / f"{kernel.key}.mojo").read_text() == kernel.text
    assert left_over(batch.store.root) == []
    assert batch.store.stats().kernels == 4
    assert batch.store.stats().packages == 2
    assert [path.name for path in batch.store.root.parent.iterdir()] == [batch.store.root.name]


def test_a_truncated_library_is_built_again(batch: Batch, tmp_path: Path):
    root = tmp_path / "copy"
    shutil.copytree(batch.store.root, root)
    store = Store(root)
    found = store.find(TWICE.key)
    assert found is not None
    os.truncate(found.path, found.path.stat().st_size // 2)
    before = compiler_runs()
    built = build_kernels([TWICE, THRICE], store=store)
    assert compiler_runs() == before + 1
    np.testing.assert_array_equal(call(built[1], X), X * 3)


def test_without_a_c_compiler_on_the_path(batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert toolchain().linker is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    (built,) = build_kernels([ROOT], store=Store(tmp_path / "store"))
    np.testing.assert_array_equal(call(built, X), np.sqrt(X))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_with_the_systems_c_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tools = dataclasses.replace(toolchain(), linker=None)
    monkeypatch.setattr(juju.build.process, "toolchain", lambda: tools)
    (built,) = build_kernels([ROOT], store=Store(tmp_path))
    np.testing.assert_array_equal(call(built, X), np.sqrt(X))


def test_llvm_and_assembly(batch: Batch):
    assert re.search(rf"define .*@{ROOT.symbol}\(", emit(ROOT, "llvm", store=batch.store))
    assert re.search(rf"^{ROOT.symbol}:", emit(ROOT, "asm", store=batch.store), re.MULTILINE)
    assert left_over(batch.store.root) == []


def test_a_library_outlives_the_environment_it_was_linked_in(batch: Batch, tmp_path: Path):
    """The kernel allocates, so it needs Mojo's run-time library, and looks for it where it was when it was built."""
    library = batch.built[3].path.read_bytes()
    runtime = toolchain_module.runtime_library()
    assert runtime is not None
    search_path = os.fsencode(runtime.parent) + b"\0"
    assert library.count(search_path) == 1
    assert b"\0" + os.fsencode(runtime.name) + b"\0" in library
    moved = tmp_path / "moved.so"
    moved.write_bytes(library.replace(search_path, b"/gone".ljust(len(search_path) - 1, b"x") + b"\0"))
    script = (
        "import pathlib, sys\n"
        "from juju.build import Built\n"
        f"print(Built(pathlib.Path({str(moved)!r}), {ROOT.symbol!r}, '').address() > 0)\n"
    )
    words = [sys.executable, "-c", script]
    said = subprocess.run(words, env=worker_environment(tmp_path), capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"


# ---------------------------------------------------------------------------------------- packages and keys


def test_packages_have_a_stable_place(batch: Batch):
    before = compiler_runs()
    folder = helper_package("outer", store=batch.store)
    assert compiler_runs() == before
    assert sorted(path.name for path in folder.iterdir()) == ["outer.mojoc", "outer.mojoc.json"]
    assert folder.parent == batch.store.root / toolchain().fingerprint / "p"


def test_a_damaged_package_is_built_again(batch: Batch):
    path = helper_package("inner", store=batch.store) / "inner.mojoc"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert helper_package("inner", store=batch.store) == path.parent
    assert path.read_bytes() == content


def test_a_package_that_does_not_compile(kernels_folder: Path, tmp_path: Path):
    with pytest.raises(KernelCompileError) as refusal:
        helper_package("broken", store=Store(tmp_path))
    assert str(refusal.value) == (
        "The Mojo compiler refused the package 'broken': use of unknown declaration 'nothing'\n"
        f"  {kernels_folder / 'broken' / '__init__.mojo'}:2: return nothing"
    )
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("name", ["missing", "../outer", "outer/", ""])
def test_a_package_that_does_not_exist(kernels_folder: Path, name: str):
    with pytest.raises(InternalError, match="there is no Mojo package"):
        package_digest(name)


def test_a_key_holds_everything_that_decides_the_code(kernels_folder: Path, monkeypatch: pytest.MonkeyPatch):
    keys = {kernel_key("text", []), kernel_key("text ", []), kernel_key("", ["outer"]), kernel_key("text", ["outer"])}
    assert len(keys) == 4
    assert all(re.fullmatch(r"[0-9a-f]{64}", key) for key in keys)
    key = kernel_key("text", ["outer"])
    assert kernel_key("text", ["outer", "outer"]) == key
    assert kernel_key("text", ["inner", "outer"]) == kernel_key("text", ["outer", "inner"])

    inner = kernels_folder / "inner" / "__init__.mojo"
    source = inner.read_text()
    inner.write_text(source.replace("v + 1", "v + 1.5"))
    assert kernel_key("text", ["outer"]) != key, "outer imports inner"
    inner.write_text(source)
    assert kernel_key("text", ["outer"]) == key

    monkeypatch.setattr(juju.build.packages, "ABI_VERSION", 2)
    assert kernel_key("text", ["outer"]) != key
    monkeypatch.undo()
    monkeypatch.setattr(juju.build.packages, "FLAGS", ("-O1",))
    assert kernel_key("text", []) not in keys


# ------------------------------------------------------------------------------------------ refused kernels


def test_refused_kernels_are_named_and_the_others_built(tmp_path: Path):
    lines = (
        SourceLine(1, "model.py", 1),
        SourceLine(EXPRESSION_LINE - 1, "model.py", 7),
        SourceLine(99, "model.py", 9),
    )
    unknown = make_kernel("unknown", "nothing(v)", extra_head="# first", lines=lines)
    asserted = make_kernel(
        "asserted",
        "check(v)",
        extra_head="def check(v: Float32) -> Float32:\n    comptime assert 1 == 2, 'wide'\n    return v",
    )
    unexported = make_kernel("unexported", "v", text='def SYMBOL() abi("C") -> Int:\n    return 0\n')
    good = [make_kernel("good", "v + 0.5"), make_kernel("fine", "v - 0.5")]
    store = Store(tmp_path)
    events: list[BuildEvent] = []
    results = build_kernels(
        [unknown, good[0], asserted, unexported, good[1]], store=store, return_exceptions=True, progress=events.append
    )
    np.testing.assert_array_equal(call(as_built(results[1]), X), X + 0.5)
    np.testing.assert_array_equal(call(as_built(results[4]), X), X - 0.5)
    kept = tmp_path / toolchain().fingerprint / "k"
    assert isinstance(results[0], KernelCompileError)
    assert str(results[0]) == (
        "The Mojo compiler refused the kernel 'unknown': use of unknown declaration 'nothing'\n"
        f"  line {EXPRESSION_LINE}: o[unsafe_offset=i] = nothing(v)\n"
        "  comes from: model.py:7\n"
        f"  text kept in: {kept / unknown.key}.mojo\n"
        "This is a defect of juju and not of your function; please report it with that text."
    )
    assert (kept / f"{unknown.key}.mojo").read_text() == unknown.text
    assert str(results[2]).startswith(
        "The Mojo compiler refused the kernel 'asserted': constraint failed: wide\n  line 5: "
    )
    assert "comes from" not in str(results[2])
    assert "'unexported'" in str(results[3])
    assert {event.name: event.state for event in events} == {
        "unknown": "failed",
        "asserted": "failed",
        "unexported": "failed",
        "good": "done",
        "fine": "done",
    }
    assert left_over(tmp_path) == []

    with pytest.raises(KernelCompileError, match="refused the kernel 'unknown'"):
        build_kernels([good[0], unknown], store=store)


def as_built(result: Built | Exception) -> Built:
    assert isinstance(result, Built), result
    return result


def test_the_first_refused_kernel_is_raised_and_names_the_others(tmp_path: Path, stand_in: StandIn):
    kernels = [make_kernel(name, text) for name, text in (("a", "v"), ("b", "SEGFAULT 1"), ("c", "SEGFAULT 2"))]
    store = Store(tmp_path / "store")
    with pytest.raises(KernelCompileError) as refusal:
        build_kernels(kernels, store=store)
    kept = tmp_path / "store" / toolchain().fingerprint / "k" / f"{kernels[1].key}.mojo"
    assert str(refusal.value) == (
        "The Mojo compiler refused the kernel 'b': it crashed (status -11)\n"
        f"  text kept in: {kept}\n"
        "This is a defect of juju and not of your function; please report it with that text."
    )
    assert refusal.value.__notes__ == ["also refused: c"]
    assert store.find(kernels[0].key)


# ------------------------------------------------------------------- around the compiler, with a stand-in


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    (tmp_path / "stand-in").mkdir()
    return StandIn(tmp_path / "stand-in", monkeypatch)


def test_a_crash_is_narrowed_down_to_its_kernel(tmp_path: Path, stand_in: StandIn):
    kernels = [make_kernel(f"k{i}", "SEGFAULT" if i == 5 else f"v + {i}") for i in range(8)]
    results = build_kernels(kernels, store=Store(tmp_path / "store"), return_exceptions=True)
    assert [isinstance(result, Built) for result in results] == [i != 5 for i in range(8)]
    assert isinstance(results[5], KernelCompileError)
    assert len(stand_in.runs) == 7
    assert left_over(tmp_path / "store") == []


@pytest.mark.parametrize(
    ("number", "cores", "sizes"),
    [(15, 64, [15]), (40, 2, [40]), (130, 2, [44, 43, 43]), (40, 8, [20, 20]), (64, 64, [16] * 4), (200, 4, [50] * 4)],
)
def test_large_batches_are_split(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, number: int, cores: int, sizes: list[int]
):
    monkeypatch.setattr(juju.build.compiler.os, "cpu_count", lambda: cores)
    kernels = [make_kernel(f"k{i}", f"v + {i}") for i in range(number)]
    built = build_kernels(kernels, store=Store(tmp_path / "store"))
    assert [library.key for library in built] == [kernel.key for kernel in kernels]
    assert sorted(size for _, size in stand_in.runs) == sorted(sizes)
    assert left_over(tmp_path / "store") == []


def test_a_killed_compiler_is_an_error_of_the_environment(tmp_path: Path, stand_in: StandIn):
    kernels = [make_kernel("a", "v"), make_kernel("b", "KILLED")]
    with pytest.raises(ToolchainError) as error:
        build_kernels(kernels, store=Store(tmp_path / "store"))
    assert str(error.value) == (
        "The compiler was ended by SIGKILL before it was done, probably because memory ran out. "
        "Call again to compile again."
    )
    assert len(stand_in.runs) == 1
    assert stored(tmp_path / "store") == []
    assert left_over(tmp_path / "store") == []


def test_a_missing_linker_is_an_error_of_the_environment(tmp_path: Path, stand_in: StandIn):
    with pytest.raises(ToolchainError, match="found no C compiler to link with"):
        build_kernels([make_kernel("a", "NO LINKER")], store=Store(tmp_path / "store"))


def test_a_compiler_that_vanished_is_an_error_of_the_environment(tmp_path: Path, stand_in: StandIn):
    (tmp_path / "stand-in" / "mojo").unlink()
    with pytest.raises(ToolchainError, match=r"cannot start .*mojo \(No such file or directory\)"):
        build_kernels([make_kernel("a", "v")], store=Store(tmp_path / "store"))


def test_a_disk_that_is_full_for_the_compiler(tmp_path: Path, stand_in: StandIn):
    store = Store(tmp_path / "store")
    kernels = [make_kernel("a", "v"), make_kernel("b", "NO SPACE")]
    with pytest.warns(StoreWarning, match="No space left on device"):
        built = build_kernels(kernels, store=store)
    assert [size for _, size in stand_in.runs] == [2, 2]
    assert store.find(kernels[0].key) == built[0]
    assert stored(tmp_path / "store") == []
    assert left_over(tmp_path / "store") == []


def test_the_compiler_is_told_not_to_call_home(tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODULAR_TELEMETRY_ENABLED", "1")
    seen: dict[str, str] = {}
    start = subprocess.Popen

    def spy(words: list[str], **options: Any) -> subprocess.Popen[str]:
        seen.update(options["env"])
        return start(words, **options)

    monkeypatch.setattr(juju.build.process.subprocess, "Popen", spy)
    build_kernels([make_kernel("a", "v")], store=Store(tmp_path / "store"))
    assert (seen["MODULAR_TELEMETRY_ENABLED"], seen["MODULAR_CRASH_REPORTING_ENABLED"]) == ("false", "false")


@pytest.mark.parametrize("number", [1, 40], ids=["one run", "several runs in threads"])
def test_interrupt_ends_the_compiler_at_once(
    tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, number: int
):
    monkeypatch.setattr(juju.build.compiler.os, "cpu_count", lambda: 8)
    kernels = [make_kernel(f"k{i}", f"HANG {i}") for i in range(number)]
    expected = 1 if number == 1 else 2
    interrupted: list[float] = []

    def interrupt() -> None:
        wait_for(lambda: len(stand_in.runs) == expected)
        time.sleep(0.2)
        interrupted.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        build_kernels(kernels, store=Store(tmp_path / "store"))
    assert time.monotonic() - interrupted[0] < 1.0
    wait_for(lambda: not any(process_group_members(process) for process, _ in stand_in.runs), seconds=1.0)
    assert stored(tmp_path / "store") == []
    assert left_over(tmp_path / "store") == []


def test_builds_in_other_threads(tmp_path: Path, stand_in: StandIn):
    store = Store(tmp_path / "store")
    kernels = [make_kernel(f"k{i}", f"v + {i}") for i in range(6)]
    built: dict[int, list[Built]] = {}

    def work(number: int) -> None:
        built[number] = build_kernels(kernels[number % 2 :], store=store)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all([library.key for library in built[n]] == [kernel.key for kernel in kernels[n % 2 :]] for n in range(8))
    assert sum(size for _, size in stand_in.runs) == 6, "each kernel is compiled once"
    assert left_over(tmp_path / "store") == []


@pytest.mark.parametrize(
    ("key", "symbol"), [("../../x" * 9, "f"), ("ab" * 32, "f;rm -rf"), ("ab" * 32, ""), ("ab" * 32, "f\n")]
)
def test_names_that_are_not_names_are_refused(tmp_path: Path, stand_in: StandIn, key: str, symbol: str):
    kernel = dataclasses.replace(make_kernel("a", "v"), key=key, symbol=symbol)
    with pytest.raises(InternalError, match="not fit to name a file"):
        build_kernels([kernel], store=Store(tmp_path / "store"))
    assert stand_in.runs == []


def stored(root: Path) -> list[str]:
    return [path.name for path in root.glob("*/k/*")]


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def process_group_members(group: int) -> list[int]:
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, member_of = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(member_of) == group and state != "Z":
            members.append(int(path.parent.name))
    return members


# ------------------------------------------------------------------------- other processes, real compiler


def start_worker(action: str, cache: Path) -> subprocess.Popen[str]:
    words = [sys.executable, build_worker.__file__, action]
    return subprocess.Popen(words, env=worker_environment(cache), stdout=subprocess.PIPE, text=True)


def test_processes_and_threads_race_on_a_cold_store(tmp_path: Path):
    """Two processes of four threads each; then a third process that compiles nothing."""
    cache = tmp_path / "cache"
    workers = [start_worker("race", cache) for _ in range(2)]
    reports = []
    for worker in workers:
        said, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        reports.append(json.loads(said))
    assert [report["failures"] for report in reports] == [[], []]
    built = reports[0]["built"] + reports[1]["built"]
    assert sorted(built) == [kernel.name for kernel in build_worker.KERNELS], "one build per key"
    assert left_over(cache) == []

    warm = start_worker("warm", cache)
    said, _ = warm.communicate(timeout=120)
    report = json.loads(said)
    assert (report["started"], report["runs"], report["loaded"]) == ([], 0, 4)
    assert report["root"] == str(cache)


def test_interrupting_the_real_compiler(tmp_path: Path):
    with start_worker("interrupt", tmp_path) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "start\n"
        compiler = wait_for_child(worker.pid)
        time.sleep(0.3)
        began = time.monotonic()
        worker.send_signal(signal.SIGINT)
        lines = [worker.stdout.readline(), worker.stdout.readline()]
        assert time.monotonic() - began < 1.0
        assert lines == ["failed\n", "interrupted\n"]
        assert not is_running(compiler)
    assert stored(tmp_path) == []
    assert left_over(tmp_path) == []


def test_killing_a_process_that_compiles(tmp_path: Path):
    with start_worker("interrupt", tmp_path) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "start\n"
        compiler = wait_for_child(worker.pid)
        time.sleep(0.3)
        worker.kill()
    wait_for(lambda: not is_running(compiler))
    assert stored(tmp_path) == []
    assert len(left_over(tmp_path)) > 0

    (built,) = build_kernels(build_worker.SLOW, store=Store(tmp_path))
    np.testing.assert_array_equal(call(built, X), np.sqrt(X))
    assert left_over(tmp_path) == []


def wait_for_child(process: int) -> int:
    children = Path(f"/proc/{process}/task/{process}/children")
    wait_for(lambda: bool(children.read_text().split()))
    return int(children.read_text().split()[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_really_full_disk(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("this system does not let root mount a disk")
    try:
        (disk / "filler").write_bytes(bytes(48 << 10))
        with pytest.warns(StoreWarning, match="No space left on device"):
            (built,) = build_kernels([ROOT], store=Store(disk / "store"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    np.testing.assert_array_equal(call(built, X), np.sqrt(X))


# ------------------------------------------------------------------------------------------- the toolchain


def fake_versions(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    real = metadata.version

    def version(package: str) -> str:
        if package in versions and not versions[package]:
            raise metadata.PackageNotFoundError(package)
        return versions.get(package) or versions.get(package.replace("-compiler", "")) or real(package)

    monkeypatch.setattr(toolchain_module.metadata, "version", version)


def test_the_fingerprint_names_versions_and_processor():
    tools = toolchain()
    assert tools.fingerprint == f"{metadata.version('mojo')}-{metadata.version('max')}-{tools.target_cpu}"
    assert re.fullmatch(r"[A-Za-z0-9_]+-[0-9a-f]{12}", tools.target_cpu)
    assert dataclasses.replace(tools, target_cpu="../ä b").fingerprint.endswith("-..___b")


@pytest.mark.parametrize(
    ("package", "version", "tested"),
    [("mojo", "1.1.9", ">=1.2,<1.3"), ("mojo", "1.3.0", ">=1.2,<1.3"), ("max", "26.8.0", ">=26.7,<26.8")],
)
def test_an_untested_version(monkeypatch: pytest.MonkeyPatch, package: str, version: str, tested: str):
    fake_versions(monkeypatch, **{package: version})
    with pytest.raises(ToolchainError) as error:
        toolchain.__wrapped__()
    where = "Python package" if package == "max" else str(toolchain().mojo)
    assert str(error.value) == (
        f"juju was tested with {package} {tested} and found {package} {version} ({where}). "
        f"Install a tested one with: pip install '{package}{tested}'"
    )


@pytest.mark.parametrize("version", ["1.2.0", "1.2.99", "1.2.0.dev2026113005"])
def test_a_tested_version(monkeypatch: pytest.MonkeyPatch, version: str):
    fake_versions(monkeypatch, mojo=version)
    assert toolchain.__wrapped__().mojo_version == version


def test_max_is_missing(monkeypatch: pytest.MonkeyPatch):
    fake_versions(monkeypatch, max="")
    with pytest.raises(ToolchainError, match="needs MAX and the Python package 'max' is not installed"):
        toolchain.__wrapped__()


def test_mojo_is_looked_for_beside_python_then_on_path_then_in_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def program(folder: str, says: str) -> Path:
        path = tmp_path / folder / "mojo"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)
        return path

    installed = toolchain().mojo
    beside, on_path = program("beside", ""), program("on path", "Mojo 1.2.7 (abcdef)")
    monkeypatch.setattr(toolchain_module.sys, "executable", str(beside.parent / "python"))
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=os.pathsep)
    found = toolchain.__wrapped__()
    assert (found.mojo, found.mojo_version) == (beside, metadata.version("mojo"))
    beside.unlink()
    found = toolchain.__wrapped__()
    assert (found.mojo, found.mojo_version) == (on_path, "1.2.7")
    on_path.write_text("#!/bin/sh\necho 'no mojo'\n")
    with pytest.raises(ToolchainError, match=r"cannot tell the version .* said 'no mojo'"):
        toolchain.__wrapped__()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.__wrapped__().mojo == installed
    monkeypatch.setattr(toolchain_module, "_package_scripts", lambda: [])
    with pytest.raises(ToolchainError, match=r"needs the Mojo compiler and found none.*pip install 'mojo>=1.2,<1.3'"):
        toolchain.__wrapped__()
