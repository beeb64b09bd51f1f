"""How the max engine runs programs: on which threads, after a fork, at exit; and how the launch graph is compiled."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_support import (
    LONG,
    MUCH,
    VERY_MUCH,
    aval,
    axpy,
    chunks_of,
    compile_kernels,
    load,
    make_plan,
    run_python,
    unary,
)

from juju import _machine as machine
from juju import build
from juju.build import Store
from juju.engines import max as engine
from juju.engines import trampoline as trampolines
from juju.engines.max import dispatch_of, points
from juju.engines.pool import default_pool
from juju.engines.trampoline import trampoline
from juju.errors import ArgumentError, KernelStatusError, ToolchainError

several = pytest.mark.skipif(machine.cores() < 2, reason="needs two cores")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """All kernels of this file, in one run of the compiler; and no trimming in the middle of a test."""
    default_pool().idle_seconds = 3600
    compile_kernels()
    trampoline().open_graph(wait=True)


# How it is run ------------------------------------------------------------------------------------------------------


def test_little_work_runs_on_the_calling_thread() -> None:
    starts, threads = chunks_of(100_000, 0.5)
    assert (starts == 0).all()
    assert (threads == threading.get_native_id()).all()


@several
@pytest.mark.parametrize("nanoseconds", [MUCH, VERY_MUCH])
@pytest.mark.parametrize("n", [LONG, LONG + 1, LONG - 1, 100_003, 1000])
def test_much_work_is_split_at_multiples_of_64_points(n: int, nanoseconds: float) -> None:
    starts, threads = chunks_of(n, nanoseconds / n)
    borders = np.unique(starts)
    assert len(borders) > 1
    assert borders[0] == 0
    assert (borders % 64 == 0).all()
    # Every point was computed by the chunk it lies in.
    np.testing.assert_array_equal(starts, borders[np.searchsorted(borders, np.arange(n), side="right") - 1])
    sizes = np.diff(np.append(borders, n))
    assert sizes.max() < 2 * np.median(sizes)
    if nanoseconds == VERY_MUCH:
        assert threading.get_native_id() not in np.unique(threads)


@several
def test_the_crew_helps_with_much_work() -> None:
    seen: set[int] = set()
    for _ in range(100):
        seen |= set(np.unique(chunks_of(LONG, MUCH / LONG)[1]))
        if len(seen) > 1:
            break
    mine = threading.get_native_id()
    helpers = {thread.native_id for thread in threading.enumerate() if thread.name.startswith("juju-crew")}
    assert len(seen) > 1
    assert seen <= {mine, *helpers}


def test_a_busy_crew_keeps_nobody_waiting() -> None:
    """A launch that waits inside a task occupies the crew; others run meanwhile, on their own threads."""
    gate = np.zeros(2, np.int64)
    buffers = [("operand", (LONG,), "float32"), ("constant", (2,), "int64"), ("result", (LONG,), "float32")]
    f = load(make_plan([("waits", (0, 1, 2), (), LONG, MUCH / LONG)], buffers, [2]), [aval((LONG,))])
    f._programs.append(trampolines.Program(f._calls, f._variable, [gate.ctypes.data]))
    got: list[jax.Array] = []
    thread = threading.Thread(target=lambda: got.extend(f([jnp.full(LONG, 3.0)])))
    thread.start()
    while not gate[1]:
        time.sleep(0.001)
    for _ in range(3):
        starts, threads = chunks_of(LONG, MUCH / LONG)
        assert (starts == 0).all()
        assert (threads == threading.get_native_id()).all()
    assert thread.is_alive()
    gate[0] = 1
    thread.join()
    assert (np.asarray(got[0]) == 3).all()


def test_thousands_of_shared_launches() -> None:
    """Helpers that come late, rounds that are over before they come, threads that take turns: nothing is lost."""
    n, failures = 64 * 40, []

    def work(seed: int) -> None:
        f = axpy(n, MUCH / n)
        assert f._dispatch == "crew" or machine.cores() == 1
        x = jnp.full(n, float(seed))
        for i in range(700):
            (got,) = f([x, x])
            if i % 50 == seed:
                time.sleep(0.002)  # helpers fall asleep
            if not (np.asarray(got) == 3 * seed).all():
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_counts_as_much() -> None:
    def dispatch(n: int, cost: float) -> str:
        buffers = [("operand", (n,), "float32"), ("result", (n,), "float32")]
        return dispatch_of(make_plan([("double", (0, 1), (), n, cost)], buffers, [1]))

    many = machine.cores() > 1
    assert dispatch(1000, 99) == "serial"
    assert dispatch(1000, 101) == ("crew" if many else "serial")
    assert dispatch(1000, 3_999) == ("crew" if many else "serial")
    assert dispatch(1000, 4_001) == ("graph" if many else "serial")
    assert dispatch_of(make_plan([], [("operand", (1 << 10,), "float32")], [0])) == "serial"
    assert dispatch_of(make_plan([], [("operand", (1 << 22,), "float32")], [0])) == ("crew" if many else "serial")
    assert dispatch_of(make_plan([], [], [])) == "serial"


def test_a_task_is_worth_its_while() -> None:
    assert points(1e6) == points(1e300) == 64
    assert points(1.0) == 25_024
    assert points(0.0) == points(-1.0) > 1 << 20


@pytest.mark.parametrize(("n", "cost"), [(4, 1), (LONG, MUCH / LONG), (LONG, VERY_MUCH / LONG)])
def test_subnormal_numbers_are_zero_as_in_jit(n: int, cost: float) -> None:
    x = jnp.asarray(np.resize(np.array([1e-39, -1e-39, 2e-38, 1.0], np.float32), n))
    for name, same in (("halve", lambda x: x * 0.5), ("positive", lambda x: jnp.where(x > 0, 1.0, 0.0))):
        (got,) = unary(name, n, cost)([x])
        want = np.asarray(jax.jit(same)(x))
        assert np.asarray(got).tobytes() == want.tobytes(), name
    assert np.float32(1e-39) * np.float32(0.5) != 0, "the calling thread keeps its own way"


@pytest.mark.parametrize("cost", [MUCH / LONG, VERY_MUCH / LONG])
@pytest.mark.parametrize(("n", "at"), [(100, 0), (100, 99), (LONG, 0), (LONG, LONG - 1)])
def test_a_status_is_an_error_and_the_next_call_works(n: int, cost: float, at: int) -> None:
    steps = [("double", (0, 1), (), n, cost), ("fails", (2,), (at,), n, cost), ("double", (0, 3), (), n, cost)]
    buffers = [("operand", (n,), "float32"), *[("result", (n,), "float32")] * 3]
    f = load(make_plan(steps, buffers, [1, 2, 3]), [aval((n,))] * 3)
    gc.collect()
    before = default_pool().stats().lent
    with pytest.raises(KernelStatusError, match=r"^kernel fails of f returned status 41$"):
        f([jnp.ones(n)])
    gc.collect()
    assert default_pool().stats().lent == before
    assert (np.asarray(unary("double", n)([jnp.ones(n)])[0]) == 2).all()


def test_other_threads_run_meanwhile() -> None:
    for cost in (1, MUCH, VERY_MUCH):
        gate = np.zeros(2, np.int64)
        buffers = [("operand", (1,), "float32"), ("constant", (2,), "int64"), ("result", (1,), "float32")]
        f = load(make_plan([("waits", (0, 1, 2), (), 1, cost)], buffers, [2]), [aval((1,))])
        f._programs.append(trampolines.Program(f._calls, f._variable, [gate.ctypes.data]))
        thread = threading.Thread(target=lambda run=f: run([jnp.ones(1)]))
        thread.start()
        while not gate[1]:  # needs Python's lock while the kernel runs
            time.sleep(0.001)
        assert thread.is_alive()
        gate[0] = 1
        thread.join()


@pytest.mark.parametrize(("n", "cost"), [(50, 1), (LONG, MUCH / LONG), (LONG, VERY_MUCH / LONG)])
def test_threads_call_at_the_same_time(n: int, cost: float) -> None:
    f, failures = axpy(n, cost), []

    def work(seed: int) -> None:
        for i in range(60 if n == 50 else 6):
            x, y = jnp.full(n, float(seed)), jnp.full(n, float(i))
            (got,) = f([x, y])
            if not (np.asarray(got) == 2 * seed + i).all():
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Forks, and processes ----------------------------------------------------------------------------------------------


def test_a_fork_after_use_is_an_error_and_not_a_hang() -> None:
    done = run_python(
        """\
        import os, sys, warnings, signal
        import jax.numpy as jnp
        import engine_support as t
        warnings.filterwarnings("ignore")
        t.compile_kernels("axpy")
        from juju.errors import ForkError
        from juju.engines.trampoline import trampoline
        n = int(os.environ["N"])
        f = t.axpy(n)
        x = jnp.ones(n)
        f([x, x])
        trampoline().open_graph(wait=True)
        f([x, x])
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            code = 0
            for attempt in (lambda: f([x, x]), lambda: t.axpy(n), trampoline):
                try:
                    attempt()
                except ForkError as error:
                    assert str(error).startswith("this process was forked after juju had started in its parent"), error
                    code += 1
            os._exit(code)  # after a fork an ordinary exit is a crash of JAX, with or without us
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(float(f([x, x])[0][0]))
        """,
        N=str(LONG),
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3\n3.0\n", "", 0)


def test_multiprocessing_by_fork_reports_the_error() -> None:
    done = run_python("""\
        import multiprocessing, warnings
        import jax.numpy as jnp
        import engine_support as t
        warnings.filterwarnings("ignore")
        t.compile_kernels("axpy")
        f = t.axpy(3)
        x = jnp.ones(3)
        f([x, x])
        child = multiprocessing.get_context("fork").Process(target=f, args=([x, x],))
        child.start()
        child.join(30)
        print(child.exitcode)
        """)
    assert done.stdout == "1\n"
    assert "juju.errors.ForkError: this process was forked after juju had started in its parent" in done.stderr


def test_a_fork_before_use_works() -> None:
    done = run_python("""\
        import os, sys
        import engine_support as t
        t.compile_kernels("axpy")
        child = os.fork()
        if child == 0:
            import jax.numpy as jnp
            sys.exit(int(t.axpy(3)([jnp.ones(3), jnp.ones(3)])[0][0]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_exit_right_after_a_large_call_is_quiet() -> None:
    done = run_python(f"""\
        import jax.numpy as jnp
        import engine_support as t
        t.compile_kernels("axpy")
        f = t.axpy({LONG})
        kept = f([jnp.ones({LONG}), jnp.ones({LONG})])
        """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("dispatch", ["serial", "crew", "graph", "auto"])
def test_dispatch_can_be_chosen(dispatch: str) -> None:
    done = run_python(
        f"""\
        import numpy as np, jax.numpy as jnp, threading
        import engine_support as t
        t.compile_kernels()
        for n in (5, {LONG}):
            assert float(t.axpy(n)([jnp.ones(n), jnp.ones(n)])[0][-1]) == 3
        alone = (t.chunks_of(10, 1)[1] == threading.get_native_id()).all()
        print(alone, *(len(np.unique(t.chunks_of({LONG}, x / {LONG})[0])) > 1 for x in (2e6, 6e7)))
        """,
        JUJU_DISPATCH=dispatch,
        JUJU_THREADS="2",
    )
    wanted = {
        "serial": "True False False",
        "crew": "True True True",
        "graph": f"False {os.cpu_count() != 1} {os.cpu_count() != 1}",
        "auto": "True True True",
    }
    assert (done.stdout.strip(), done.stderr) == (wanted[dispatch], "")


def test_streaming_begins_beyond_the_cache() -> None:
    assert 1 << 20 <= machine.stream_bytes() < 4 << 30


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JUJU_THREADS", text)
    with pytest.raises(ArgumentError, match=rf"^JUJU_THREADS is '{text}'; it must be a number of threads, such as 4$"):
        machine.cores.__wrapped__()


def test_a_dispatch_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUJU_DISPATCH", "both")
    with pytest.raises(ArgumentError, match=r"^JUJU_DISPATCH is 'both'; it must be one of auto, serial, crew, graph$"):
        trampolines._dispatch()


def test_results_take_no_more_memory_than_they_have() -> None:
    done = run_python("""\
        import jax.numpy as jnp
        import engine_support as t
        from juju.engines.trampoline import trampoline
        t.compile_kernels("axpy")
        n = 1 << 24
        x = jnp.ones(n)
        t.axpy(1 << 20)([x[:1 << 20], x[:1 << 20]])
        trampoline().open_graph(wait=True)
        f = t.axpy(n)
        def memory(field):
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024
        before = memory("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
        for _ in range(5):
            y = f([x, x])
            del y
        print(memory("VmHWM") - before)
        """)
    assert done.stderr == ""
    assert 50 < float(done.stdout) < 72  # megabytes; the result has 64


# Compiling the graph -----------------------------------------------------------------------------------------------


def test_the_graph_is_in_the_store_under_what_decides_it() -> None:
    path = trampolines.graph_file()
    assert path.parent.parent.name == "g"
    assert path.name == "juju_launch.mef"
    assert path.is_relative_to(build.default_store().root)


def test_a_graph_max_refuses_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; print('some reason'); sys.exit(3)")
    monkeypatch.setattr(trampolines, "_GRAPH_SOURCE", broken)
    monkeypatch.setattr(trampolines, "helper_package", lambda name, **_: tmp_path)
    store = Store(tmp_path / "store")
    with pytest.raises(ToolchainError, match=r"(?s)launch graph \(exit status 3\).*some reason.*juju doctor"):
        trampolines.graph_file(store=store)
    assert list((tmp_path / "store").rglob("*.mef")) == []


FAKE = """\
import os, sys, time, pathlib
pathlib.Path({log!r}).open("a").write("x")
pathlib.Path({log!r} + ".pid").write_text(str(os.getpid()))
time.sleep({seconds})
pathlib.Path(sys.argv[2]).write_bytes(b"a graph")
"""

BUILDER = """\
import sys, time, pathlib
from juju.build import Store
from juju.engines import trampoline as t
t._GRAPH_SOURCE = pathlib.Path({fake!r})
t.helper_package = lambda name, **_: pathlib.Path({folder!r})
pathlib.Path({ready!r}).touch()
print(t.graph_file(store=Store({store!r})).read_bytes())
"""


def start_builder(folder: Path, seconds: float) -> subprocess.Popen[str]:
    """A process that compiles the graph with a stand-in for MAX that takes so many seconds."""
    fake, log = folder / "fake graph's.py", folder / "log"
    text = FAKE.format(log=str(log), seconds=seconds)
    if not fake.exists() or fake.read_text() != text:  # it is part of the key, and another builder may be reading it
        fake.write_text(text)
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    program = BUILDER.format(fake=str(fake), folder=str(folder), ready=str(ready), store=str(folder / "the store"))
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    while not ready.exists():
        assert child.poll() is None or ready.exists(), child.communicate()
        time.sleep(0.01)
    return child


def test_two_processes_compile_the_graph_once(tmp_path: Path) -> None:
    children = [start_builder(tmp_path, 1) for _ in range(3)]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert (out, err) == ("b'a graph'\n", "")
    assert (tmp_path / "log").read_text() == "x"


def test_ctrl_c_ends_the_compile_within_a_second(tmp_path: Path) -> None:
    child = start_builder(tmp_path, 300)
    running = tmp_path / "log.pid"
    while not running.exists() or not running.read_text():
        time.sleep(0.05)
    compiler = Path("/proc") / running.read_text()
    assert compiler.exists()
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    while compiler.exists():
        time.sleep(0.01)
    assert time.monotonic() - start < 1
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    store = tmp_path / "the store"
    assert [path for path in store.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    assert start_builder(tmp_path, 0).communicate(timeout=60) == ("b'a graph'\n", "")


def test_a_damaged_graph_is_compiled_again(tmp_path: Path) -> None:
    assert start_builder(tmp_path, 0).communicate(timeout=60)[0] == "b'a graph'\n"
    (path,) = (tmp_path / "the store").rglob("*.mef")
    path.write_bytes(b"a gra")
    assert start_builder(tmp_path, 0).communicate(timeout=60)[0] == "b'a graph'\n"
    assert (tmp_path / "log").read_text() == "xx"
    assert path.read_bytes() == b"a graph"


def test_builds_started_early_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(log), seconds=0.5))
    store = Store(tmp_path / "store")
    monkeypatch.setattr(trampolines, "_GRAPH_SOURCE", fake)
    monkeypatch.setattr(trampolines, "helper_package", lambda name, **_: tmp_path)
    monkeypatch.setattr(trampolines, "default_store", lambda: store)
    monkeypatch.setattr(trampolines, "kernels", lambda: ())
    events: list[Any] = []
    start = time.monotonic()
    trampolines.start_builds(events.append)
    assert time.monotonic() - start < 0.4
    assert trampolines.graph_file(events.append).read_bytes() == b"a graph"
    assert log.read_text() == "x"
    # Either may have been first at the lock.
    while len(events) < 3:
        time.sleep(0.01)
    assert {(event.stage, event.name) for event in events} == {("trampoline", "juju_launch")}
    assert sorted(event.state for event in events) == ["done", "hit", "start"]
    little, much = (make_plan([], [("operand", (n,), "float32")], [0]) for n in (1 << 22, 1 << 28))
    monkeypatch.setattr(engine, "start_builds", lambda progress, graph: events.append(graph))
    engine.prepare(None)
    engine.prepare(None, [little])
    engine.prepare(None, [little, much])
    assert events[-3:] == [False, False, True]


def test_builds_started_early_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE.format(log=str(log), seconds=300))
    store = Store(tmp_path / "store")
    monkeypatch.setattr(trampolines, "_GRAPH_SOURCE", fake)
    monkeypatch.setattr(trampolines, "helper_package", lambda name, **_: tmp_path)
    monkeypatch.setattr(trampolines, "default_store", lambda: store)
    monkeypatch.setattr(trampolines, "kernels", lambda: ())
    trampolines.start_builds()
    while not log.exists():
        time.sleep(0.01)
    trampolines.stop_builds()
    trampolines._pending["graph"].join(1)
    assert not trampolines._pending["graph"].is_alive()
    assert list((tmp_path / "store").rglob("*.mef")) == []


def test_large_calls_work_while_the_interpreter_ends() -> None:
    done = run_python(f"""\
        import atexit
        import jax.numpy as jnp
        import engine_support as t
        t.compile_kernels("axpy")
        f, x = t.axpy({LONG}, t.MUCH / {LONG}), jnp.ones({LONG})
        atexit.register(lambda: print(float(f([x, x])[0][-1])))
        """)
    assert (done.stdout, done.stderr, done.returncode) == ("3.0\n", "", 0)
