"""Kernels in, shared libraries out: one run of `mojo build` for many kernels."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, overload

from juju.build import diagnostics
from juju.build.diagnostics import Diagnostic
from juju.build.packages import include_folders
from juju.build.process import Outcome, compile_file
from juju.build.progress import Progress, State, report
from juju.build.shelf import Shelf
from juju.build.store import Built, Store, default_store, put_library, put_text, require_names
from juju.errors import KernelCompileError
from juju.plan import Kernel

ALSO_REFUSED = "also refused: {names}"
NO_SYMBOL = "its text does not export {symbol!r}"

LARGEST_RUN = 64
"""Kernels per run of the compiler: more only make the library bigger, as a run costs what about 35 kernels do."""
SMALLEST_RUN = 16

_BATCH_HEAD = """\
{imports}

comptime Entry = def(Pointer[Int64, MutAnyOrigin], Int, Int) abi("C") thin -> Int


@export
def juju_table(table: Pointer[Int64, MutAnyOrigin]) abi("C"):
    var entries = table.unsafe_bitcast[Entry]()
"""
_BATCH_LINE = "    entries[unsafe_offset={index}] = {module}.{symbol}\n"


@overload
def build_kernels(
    kernels: Sequence[Kernel],
    *,
    store: Store | None = ...,
    progress: Progress | None = ...,
    return_exceptions: Literal[False] = ...,
) -> list[Built]: ...
@overload
def build_kernels(
    kernels: Sequence[Kernel], *, store: Store | None = ..., progress: Progress | None = ..., return_exceptions: bool
) -> list[Built | Exception]: ...
def build_kernels(
    kernels: Sequence[Kernel],
    *,
    store: Store | None = None,
    progress: Progress | None = None,
    return_exceptions: bool = False,
) -> list[Built] | list[Built | Exception]:
    """Finds each kernel in the store, or compiles it; all that are missing are compiled together.

        built = build_kernels(plan.kernels)
        built[0].address()

    Each key is compiled once, whatever threads and processes ask for it at the same time. A kernel that the compiler
    refuses does not keep the others from being built; its `KernelCompileError` is raised at the end, or stands in its
    place in the list with `return_exceptions`. Raises `ToolchainError` or `StoreError` if the environment is at fault.
    """
    store = store or default_store()
    results: dict[str, Built | Exception] = {}
    missing: dict[str, Kernel] = {}
    for kernel in kernels:
        require_names(kernel.key, kernel.symbol)
        if kernel.key in results or kernel.key in missing:
            continue
        if found := store.find(kernel.key):
            results[kernel.key] = found
            report(progress, "kernel", kernel.name, "hit")
        else:
            missing[kernel.key] = kernel
    if missing:
        results.update(_build_missing(list(missing.values()), store, progress))
    ordered = [results[kernel.key] for kernel in kernels]
    if return_exceptions:
        return ordered
    built = [result for result in ordered if isinstance(result, Built)]
    if len(built) < len(ordered):
        _raise_refused(kernels, results)
    return built


def emit(kernel: Kernel, kind: Literal["llvm", "asm"], *, store: Store | None = None) -> str:
    """The LLVM IR or the assembly that Mojo makes of the kernel, as text; raises `KernelCompileError`."""
    require_names(kernel.key, kernel.symbol)
    store = store or default_store()
    includes = include_folders(kernel.imports, store=store)

    def compile_it(shelf: Shelf) -> str:
        with shelf.workdir() as work:
            source = work / "kernel.mojo"
            source.write_text(kernel.text, encoding="utf-8")
            output = work / f"kernel.{kind}"
            outcome = compile_file(kind, source, output, includes)
            if not outcome.ok:
                kept = put_text(shelf, kernel.key, kernel.text)
                errors = diagnostics.errors(outcome.output, work)
                raise _refused(kernel, os.path.realpath(source), errors, outcome, kept)
            return output.read_text(encoding="utf-8", errors="replace")

    return store.writing(compile_it)


def _raise_refused(kernels: Sequence[Kernel], results: dict[str, Built | Exception]) -> None:
    refused = {kernel.key: kernel.name for kernel in kernels if isinstance(results[kernel.key], Exception)}
    first, *others = refused
    error = results[first]
    assert isinstance(error, Exception)
    if others:
        names = ", ".join(refused[key] for key in others)
        error.add_note(ALSO_REFUSED.format(names=names))
    raise error


def _build_missing(kernels: list[Kernel], store: Store, progress: Progress | None) -> dict[str, Built | Exception]:
    imports = sorted({name for kernel in kernels for name in kernel.imports})
    includes = include_folders(imports, store=store, progress=progress)
    workers = max(1, (os.cpu_count() or 1) // 2)
    runs = [_Run(chunk, includes, store, progress) for chunk in _chunks(kernels, workers)]
    if len(runs) == 1 or workers == 1:
        results: dict[str, Built | Exception] = {}
        for run in runs:
            results.update(run.build())
        return results
    return _build_in_parallel(runs, workers)


def _chunks(kernels: list[Kernel], workers: int) -> list[list[Kernel]]:
    """Splits into runs of equal size: as few as possible, but enough to keep the cores of a big machine busy."""
    count = max(-(-len(kernels) // LARGEST_RUN), min(len(kernels) // SMALLEST_RUN, workers))
    return [kernels[start::count] for start in range(count)]


def _build_in_parallel(runs: Sequence[_Run], workers: int) -> dict[str, Built | Exception]:
    """Runs the compiler several times at once. Daemon threads: an interpreter that ends does not wait for them."""
    cancel = threading.Event()
    waiting: queue.SimpleQueue[_Run] = queue.SimpleQueue()
    done: queue.SimpleQueue[dict[str, Built | Exception] | BaseException] = queue.SimpleQueue()

    def work() -> None:
        while not cancel.is_set():
            try:
                done.put(waiting.get_nowait().build(cancel))
            except queue.Empty:
                return
            except BaseException as error:
                done.put(error)

    for run in runs:
        waiting.put(run)
    threads = [threading.Thread(target=work, name="juju-build", daemon=True) for _ in range(min(workers, len(runs)))]
    results: dict[str, Built | Exception] = {}
    try:
        for thread in threads:
            thread.start()
        for _ in runs:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            results.update(result)
    finally:
        cancel.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    return results


@dataclass
class _Run:
    """Some kernels that are compiled by one run of the compiler, and by further ones if it refuses some of them."""

    kernels: list[Kernel]
    includes: list[Path]
    store: Store
    progress: Progress | None
    results: dict[str, Built | Exception] = field(default_factory=dict)
    began: float = 0.0

    def build(self, cancel: threading.Event | None = None) -> dict[str, Built | Exception]:
        self.store.writing(lambda shelf: self._build_on(shelf, cancel))
        return self.results

    def _build_on(self, shelf: Shelf, cancel: threading.Event | None) -> None:
        shelf.sweep()
        with ExitStack() as stack:
            for kernel in sorted(self.kernels, key=lambda kernel: kernel.key):  # one order for all: no deadlock
                stack.enter_context(shelf.lock(kernel.key, cancel))
            missing = []
            for kernel in self.kernels:
                if found := self.store.find(kernel.key):  # another thread or process was faster
                    self.results[kernel.key] = found
                    report(self.progress, "kernel", kernel.name, "hit")
                else:
                    missing.append(kernel)
            self.began = time.perf_counter()
            for kernel in missing:
                report(self.progress, "kernel", kernel.name, "start")
            try:
                self._compile(shelf, missing, cancel)
            finally:
                seconds = time.perf_counter() - self.began
                for kernel in missing:
                    if kernel.key not in self.results:
                        report(self.progress, "kernel", kernel.name, "failed", seconds)

    def _compile(self, shelf: Shelf, kernels: list[Kernel], cancel: threading.Event | None) -> None:
        """Compiles `kernels`; if that fails, all but those the compiler complained about, or else each half."""
        groups = [kernels] if kernels else []
        while groups:
            group = groups.pop()
            with shelf.workdir() as work:
                sources = _write_sources(work, group)
                output = work / "kernels.so"
                outcome = compile_file("shared-lib", sources[-1], output, self.includes, cancel)
                if outcome.ok:
                    self._keep(shelf, group, output.read_bytes())
                    continue
                blamed = _blamed(group, sources, outcome)
            for kernel, file, errors in blamed:
                self._refuse(shelf, kernel, file, errors, outcome)
            rest = [kernel for kernel in group if kernel.key not in self.results]
            if blamed and rest:
                groups.append(rest)
            elif rest:
                half = len(rest) // 2
                groups += [rest[:half], rest[half:]]

    def _keep(self, shelf: Shelf, group: list[Kernel], library: bytes) -> None:
        exported = []
        for kernel in group:
            if kernel.symbol.encode() + b"\0" in library:
                exported.append(kernel)
            else:
                outcome = Outcome(0, NO_SYMBOL.format(symbol=kernel.symbol))
                self._refuse(shelf, kernel, "", [], outcome)
        if exported:
            named = {kernel.key: (kernel.name, kernel.symbol, kernel.text) for kernel in exported}
            self.results.update(put_library(shelf, library, named))
            for kernel in exported:
                self._report(kernel, "done")

    def _refuse(
        self, shelf: Shelf, kernel: Kernel, file: str, errors: list[list[Diagnostic]], outcome: Outcome
    ) -> None:
        kept = put_text(shelf, kernel.key, kernel.text)
        self.results[kernel.key] = _refused(kernel, file, errors, outcome, kept)
        self._report(kernel, "failed")

    def _report(self, kernel: Kernel, state: State) -> None:
        report(self.progress, "kernel", kernel.name, state, time.perf_counter() - self.began)


def _write_sources(work: Path, kernels: list[Kernel]) -> list[Path]:
    """One file a kernel, and for several kernels one that imports them; the last is the one to compile.

    A module's `@export` function is compiled only if the main file refers to it: hence the table of entry points.
    A module each keeps helper functions and aliases of the texts apart, and lets messages name the kernel's own file.
    """
    sources = []
    for index, kernel in enumerate(kernels):
        source = work / f"juju_kernel_{index}.mojo"
        source.write_text(kernel.text, encoding="utf-8")
        sources.append(source)
    if len(kernels) > 1:
        main = work / "juju_batch.mojo"
        modules = [source.stem for source in sources]
        lines = [
            _BATCH_LINE.format(index=index, module=module, symbol=kernel.symbol)
            for index, (module, kernel) in enumerate(zip(modules, kernels, strict=True))
        ]
        head = _BATCH_HEAD.format(imports="\n".join(f"import {module}" for module in modules))
        main.write_text(head + "".join(lines), encoding="utf-8")
        sources.append(main)
    return sources


def _blamed(
    group: list[Kernel], sources: list[Path], outcome: Outcome
) -> list[tuple[Kernel, str, list[list[Diagnostic]]]]:
    """The kernels that the compiler complained about, each with its file and what was said."""
    errors = diagnostics.errors(outcome.output, sources[0].parent)
    files = [os.path.realpath(source) for source in sources]
    if len(group) == 1:
        return [(group[0], files[0], errors)]
    first_line = len(group) + _BATCH_HEAD.count("\n")
    blamed = []
    for index, (kernel, file) in enumerate(zip(group, files[:-1], strict=True)):
        said = diagnostics.concerning(errors, file)
        said += [e for e in errors if e[0].line == first_line + index and e[0].file == files[-1]]
        if said:
            blamed.append((kernel, file, said))
    return blamed


def _refused(
    kernel: Kernel, file: str, errors: list[list[Diagnostic]], outcome: Outcome, kept: Path
) -> KernelCompileError:
    output = outcome.output if outcome.returncode >= 0 else diagnostics.CRASHED.format(status=outcome.returncode)
    return KernelCompileError(diagnostics.refusal(kernel, file, errors, output, kept))
