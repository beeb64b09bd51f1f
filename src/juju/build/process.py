"""Runs the toolchain's programs as child processes that can be stopped at any moment."""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from juju.build.locks import Cancelled
from juju.build.toolchain import Toolchain, runtime_library, toolchain
from juju.errors import ToolchainError

FLAGS: tuple[str, ...] = ()
"""Options of `mojo build` that decide the machine code; part of every kernel's key."""

CANNOT_START = "juju cannot start {path} ({reason}), which it needs to compile. Are Mojo and MAX installed completely?"
NO_LINKER = (
    "The Mojo compiler found no C compiler to link with: neither its own linker {lld} nor 'cc' on PATH is there. "
    "Install the Mojo packages again, or a C compiler (on Debian and Ubuntu: apt install gcc)."
)
KILLED = "The compiler was ended by {signal} before it was done{hint}. Call again to compile again."
OUT_OF_MEMORY = ", probably because memory ran out"

_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_POLL_SECONDS = 0.1
_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}

_counting = threading.Lock()
_runs = 0
_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class Outcome:
    """How a run of the compiler ended, and everything it printed."""

    returncode: int
    output: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0


def compiler_runs() -> int:
    """How many times this process has started the Mojo compiler."""
    return _runs


def compile_file(
    emit: str, source: Path, output: Path, includes: Sequence[Path], cancel: threading.Event | None = None
) -> Outcome:
    """Runs `mojo build --emit <emit>`, and leaves the result in `output`, which lies beside `source`.

    Raises `ToolchainError` if that says nothing about the source, and `OSError` if the disk is full.
    """
    tools = toolchain()
    work = output.parent
    # Linking ourselves works where there is no C compiler, which `mojo build --emit shared-lib` would call.
    link = emit == "shared-lib" and tools.linker is not None
    compiled = output.with_suffix(".o") if link else output
    words = ["build", *FLAGS, "--diagnostic-format", "json", "--disable-warnings"]
    words += [word for folder in includes for word in ("-I", str(folder))]
    words += ["--emit", "object" if link else emit, source.name, "-o", compiled.name]
    outcome = run_mojo(words, work, cancel)
    return _link(tools, compiled, output, cancel) if link and outcome.ok else outcome


def run_mojo(words: Sequence[str], workdir: Path, cancel: threading.Event | None = None) -> Outcome:
    """Runs the `mojo` command as `run_program` does."""
    tools = toolchain()
    # `mojo build` gives up if there is no C compiler, even if it has nothing to link.
    driver = {} if tools.linker is None else {"MODULAR_MOJO_MAX_LINKER_DRIVER": str(tools.linker)}
    outcome = run_program([str(tools.mojo), *words], workdir, cancel, environment=driver)
    if not outcome.ok and "unable to find suitable c compiler" in outcome.output:
        raise ToolchainError(NO_LINKER.format(lld=tools.mojo.parent / "lld"))
    return outcome


def run_program(
    words: Sequence[str],
    workdir: Path,
    cancel: threading.Event | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Runs a compiler in `workdir`, which also takes its temporary files, and counts it in `compiler_runs`.

    Whatever ends the wait for it, `KeyboardInterrupt` or `cancel`, ends it and all its children too. Raises
    `ToolchainError` if it cannot be started or somebody else killed it, and `OSError` if the disk is full.
    """
    global _runs
    with _counting:
        _runs += 1
    return _run(words, workdir, cancel, environment or {})


def _link(tools: Toolchain, compiled: Path, output: Path, cancel: threading.Event | None) -> Outcome:
    runtime = runtime_library()
    libraries = [*([runtime] if runtime else []), *_system_libraries()]
    search = ["-rpath", str(runtime.parent)] if runtime else []
    words = ["-flavor", "gnu", "-shared", "--gc-sections", "-z", "now", "--as-needed", *search]
    words += [compiled.name, *map(str, libraries), "-o", output.name]
    return _run([str(tools.linker), *words], output.parent, cancel, {})


def _system_libraries() -> list[Path]:
    machine = os.uname().machine
    folders = [Path(f"/lib/{machine}-linux-gnu"), Path("/lib64"), Path("/usr/lib64"), Path("/usr/lib"), Path("/lib")]
    found = []
    for name in ("libm.so.6", "libc.so.6"):
        found += [folder / name for folder in folders if (folder / name).is_file()][:1]
    return found


def _run(words: Sequence[str], workdir: Path, cancel: threading.Event | None, extra: Mapping[str, str]) -> Outcome:
    environment = {
        **os.environ,
        # On an internal error the compiler would send a report over the network.
        "MODULAR_CRASH_REPORTING_ENABLED": "false",
        "MODULAR_TELEMETRY_ENABLED": "false",
        "TMPDIR": str(workdir),
        **extra,
    }
    try:
        process = subprocess.Popen(
            words,
            cwd=workdir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        if not workdir.is_dir():
            raise
        raise ToolchainError(CANNOT_START.format(path=words[0], reason=error.strerror)) from error
    _running.add(process)
    try:
        output = _await(process, cancel)
    except BaseException:
        _kill(process)
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
        raise
    finally:
        _running.discard(process)
    _raise_if_not_ours(process.returncode, output, workdir)
    return Outcome(process.returncode, output)


def _await(process: subprocess.Popen[str], cancel: threading.Event | None) -> str:
    while True:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            if cancel is not None and cancel.is_set():
                raise Cancelled from None
            if process.poll() is not None:
                # It has ended, but a child of it still holds the pipe.
                _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _raise_if_not_ours(returncode: int, output: str, workdir: Path) -> None:
    """Raises if the run failed for a reason that has nothing to do with the text it compiled."""
    if returncode == 0:
        return
    if returncode < 0 and -returncode not in _CRASHES:
        number = signal.Signals(-returncode)
        hint = OUT_OF_MEMORY if number == signal.SIGKILL else ""
        raise ToolchainError(KILLED.format(signal=number.name, hint=hint))
    if _DISK_FULL.search(output) or _is_full(workdir):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(workdir))


def _is_full(folder: Path) -> bool:
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize < 1 << 16


@atexit.register
def _stop_all() -> None:
    for process in list(_running):
        _kill(process)


os.register_at_fork(after_in_child=_running.clear)
