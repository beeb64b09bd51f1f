"""Runs programs: lists of compiled kernels with their arguments, from Python in one call.

A program is an array of 64-bit words (the layout is in `kernels/juju_runtime/program.mojo`) that is made once; a call
only writes addresses into it. There are three ways to run it:

* on the calling thread: little work, which is over before another thread would wake up;
* with a crew of threads that take tasks of large launches as they come (`kernels/juju_runtime/crew.mojo`);
* in a MAX graph of one op, `juju_launch`, which splits large launches over MAX's threads: for work so long that it does
  not matter how long these take to begin. The graph knows nothing of functions, shapes and dtypes: it is compiled once
  per machine, kept in the store, and loaded in milliseconds.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from juju._machine import cores
from juju.build import Progress, Store, build_kernels, default_store, helper_package, package_digest, toolchain
from juju.build.locks import Cancelled
from juju.build.process import run_program
from juju.build.progress import report, step
from juju.engines.launchers import Launchers, kernels, launchers
from juju.errors import ArgumentError, ForkError, InternalError, ToolchainError

if TYPE_CHECKING:
    from max.engine import Model

FORKED = (
    "this process was forked after juju had started in its parent; the threads of MAX and JAX do not survive that. Use "
    "multiprocessing.get_context('spawn') or 'forkserver', or fork before the first call of a fused function."
)
GRAPH_FAILED = (
    "MAX could not compile juju's launch graph (exit status {status}). The last lines it printed:\n{output}\n"
    "'juju doctor' checks the installation."
)
BAD_DISPATCH = "JUJU_DISPATCH is {text!r}; it must be one of auto, serial, crew, graph"

HEADER_BYTES = 4 * 8
_CREW_WORDS = 64
_NAME = "juju_launch"
_LINES_SHOWN = 20

Dispatch = Literal["auto", "serial", "crew", "graph"]


class _Process:
    """What a fork does to this process."""

    __slots__ = ("forked", "started")

    def __init__(self) -> None:
        self.started = False
        self.forked = False

    def after_fork(self) -> None:
        self.forked = self.started


process = _Process()
os.register_at_fork(after_in_child=process.after_fork)


def check_fork() -> None:
    """Raises `ForkError` in a child that was forked after juju had started."""
    if process.forked:
        raise ForkError(FORKED)


@dataclass(frozen=True)
class Call:
    """One launch of a program: a kernel by address, its arrays by their place among the addresses, and its sizes."""

    kernel: int
    extent: int
    grain: int
    arrays: tuple[int, ...]
    sizes: tuple[int, ...]


class Program:
    """The words of a program that one thread at a time may run; `fixed` addresses come after those of each call."""

    __slots__ = ("_inputs", "address", "memory", "pack", "words")

    def __init__(self, calls: Sequence[Call], variable: int, fixed: Sequence[int] = ()) -> None:
        addresses = variable + len(fixed)
        words = [len(calls), 0, 0, addresses, *([0] * variable), *fixed]
        for call in calls:
            arguments = len(call.arrays) + len(call.sizes)
            words += [call.kernel, call.extent, call.grain, len(call.arrays), arguments]
            words += [*call.arrays, *([0] * len(call.arrays)), *call.sizes]
        self.words = np.array(words, np.int64)
        self.address = self.words.ctypes.data
        self.memory = self.words.data
        self.pack = struct.Struct(f"{variable}q").pack_into
        self._inputs: list[Any] | None = None

    @property
    def inputs(self) -> list[Any]:
        """The words as the input of the MAX graph, without a copy."""
        if self._inputs is None:
            from max.driver import Buffer

            self._inputs = [Buffer.from_numpy(self.words)]
        return self._inputs


def _not_loaded(inputs: list[Any]) -> object:
    raise InternalError("the launch graph is not loaded")


class Crew:
    """Threads that help with large launches; they are started when the first one comes."""

    def __init__(self, functions: Launchers, helpers: int) -> None:
        # Helpers use it until the process ends.
        block = (ctypes.c_int64 * (_CREW_WORDS + 8))()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(block))
        self._address = -(-ctypes.addressof(block) // 64) * 64
        self._helpers = helpers
        self._hiring = threading.Lock()
        self._functions = functions
        self._run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(functions.crewed)

    def run(self, program: int) -> int:
        """Runs the program at this address; returns a status. If the crew is busy, the calling thread does it alone."""
        if self._helpers:
            self._hire()
        return self._run(program, self._address)

    def _hire(self) -> None:
        with self._hiring:
            helpers, self._helpers = self._helpers, 0
            if not helpers:
                return
            ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(self._functions.found)(
                self._address, helpers
            )
            serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self._functions.serve)
            with suppress(RuntimeError):  # the interpreter is ending: the calling thread works alone
                for number in range(helpers):
                    # Never comes back to Python, so that it cannot get in the way of that end.
                    name = f"juju-crew-{number}"
                    threading.Thread(target=serve, args=(self._address,), name=name, daemon=True).start()


class Trampoline:
    """The ways to run a program. `serial(program.address)` and `crewed(program.address)` return a status.

    `parallel(program.inputs)` leaves it in the program; it is there when `ready()`.
    """

    def __init__(self, functions: Launchers, dispatch: Dispatch, cores: int) -> None:
        # These release the GIL. As a kernel each has three arguments; it does not read those that are left out.
        self.serial: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(functions.serial)
        self.crewed: Callable[[int], int] = Crew(functions, cores - 1).run if cores > 1 else self.serial
        self.copy = functions.copy
        self.dispatch: Dispatch = dispatch
        self.parallel: Callable[[list[Any]], object] = _not_loaded
        self._opening = threading.Lock()
        self._opener: threading.Thread | None = None
        self._failure: BaseException | None = None

    def open_graph(self, progress: Progress | None = None, *, wait: bool = False) -> None:
        """Compiles the graph if this machine has none yet, then loads it, in another thread unless `wait`.

        Until it is loaded (MAX itself takes a quarter of a second) the crew runs programs. Raises `ToolchainError` if
        MAX cannot compile it.
        """
        if self.ready():
            return
        try:
            path = graph_file(progress)
        except KeyboardInterrupt:
            stop_builds()  # it may have waited for one of those
            raise
        with self._opening:
            if self._opener is None:
                # Not a daemon: the interpreter must not end while MAX is being loaded.
                self._opener = threading.Thread(target=self._open, args=(path,), name="juju-open")
                self._opener.start()
            opener = self._opener
        if wait or self.dispatch == "graph":
            opener.join()
        self.ready()

    def ready(self) -> bool:
        """Whether the graph is loaded. Raises what went wrong while it was."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self.parallel is not _not_loaded

    def _open(self, path: Path) -> None:
        try:
            self.parallel = _load(path)._execute_device_tensors
        except BaseException as error:
            self._failure = error
            self._opener = None


_lock = threading.RLock()
_trampoline: Trampoline | None = None
_pending: dict[str, threading.Thread] = {}
_cancelled = threading.Event()


def trampoline(progress: Progress | None = None) -> Trampoline:
    """The trampoline of this process; its C functions are compiled at first use on a machine.

    Raises `ForkError`, and as `build_kernels` does.
    """
    global _trampoline
    check_fork()
    if _trampoline is None:
        with _lock:
            if _trampoline is None:
                dispatch = _dispatch()
                _trampoline = Trampoline(launchers(progress), dispatch, cores())
                process.started = True
    return _trampoline


def start_builds(progress: Progress | None = None, *, graph: bool = True) -> None:
    """Starts to compile what this machine lacks of the trampoline, in other threads, and returns at once.

    `trampoline` and `Trampoline.open_graph` wait for it, and raise what goes wrong here.
    """
    store = default_store()
    if any(store.find(kernel.key) is None for kernel in kernels()):
        _start("launchers", lambda: build_kernels(kernels(), progress=progress))
    if graph and _find_graph(store) is None:
        _cancelled.clear()
        _start("graph", lambda: graph_file(progress, cancel=_cancelled))


def stop_builds() -> None:
    """Ends the compile of the graph that `start_builds` started."""
    _cancelled.set()


def _start(name: str, build: Callable[[], object]) -> None:
    def run() -> None:
        with suppress(Exception, Cancelled):  # whoever needs it builds it again, and raises
            build()

    with _lock:
        running = _pending.get(name)
        if running is None or not running.is_alive():
            _pending[name] = threading.Thread(target=run, name=f"juju-build-{name}", daemon=True)
            _pending[name].start()


def graph_file(
    progress: Progress | None = None, store: Store | None = None, cancel: threading.Event | None = None
) -> Path:
    """The compiled launch graph, from the store or compiled now, which takes about 15 seconds.

    Another process compiles it, so that Ctrl-C ends it at once. Raises `ToolchainError` if MAX refuses it.
    """
    store = store or default_store()
    if found := _find_graph(store):
        report(progress, "trampoline", _NAME, "hit")
        return found
    key = _graph_key()
    package = helper_package("juju_runtime", store=store, progress=progress) / "juju_runtime.mojoc"
    with store.lock(key) as work:
        if found := _find_graph(store):
            report(progress, "trampoline", _NAME, "hit")
            return found
        with step(progress, "trampoline", _NAME):
            output = work / f"{_NAME}.mef"
            _compile_graph(package, output, cancel)
            return store.add_file("g", key, output.name, output.read_bytes())


def _find_graph(store: Store) -> Path | None:
    return store.find_file("g", _graph_key(), f"{_NAME}.mef")


def _graph_key() -> str:
    parts = ("launch graph", toolchain().max_version, package_digest("juju_runtime"), _GRAPH_SOURCE.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_GRAPH_SOURCE = Path(__file__).with_name("_launch_graph.py")


def _compile_graph(package: Path, output: Path, cancel: threading.Event | None) -> None:
    # -P: the folder of that program holds a module named max.
    words = [sys.executable, "-P", str(_GRAPH_SOURCE), str(package), str(output)]
    outcome = run_program(words, output.parent, cancel)
    if not outcome.ok or not output.is_file():
        lines = outcome.output.strip().splitlines()[-_LINES_SHOWN:]
        raise ToolchainError(GRAPH_FAILED.format(status=outcome.returncode, output="\n".join(lines) or "(nothing)"))


def _load(path: Path) -> Model:
    # Late, and not through `max.engine`: that imports `max.graph`, which takes as long again, and which puts the thread
    # that imports it first in charge of its MLIR context; at exit it complains if that is not the main thread.
    from max._core.engine import InferenceSession, read
    from max.driver import CPU

    session = InferenceSession([CPU()], [])
    (model,) = session._load_all(session._wrap_compiled(read(path)), {})
    # For ever: without a session MAX starts its threads anew at every call, and the end of one waits for threads that a
    # forked child does not have.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(model))
    return model


def _dispatch() -> Dispatch:
    text = os.environ.get("JUJU_DISPATCH") or "auto"
    if text in get_args(Dispatch):
        return cast(Dispatch, text)
    raise ArgumentError(BAD_DISPATCH.format(text=text))
